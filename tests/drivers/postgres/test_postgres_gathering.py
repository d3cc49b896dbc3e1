"""Enqueues of one event loop that come at once are stored together, and each is told of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from postgres.calling import Line, line, new
from postgres.server import Server
from windlass.core.alterations import PutQueue
from windlass.drivers.postgres import PostgresDriver, gathering, jobs
from windlass.drivers.postgres.link import Link
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, WindlassError


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls went together, each time."""
    sizes: list[int] = []
    real = jobs.insert_together

    def counted(calls: Any) -> Any:
        sizes.append(len(calls))
        return real(calls)

    monkeypatch.setattr(jobs, "insert_together", counted)
    monkeypatch.setattr(gathering, "PATIENCE", 10.0)  # a slow machine makes nobody go alone
    return sizes


async def all_at_once(driver: PostgresDriver, calls: list[list[Any]]) -> list[Any]:
    """The first goes alone, so that a connection is open."""
    await driver.enqueue([new()], now=driver.clock.now())
    return await asyncio.gather(*(driver.enqueue(call, now=driver.clock.now()) for call in calls), return_exceptions=True)


def test_calls_that_come_at_once_are_stored_together(driver: PostgresDriver, together: list[int]) -> None:
    calls = [[new() for _ in range(number % 3 + 1)] for number in range(20)]
    answers = asyncio.run(all_at_once(driver, calls))
    assert answers == [[Enqueued(job.id) for job in call] for call in calls]
    assert max(together) > 5
    stored = asyncio.run(driver.get([job.id for call in calls for job in call]))
    assert None not in stored


def test_each_keeps_the_moment_at_which_it_was_enqueued(driver: PostgresDriver, together: list[int]) -> None:
    async def play() -> None:
        now = driver.clock.now()
        await driver.enqueue([new()], now=now)
        calls = [(new(run_at=now + number), now + number - number % 2) for number in range(1, 12)]
        await asyncio.gather(*(driver.enqueue([job], now=at) for job, at in calls))
        assert max(together) > 1
        for job, at in calls:
            [stored] = await driver.get([job.id])
            assert stored is not None
            assert (stored.created_at, stored.queued_at, stored.ready) == (at, at, job.run_at == at)

    asyncio.run(play())


def test_a_call_that_is_refused_takes_no_other_along(driver: PostgresDriver, together: list[int]) -> None:
    used = new()
    asyncio.run(driver.enqueue([used], now=driver.clock.now()))
    calls = [[new()] for _ in range(10)]
    calls[6] = [used]
    answers = asyncio.run(all_at_once(driver, calls))
    assert max(together) > 1
    assert isinstance(answers[6], DuplicateId)
    assert [answer for place, answer in enumerate(answers) if place != 6] == [
        [Enqueued(call[0].id)] for place, call in enumerate(calls) if place != 6
    ]


def test_a_queue_with_dense_positions_is_served_among_others(driver: PostgresDriver, together: list[int]) -> None:
    queue = PutQueue("dense", positions="dense")
    asyncio.run(driver.alter([queue], now=driver.clock.now()))
    calls = [[new(queue="dense" if number % 2 else "default")] for number in range(10)]
    answers = asyncio.run(all_at_once(driver, calls))
    assert answers == [[Enqueued(call[0].id)] for call in calls]
    assert max(together) > 1
    stored = asyncio.run(driver.get([call[0].id for call in calls[1::2]]))
    assert sorted(job.position for job in stored if job is not None) == [100 * place for place in range(1, 6)]


def test_who_gives_up_before_the_others_set_out_stores_nothing(driver: PostgresDriver) -> None:
    async def play() -> None:
        await driver.enqueue([new()], now=driver.clock.now())
        calls = [asyncio.create_task(driver.enqueue([new(f"call-{n}")], now=driver.clock.now())) for n in range(5)]
        await asyncio.sleep(0)
        calls[-1].cancel()
        await asyncio.gather(*calls[:-1])
        stored = await driver.get([f"call-{n}" for n in range(5)])
        assert [job is not None for job in stored] == [True] * 4 + [False]

    asyncio.run(play())


