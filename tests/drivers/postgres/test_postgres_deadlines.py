"""Every call on PostgreSQL ends in time, whatever the server and the network do, and the event loop runs on meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from postgres.calling import LEASE, TIMEOUT, Lag, Line, Machine, ack, calls, line, new, retry, timed, wish
from postgres.server import Server
from windlass.clock import SECOND
from windlass.drivers.postgres import PostgresDriver, opening
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.link import Link
from windlass.drivers.values import Renewal
from windlass.errors import OutcomeUnknown, StoreError, StoreUnreachable

LATE = 1.5
SLUGGISH = 0.8 * TIMEOUT  # a loop that waits for a call stands still until the call is cut
READS = {"get", "runs", "find", "count", "waiting_types", "read", "examine"}


@contextmanager
def black_hole(tried: Line) -> Iterator[None]:
    tried.proxy.blackhole()
    yield
    tried.proxy.heal()


@contextmanager
def half_an_answer(tried: Line) -> Iterator[None]:
    tried.proxy.falter()
    yield
    assert tried.proxy.counts["faltered"] >= 4
    tried.proxy.heal()


@contextmanager
def stopped_sessions(tried: Line) -> Iterator[None]:
    pids = [
        pid for (pid,) in tried.server.execute(
            "select pid from pg_stat_activity where application_name = 'windlass' and backend_type = 'client backend'"
        )
    ]  # fmt: skip
    assert len(pids) >= 4
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def stopped_postmaster(tried: Line) -> Iterator[None]:
    """Sessions that exist go on; a new one is accepted by the kernel and never greeted."""
    tried.proxy.cut()
    os.kill(tried.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(tried.server.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """These tests stop its processes."""
    with Server(options={"max_connections": 200}) as server:
        yield server


@pytest.mark.parametrize("fault", [black_hole, half_an_answer, stopped_sessions, stopped_postmaster])
def test_every_call_ends_in_time_and_works_again_afterwards(server: Server, fault: Callable[[Line], Any]) -> None:
    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        every = calls(job)
        for call in every.values():  # every lane has a connection, every statement is prepared
            await timed(call(tried.driver, tried.now()))
        with fault(tried), Machine() as machine:
            async with Lag() as lag:
                told = await asyncio.gather(*(timed(call(tried.driver, tried.now())) for call in every.values()))
        for name, (took, answer) in zip(every, told, strict=True):
            assert took <= TIMEOUT + LATE, f"{name} took {took:.2f} s"
            if name != "wait" and fault is not stopped_sessions:  # there, a new session works
                assert isinstance(answer, StoreUnreachable if name in READS else StoreError), f"{name}: {answer!r}"
        assert lag.longest - machine.longest < SLUGGISH, "the machine kept nobody else from going on"
        for name, call in every.items():
            _, answer = await timed(call(tried.driver, tried.now()))
            assert not isinstance(answer, StoreError), f"{name} afterwards: {answer!r}"

    with line(server) as tried:
        asyncio.run(play(tried))


def test_closing_ends_in_time_in_a_black_hole(server: Server) -> None:
    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        await tried.driver.wait(timeout=0)
        tried.proxy.blackhole()
        busy = [asyncio.create_task(timed(call(tried.driver, tried.now()))) for call in calls(job).values()]
        await asyncio.sleep(0.1)
        took, answer = await timed(tried.driver.close())
        assert answer is None
        assert took <= TIMEOUT + LATE
        await asyncio.gather(*busy)

    with line(server) as tried:
        asyncio.run(play(tried))


def test_opening_a_store_ends_in_time(server: Server) -> None:
    with line(server) as tried:
        tried.proxy.blackhole()
        began = time.monotonic()
        with pytest.raises(StoreUnreachable):
            PostgresDriver(tried.proxy.dsn(), schema=tried.schema, timeout=0.5)
        assert time.monotonic() - began <= 2 * 0.5 + LATE


def test_heartbeats_do_not_wait_for_a_slow_settlement_or_enqueue(server: Server) -> None:
    async def play(tried: Line) -> None:
        first, second = await tried.claimed(2)
        await tried.driver.extend([Renewal(second.handle, second.token)], lease_for=LEASE, now=tried.now())
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{first.id}' for update".encode())
            locker.execute(f"lock table {tried.schema}.queues in access exclusive mode".encode())
            slow = [
                asyncio.create_task(timed(tried.driver.settle([ack(first, tried.now())], now=tried.now()))),
                *(asyncio.create_task(timed(tried.driver.enqueue([new()], now=tried.now()))) for _ in range(6)),
            ]
            await asyncio.sleep(0.2)
            took, [answer] = await timed(
                tried.driver.extend([Renewal(second.handle, second.token)], lease_for=LEASE, now=tried.now())
            )
            assert answer.answer == "applied"
            assert took < LATE
            assert not any(task.done() for task in slow), "nothing was slow"
        assert not any(isinstance(answer, Exception) for _, answer in await asyncio.gather(*slow))

    with line(server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_nothing_else_on_the_line_of_heartbeats_makes_a_short_lease_late(server: Server) -> None:
    """A look at the clock and the registry share it, and are no more patient than the leases are."""

    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        every = calls(job)
        renewal = [Renewal(job.handle, job.token)]
        await tried.driver.extend(renewal, lease_for=3 * SECOND // 2, now=tried.now())
        tried.proxy.blackhole()
        tried.driver.remeasure()
        beat = asyncio.create_task(timed(every["beat"](tried.driver, tried.now())))
        took, answer = await timed(tried.driver.extend(renewal, lease_for=3 * SECOND // 2, now=tried.now()))
        assert isinstance(answer, StoreError)
        assert took <= 0.5 + LATE
        took, _ = await beat
        assert took <= 0.5 + LATE

    with line(server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_a_slow_enqueue_does_not_hold_up_the_next_one(server: Server) -> None:
    """Two that come in the same instant get a connection each, although one connection was idle."""

    async def play(tried: Line) -> None:
        await tried.driver.enqueue([new()], now=tried.now())
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(
                f"insert into {tried.schema}.idempotency_keys (scope, key, job_id) values ('s', 'k', 'x')".encode()
            )
            keyed = new(idempotency_key="k", idempotency_scope="s")
            blocked = asyncio.create_task(timed(tried.driver.enqueue([keyed], now=tried.now())))
            free = asyncio.create_task(timed(tried.driver.enqueue([new()], now=tried.now())))
            took, answer = await free
            assert not isinstance(answer, Exception)
            assert took < LATE
            assert not blocked.done()
        await blocked

    with line(server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_a_name_that_is_not_resolved_in_time_makes_nobody_late(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can interrupt a look at the names of hosts: who waits is answered nevertheless, also those behind it."""
    resolved = threading.Event()

    async def play(tried: Line) -> None:
        tried.proxy.cut()
        monkeypatch.setattr(opening, "_resolved", lambda host, port: resolved.wait(20) and ["127.0.0.1"])
        told = await asyncio.gather(*(timed(tried.driver.claim(wish(), now=tried.now())) for _ in range(3)))
        for took, answer in told:
            assert took <= TIMEOUT + LATE
            assert isinstance(answer, StoreUnreachable)
        resolved.set()
        await tried.driver.claim(wish(), now=tried.now())

    with line(server) as tried:
        asyncio.run(play(tried))


