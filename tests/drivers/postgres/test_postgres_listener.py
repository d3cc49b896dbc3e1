"""Hearing of new work: tested, replaced when it fails, and never the only way."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from postgres.calling import Line, line, new, wish
from postgres.server import Server
from windlass.drivers.postgres.listening import Ear, Listener

EVERY, WITHIN = 0.5, 0.5
LATE = 1.5


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listener, "test_every", EVERY)
    monkeypatch.setattr(Listener, "test_within", WITHIN)
    monkeypatch.setattr(Listener, "longest_pause", 0.3)


async def until(what: str, look: Callable[[], bool], seconds: float = 10.0) -> float:
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < seconds, f"still waiting until {what}"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def heard(tried: Line) -> Listener:
    await tried.driver.wait(timeout=0)
    listener = tried.driver._waiting._listener
    assert listener is not None
    await until("it listens", lambda: listener.healthy)
    while await tried.driver.wait(timeout=0):
        pass
    return listener


def tells(tried: Line) -> str:
    return tried.driver.capabilities.wakeups


def listening(tried: Line) -> int:
    rows = tried.server.execute("select query from pg_stat_activity where state = 'idle'")
    return sum(tried.schema in query and query.startswith("listen") for (query,) in rows)


def test_a_line_that_carries_nothing_is_noticed_and_replaced(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        listener = await heard(tried)
        assert tells(tried) == "push"
        tried.proxy.blackhole()
        took = await until("it is noticed", lambda: not listener.healthy)
        assert took <= EVERY + WITHIN + LATE
        assert tells(tried) == "poll"
        tried.proxy.heal()
        await until("it listens again", lambda: listener.healthy)
        while await tried.driver.wait(timeout=0):
            pass
        waiting = asyncio.create_task(tried.driver.wait(timeout=5))
        await asyncio.sleep(0.05)
        await tried.direct.enqueue([new()], now=tried.now())
        began = time.monotonic()
        assert await waiting
        assert time.monotonic() - began < 4, "it was not told"
        assert listening(tried) == 1, "the old session listens on"

    with line(postgres_server) as tried:
        asyncio.run(play(tried))


@pytest.mark.parametrize("fault", ["cut", "terminated"])
def test_what_came_while_nobody_listened_is_found(postgres_server: Server, fault: str) -> None:
    async def play(tried: Line) -> None:
        listener = await heard(tried)
        waiting = asyncio.create_task(tried.driver.wait(timeout=10))
        await asyncio.sleep(0.05)
        if fault == "cut":
            tried.proxy.reset()
        else:
            tried.proxy.refuse()
            tried.server.execute("select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'")
        await until("nobody listens", lambda: not listener.healthy)
        await tried.direct.enqueue([new()], now=tried.now())
        await asyncio.sleep(0.2)
        tried.proxy.heal()
        assert await waiting, "nobody was woken"
        assert len(await tried.driver.claim(wish(), now=tried.now())) == 1
        await until("it listens again", lambda: listener.healthy)

    with line(postgres_server) as tried:
        asyncio.run(play(tried))


def test_while_nobody_can_tell_one_looks(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener never gets through; work is found nevertheless, and waiting ends when it was to end."""
    monkeypatch.setattr(Listener, "_listen", lambda self: (_ for _ in ()).throw(OSError("no way")))

    async def play(tried: Line) -> None:
        while await tried.driver.wait(timeout=0.1):
            pass
        began = time.monotonic()
        assert not await tried.driver.wait(timeout=0.3) or time.monotonic() - began < 0.3
        await tried.direct.enqueue([new()], now=tried.now())
        began = time.monotonic()
        while not await tried.driver.claim(wish(), now=tried.now()):
            await tried.driver.wait(timeout=5)
        assert time.monotonic() - began < 4

    with line(postgres_server) as tried:
        asyncio.run(play(tried))


