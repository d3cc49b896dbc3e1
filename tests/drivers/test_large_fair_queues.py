"""A queue with very many jobs becomes fair or strict a bite at a time, and who has a turn is not asked in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from effort import effort

from windlass.clock import SECOND
from windlass.core.alterations import PauseLimit, PutLimit, PutQueue
from windlass.core.changes import Ack
from windlass.core.duties import Done, RecountLimits
from windlass.drivers.ops import adopting
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import Claimed, NewJob

NOW = 1_800_000_000_000_000
names = count(1)


class Store:
    """A driver, and whose turn the jobs of its store take."""

    def __init__(self, driver: SqliteDriver | PostgresDriver, dsn: str = "", schema: str = "") -> None:
        self.driver: Driver = driver
        self._dsn, self._schema = dsn, schema
        self._lite = driver if isinstance(driver, SqliteDriver) else None

    def without_turn(self) -> int:
        if self._lite is not None:
            return int(self._lite._writer._connection.execute("select count(*) from jobs where share is null")[0][0])
        with psycopg.connect(self._dsn) as connection:
            query = f'select count(*) from "{self._schema}".jobs where share is null'
            [(number,)] = connection.execute(query.encode()).fetchall()
            return int(number)

    def take_turn(self, job_id: str) -> None:
        """As if others had written the job."""
        self._write("null", job_id)

    def give_turn(self, job_id: str) -> None:
        self._write("'=o'", job_id)

    def _write(self, share: str, job_id: str) -> None:
        if self._lite is not None:
            self._lite._writer._connection.execute(f"update jobs set share = {share} where id = '{job_id}'")
            return
        with psycopg.connect(self._dsn) as connection:
            connection.execute(f"update \"{self._schema}\".jobs set share = {share} where id = '{job_id}'".encode())


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: SqliteDriver | PostgresDriver
    if request.param == "sqlite":
        made = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed", inline=True)
        yield Store(made)
    else:
        dsn, schema = request.getfixturevalue("empty_store")
        made = PostgresDriver(dsn, schema=schema)
        yield Store(made, dsn, schema)
    asyncio.run(made.close())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopting, "AT_ONCE", 4)
    monkeypatch.setattr(adopting, "FOR_A_CLAIM", 2)
    monkeypatch.setattr(adopting, "FEWEST", 6)
    monkeypatch.setattr(adopting, "VISITS", 1)


async def enqueue(driver: Driver, number: int, **fields: Any) -> list[str]:
    jobs = [NewJob(**{"id": f"job-{next(names)}", "type": "work", "org_id": "o", **fields}) for _ in range(number)]
    for at in range(0, number, 500):
        await driver.enqueue(jobs[at : at + 500], now=NOW)
    return [job.id for job in jobs]


async def claim(driver: Driver, limit: int = 99, now: int = NOW) -> list[Claimed]:
    token = f"token-{next(names)}"
    wish = Claim(queues=("default",), limit=limit, lease_for=3600 * SECOND, worker_id="w", token=token)
    return await driver.claim(wish, now=now)


async def recount(driver: Driver, limit: int = 4) -> Done:
    done = await driver.maintain(RecountLimits(limit=limit), epoch=None, now=NOW)
    assert done is not None
    return done


async def recounts(driver: Driver) -> int:
    """Until there is no more to do; how many that took."""
    for number in range(1, 40):
        if not (await recount(driver)).more:
            return number
    raise AssertionError("it does not come to an end")


async def one_of_each(driver: Driver) -> None:
    """Jobs of every kind of waiting, in several priorities, and one that runs."""
    await driver.alter([PutLimit("key:gpu", 1)], now=NOW)
    await enqueue(driver, 4, limit_keys=("key:gpu",), priority=9)
    assert len(await claim(driver, 2)) == 1
    [parent, *_] = await enqueue(driver, 5, priority=2)
    await enqueue(driver, 5)
    await enqueue(driver, 5, priority=-1)
    await enqueue(driver, 7, run_at=NOW + SECOND)
    await enqueue(driver, 7, after=(parent,))


@pytest.mark.usefixtures("small")
def test_a_queue_becomes_fair_and_strict_again_in_bites(store: Store) -> None:
    """Whatever its jobs wait for; those that come first first, and nobody is forgotten."""
    driver = store.driver

    async def put(order: Literal["fair", "strict"]) -> None:
        assert await driver.alter([PutQueue("default", order=order)], now=NOW) == ["applied"]

    async def go() -> None:
        await one_of_each(driver)
        assert store.without_turn() == 33
        await put("fair")
        assert 33 - 10 < store.without_turn() < 33
        assert [job.priority for job in await claim(driver, 2)] == [2, 2]
        assert await recounts(driver) > 4
        assert store.without_turn() == 0
        assert await recounts(driver) > 1, "it looks at all of them once more"
        await put("strict")
        assert 0 < store.without_turn() < 10
        await recounts(driver)
        assert store.without_turn() == 33
        assert len(await claim(driver)) == 13

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_claims_come_to_all_jobs_of_a_queue_that_has_become_fair(store: Store) -> None:
    """Also where nobody leads, and to those that become ready while others are getting a turn."""
    driver = store.driver

    async def go() -> None:
        await one_of_each(driver)
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        taken = await claim(driver, 2)
        await driver.alter([PutLimit("key:gpu", 2)], now=NOW)
        for _ in range(40):
            for job in taken:
                await driver.settle([Ack(handle=job.handle, token=job.token, at=NOW)], now=NOW)
            more = await claim(driver, 3, NOW + SECOND * (len(taken) > 9))
            taken += more
            if not more:
                break
        assert len(taken) == 32, "all but one, which runs"
        assert store.without_turn() == 0

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_a_claim_that_finds_nothing_gives_turns_until_all_have_one_and_then_no_more(store: Store) -> None:
    """Though none is of a type that it asks for, or may be taken."""
    driver = store.driver

    async def go() -> None:
        await enqueue(driver, 30)
        await driver.alter([PutQueue("default", order="fair"), PauseLimit("global", paused=True)], now=NOW)
        await driver.alter([PutQueue("empty", order="fair")], now=NOW)
        assert await claim(driver) == []
        assert store.without_turn() >= 20, "where nothing may be taken, no turns are given"
        await driver.alter([PauseLimit("global", paused=False)], now=NOW)
        wish = Claim(queues=("default",), limit=9, lease_for=SECOND, worker_id="w", token="other", types=("other",))
        assert await driver.claim(wish, now=NOW) == []
        assert store.without_turn() == 0
        by_hand = await enqueue(driver, 1)
        store.take_turn(by_hand[0])
        assert await driver.claim(wish, now=NOW) == []
        assert store.without_turn() == 1, "all had one, so nobody looks"

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_who_comes_while_the_leader_looks_has_a_turn_the_next_time(store: Store) -> None:
    """Behind those that it has seen."""
    driver = store.driver

    async def go() -> None:
        await enqueue(driver, 9)
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        assert (await recount(driver)).more
        await driver.alter([PutQueue("default")], now=NOW)
        late = await enqueue(driver, 1, priority=5)
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        for _ in range(2):
            await recounts(driver)
        assert store.without_turn() == 0
        assert [job.id for job in await claim(driver, 1)] == late

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_who_has_no_turn_is_found_behind_many_who_have_one(store: Store) -> None:
    """However they wait, and whoever else does: with a time, for others and for permits, here and in other queues."""
    driver = store.driver

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair"), PutLimit("key:gpu", 0)], now=NOW)
        [parent] = await enqueue(driver, 1, queue="parents")
        for queue in ("default", "a"):
            await enqueue(driver, 9, queue=queue, limit_keys=("key:gpu",), run_at=NOW)
        assert await claim(driver) == []
        last: list[str] = []
        for fields in ({}, {"run_at": NOW + 2 * SECOND}, {"after": (parent,)}):
            for queue in ("a", "default", "z"):
                await enqueue(driver, 9, queue=queue, after=(parent,), run_at=NOW + SECOND)
                many = await enqueue(driver, 20, queue=queue, **fields)
                last += [many[0], many[-1]] if queue == "default" else []
        for job_id in last:
            store.take_turn(job_id)
        before = store.without_turn()
        await recounts(driver)
        assert store.without_turn() == before - len(last)

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_who_has_no_turn_is_found_behind_those_of_another_priority(store: Store) -> None:
    """One that is neither at the end of a bite over his own nor behind the last one over theirs."""
    driver = store.driver

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        ids: list[str] = []
        for theirs in (11, 1):
            ids += await enqueue(driver, 9)
            await enqueue(driver, theirs, priority=-5)
        store.take_turn(ids[10])
        await recounts(driver)
        assert store.without_turn() == 0

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_who_lost_a_turn_behind_the_leader_is_found_when_it_has_been_everywhere(store: Store) -> None:
    driver = store.driver

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        first = [(await enqueue(driver, 20))[0], (await enqueue(driver, 20, run_at=NOW + SECOND))[0]]
        assert (await recount(driver)).more
        await recounts(driver)
        for job_id in first:
            store.take_turn(job_id)
        await recounts(driver)
        assert store.without_turn() == 0

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_who_has_a_turn_keeps_it_while_the_leader_looks_for_those_who_have_none(store: Store) -> None:
    """In a queue that was strict for a moment, of whose jobs most had not lost theirs."""
    driver = store.driver

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        await enqueue(driver, 30)
        for order in orders:
            await driver.alter([PutQueue("default", order=order)], now=NOW)
        for _ in range(3):
            assert store.without_turn() == 0
            assert (await recount(driver)).more

    orders: tuple[Literal["strict", "fair"], ...] = ("strict", "fair")
    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_nobody_has_a_turn_in_strict_queues(store: Store) -> None:
    """By whose hand ever, and however many queues there are: one look comes to all of them."""
    driver = store.driver

    async def go() -> None:
        for queue in ("a", "b", "c"):
            store.give_turn((await enqueue(driver, 1, queue=queue))[0])
        await enqueue(driver, 3, queue="d")
        assert store.without_turn() == 3
        assert not (await recount(driver)).more
        assert store.without_turn() == 6

    asyncio.run(go())


@pytest.mark.usefixtures("small")
def test_those_who_wait_for_a_permit_do_so_in_order_again_when_their_queue_is_strict(store: Store) -> None:
    """Also where nobody is ready and there are more than become strict at once."""
    driver = store.driver

    async def go() -> None:
        await driver.alter([PutQueue("default", order="fair"), PutLimit("key:gpu", 1)], now=NOW)
        await enqueue(driver, 1, limit_keys=("key:gpu",))
        [running] = await claim(driver)
        for org, priority in (("a", 0), ("b", 9)):
            await enqueue(driver, 6, limit_keys=("key:gpu",), org_id=org, priority=priority)
        assert await claim(driver) == []
        await driver.alter([PutQueue("default", order="strict")], now=NOW)
        await recounts(driver)
        assert store.without_turn() >= 12, "who runs is looked at when it comes back"
        assert await driver.settle([Ack(handle=running.handle, token=running.token, at=NOW)], now=NOW) == ["applied"]
        assert [job.priority for job in await claim(driver)] == [9]

    asyncio.run(go())


def test_declaring_a_fair_queue_reads_no_job_of_others(tmp_path: Path) -> None:
    async def go() -> list[int]:
        driver = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed", inline=True)
        spent: list[int] = []
        for name in ("one", "another"):

            async def once(name: str = name) -> None:
                await driver.alter([PutQueue(name, order="fair")], now=NOW)

            spent.append(await effort(driver, once))
            await enqueue(driver, 3_000, queue="big")
        await driver.close()
        return spent

    few, many = asyncio.run(go())
    assert many <= few + 5


@pytest.mark.usefixtures("small")
def test_a_queue_becomes_strict_without_a_look_at_all_of_its_jobs(tmp_path: Path) -> None:
    """Of which most, here, have no turn to lose."""

    async def measured(number: int) -> int:
        driver = SqliteDriver(str(tmp_path / f"{number}.db"), durability="relaxed", inline=True)
        [parent, *_] = await enqueue(driver, 3)
        await enqueue(driver, number, run_at=NOW + SECOND)
        await enqueue(driver, number, after=(parent,))
        await driver.alter([PutQueue("default", order="fair")], now=NOW)

        async def strict() -> None:
            await driver.alter([PutQueue("default", order="strict")], now=NOW)

        spent = await effort(driver, strict)
        await driver.close()
        return spent

    async def go() -> tuple[int, int]:
        return await measured(500), await measured(1_500)

    few, many = asyncio.run(go())
    assert many < 1.2 * few


def test_a_recount_looks_at_so_many_jobs_of_a_fair_queue(tmp_path: Path) -> None:
    """And not at all of them at once, however many there are."""

    async def go() -> list[int]:
        driver = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed", inline=True)
        await driver.alter([PutQueue("default", order="fair")], now=NOW)
        spent: list[int] = []
        for number in (1_500, 4_500):
            await enqueue(driver, number)

            async def once() -> None:
                await recount(driver, 100)

            while (await recount(driver, 100)).more:
                pass
            spent.append(await effort(driver, once))
        await driver.close()
        return spent

    few, many = asyncio.run(go())
    assert many < 1.2 * few