def test_who_gives_up_later_takes_no_other_along(driver: PostgresDriver) -> None:
    """Even if it is the one that all set out with."""

    async def play() -> None:
        for round_ in range(10):
            calls = [asyncio.create_task(driver.enqueue([new()], now=driver.clock.now())) for _ in range(8)]
            await asyncio.sleep(0.0003 * round_)
            calls[round_ % 8].cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(answer) for place, answer in enumerate(answers) if place != round_ % 8] == [list] * 7

    asyncio.run(play())


def test_those_behind_one_that_is_stuck_go_alone(driver: PostgresDriver) -> None:
    async def play() -> None:
        await driver.enqueue([new()], now=driver.clock.now())
        free = threading.Event()
        stuck = [asyncio.ensure_future(driver._writes.submit(lambda link: free.wait(20))) for _ in range(2)]
        room = driver._enqueueing._gathering._room()
        room._under_way = 2
        try:
            async with asyncio.timeout(3):
                assert len(await driver.enqueue([new()], now=driver.clock.now())) == 1
        finally:
            room._under_way = 0
            free.set()
            await asyncio.gather(*stuck)

    asyncio.run(play())


def test_what_was_asked_for_before_the_end_is_stored(postgres_server: Server, together: list[int]) -> None:
    """Also what waits to go with others when the driver is closed."""

    async def play(tried: Line) -> None:
        await tried.driver.enqueue([new()], now=tried.now())
        with Link(tried.direct.place).open() as somebody, somebody.transaction():
            somebody.execute(f"lock table {tried.schema}.jobs in share mode".encode())
            calls = [asyncio.create_task(tried.driver.enqueue([new()], now=tried.now())) for _ in range(9)]
            await asyncio.sleep(0)
            end = asyncio.create_task(tried.driver.close())
            await asyncio.sleep(0.1)
        await end
        assert [len(answer) for answer in await asyncio.gather(*calls)] == [1] * 9
        assert max(together) > 1

    with line(postgres_server, 5.0) as tried:
        asyncio.run(play(tried))


def test_callers_of_several_event_loops_do_not_meet(driver: PostgresDriver, together: list[int]) -> None:
    def beside(count: int) -> list[Any]:
        return asyncio.run(all_at_once(driver, [[new()] for _ in range(count)]))

    async def main() -> None:
        await driver.enqueue([new()], now=driver.clock.now())
        told = await asyncio.gather(*(asyncio.to_thread(beside, 8) for _ in range(4)))
        assert [type(answer) for answers in told for answer in answers] == [list] * 32

    for _ in range(2):
        asyncio.run(main())
    assert max(together) <= 8
    assert len(driver._enqueueing._gathering._rooms) <= 6, "rooms of loops that are gone are kept"


@pytest.mark.parametrize("when", ["before", "after"])
def test_when_the_reply_to_all_is_lost_each_is_stored_once(postgres_server: Server, when: Any, together: list[int]) -> None:
    async def play(tried: Any) -> None:
        driver = tried.driver
        await asyncio.gather(*(driver.enqueue([new()], now=driver.clock.now()) for _ in range(4)))
        trap = tried.proxy.trap(rb"insert into \S*jobs", nth=3, when=when)
        calls = [[new()] for _ in range(12)]
        answers = await asyncio.gather(*(driver.enqueue(call, now=driver.clock.now()) for call in calls))
        assert trap.sprung.is_set()
        assert answers == [[Enqueued(call[0].id)] for call in calls]
        stored = await tried.direct.get([call[0].id for call in calls])
        assert None not in stored

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_all_end_in_time_when_the_network_swallows_them(postgres_server: Server) -> None:
    async def play(tried: Any) -> None:
        driver = tried.driver
        await asyncio.gather(*(driver.enqueue([new()], now=driver.clock.now()) for _ in range(4)))
        tried.proxy.blackhole()
        async with asyncio.timeout(4):
            answers = await asyncio.gather(
                *(driver.enqueue([new()], now=driver.clock.now()) for _ in range(12)), return_exceptions=True
            )
        assert all(isinstance(answer, WindlassError) for answer in answers)

    with line(postgres_server, timeout=1) as tried:
        asyncio.run(play(tried))