def test_waiting_ends_when_it_was_to_end_also_in_a_black_hole(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        tried.proxy.blackhole()
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            await tried.driver.wait(timeout=0.3)
        assert time.monotonic() - began < 0.5 + 0.3 + LATE

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_a_stream_of_news_does_not_wear_out_the_line_that_tells(postgres_server: Server) -> None:
    """Its deadline is that of one statement, not of the stream."""

    async def play(tried: Line) -> None:
        notifier = tried.driver._notifier
        notifier.notify({"a"})
        await until("it has told", lambda: notifier._sessions != {})
        backends, began = set[int](), time.monotonic()
        while time.monotonic() - began < 1.5:
            notifier.notify({"a"})
            backends.update(notifier._sessions.values())
            await asyncio.sleep(0.002)
        assert len(backends) == 1, "it had to connect again"

    with line(postgres_server, timeout=0.5) as tried:
        asyncio.run(play(tried))


def test_news_that_was_refused_its_turn_silences_nothing_that_comes_later(postgres_server: Server) -> None:
    """The line that tells is busy for longer than a call may wait."""

    async def play(tried: Line) -> None:
        driver, free = tried.driver, threading.Event()
        driver._tells.post(lambda link: free.wait(20))
        driver._notifier.notify({"a"})
        await asyncio.sleep(1.2)
        free.set()
        driver._notifier.notify({"b"})
        await until("it has told", lambda: driver._notifier._sessions != {})

    with line(postgres_server, timeout=0.5) as tried:
        asyncio.run(play(tried))


def test_a_listener_that_meets_a_mistake_looks_meanwhile_and_listens_again(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mistakes = [KeyError("a mistake")]
    usual = Listener._on_message

    def on_message(self: Listener, backend: int, text: str) -> None:
        if mistakes:
            raise mistakes.pop()
        usual(self, backend, text)

    async def play(tried: Line) -> None:
        listener = await heard(tried)
        assert not mistakes
        assert listener._thread.is_alive()
        assert tells(tried) == "push"

    monkeypatch.setattr(Listener, "_on_message", on_message)
    with caplog.at_level(logging.ERROR, "windlass.postgres"), line(postgres_server) as tried:
        asyncio.run(play(tried))
    assert "a mistake" in caplog.text


@contextmanager
def many_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard != resource.RLIM_INFINITY else 4096, hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        yield
    finally:
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_program_with_many_open_files_is_told_of_new_work(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        listener: Any = await heard(tried)
        assert listener._wake_in > 1024
        waiting = asyncio.create_task(tried.driver.wait(timeout=5))
        await asyncio.sleep(0.05)
        await tried.direct.enqueue([new()], now=tried.now())
        assert await waiting

    with many_open_files(), line(postgres_server) as tried:
        asyncio.run(play(tried))


# ------------------------------------------------------------------------------------------------ on the waiter's own loop


async def heard_soon(tried: Line) -> bool:
    await tried.driver.wait(timeout=0.1)
    told = asyncio.create_task(tried.driver.wait(timeout=5))
    await asyncio.sleep(0.05)
    await tried.direct.enqueue([new()], now=tried.now())
    return await told


def ear_of(tried: Line) -> Ear | None:
    listener = tried.driver._waiting._listener
    return None if listener is None else listener._ear


def test_the_event_loop_that_waits_hears_by_itself(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []
    read = Listener._read

    def noted(listener: Listener) -> None:
        readers.append(threading.current_thread())
        read(listener)

    monkeypatch.setattr(Listener, "_read", noted)

    async def play(tried: Line) -> None:
        await tried.driver.wait(timeout=0.1)
        await until("it hears", lambda: tried.driver._waiting.mode.startswith("push"))
        readers.clear()
        assert await heard_soon(tried)
        assert threading.current_thread() in readers

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_the_next_event_loop_hears_when_the_first_has_ended(postgres_server: Server) -> None:
    async def ready(tried: Line) -> None:
        await tried.driver.wait(timeout=0.1)
        await until("it hears", lambda: tried.driver._waiting.mode.startswith("push"))

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(ready(tried))
        for _ in range(3):
            assert asyncio.run(heard_soon(tried))


def test_an_ear_on_a_line_that_broke_is_taken_away(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        await tried.driver.wait(timeout=0.1)
        await until("it hears", lambda: tried.driver._waiting.mode.startswith("push"))
        assert await heard_soon(tried)
        before = ear_of(tried)
        assert before is not None
        tried.proxy.cut()
        await until("it is deaf", lambda: ear_of(tried) is not before)
        await until("it hears again", lambda: tried.driver._waiting.mode.startswith("push"))
        assert await heard_soon(tried)
        after = ear_of(tried)
        assert after is not None
        assert after is not before

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(play(tried))


def test_a_loop_that_is_busy_does_not_make_the_line_look_dead(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listener, "test_every", 0.1)
    monkeypatch.setattr(Listener, "test_within", 0.4)

    async def play(tried: Line) -> None:
        await tried.driver.wait(timeout=0.1)
        await until("it hears", lambda: tried.driver._waiting.mode.startswith("push"))
        assert await heard_soon(tried)
        before = ear_of(tried)
        time.sleep(1.5)  # noqa: ASYNC251 - that is the point
        assert ear_of(tried) is before
        assert tried.driver._waiting.mode.startswith("push")

    with line(postgres_server, timeout=5) as tried:
        asyncio.run(play(tried))
