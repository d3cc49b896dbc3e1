"""A settlement of rows that somebody holds: what it holds while it waits, and what it says when it has waited in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from postgres.calling import Line, ack, line, new, retry, timed, wish
from postgres.server import Server
from windlass.core.alterations import Cancel, PutGroup, PutLimit
from windlass.core.changes import Ack, CountMember
from windlass.drivers.postgres import PostgresDriver, held, settlement
from windlass.drivers.postgres.link import Link
from windlass.drivers.statement import Statement
from windlass.drivers.values import RowsHeld
from windlass.errors import OutcomeUnknown, StoreBusy
from windlass.types import Claimed

PROMPT = 0.5


@contextmanager
def somebody(tried: Line, *ids: str) -> Iterator[Link]:
    """Holds the rows of these jobs; the link is his."""
    link = Link(tried.direct.place)
    try:
        with link.open() as connection, connection.transaction():
            for job_id in ids:
                hold(link, tried, job_id)
            yield link
    finally:
        link.close()


def hold(link: Link, tried: Line, job_id: str) -> None:
    link.execute(Statement(f"select from {tried.schema}.jobs where id = $1 for update", (job_id,)))


async def until_somebody_waits(tried: Line, for_whom: Link) -> None:
    look = Statement("select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))", (for_whom.session,))
    eye = Link(tried.direct.place)
    try:
        async with asyncio.timeout(5):
            while not eye.execute(look)[0][0]:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
    finally:
        eye.close()


@asynccontextmanager
async def shared(tried: Line) -> AsyncIterator[tuple[Any, Any]]:
    """Two running jobs that share a limit and a group; a third waits for a permit, and one for the end of the first."""
    await tried.direct.alter([PutLimit("k", 2), PutGroup("g", 9)], now=tried.now())
    await tried.direct.enqueue([new(group_id="g", limit_keys=("k",)) for _ in range(3)], now=tried.now())
    first, second = await tried.driver.claim(wish(2), now=tried.now())
    await tried.direct.enqueue([new("after", after=(first.id,))], now=tried.now())
    yield first, second


def ended(job: Claimed, tried: Line) -> Ack:
    return replace(ack(job, tried.now()), riders=(CountMember("g", "succeeded"),))


@pytest.mark.parametrize("whose", ["its own", "of one that waits for it"])
def test_a_settlement_that_waits_for_a_row_keeps_nobody_from_its_limits_and_groups(
    postgres_server: Server, whose: str
) -> None:
    async def play(tried: Line) -> None:
        async with shared(tried) as (first, second):
            with somebody(tried, first.id if whose == "its own" else "after") as holder:
                stuck = asyncio.create_task(tried.driver.settle([ended(first, tried)], now=tried.now()))
                await until_somebody_waits(tried, holder)
                took, answers = await timed(tried.direct.settle([ended(second, tried)], now=tried.now()))
                assert (answers, took < PROMPT) == (["applied"], True)
                took, jobs = await timed(tried.direct.claim(wish(1), now=tried.now()))
                assert (len(jobs), took < PROMPT) == (1, True)
                took, answers = await timed(tried.direct.alter([PutLimit("k", 4)], now=tried.now()))
                assert (answers, took < PROMPT) == (["applied"], True)
                assert not stuck.done()
            assert await stuck == ["applied"]

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


def test_a_row_that_is_taken_once_more_is_waited_for_once_more(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another, in the moment between the wait and the settlement, which holds limits and groups then: not for long."""
    taken = list[str]()

    async def play(tried: Line) -> None:
        async with shared(tried) as (first, second):
            other = Link(tried.direct.place)
            other.open()

            def interrupted(changes: Any, now: int) -> Any:
                if not taken:
                    taken.append(first.id)
                    other.execute(Statement("begin", ()))
                    hold(other, tried, first.id)
                return (yield from settlement.settle(changes, now))

            monkeypatch.setattr(held, "settle", interrupted)
            try:
                with somebody(tried, first.id) as holder:
                    stuck = asyncio.create_task(tried.driver.settle([ack(first, tried.now())], now=tried.now()))
                    await until_somebody_waits(tried, holder)
                await until_somebody_waits(tried, other)
                took, answers = await timed(tried.direct.settle([ack(second, tried.now())], now=tried.now()))
                assert (answers, took < 2 * PROMPT) == (["applied"], True)
                assert not stuck.done()
                other.execute(Statement("rollback", ()))
                assert await stuck == ["applied"]
            finally:
                other.close()

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))
    assert taken


