"""Limits where there are many of them, or where very many jobs wait: no call does all of it at once, and nobody is left."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from effort import effort

from windlass.clock import SECOND
from windlass.core import limits as rules
from windlass.core.alterations import PutLimit, PutQueue, RemoveLimit
from windlass.core.duties import Done, RecountLimits
from windlass.core.queries import NextRefill
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.link import Link
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import Claimed, NewJob

NOW = 1_800_000_000_000_000
names = count(1)


@pytest.fixture
def driver(sql_driver: Driver) -> Driver:
    return sql_driver


async def enqueue(driver: Driver, number: int, **fields: Any) -> list[str]:
    jobs = [NewJob(**{"id": f"job-{next(names)}", "type": "work", **fields}) for _ in range(number)]
    for at in range(0, number, 500):
        await driver.enqueue(jobs[at : at + 500], now=NOW)
    return [job.id for job in jobs]


async def claim(driver: Driver, limit: int = 1, now: int = NOW, queues: tuple[str, ...] = ("default",)) -> list[Claimed]:
    token = f"token-{next(names)}"
    wish = Claim(queues=queues, limit=limit, lease_for=3600 * SECOND, worker_id="w", token=token)
    return await driver.claim(wish, now=now)


async def parked(driver: Driver, ids: list[str]) -> int:
    return sum(job is not None and job.parked_on is not None for job in await driver.get(ids))


async def recount(driver: Driver, limit: int = 1_000) -> Done:
    done = await driver.maintain(RecountLimits(limit=limit), epoch=None, now=NOW)
    assert done is not None
    return done


def by_hand(driver: Driver, statement: str) -> list[tuple[Any, ...]]:
    """`{}` stands for what is before a table's name."""
    if isinstance(driver, SqliteDriver):
        return list(driver._writer._connection.execute(statement.format("")))
    assert isinstance(driver, PostgresDriver)
    with Link(driver.place).open() as connection:
        found = connection.execute(statement.format(f'"{driver.place.schema}".').encode())
        return found.fetchall() if found.description else []


def meta(driver: Driver) -> dict[str, str]:
    """What the store notes about itself."""
    return {str(key): str(value) for key, value in by_hand(driver, "select key, value from {}meta")}


def test_what_a_recount_finds_wrong_it_puts_right(driver: Driver) -> None:
    """Also of a job that names a key by which limits concern others, as only somebody else's SQL can: else a leader would
    count it again at once, for as long as the job runs, while nobody claims."""

    async def go() -> None:
        [name] = await enqueue(driver, 1, limit_keys=("k",))
        by_hand(driver, "update {}jobs set limit_keys = '[\"type:other\"]'")
        assert len(await claim(driver)) == 1
        assert await driver.alter([PutLimit("type:other", 5)], now=NOW) == ["applied"]
        assert await recount(driver) == Done(0)
        [job] = await driver.get([name])
        assert job is not None
        assert job.permits == ("type:other",)

    asyncio.run(go())


def test_a_recount_asks_each_running_job_once_however_many_limits_there_are(tmp_path: Path) -> None:
    """Twice as many of both are twice the work."""

    async def measured(number: int) -> int:
        driver = SqliteDriver(str(tmp_path / f"{number}.db"), durability="relaxed", inline=True)
        for at in range(0, number, 100):
            await driver.alter([PutLimit(f"key:{n}", 5) for n in range(at, at + 100)], now=NOW)
        for n in range(number):
            await enqueue(driver, 1, limit_keys=(f"key:{n}",), tags=("a", "b"), org_id="o")
        assert len(await claim(driver, number)) == number

        async def once() -> None:
            assert await recount(driver) == Done(0)

        spent = await effort(driver, once)
        await driver.close()
        return spent

    async def go() -> tuple[int, int]:
        return await measured(200), await measured(400)

    few, many = asyncio.run(go())
    assert many < 2.6 * few


