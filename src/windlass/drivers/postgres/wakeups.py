"""Hearing of new work, and telling of it.

Telling happens after the commit, on a connection of its own: a notification inside the transaction would make all commits
that notify wait for each other. The first is sent at once, what comes in the next milliseconds together.

Hearing is tested: every few seconds a message goes out on the connection that tells, and must come in on the one that
listens. One that looks open but carries nothing is thus noticed, and so is a pooler that gives what we hear to others (it
passes on what a client says to itself). Until it works, waiters look for themselves.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from random import Random
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.drivers.postgres.faults import Overdue, said
from windlass.drivers.postgres.lane import FIRST_PAUSE, Lane, Watch
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import CONNECT_TIMEOUT, Place
from windlass.drivers.statement import Statement
from windlass.errors import DriverClosed

log: Final = logging.getLogger("windlass.postgres")
GATHER: Final = 0.005
TEST_EVERY: Final = 10.0
TEST_WITHIN: Final = 3.0
LATE: Final = 0.5
LONGEST_PAUSE: Final = 5.0
PING: Final = "?"
EXPECTED: Final = (psycopg.Error, Overdue, OSError)


class Wakeups:
    """Who waits, and whether there is news since they last looked. Made for one claimer per driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news = 0
        self._seen = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    def tell(self) -> None:
        """From any thread."""
        with self._lock:
            self._news += 1
            waiting, self._waiting = self._waiting, set()
        for loop, future in waiting:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_wake, future)

    async def wait(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            before = self._seen
            if self._news != before:
                self._seen = self._news
                return True
            self._waiting.add((loop, future))
        try:
            await asyncio.wait({future}, timeout=timeout)
        finally:
            with self._lock:
                self._waiting.discard((loop, future))
        with self._lock:
            self._seen = self._news  # not whether the future is done: the news may have come at this very moment
            return self._seen != before


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Notifier:
    """Leading and trailing edge: at most one statement per few milliseconds, and never a last word forgotten."""

    def __init__(self, place: Place, lane: Lane) -> None:
        self._place = place
        self._lane = lane
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._sending = False
        self.backend = 0  # the server's number of our connection: what it sends, we know already

    def notify(self, queues: set[str]) -> None:
        with self._lock:
            self._pending |= queues
            if self._sending or not self._pending:
                return
            self._sending = True
        self._post()

    def _post(self) -> None:
        """A call of its own for each statement: each has its own deadline, however long the stream of news is."""
        with suppress(DriverClosed):  # those who listen look for themselves
            self._lane.post(self._send).add_done_callback(self._sent)

    def _send(self, link: Link) -> None:
        with self._lock:
            queues, self._pending = self._pending, set()
        try:
            self.backend = link.open().info.backend_pid
            link.execute(Statement("select pg_notify($1, queue) from unnest($2::text[]) as asked (queue)",
                                   (self._place.channel, sorted(queues))))  # fmt: skip
        except (psycopg.Error, Overdue) as error:
            log.debug("nobody was told of new work: %s", error)  # those who listen look for themselves
            link.close()
        threading.Event().wait(GATHER)

    def _sent(self, call: Future[None]) -> None:
        """Or refused before its turn came: that must not silence what comes later."""
        with self._lock:
            more = self._sending = bool(self._pending)
        if more:
            self._post()

    def ping(self, text: str, within: float) -> None:
        """To everybody who listens, and meant for one. Does not wait."""
        statement = Statement("select pg_notify($1, $2)", (self._place.channel, text))
        with suppress(DriverClosed):  # and so is whoever asked
            self._lane.post(lambda link: link.execute(statement), min(within, self._place.timeout))


def _readable(fd: int, other: int, within: float) -> bool:
    """Whether there is something to read from the first, or to know of it: waits for either. Not by `select`, which knows
    no numbers from 1024 on."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(other, select.POLLIN)
    return any(ready == fd for ready, _ in poll.poll(math.ceil(within * 1000)))


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
        self._asked_at: float | None = None
        self._test = 0
        self._name = secrets.token_hex(4)
        self._warned = False
        self.healthy = False
        self.settled = False  # whether the first test has ended, well or not: both are told, so one may wait for it
        self.latency: float | None = None  # of the last test, in seconds
        self._thread = threading.Thread(target=self._run, name="windlass-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with suppress(OSError):
            os.write(self._wake_out, b"x")
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
        self._link.give_up()

    def _unheard(self, error: BaseException) -> None:
        if not self._warned and not self._closing.is_set():
            log.warning("%s: new work is not heard of (%s); looking for it instead", self._place, said(error))
            self._warned = True
        self.healthy, self.settled = False, True
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

    def _hear(self, until: float, answered: Callable[[], bool] = lambda: False) -> None:
        """Messages, until that moment or until the answer is among them."""
        connection = self._link.connection
        if connection is None or connection.closed:
            raise Overdue("the connection is gone")
        while not answered() and (left := until - ticking()) > 0 and not self._closing.is_set():
            if _readable(connection.fileno(), self._wake_in, within=left):
                connection.pgconn.consume_input()
                while (message := connection.pgconn.notifies()) is not None:
                    self._on_message(message.be_pid, message.extra.decode())

    def _on_message(self, backend: int, text: str) -> None:
        if text == self._ping and self._asked_at is not None:
            self.latency, self._asked_at = ticking() - self._asked_at, None
        elif not text.startswith(PING) and backend != self._notifier.backend:
            self._tell()

    def _within(self, seconds: float) -> AbstractContextManager[None]:
        return self._watch.within(self._link, seconds)