def test_many_rows_that_many_hold_are_waited_for_one_by_one(postgres_server: Server) -> None:
    """While it waits for one it keeps nobody from the others: what was let go of can be taken by hand again."""

    async def play(tried: Line) -> None:
        jobs = await tried.claimed(3)
        with somebody(tried, jobs[2].id) as last:
            with somebody(tried, jobs[0].id) as first:
                stuck = asyncio.create_task(tried.driver.settle([retry(job, tried.now()) for job in jobs], now=tried.now()))
                await until_somebody_waits(tried, first)
            await until_somebody_waits(tried, last)
            with somebody(tried) as third:
                third.execute(Statement("set local lock_timeout = '500ms'", ()))
                hold(third, tried, jobs[0].id)
            assert not stuck.done()
        assert await stuck == ["applied"] * 3

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


# ------------------------------------------------------------------------------------------------------- what is told


@pytest.mark.parametrize(("jobs", "what"), [(1, "nothing is stored; try"), (3, "1 of 3 ends are not stored, the others")])
def test_who_waits_for_a_row_in_vain_is_told_what_was_stored(postgres_server: Server, jobs: int, what: str) -> None:
    async def play(tried: Line) -> None:
        held, *others = await tried.claimed(jobs)
        with somebody(tried, held.id), pytest.raises(RowsHeld, match=f"somebody holds rows .*{what}.*doctor") as told:
            await tried.driver.settle([ack(job, tried.now()) for job in (held, *others)], now=tried.now())
        assert told.value.answers == [None, *("applied" for _ in others)]

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def in_own_transaction(driver: PostgresDriver, job: Claimed, now: int) -> None:
    """Which goes on: only what was tried is undone."""
    own = driver.transaction()
    own.begin()
    try:
        own.settle(retry(job, now), now=now)
    finally:
        assert own.connection.execute("select 1").fetchone() == (1,)
        own.rollback()


@pytest.mark.parametrize("what", ["settle", "cancel", "settle in an own transaction"])
def test_who_waits_for_a_row_in_vain_is_not_told_that_the_server_is_away(postgres_server: Server, what: str) -> None:
    async def play(tried: Line) -> None:
        driver, now = tried.driver, tried.now()
        [job] = await tried.claimed()
        tries: dict[str, Callable[[], Awaitable[Any]]] = {
            "settle": lambda: driver.settle([retry(job, now)], now=now),
            "cancel": lambda: driver.alter([Cancel(job.id)], now=now),
            "settle in an own transaction": lambda: asyncio.to_thread(in_own_transaction, driver, job, now),
        }
        with somebody(tried, job.id), pytest.raises(StoreBusy):
            await tries[what]()

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def test_whose_own_patience_is_less_waits_no_longer(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        own = tried.driver.transaction()
        own.begin()
        own.connection.execute("set local lock_timeout = '50ms'")
        with somebody(tried, job.id):
            took, answer = await timed(asyncio.to_thread(own.settle, retry(job, tried.now()), now=tried.now()))
        assert (type(answer), took < 2 * PROMPT) == (StoreBusy, True)
        assert own.settle(retry(job, tried.now()), now=tried.now()) == "applied"
        assert own.connection.execute("show lock_timeout").fetchone() == ("50ms",)
        own.rollback()

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


def test_a_server_that_goes_away_after_a_part_was_stored_leaves_open_what_was(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        stuck, free = await tried.claimed(2)
        changes = [retry(stuck, tried.now()), retry(free, tried.now())]
        with somebody(tried, stuck.id) as holder:
            batch = asyncio.create_task(tried.driver.settle(changes, now=tried.now()))
            await until_somebody_waits(tried, holder)
            tried.proxy.blackhole()
            with pytest.raises(OutcomeUnknown):
                await batch
        tried.proxy.heal()
        assert await tried.driver.settle(changes, now=tried.now()) == ["applied", "repeated"]

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))