@pytest.mark.parametrize("order", ["strict", "fair"])
def test_who_waited_for_a_limit_that_is_removed_is_let_through_in_bites(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    monkeypatch.setattr(rules, "UNPARK_BITE", 5)

    async def go() -> None:
        await driver.alter([PutQueue("default", order=order), PutLimit("key:gpu", 1)], now=NOW)
        ids = await enqueue(driver, 14, limit_keys=("key:gpu",), org_id="o")
        assert len(await claim(driver)) == 1
        assert await claim(driver) == []
        assert await parked(driver, ids) == 13
        await driver.alter([RemoveLimit("key:gpu")], now=NOW)
        assert await parked(driver, ids) == 8
        assert await recount(driver) == Done(0, more=True)
        assert await parked(driver, ids) == 3
        assert await recount(driver) == Done(0)
        assert await parked(driver, ids) == 0
        assert len(await claim(driver, 99)) == 13

    asyncio.run(go())


@pytest.mark.parametrize("order", ["strict", "fair"])
@pytest.mark.parametrize("queues", [("default",), ("default", "other")])
def test_claims_let_those_through_who_waited_for_a_limit_that_is_removed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, order: Any, queues: tuple[str, ...]
) -> None:
    """Where nobody leads and no limit is left, too; not those of queues that a claim does not ask for."""
    monkeypatch.setattr(rules, "UNPARK_BITE", 5)

    async def go() -> None:
        await driver.alter([PutQueue("default", order=order), PutLimit("key:gpu", 1), PutLimit("key:b", 1)], now=NOW)
        theirs = await enqueue(driver, 8, queue="theirs", limit_keys=("key:b",))
        ids = await enqueue(driver, 14, limit_keys=("key:gpu",), org_id="o")
        assert len(await claim(driver, 1, queues=("theirs",))) == len(await claim(driver)) == 1
        assert await claim(driver, queues=("theirs", "default")) == []
        before = meta(driver)
        await driver.alter([RemoveLimit("key:gpu"), RemoveLimit("key:b")], now=NOW)
        assert (await parked(driver, ids), await parked(driver, theirs)) == (8, 2)
        taken = 0
        while jobs := await claim(driver, 2, queues=queues):
            taken += len(jobs)
        assert taken == 13
        assert await parked(driver, theirs) == 2
        assert len(await claim(driver, 99, queues=("theirs",))) == 5
        assert len(await claim(driver, 99, queues=("theirs",))) == 2
        assert await claim(driver, 99, queues=("theirs",)) == []
        assert meta(driver) == {**before, "unbarred": "[]"}, "nothing is left to look after, and all else is as it was"

    asyncio.run(go())


def test_who_waits_for_a_limit_that_was_removed_and_is_there_again_is_let_through_by_it(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "UNPARK_BITE", 2)

    async def go() -> None:
        await driver.alter([PutLimit("key:gpu", 1)], now=NOW)
        await enqueue(driver, 8, limit_keys=("key:gpu",))
        assert len(await claim(driver)) == 1
        assert await claim(driver) == []
        await driver.alter([RemoveLimit("key:gpu"), PutLimit("key:gpu", 3)], now=NOW)
        assert len(await claim(driver, 99)) == 2
        assert await claim(driver, 99) == []

    asyncio.run(go())


