"""Hearing of new work.

Hearing is tested: every few seconds a message goes out on the connection that tells, and must come in on the one that
listens. One that looks open but carries nothing is thus noticed, and so is a pooler that gives what we hear to others (it
passes on what a client says to itself). Until it works, waiters look for themselves.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from random import Random
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.faults import Overdue, said
from windlass.drivers.postgres.lane import FIRST_PAUSE
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import CONNECT_TIMEOUT, Place
from windlass.drivers.postgres.wakeups import PING, Notifier, log

TEST_EVERY: Final = 10.0
TEST_WITHIN: Final = 3.0
LATE: Final = 0.5
LONGEST_PAUSE: Final = 5.0
EXPECTED: Final = (psycopg.Error, Overdue, OSError)


def _readable(fds: Sequence[int], within: float) -> list[int]:
    """Those from which there is something to read, or to know of them: waits for any. Not by `select`, which knows no
    numbers from 1024 on."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(math.ceil(within * 1000))]


class Ear:
    """The same line, for an event loop to hear of what comes: it spares the way through the listener's thread. It has its
    own number of the line, because only its loop may let go of that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fileno: int, heard: Callable[[], None]) -> None:
        self.loop = loop
        self._fd = os.dup(fileno)
        loop.add_reader(self._fd, heard)

    def close(self) -> None:
        """From any thread."""
        try:
            self.loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # the loop is closed
            os.close(self._fd)

    def _close(self) -> None:
        self.loop.remove_reader(self._fd)
        os.close(self._fd)


class Listener:
    test_every = TEST_EVERY
    test_within = TEST_WITHIN
    longest_pause = LONGEST_PAUSE

    def __init__(self, place: Place, watch: Watch, tell: Callable[[], None], notifier: Notifier) -> None:
        self._place = place
        self._watch = watch
        self._tell = tell
        self._notifier = notifier
        self._link = Link(place)
        self._random = Random()  # noqa: S311 - spreads reconnections, nothing more
        self._closing = threading.Event()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._lock = threading.Lock()  # for reading what came
        self._ear: Ear | None = None
        self._asked_at: float | None = None
        self._test = 0
        self._name = secrets.token_hex(4)
        self._warned = False
        self.healthy = False
        self.settled = False  # whether the first test has ended, well or not: both are told, so one may wait for it
        self.latency: float | None = None  # of the last test, in seconds
        self._thread = threading.Thread(target=self._run, name="windlass-listener", daemon=True)
        self._thread.start()

    def hear_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called on that loop, whenever somebody there begins to wait."""
        if self._ear is not None and self._ear.loop is loop:
            return
        with self._lock, suppress(psycopg.Error, OSError):  # the line is gone at this moment
            ear, connection = self._ear, self._link.connection
            if not self.healthy or connection is None:
                return
            self._ear = None
            if ear is not None:
                ear.close()
            self._ear = Ear(loop, connection.fileno(), self._overhear)
        self._wake()

    def _overhear(self) -> None:
        try:
            self._read()
        except psycopg.Error:
            self._stop_overhearing()  # the thread meets the same, and knows what to do
            self._wake()

    def _stop_overhearing(self) -> None:
        with self._lock:
            self.healthy = False
            ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    def _wake(self) -> None:
        with suppress(OSError):  # so full that it is awake, or closed
            os.write(self._wake_out, b"x")

    def close(self) -> None:
        self._closing.set()
        self._wake()
        self._link.abort()
        self._thread.join()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            try:
                self._listen()
                pause = FIRST_PAUSE
                while not self._closing.is_set():
                    self._hear(ticking() + self.test_every)
                    self._test_line()
            except Exception as error:
                if not isinstance(error, EXPECTED):  # a mistake of ours, but no reason to be deaf from now on
                    log.exception("listening for new work has failed; beginning anew")
                self._unheard(error)
                self._closing.wait(pause * (0.5 + self._random.random() / 2))
                pause = min(pause * 2, self.longest_pause)
        self._stop_overhearing()
        self._link.give_up()

    def _unheard(self, error: BaseException) -> None:
        if not self._warned and not self._closing.is_set():
            log.warning("%s: new work is not heard of (%s); looking for it instead", self._place, said(error))
            self._warned = True
        self.healthy, self.settled = False, True
        self._stop_overhearing()
        self._notifier.forget_sessions()
        self._link.close()
        self._tell()  # a claimer that relied on being told should look now

    def _listen(self) -> None:
        with self._within(self.test_within + CONNECT_TIMEOUT):
            connection = self._link.open()
            connection.add_notify_handler(lambda message: self._on_message(message.pid, message.payload))
            connection.execute(f'listen "{self._place.channel}"'.encode(), prepare=False)
        self._test_line()
        self._tell()  # what was committed before we listened, nobody told us of

    def _test_line(self) -> None:
        """Say something to ourselves and wait for it."""
        if self._closing.is_set():
            return
        self._test += 1
        self._asked_at = asked_at = ticking()
        self._notifier.ping(self._ping, self.test_within)
        with self._within(self.test_within + LATE):
            self._hear(asked_at + self.test_within, answered=self._answered)
        if not self._answered():
            if not self._closing.is_set():
                raise Overdue('no message of ours came back; if a pooler is in the way, say pooler="transaction"')
            return
        self.healthy, self.settled, self._warned = True, True, False

    def _answered(self) -> bool:
        return self._asked_at is None

    @property
    def _ping(self) -> str:
        return f"{PING}{self._name}.{self._test}"

    def _hear(self, until: float, answered: Callable[[], bool] | None = None) -> None:
        """Messages, until that moment or until the answer is among them. While an event loop hears them too, it is left to
        it; but a loop may be busy, so that for an answer one does not rely on it."""
        connection = self._link.connection
        if connection is None or connection.closed:
            raise Overdue("the connection is gone")
        while not (answered and answered()) and (left := until - ticking()) > 0 and not self._closing.is_set():
            ear = self._ear
            apart = answered is None and ear is not None and not ear.loop.is_closed()
            ready = _readable([self._wake_in] if apart else [self._wake_in, connection.fileno()], within=left)
            if self._wake_in in ready:
                os.read(self._wake_in, 64)
            if len(ready) > (self._wake_in in ready):
                self._read()

    def _read(self) -> None:
        """Whatever has come. Twice at once is once too often, but from two threads in turn is well."""
        messages = []
        with self._lock:
            connection = self._link.connection
            if connection is not None and not connection.closed:
                connection.pgconn.consume_input()
                while (message := connection.pgconn.notifies()) is not None:
                    messages.append(message)
        for message in messages:
            self._on_message(message.be_pid, message.extra.decode())

    def _on_message(self, session: int, text: str) -> None:
        if text == self._ping and self._asked_at is not None:
            self.latency, self._asked_at = ticking() - self._asked_at, None
            self._wake()
        elif not text.startswith(PING) and not self._notifier.was_ours(session):
            self._tell()

    def _within(self, seconds: float) -> AbstractContextManager[None]:
        return self._watch.within(self._link, seconds)
