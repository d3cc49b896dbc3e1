"""What is missing or breaks at an unlucky moment (a loop, a thread, a line, whoever asked) costs nobody else anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from postgres.calling import LEASE, new, wish
from windlass.drivers.ops import dependencies
from windlass.drivers.postgres import PostgresDriver, gathering
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.listening import Listener
from windlass.drivers.statement import Op, Statement
from windlass.errors import InvalidInput, OutcomeUnknown, StoreUnreachable

ONE = Statement("select 1", ())


@pytest.fixture
def lane(driver: PostgresDriver) -> Iterator[Lane]:
    watch = Watch()
    lane = Lane("tried", driver.place, watch, size=2)
    yield lane
    lane.close()
    watch.close()


async def until_free(lane: Lane) -> None:
    while not lane._free:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.001)


def one(link: Link) -> Any:
    return link.execute(ONE)


def saying(text: str) -> Op[list[Any]]:
    return (yield Statement(text, ()))


def test_what_flew_on_an_event_loop_that_stopped_makes_room_when_its_time_is_over(lane: Lane) -> None:
    """The loop may go on at any moment, so that nobody else touches the connection."""
    lane._size = 1
    lane.submit_sync(one)
    asyncio.run(until_free(lane))
    loop = asyncio.new_event_loop()
    [link] = lane._free

    def sleep() -> Op[Any]:
        return saying("select pg_sleep(30)")

    async def leave() -> asyncio.Task[Any]:
        asked = asyncio.create_task(lane.submit(lambda link: link.read(sleep()), timeout=0.5, quick=sleep))
        await asyncio.sleep(0.05)
        return asked

    asked = loop.run_until_complete(leave())
    assert lane.submit_sync(one, timeout=20) == [(1,)]
    asyncio.run(until_free(lane))
    assert (lane._links, len(lane._free), lane._flights) == (1, 1, set())
    assert link not in lane._free
    assert link.connection is not None, "somebody else has closed it"
    with pytest.raises((StoreUnreachable, OutcomeUnknown)):
        loop.run_until_complete(asked)
    loop.close()
    assert link.connection is None
    assert (lane._links, len(lane._free)) == (1, 1)
    assert asyncio.run(lane.submit(one, quick=lambda: saying("select 2"))) == [(2,)]


def test_a_call_that_no_thread_can_do_is_refused_and_never_done(lane: Lane) -> None:
    done: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            lane.submit_sync(lambda link: done.append("refused"))
        with pytest.raises(RuntimeError, match="start new thread"):
            asyncio.run(lane.submit(lambda link: done.append("refused")))
    lane.submit_sync(lambda link: done.append("later"))
    assert done == ["later"]


def test_a_call_waits_for_the_threads_that_there_are(lane: Lane) -> None:
    begun, free = threading.Event(), threading.Event()

    def wait(link: Link) -> bool:
        begun.set()
        return free.wait(20)

    first = lane.post(wait)
    assert begun.wait(20), "its thread, and that of its deadline, are there"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        second = lane.post(one)
    free.set()
    assert (first.result(20), second.result(20)) == (True, [(1,)])


def test_a_thread_that_finds_no_other_to_help_it_goes_on_alone(lane: Lane) -> None:
    begun, free = threading.Event(), threading.Event()

    def wait(link: Link) -> bool:
        begun.set()
        return free.wait(20)

    first = lane.post(wait)
    assert begun.wait(20), "its thread, and that of its deadline, are there"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        others = [lane.post(one) for _ in range(3)]
        free.set()
        assert [call.result(5) for call in (first, *others)] == [True, [(1,)], [(1,)], [(1,)]]
    assert lane.submit_sync(one) == [(1,)]


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_the_number_of_a_session_that_has_ended_may_be_anybodys(driver: PostgresDriver) -> None:
    notifier, link = driver._notifier, Link(driver.place)
    link.open()
    notifier.opened(link)
    number = link.session
    assert notifier.was_ours(number)
    link.close()
    assert not notifier.was_ours(number)
    link.open()
    notifier.opened(link)
    assert notifier.was_ours(link.session)
    assert number == link.session or not notifier.was_ours(number)
    link.close()
    other = Link(driver.place)
    other.open()
    notifier.opened(other)
    assert link not in notifier._sessions, "what was closed is kept for ever"
    notifier.forget_sessions()  # the server began anew, and this connection has not noticed
    assert not notifier.was_ours(other.session)
    other.close()


def test_a_line_that_is_dying_gets_no_ear(driver: PostgresDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listener, "test_every", 60.0)

    async def play() -> None:
        loop = asyncio.get_running_loop()
        await driver.wait(timeout=0)
        listener = driver._waiting._listener
        assert listener is not None
        async with asyncio.timeout(20):
            while not listener.healthy:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        listener.hear_on(loop)
        assert listener._ear is not None
        listener._stop_overhearing()  # as the ear does that finds the line broken; its thread has not noticed
        listener.hear_on(loop)
        assert listener._ear is None
        listener.healthy = True
        assert listener._link.connection is not None
        listener._link.connection.close()  # at the very last moment
        listener.hear_on(loop)
        assert listener._ear is None
        listener._wake()
        assert await driver.wait(timeout=20), "a claimer that relied on being told should look now"

    asyncio.run(play())


@pytest.mark.parametrize("under_way", [False, True])
def test_those_whose_carrier_was_cancelled_look_what_was_stored(
    driver: PostgresDriver, under_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PATIENCE", 10.0)  # a slow machine makes nobody go alone

    async def play() -> None:
        await driver.enqueue([new()], now=driver.clock.now())
        room = driver._enqueueing._gathering._room()
        calls = [asyncio.ensure_future(driver.enqueue([new(f"call-{n}")], now=driver.clock.now())) for n in range(8)]
        async with asyncio.timeout(20):
            while not room._carriers:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
            if under_way:
                await asyncio.sleep(0)
            for carrier in room._carriers:
                carrier.cancel()
            answers = await asyncio.gather(*calls)
        assert [answer[0].id for answer in answers] == [f"call-{n}" for n in range(8)]
        assert [answer[0].existed for answer in answers] == [False] * 8
        assert all(await driver.get([f"call-{n}" for n in range(8)]))
        assert not room.is_used

    asyncio.run(play())


def test_what_a_sweep_has_stored_is_told_though_a_later_bite_of_it_fails(
    driver: PostgresDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first transaction has brought a job back; those who wait for work must not sleep beside it until they look."""
    told: list[str] = []

    async def play() -> None:
        now = driver.clock.now()
        await driver.enqueue([new("lost")], now=now)
        assert await driver.claim(wish(), now=now)
        monkeypatch.setattr(driver, "_tell_all", lambda: told.append("all"))
        monkeypatch.setattr(dependencies, "SWEPT", 0)  # so that there is a second bite
        monkeypatch.setattr(dependencies, "pay", lambda *_: saying("select 1 / 0"))
        with pytest.raises(InvalidInput):
            await driver.expire(now=now + 2 * LEASE, limit=10)
        [job] = await driver.get(["lost"])
        assert job is not None
        assert (job.state, job.lost) == ("queued", 1)

    asyncio.run(play())
    assert told == ["all"]