def test_when_all_were_let_through_for_whom_there_is_room_nobody_is_told_to_look_again(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who still wait do so for an end. A moment that is past would bring whoever asks back at once, without end."""
    monkeypatch.setattr(rules, "UNPARK_BITE", 5)

    async def go() -> None:
        await driver.alter([PutLimit("key:gpu", 1)], now=NOW)
        ids = await enqueue(driver, 14, limit_keys=("key:gpu",))
        assert len(await claim(driver)) == 1
        assert await claim(driver) == []
        await driver.alter([PutLimit("key:gpu", 8)], now=NOW)
        assert await driver.read(NextRefill(queues=("default",), now=NOW)) != []
        taken = 0
        for second in range(1, 5):
            taken += len(await claim(driver, 99, NOW + second * SECOND))
        assert (taken, await parked(driver, ids)) == (7, 6)
        assert await driver.read(NextRefill(queues=("default",), now=NOW + 5 * SECOND)) == []

    asyncio.run(go())


@pytest.mark.parametrize("order", ["strict", "fair"])
@pytest.mark.parametrize("change", [PutLimit("key:gpu", 50), PutLimit("key:gpu", per_second=50.0), PutLimit("key:gpu")])
def test_who_waited_for_a_limit_that_bars_nobody_now_is_let_through_by_one_claim_after_the_other(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, change: PutLimit, order: Any
) -> None:
    """None of which does it all."""
    monkeypatch.setattr(rules, "UNPARK_BITE", 5)

    async def go() -> None:
        await driver.alter([PutQueue("default", order=order), PutLimit("key:gpu", 1)], now=NOW)
        ids = await enqueue(driver, 14, limit_keys=("key:gpu",), org_id="o")
        assert len(await claim(driver)) == 1
        assert await claim(driver) == []
        await driver.alter([change], now=NOW)
        assert await parked(driver, ids) == 8
        taken = 0
        for second in range(1, 4):
            taken += len(await claim(driver, 99, NOW + second * SECOND))
            assert await parked(driver, ids) <= max(13 - 5 * (second + 1), 0)
        assert taken == 13

    asyncio.run(go())


@pytest.mark.parametrize("order", ["strict", "fair"])
def test_who_was_overlooked_is_let_through_in_bites(driver: Driver, monkeypatch: pytest.MonkeyPatch, order: Any) -> None:
    """A recount says that there are more than it has let through."""
    monkeypatch.setattr(rules, "UNPARK_BITE", 5)

    async def go() -> None:
        await driver.alter([PutQueue("default", order=order), PutLimit("key:gpu", 20)], now=NOW)
        by_hand(driver, "update {}limits set used = 20")
        ids = await enqueue(driver, 9, limit_keys=("key:gpu",), org_id="o")
        assert await claim(driver, 99) == []
        by_hand(driver, "update {}limits set used = 0")
        assert await parked(driver, ids) == 9
        assert await recount(driver) == Done(0, more=True)
        assert await parked(driver, ids) == 4
        assert len(await claim(driver, 99)) == 5

    asyncio.run(go())


def test_who_waits_for_a_permit_that_nobody_held_is_let_through_when_that_is_found(driver: Driver) -> None:
    """By the recount that finds it, and not only by the next one."""

    async def go() -> None:
        await driver.alter([PutLimit("key:gpu", 3)], now=NOW)
        by_hand(driver, "update {}limits set used = 3")
        ids = await enqueue(driver, 4, limit_keys=("key:gpu",))
        assert await claim(driver, 99) == []
        assert await recount(driver) == Done(1, more=True)
        assert await parked(driver, ids) == 1
        assert len(await claim(driver, 99)) == 3

    asyncio.run(go())


def test_a_recount_forgets_the_turns_of_orgs_that_have_none_ahead(driver: Driver) -> None:
    """Else a row would stay of every org that ever had a job in a fair queue."""

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        for org in ("a", "b", "c"):
            await enqueue(driver, 1, org_id=org)
        assert len(await claim(driver, 3)) == 3
        await enqueue(driver, 2, org_id="d")
        assert len(await claim(driver, 2)) == 2
        assert by_hand(driver, "select count(*) from {}shares") == [(4,)]
        await recount(driver)
        assert by_hand(driver, "select count(*) from {}shares") == [(1,)]

    asyncio.run(go())


def test_who_waits_for_more_tokens_than_a_claim_passes_on_is_looked_at_soon(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the claim takes a token itself after that, and the next one comes much later."""
    monkeypatch.setattr(rules, "UNPARK_BITE", 1)

    async def go() -> None:
        await driver.alter([PutLimit("key:full", 1), PutLimit("key:rate", 1, per_second=0.01, burst=9.0)], now=NOW)
        await enqueue(driver, 1, limit_keys=("key:full",))
        await enqueue(driver, 1, limit_keys=("key:rate",))
        assert len(await claim(driver, 2)) == 2
        both = await enqueue(driver, 1, limit_keys=("key:rate", "key:full"))
        ids = await enqueue(driver, 5, limit_keys=("key:rate",))
        assert await claim(driver, 9) == []
        assert await parked(driver, [*both, *ids]) == 6
        await driver.alter([PutLimit("key:rate", 9, per_second=0.01, burst=9.0)], now=NOW)
        assert await parked(driver, [*both, *ids]) == 5
        assert len(await claim(driver, 1)) == 1
        [at] = await driver.read(NextRefill(queues=("default",), now=NOW))
        assert at <= NOW + SECOND
        assert len(await claim(driver, 9, NOW + SECOND)) > 0

    asyncio.run(go())
