"""A short call on an event loop needs no thread; whatever goes wrong with it goes the long way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from postgres.calling import new, wish
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.calls import Call
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Exchange, Link
from windlass.drivers.statement import Op, Statement
from windlass.errors import InvalidInput, OutcomeUnknown, StoreUnreachable, WindlassError

PID = Statement("select pg_backend_pid()", ())


@pytest.fixture
def lane(driver: PostgresDriver) -> Iterator[Lane]:
    """With one connection, which is open."""
    watch = Watch()
    lane = Lane("tried", driver.place, watch)
    lane.submit_sync(lambda link: link.execute(PID))
    asyncio.run(until_free(lane))
    yield lane
    lane.close()
    watch.close()


async def until_free(lane: Lane) -> None:
    """A connection is given back after the answer."""
    while not lane._free:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.001)


def never(link: Link) -> Any:
    raise AssertionError("it was not quick")


def never_by_a_thread(call: Call[Any], link: Link) -> None:
    call.refuse(AssertionError("it was not quick"))


def nothing_to_say(answer: Any) -> Statement:
    raise AssertionError("it has failed")


def saying(text: str, *params: Any) -> Op[list[Any]]:
    return (yield Statement(text, params))


async def fly(lane: Lane, text: str, *params: Any) -> Any:
    return await lane.submit(never, quick=lambda: saying(text, *params))


def test_a_short_call_is_made_on_the_event_loop(lane: Lane) -> None:
    threads: list[threading.Thread] = []

    def op() -> Op[int]:
        threads.append(threading.current_thread())
        [(one,)] = yield Statement("select 1", ())
        [(two,)] = yield Statement("select $1::bigint + 1", (one,))
        threads.append(threading.current_thread())
        return int(two)

    assert asyncio.run(lane.submit(never, quick=op)) == 2
    assert set(threads) == {threading.current_thread()}


def test_what_is_not_done_quickly_is_done_by_a_thread(lane: Lane) -> None:
    def op() -> Op[int | None]:
        yield Statement("select 1", ())
        return None

    assert asyncio.run(lane.submit(lambda link: 7, quick=op)) == 7


def test_more_than_fits_into_the_network_at_once_arrives(lane: Lane) -> None:
    [(length,)] = asyncio.run(fly(lane, "select length($1::text)", "x" * 20_000_000))
    assert length == 20_000_000


def test_two_at_once_share_one_connection_in_turn(lane: Lane) -> None:
    async def play() -> tuple[Any, Any]:
        slow = asyncio.create_task(fly(lane, "select pg_backend_pid(), pg_sleep(0.2)"))
        await asyncio.sleep(0.05)
        [(second,)] = await lane.submit(lambda link: link.execute(PID), quick=lambda: saying("select 0"))
        [(first, _)] = await slow
        return first, second

    first, second = asyncio.run(play())
    assert first == second


def test_all_that_wait_behind_a_flight_are_served(lane: Lane) -> None:
    async def play() -> None:
        slow = asyncio.create_task(fly(lane, "select pg_sleep(0.2)"))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(5):
            for _ in range(2):
                calls = [lane.submit(lambda link: link.execute(PID), quick=lambda: saying("select 0")) for _ in range(9)]
                await asyncio.gather(*calls)
        await slow

    asyncio.run(play())


def test_an_error_reaches_the_operation_and_then_whoever_asked(lane: Lane) -> None:
    caught: list[BaseException] = []

    def op() -> Op[int]:
        try:
            yield Statement("select 1 / 0", ())
        except Exception as error:
            caught.append(error)
            raise
        return 0

    with pytest.raises(WindlassError, match="division by zero"):
        asyncio.run(lane.submit(never, quick=op))
    assert len(caught) == 1
    assert asyncio.run(fly(lane, "select 1")) == [(1,)], "the connection is as good as before"


def test_what_cannot_be_written_down_is_refused_before_it_is_sent(lane: Lane) -> None:
    with pytest.raises(InvalidInput):
        asyncio.run(fly(lane, "select $1::text", "\ud800"))
    assert asyncio.run(fly(lane, "select 1")) == [(1,)]


def test_who_is_cancelled_leaves_the_connection_to_the_next_one(lane: Lane) -> None:
    async def play() -> None:
        asked = asyncio.create_task(fly(lane, "select pg_sleep(0.2)"))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await lane.submit(lambda link: link.execute(Statement("select 1", ()))) == [(1,)]

    asyncio.run(play())


def test_what_flew_on_an_event_loop_that_ended_comes_back(lane: Lane) -> None:
    async def leave() -> None:
        asked = asyncio.create_task(fly(lane, "select pg_sleep(30)"))
        await asyncio.sleep(0.05)
        asked.cancel()

    asyncio.run(leave())
    began = time.monotonic()
    assert lane.submit_sync(lambda link: link.execute(Statement("select 1", ()))) == [(1,)]
    assert time.monotonic() - began < 8


def test_closing_waits_for_what_is_in_flight(driver: PostgresDriver) -> None:
    async def play() -> Any:
        watch = Watch()
        lane = Lane("tried", driver.place, watch)
        await lane.submit(lambda link: link.execute(PID))
        await until_free(lane)
        asked = asyncio.create_task(fly(lane, "select pg_sleep(0.3)"))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(lane.close)
        assert asked.done()
        watch.close()
        return await asked

    assert len(asyncio.run(play())) == 1


def test_a_deadline_ends_a_flight(lane: Lane) -> None:
    def sleep() -> Op[Any]:
        return saying("select pg_sleep(30)")

    async def play() -> None:
        began = time.monotonic()
        with pytest.raises((StoreUnreachable, OutcomeUnknown)):
            await lane.submit(lambda link: link.read(sleep()), timeout=0.3, quick=sleep)
        assert time.monotonic() - began < 8

    asyncio.run(play())


def test_blocking_code_uses_a_free_connection_in_its_own_thread(lane: Lane) -> None:
    assert lane.submit_sync(lambda link: threading.current_thread()) is threading.current_thread()


def test_blocking_code_never_opens_a_connection_itself(driver: PostgresDriver) -> None:
    """That may hang where nothing can end it: while a name is looked up, say."""
    watch = Watch()
    lane = Lane("tried", driver.place, watch)
    assert lane.submit_sync(lambda link: threading.current_thread()) is not threading.current_thread()
    lane.close()
    watch.close()


# --------------------------------------------------------------------------------------------------------- parting words


@pytest.mark.parametrize("way", ["flight", "thread", "blocking"])
def test_parting_words_are_said_on_the_same_connection_after_the_answer(lane: Lane, way: str) -> None:
    said = threading.Event()

    def parting(answer: Any) -> Statement:
        [(pid,)] = answer
        said.set()
        return Statement("select set_config('parting.words', $1, false)", (str(pid),))

    async def play() -> tuple[Any, Any]:
        if way == "blocking":
            answer = lane.submit_sync(lambda link: link.execute(PID), parting=parting)
        else:
            quick = (lambda: saying(PID.sql)) if way == "flight" else None
            answer = await lane.submit(lambda link: link.execute(PID), quick=quick, parting=parting)
        heard = Statement("select current_setting('parting.words')::bigint", ())
        return answer, await lane.submit(lambda link: link.execute(heard))

    answer, heard = asyncio.run(play())
    assert said.is_set()
    assert heard == answer


@pytest.mark.parametrize("way", ["flight", "thread", "blocking"])
def test_parting_words_that_fail_are_nobodys_failure(lane: Lane, way: str) -> None:
    def parting(answer: Any) -> Statement:
        return Statement("select 1 / 0", ())

    async def play() -> Any:
        quick = (lambda: saying("select 5")) if way == "flight" else None
        return await lane.submit(lambda link: link.execute(Statement("select 5", ())), quick=quick, parting=parting)

    for _ in range(3):
        if way == "blocking":
            assert lane.submit_sync(lambda link: link.execute(Statement("select 5", ())), parting=parting) == [(5,)]
        else:
            assert asyncio.run(play()) == [(5,)]


def test_a_call_that_failed_has_nothing_to_say_in_parting(lane: Lane) -> None:
    with pytest.raises(WindlassError):
        asyncio.run(lane.submit(never, quick=lambda: saying("select 1 / 0"), parting=nothing_to_say))
    with pytest.raises(WindlassError):
        lane.submit_sync(lambda link: link.execute(Statement("select 1 / 0", ())), parting=nothing_to_say)


# --------------------------------------------------------------------------------------------------------- in the driver


def test_enqueues_and_claims_fly_once_their_connections_are_open(
    driver: PostgresDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        for _ in range(2):
            await driver.enqueue([new()], now=driver.clock.now())
            assert len(await driver.claim(wish(), now=driver.clock.now())) == 1
        for lane in (driver._writes, driver._claims):
            await until_free(lane)
            monkeypatch.setattr(lane, "_answer", never_by_a_thread)
        [made] = await driver.enqueue([new()], now=driver.clock.now())
        [job] = await driver.claim(wish(), now=driver.clock.now())
        assert job.id == made.id
        assert await driver.claim(wish(), now=driver.clock.now()) == []
        monkeypatch.undo()

    asyncio.run(play())


def test_an_id_that_is_used_is_refused_in_flight_too(driver: PostgresDriver) -> None:
    async def play() -> None:
        for _ in range(2):
            job = new()
            await driver.enqueue([job], now=driver.clock.now())
            with pytest.raises(WindlassError, match=job.id):
                await driver.enqueue([job], now=driver.clock.now())

    asyncio.run(play())


# ------------------------------------------------------------------------------------------------- mistakes cost no link


def test_an_answer_that_cannot_be_read_ends_its_own_call_only(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(exchange: Exchange) -> list[Any]:
        raise ValueError("no such value")

    with monkeypatch.context() as patched:
        patched.setattr(Exchange, "rows", unreadable)
        with pytest.raises(WindlassError, match="no such value"):
            asyncio.run(fly(lane, "select 1"))
    assert asyncio.run(fly(lane, "select 1")) == [(1,)]


def test_a_connection_that_went_between_two_statements_is_told_to_the_operation(lane: Lane) -> None:
    def op() -> Op[list[Any]]:
        yield Statement("select 1", ())
        lane_link.close()
        return (yield Statement("select 2", ()))

    [lane_link] = lane._free
    with pytest.raises(WindlassError):
        asyncio.run(lane.submit(never, quick=op))
    assert lane.submit_sync(lambda link: link.execute(Statement("select 1", ()))) == [(1,)]


@pytest.mark.parametrize("way", ["flight", "thread", "blocking"])
def test_a_mistake_in_what_is_said_in_parting_is_logged_and_nothing_more(
    lane: Lane, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def parting(answer: Any) -> Statement:
        raise RuntimeError("a mistake of ours")

    async def play() -> Any:
        quick = (lambda: saying("select 5")) if way == "flight" else None
        return await lane.submit(lambda link: link.execute(Statement("select 5", ())), quick=quick, parting=parting)

    for _ in range(2):
        if way == "blocking":
            assert lane.submit_sync(lambda link: link.execute(Statement("select 5", ())), parting=parting) == [(5,)]
        else:
            assert asyncio.run(play()) == [(5,)]
    asyncio.run(until_free(lane))
    assert "a mistake of ours" in caplog.text
    caplog.clear()


def test_a_blocking_caller_that_is_interrupted_gives_its_connection_back(lane: Lane) -> None:
    def interrupted(link: Link) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lane.submit_sync(interrupted, parting=nothing_to_say)
    assert lane.submit_sync(lambda link: threading.current_thread()) is threading.current_thread()


def test_a_blocking_caller_leaves_a_broken_connection_to_a_thread(lane: Lane) -> None:
    tries: list[bool] = []

    def work(link: Link) -> int:
        tries.append(threading.current_thread() is threading.main_thread())
        if len(tries) == 1:
            link.close()
            raise psycopg.OperationalError("the connection is lost")
        return len(link.execute(PID))

    assert lane.submit_sync(work) == 1
    assert tries == [True, False]


def test_what_may_be_stored_is_not_told_as_closed(lane: Lane) -> None:
    def op() -> Op[Any]:
        yield Statement("select 1", ())
        lane._closed = True
        link.close()
        raise psycopg.OperationalError("the connection is lost")

    [link] = lane._free
    with pytest.raises(OutcomeUnknown):
        asyncio.run(lane.submit(never, never, quick=op))
    lane._closed = False


def test_closing_does_not_wait_for_parting_words_that_nobody_hears(driver: PostgresDriver) -> None:
    watch = Watch()
    lane = Lane("tried", driver.place, watch)
    lane.submit_sync(lambda link: link.execute(PID))
    asyncio.run(until_free(lane))

    def parting(answer: Any) -> Statement:
        lane._closed = True
        return Statement("select 1", ())

    lane.submit_sync(lambda link: link.execute(PID), parting=parting)
    began = time.monotonic()
    lane.close()
    watch.close()
    assert time.monotonic() - began < 8