def test_what_may_have_been_stored_is_never_called_unstored(server: Server) -> None:
    """The reply was lost, and then nobody could be asked any more."""

    async def play(tried: Line) -> None:
        job = new()
        trap = tried.proxy.trap(rb"insert into", then="silence")
        enqueue = asyncio.create_task(timed(tried.driver.enqueue([job], now=tried.now())))
        assert await asyncio.to_thread(trap.sprung.wait, 10)
        tried.proxy.reset()
        took, answer = await enqueue
        assert isinstance(answer, OutcomeUnknown)
        assert took <= TIMEOUT + LATE
        [stored] = await tried.direct.get([job.id])
        assert stored is not None

    with line(server) as tried:
        asyncio.run(play(tried))


def test_reconnecting_goes_on_for_ever_and_is_spread(server: Server) -> None:
    async def play(tried: Line) -> None:
        await tried.driver.claim(wish(), now=tried.now())
        tried.proxy.reset()
        before = tried.proxy.counts["accepted"]
        for _ in range(2):
            _, answer = await timed(tried.driver.claim(wish(), now=tried.now()))
            assert isinstance(answer, StoreError)
        tries = tried.proxy.counts["accepted"] - before
        assert 6 <= tries <= 40, "it hammers the server, or waits too long"
        tried.proxy.heal()
        assert await tried.driver.claim(wish(), now=tried.now()) == []

    with line(server) as tried:
        asyncio.run(play(tried))


def test_the_watch_survives_calls_that_end_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are told without a lock, at any moment."""
    died: list[object] = []
    monkeypatch.setattr(threading, "excepthook", died.append)

    class Restless:
        def __init__(self, watch: Watch) -> None:
            self.watch = watch

        def __gt__(self, now: float) -> bool:  # asked in the middle of a look
            return False

        def __le__(self, now: float) -> bool:
            self.watch.end(links[0])
            self.watch.begin(links[0], 1e12)
            self.watch.end(links[1])
            links.reverse()
            looked.set()
            return False

    looked, watch = threading.Event(), Watch()
    links: list[Any] = [object(), object(), object()]
    for link in links:
        watch._until[link] = Restless(watch)  # type: ignore[assignment]
    watch.begin(object(), 1e12)  # type: ignore[arg-type]
    assert looked.wait(5)
    time.sleep(0.2)
    assert died == []
    assert watch._thread is not None
    assert watch._thread.is_alive()
    watch.close()


def test_who_was_cut_off_within_a_transaction_holds_no_locks_for_longer_than_a_call_may_last(server: Server) -> None:
    """The server does not see the client leave. The session is of no use to anybody after the deadline, so it ends then."""

    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        trap = tried.proxy.trap(rb"update \S*jobs", when="before", then="silence")
        change, now = retry(job, tried.now()), tried.now()
        cut_off = asyncio.create_task(timed(tried.driver.settle([change], now=now)))
        assert await asyncio.to_thread(trap.sprung.wait, 10)
        tried.proxy.blackhole()
        took, answers = await timed(tried.direct.settle([change], now=now))
        assert answers == ["applied"]
        assert 0.2 < took < TIMEOUT + 2 * LATE, "nothing was in its way, or for too long"
        await cut_off

    with line(server) as tried:
        asyncio.run(play(tried))
