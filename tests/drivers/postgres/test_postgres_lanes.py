"""Kinds of work do not wait for each other, and a deadline ends its own call and no other."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from postgres.calling import LEASE, ack, calls, new, timed, wish
from windlass.core.duties import RollUpUsage
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.wire import Wire
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Renewal
from windlass.records import WorkerInfo

SOON = 1.5
PID = Statement("select pg_backend_pid()", ())


@contextmanager
def held(driver: PostgresDriver, statement: str) -> Iterator[None]:
    """What this locks, stays locked by somebody else."""
    with Link(driver.place).open() as locker, locker.transaction():
        locker.execute(driver.place.text(statement).encode())
        yield


async def elected(driver: PostgresDriver) -> int:
    for name in ("boss", "w"):
        await driver.beat(
            WorkerInfo(
                id=name, hostname="h", pid=1, pool_size=1, version="1", queues=(), types=(), wakeups="push", running=0,
                started_at=1,
            ), now=driver.clock.now(),
        )  # fmt: skip
    led = await driver.lead("boss", lease_for=LEASE, now=driver.clock.now())
    assert led.worker_id == "boss"
    return led.epoch


# ------------------------------------------------------------------------------------------------- leadership and duties


def test_heartbeats_do_not_wait_for_a_leader_that_waits_for_a_duty(driver: PostgresDriver) -> None:
    async def play() -> None:
        await elected(driver)
        await driver.enqueue([new()], now=driver.clock.now())
        [job] = await driver.claim(wish(), now=driver.clock.now())
        with held(driver, "select from windlass.leader for share"):
            renewal = asyncio.create_task(driver.lead("boss", lease_for=LEASE, now=driver.clock.now()))
            await asyncio.sleep(0.1)
            took, answer = await timed(calls(job)["beat"](driver, driver.clock.now()))
            assert answer is None
            assert took < SOON
            took, [extended] = await timed(
                driver.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=driver.clock.now())
            )
            assert extended.answer == "applied"
            assert took < SOON
            assert not renewal.done(), "nothing was slow"
        assert (await renewal).worker_id == "boss"

    asyncio.run(play())


def test_who_cannot_win_asks_for_leadership_without_waiting_for_the_leaders_duty(driver: PostgresDriver) -> None:
    async def play() -> None:
        await elected(driver)
        with held(driver, "select from windlass.leader for share"):
            took, led = await timed(driver.lead("w", lease_for=LEASE, now=driver.clock.now()))
        assert led.worker_id == "boss"
        assert took < SOON

    asyncio.run(play())


def test_enqueueing_and_heartbeats_do_not_wait_for_duties_and_sweeps(driver: PostgresDriver) -> None:
    async def play() -> None:
        epoch, now = await elected(driver), driver.clock.now()
        await driver.enqueue([new()], now=now)
        [job] = await driver.claim(wish(), now=now)
        usage = "select pg_advisory_xact_lock(hashtextextended('windlass.meta usage', 0))"
        with held(driver, usage):
            slow: list[Awaitable[Any]] = [driver.maintain(RollUpUsage(until=now), epoch=epoch, now=now) for _ in range(4)]
            duties = [asyncio.ensure_future(one) for one in [*slow, *(driver.expire(now=now, limit=10) for _ in range(4))]]
            await asyncio.sleep(0.1)
            for name in ("enqueue", "extend", "beat", "alter"):
                took, answer = await timed(calls(job)[name](driver, driver.clock.now()))
                assert not isinstance(answer, Exception)
                assert took < SOON, name
            assert not all(task.done() for task in duties), "nothing was slow"
        await asyncio.gather(*duties)

    asyncio.run(play())


def test_who_neither_leads_nor_sweeps_has_no_connection_for_it(driver: PostgresDriver) -> None:
    async def play() -> None:
        await driver.enqueue([new()], now=driver.clock.now())
        [job] = await driver.claim(wish(), now=driver.clock.now())
        await calls(job)["beat"](driver, driver.clock.now())
        await driver.settle([], now=driver.clock.now())

    asyncio.run(play())
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("windlass-upkeep")]


# ------------------------------------------------------------------------------------------------------------- deadlines


def test_a_deadline_cuts_its_own_call_and_never_the_next_one() -> None:
    """At the moment at which the watch has seen that time is over, the call ends, and another begins on the connection."""
    watch, ended, cut = Watch(), threading.Event(), threading.Event()
    was_over: list[bool] = []

    def end() -> None:
        watch.end(link)
        ended.set()

    class Over(float):
        def __le__(self, now: object) -> bool:
            threading.Thread(target=end).start()
            ended.wait(0.3)
            return True

    class Recorded:
        def abort(self) -> None:
            was_over.append(ended.is_set())
            cut.set()

    link: Any = Recorded()
    watch.begin(link, Over())
    assert cut.wait(5)
    watch.close()
    assert was_over[0] is False, "its call was over"
    assert ended.wait(5)


def test_a_call_that_was_answered_at_the_last_moment_leaves_the_next_a_whole_connection(driver: PostgresDriver) -> None:
    watch = Watch()
    lane = Lane("tried", driver.place, watch)

    def answered_and_cut(link: Link) -> int:
        [(pid,)] = link.execute(PID)
        link.abort()
        return int(pid)

    def op() -> Op[int]:
        [(pid,)] = yield PID
        return int(pid)

    first = lane.submit_sync(answered_and_cut)
    second = lane.submit_sync(lambda link: link.run(op()))  # not to be repeated: a broken connection would be told
    lane.close()
    watch.close()
    assert first != second


def test_a_connection_that_broke_behind_parting_words_is_opened_by_a_thread_of_the_lane(
    driver: PostgresDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find the server's address may take any time, and whoever asked has a deadline."""
    opened, connected = list[threading.Thread](), Link._connected

    def told(link: Link) -> psycopg.Connection[Any]:
        opened.append(threading.current_thread())
        return connected(link)

    monkeypatch.setattr(Link, "_connected", told)
    watch = Watch()
    lane = Lane("tried", driver.place, watch)
    ending = Statement("select pg_terminate_backend(pg_backend_pid())", ())
    first = lane.submit_sync(lambda link: link.execute(PID), parting=lambda _: ending)
    while not lane._free:  # its thread may still be about to say them
        time.sleep(0.001)
    assert lane.submit_sync(lambda link: link.execute(PID)) != first
    assert len(opened) == 2
    assert threading.current_thread() not in opened
    lane.close()
    watch.close()


