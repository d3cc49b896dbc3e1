"""Telling of new work, and who waits to be told.

Telling happens after the commit, as a transaction of its own: a notification inside would make all commits that notify wait
for each other. The first is sent at once, on the connection that enqueued; what comes in the next milliseconds together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.drivers.postgres.arrays import Texts
from windlass.drivers.postgres.faults import Overdue
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Statement
from windlass.errors import DriverClosed

log: Final = logging.getLogger("windlass.postgres")
GATHER: Final = 0.005
PING: Final = "?"
# A transaction of its own, after the one that it tells of. That one is on disk; this need not be, and must not wait for it:
# who notifies waits for all who do.
NOTIFY: Final = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
NOTIFY_ALL: Final = (
    "select set_config('synchronous_commit', 'off', true), pg_notify($1, queue) from unnest($2::text[]) as asked (queue)"
)


class Wakeups:
    """Those who wait for work, and whether there is news since they last looked. Made for one claimer per driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news = 0
        self._seen = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    def tell(self) -> None:
        """Wake those who wait. From any thread."""
        with self._lock:
            self._news += 1
            waiting, self._waiting = self._waiting, set()
        for loop, future in waiting:
            if loop is _running():
                _wake(future)
                continue
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
        over = loop.call_later(timeout, _wake, future)
        try:
            await future
        finally:
            over.cancel()
            with self._lock:
                self._waiting.discard((loop, future))
        with self._lock:
            self._seen = self._news  # not whether the future is done: the news may have come at this very moment
            return self._seen != before


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Notifier:
    """Leading and trailing edge: at most one statement per few milliseconds, and never a last word forgotten."""

    def __init__(self, place: Place, lane: Lane) -> None:
        self._place = place
        self._lane = lane
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._sending = False
        self._silent_until = 0.0
        self._sessions: dict[Link, int] = {}

    def opened(self, link: Link) -> None:
        """A connection on which we tell. What has become of others is forgotten."""
        with self._lock:
            self._sessions = {other: session for other, session in self._sessions.items() if other.is_open}
            self._sessions[link] = link.session

    def forget_sessions(self) -> None:
        """The server may have begun anew, and given their numbers to others."""
        self._sessions.clear()

    def was_ours(self, session: int) -> bool:
        """Whether a message came from this process, which knows of its own work already."""
        return any(number == session and link.is_open for link, number in list(self._sessions.items()))

    def notify(self, queues: set[str]) -> None:
        with self._lock:
            self._pending |= queues
            if self._sending or not self._pending:
                return
            self._sending = True
        self._post()

    def said_at_once(self, queues: set[str]) -> Statement | None:
        """A message to be sent at once on the caller's connection; None if one was sent a moment ago, and then it follows
        soon."""
        now = ticking()
        with self._lock:
            if not self._sending and now >= self._silent_until:
                self._silent_until = now + GATHER
                return self._saying(queues)
        self.notify(queues)
        return None

    def _saying(self, queues: set[str]) -> Statement:
        """Mostly of one, which a server that was not prepared for it understands in no time."""
        if len(queues) == 1:
            return Statement(NOTIFY, (self._place.channel, next(iter(queues))))
        return Statement(NOTIFY_ALL, (self._place.channel, Texts(sorted(queues))))

    def _post(self) -> None:
        """A call of its own for each statement: each has its own deadline, however long the stream of news is."""
        try:
            self._lane.post(self._send).add_done_callback(self._sent)
        except (DriverClosed, RuntimeError):  # those who listen look for themselves; later news must be told all the same
            with self._lock:
                self._sending = False

    def _send(self, link: Link) -> None:
        pause = self._silent_until - ticking()
        if pause > 0:
            threading.Event().wait(pause)
        with self._lock:
            queues, self._pending = self._pending, set()
            self._silent_until = ticking() + GATHER
        try:
            link.execute(self._saying(queues))
        except (psycopg.Error, Overdue) as error:
            log.debug("nobody was told of new work: %s", error)  # those who listen look for themselves
            link.close()

    def _sent(self, call: Future[None]) -> None:
        """Or refused before its turn came: that must not silence what comes later."""
        with self._lock:
            more = self._sending = bool(self._pending)
        if more:
            self._post()

    def ping(self, text: str, within: float) -> None:
        """Send a message to all listeners that is meant for one. Does not wait."""
        statement = Statement("select pg_notify($1, $2)", (self._place.channel, text))
        with suppress(DriverClosed):  # and so is whoever asked
            self._lane.post(lambda link: link.execute(statement), min(within, self._place.timeout))
