"""What a claim costs, in statements, when very many wait that it cannot have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, PutQueue, SetPaused
from windlass.core.eligibility import PROMOTE_BITE
from windlass.core.limits import PARK_BITE
from windlass.core.queries import NextRefill
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.postgres import leases as postgres_leases
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite import leases as sqlite_leases
from windlass.drivers.statement import Op, T
from windlass.drivers.values import Claim, Renewal
from windlass.types import NewJob

NOW = 1_800_000_000_000_000
LEASE = 3600 * SECOND
names = count(1)


def jobs(number: int, **fields: Any) -> list[NewJob]:
    return [NewJob(**{"id": f"job-{next(names)}", "type": "work", **fields}) for _ in range(number)]


def wish(limit: int = 1, **fields: Any) -> Claim:
    token = f"token-{next(names)}"
    return Claim(queues=("default",), limit=limit, lease_for=LEASE, worker_id="w", token=token, **fields)


@pytest.fixture
def driver(sql_driver: Driver) -> Driver:
    return sql_driver


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


@pytest.mark.parametrize(("seconds", "later"), [(LEASE / SECOND, LEASE), (LEASE / SECOND / 10, 0)])
@pytest.mark.parametrize("what", ["parks", "promotes"])
def test_what_is_found_behind_a_long_backlog_is_leased_from_then(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, seconds: float, later: int, what: str
) -> None:
    """Not from the moment at which the search began: nobody else takes it before whoever asked has heard of it."""
    where = "sqlite" if isinstance(driver, SqliteDriver) else "postgres"
    monkeypatch.setattr(sqlite_leases if where == "sqlite" else postgres_leases, "AT_ONCE", PROMOTE_BITE)
    monkeypatch.setattr(f"windlass.drivers.{where}.driver.ticking", count(0.0, seconds).__next__)

    async def go() -> None:
        due = {"limit_keys": ("key:gpu",)} if what == "parks" else {"run_at": NOW + 1, "priority": -1}
        await driver.alter([PutLimit("key:gpu", 0)], now=NOW)
        await driver.enqueue(jobs(PARK_BITE + 1 if what == "parks" else PROMOTE_BITE + 1, **due), now=NOW)
        await driver.enqueue(jobs(1, id="behind"), now=NOW)
        [job] = await driver.claim(wish(1), now=NOW + 1)
        assert (job.id, job.lease_expires_at, job.claimed_at) == ("behind", NOW + 1 + LEASE + later, NOW + 1 + later)
        [stored] = await driver.get([job.id])
        assert stored is not None
        assert (stored.lease_expires_at, stored.claimed_at) == (job.lease_expires_at, job.claimed_at)
        renewed = await driver.extend([Renewal(job.handle, job.token)], lease_for=2 * LEASE, now=NOW + later + 1)
        assert renewed[0].answer == "applied"

    asyncio.run(go())


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


def test_more_than_one_transaction_may_promote_is_promoted_in_several_before_any_is_taken(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is total over all that is due, and a deadline in the middle loses nothing of what was done."""
    module: Any = sqlite_leases if isinstance(driver, SqliteDriver) else postgres_leases
    monkeypatch.setattr(module, "AT_ONCE", PROMOTE_BITE)
    bites, original = list[int](), module.promote

    def noted(queues: list[str], now: int) -> Op[bool]:
        bites.append(0)
        done = yield from counted(original(queues, now), bites)
        return bool(done)

    monkeypatch.setattr(module, "promote", noted)

    async def go() -> None:
        due = jobs(2 * PROMOTE_BITE, run_at=NOW + SECOND)
        await driver.enqueue(due, now=NOW)
        await driver.enqueue(jobs(1, id="urgent", run_at=NOW + 2 * SECOND, priority=9), now=NOW)
        first = await driver.claim(wish(2), now=NOW + 3 * SECOND)
        assert [job.id for job in first] == ["urgent", due[0].id]
        assert len(bites) == 2 * 3, "each is counted by its statement and as a whole: two full ones, and one that is not"

    asyncio.run(go())


def test_more_than_one_transaction_may_take_back_is_taken_back_in_several(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = sqlite_leases if isinstance(driver, SqliteDriver) else postgres_leases
    monkeypatch.setattr(module, "AT_ONCE", 3)

    async def go() -> None:
        lapsing = jobs(7)
        await driver.enqueue(lapsing, now=NOW)
        assert len(await driver.claim(wish(7), now=NOW)) == 7
        again = await driver.claim(wish(7), now=NOW + 3600 * SECOND)
        assert [(job.id, job.lost) for job in again] == [(job.id, 1) for job in lapsing]

    asyncio.run(go())


def test_who_serves_closed_queues_only_still_lets_those_through_who_waited_for_a_token(driver: Driver) -> None:
    """Else it would be told of a token that is there, find nothing to take, and come back at once, without end."""

    async def go() -> None:
        await driver.alter([PutLimit("type:work", per_second=1.0, burst=1)], now=NOW)
        await driver.enqueue(jobs(2), now=NOW)
        assert len(await driver.claim(wish(2), now=NOW)) == 1
        [token] = await driver.read(NextRefill(queues=("default",), now=NOW))
        await driver.alter([SetPaused("default", paused=True)], now=NOW)
        assert await driver.claim(wish(), now=token) == []
        assert all(at > token for at in await driver.read(NextRefill(queues=("default",), now=token)))

    asyncio.run(go())