def test_a_wire_that_was_let_go_of_cuts_nobody() -> None:
    """The number of the file stands for another by then."""
    mine, yours = socket.socketpair()
    wire = Wire(mine.fileno())
    wire.let_go()
    others = [socket.socketpair() for _ in range(4)]
    wire.cut()
    assert not wire.was_cut
    for left, right in [(mine, yours), *others]:
        left.sendall(b"x")
        assert right.recv(1) == b"x"
        left.close()
        right.close()


def test_a_wire_is_cut_whatever_became_of_the_number_it_was_made_from() -> None:
    mine, yours = socket.socketpair()
    wire = Wire(mine.fileno())
    mine.close()
    others = [socket.socketpair() for _ in range(4)]
    wire.cut()
    assert yours.recv(1) == b""
    wire.let_go()
    yours.close()
    for left, right in others:
        left.sendall(b"x")
        assert right.recv(1) == b"x"
        left.close()
        right.close()


def test_a_watch_that_meets_a_mistake_goes_on(driver: PostgresDriver, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch()
    looks: list[float] = []

    class Broken:
        def refuse_overdue(self, now: float) -> None:
            looks.append(now)
            raise KeyError("a mistake")

    watch.add(Broken())  # type: ignore[arg-type]
    lane = Lane("tried", driver.place, watch)
    began = time.monotonic()
    with caplog.at_level(logging.ERROR, "windlass.postgres"), pytest.raises(Exception, match="did not answer in time"):
        lane.submit_sync(lambda link: link.execute(Statement("select pg_sleep(4)", ())), timeout=0.5)
    assert time.monotonic() - began < 3.5
    assert len(looks) > 1
    assert "a mistake" in caplog.text
    lane.close()
    watch.close()


def test_a_session_ends_with_its_link(driver: PostgresDriver) -> None:
    """Although two hold the socket: the library, and whoever may cut it."""
    link = Link(driver.place)
    [(pid,)] = link.execute(PID)
    link.close()
    with psycopg.connect(**driver.place.parameters(), autocommit=True) as connection:
        until = time.monotonic() + 5
        while connection.execute("select from pg_stat_activity where pid = %s", [pid]).fetchone() is not None:
            assert time.monotonic() < until, "it is there still"


# ----------------------------------------------------------------------------------------------------------------- plans


def test_claims_renewals_and_settlements_are_planned_once(driver: PostgresDriver) -> None:
    """Left to itself the server plans a claim anew for the values at hand, which takes twice as long as executing it."""
    planned = Statement("select coalesce(sum(custom_plans), 0), sum(generic_plans) from pg_prepared_statements", ())

    async def main() -> list[tuple[int, int]]:
        for _ in range(8):
            now = driver.clock.now()
            await driver.enqueue([new()], now=now)
            [job] = await driver.claim(wish(1), now=now)
            await driver.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=now)
            assert await driver.settle([ack(job, now)], now=now) == ["applied"]
        lanes = (driver._claims, driver._beats, driver._settles)
        return [(await lane.submit(lambda link: link.execute(planned)))[0] for lane in lanes]

    for custom, generic in asyncio.run(main()):
        assert (custom, generic >= 8) == (0, True)
