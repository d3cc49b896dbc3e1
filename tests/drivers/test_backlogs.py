"""What a claim costs, in statements, when very many wait that it cannot have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.limits import PARK_BITE
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres import leases as postgres_leases
from windlass.drivers.protocol import Claim, Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite import leases as sqlite_leases
from windlass.drivers.statement import Op, T
from windlass.types import NewJob

NOW = 1_800_000_000_000_000
names = count(1)


def jobs(number: int, **fields: Any) -> list[NewJob]:
    return [NewJob(**{"id": f"job-{next(names)}", "type": "work", **fields}) for _ in range(number)]


def wish(limit: int = 1, **fields: Any) -> Claim:
    token = f"token-{next(names)}"
    return Claim(queues=("default",), limit=limit, lease_for=3600 * SECOND, worker_id="w", token=token, **fields)


@pytest.fixture(params=["sqlite", "postgres"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    made: SqliteDriver | PostgresDriver
    if request.param == "sqlite":
        made = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed")
    else:
        dsn, schema = request.getfixturevalue("empty_store")
        made = PostgresDriver(dsn, schema=schema)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def statements(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many each transaction took that had limits or turns to respect."""
    module: Any = sqlite_leases if isinstance(driver, SqliteDriver) else postgres_leases
    counts: list[int] = []
    original: Callable[..., Op[Any]] = module.claim_with_permits
    monkeypatch.setattr(module, "claim_with_permits", lambda *args, **more: counted(original(*args, **more), counts))
    return counts


def counted(op: Op[T], counts: list[int]) -> Op[T]:
    counts.append(0)
    try:
        statement = next(op)
        while True:
            counts[-1] += 1
            statement = op.send((yield statement))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def test_a_backlog_of_a_key_costs_a_few_statements_and_short_transactions(driver: Driver, statements: list[int]) -> None:
    """Also where those who wait have another limit with room."""

    async def go() -> None:
        await driver.alter([PutLimit("key:gpu", 1), PutLimit("type:work", 10_000)], now=NOW)
        await driver.enqueue(jobs(2 * PARK_BITE + 2, limit_keys=("key:gpu",)), now=NOW)
        await driver.enqueue(jobs(1, id="behind"), now=NOW)
        assert len(await driver.claim(wish(), now=NOW)) == 1
        statements.clear()
        assert [job.id for job in await driver.claim(wish(), now=NOW)] == ["behind"]

    asyncio.run(go())
    assert len(statements) == 3
    assert sum(statements) < 120


def test_many_types_that_wait_for_one_permit_cost_a_few_statements(driver: Driver, statements: list[int]) -> None:
    async def go() -> None:
        await driver.alter([PutLimit("key:gpu", 1)], now=NOW)
        kinds = [job for n in range(200) for job in jobs(2, type=f"type-{n}", limit_keys=("key:gpu",))]
        await driver.enqueue(kinds, now=NOW)
        [holder] = await driver.claim(wish(2), now=NOW)
        await driver.settle([settle(holder, Succeeded(), Execution(at=NOW))], now=NOW)
        statements.clear()
        assert len(await driver.claim(wish(2), now=NOW)) == 1

    asyncio.run(go())
    assert sum(statements) < 60


def test_a_fair_queue_of_many_orgs_without_a_wanted_job_costs_a_few_statements(
    driver: Driver, statements: list[int]
) -> None:
    """As a worker asks that knows other types than those whose jobs are ready; and one that knows the type of the last."""

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        await driver.enqueue([job for n in range(500) for job in jobs(1, org_id=f"org-{n:03}")], now=NOW)
        await driver.enqueue(jobs(1, id="mine", type="mine", org_id="org-499"), now=NOW)
        assert await driver.claim(wish(types=("other",)), now=NOW) == []
        assert [job.id for job in await driver.claim(wish(types=("mine",)), now=NOW)] == ["mine"]

    asyncio.run(go())
    assert sum(statements) < 60


def test_others_write_while_a_claim_gets_past_a_backlog(tmp_path: Path) -> None:
    """On a store with one writer."""

    async def go() -> None:
        driver = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed")
        await driver.alter([PutLimit("key:gpu", 0)], now=NOW)
        await driver.enqueue(jobs(5 * PARK_BITE, limit_keys=("key:gpu",)), now=NOW)
        claim = asyncio.create_task(driver.claim(wish(), now=NOW))
        await asyncio.sleep(0)
        await driver.enqueue(jobs(1, queue="other"), now=NOW)
        assert not claim.done()
        assert await claim == []
        await driver.close()

    asyncio.run(go())
