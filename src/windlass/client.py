"""The client: one store with the clock, ids and settings that belong to it. It opens the store on first use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from windlass.apart import apart
from windlass.clock import SECOND, Clock, SystemClock
from windlass.complaints import Complaints
from windlass.config import NONE, Settings
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.history import RUNS_LIMIT
from windlass.core.settle import Outcome
from windlass.drivers import HTTP, POSTGRES, open_driver
from windlass.drivers.protocol import Driver
from windlass.drivers.sealed import SealedDriver
from windlass.drivers.values import Enqueued
from windlass.errors import AppClosed, InvalidInput, JobNotFound, Refused, StoreBusy, WrongConnection
from windlass.ids import Ids
from windlass.outgoing import Sender, Sends
from windlass.results import Around, ResultWatch
from windlass.runlogs import AUTO, RunLogs, root_of
from windlass.sealing import KeyRing, ring_of
from windlass.subscriptions import Subscriptions
from windlass.types import Claimed, Job, Micros, NewJob, Run
from windlass.urls import redacted, scheme_of

if TYPE_CHECKING:
    from windlass.options import JobOptions

T = TypeVar("T")
CHAIN_LIMIT: Final = 10_000

KEPT: Final[dict[AlterAnswer, str]] = {
    "referred": "rows of another table refer to it; delete those first, or let its foreign key say what becomes of them",
    "busy": "somebody holds its row; try again",
}


class Joins(Around, Protocol):
    """An open transaction of a handler: what its client enqueues meanwhile becomes part of it."""

    client: Client

    async def enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]: ...
    def enqueue_sync(self, new: Sequence[NewJob]) -> list[Enqueued]: ...


class Consumes(Protocol):
    """The tracing span of one execution."""

    def end(self, outcome: Outcome, traceback: str | None = None) -> None: ...
    def lost(self) -> None: ...


class Traces(Protocol):
    """Tracing: spans for enqueueing and for executing, linked to each other. Implemented in `telemetry/tracing.py`."""

    def producing(self, new: Sequence[NewJob]) -> AbstractContextManager[Sequence[NewJob]]: ...
    def consuming(self, job: Claimed, within: Context | None) -> Consumes: ...


joined: ContextVar[Joins | None] = ContextVar("windlass_transaction", default=None)


class Client:
    """Access to one store, on behalf of tasks, handles, workers and the admin. Threads and event loops may share one."""

    def __init__(
        self, url: str, settings: Settings, *, driver: Driver | None = None, clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:  # fmt: skip
        self.url = url
        self.settings = settings
        self.ids = Ids(random)
        self.declared: list[Alteration] = []  # queues and limits of the program, written before the first enqueue
        self.complaints: Final = Complaints()
        self.tracing: Traces | None = None  # where nobody asked for it, nothing of it is imported
        self.due_listeners: list[Callable[[Micros], None]] = []
        self._clock = self._given_clock = clock
        self._given = driver
        self._driver: Driver | None = None
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.RLock()
        self._run_logs: tuple[tuple[str, Settings], RunLogs] | None = None
        self._watches: dict[asyncio.AbstractEventLoop, ResultWatch] = {}
        self.subscriptions = Subscriptions(lambda: self.driver, self.now)
        self._sender: Sends | None = None
        self._ring: tuple[str, KeyRing | None] | None = None

    # ------------------------------------------------------------------------------------------------------ the store

    @property
    def where(self) -> str:
        """The URL without its password, for messages."""
        return redacted(self.url)

    @property
    def driver(self) -> Driver:
        """The open driver. Opens the store if need be; raises `AppClosed` after `close`."""
        driver = self._driver
        return driver if driver is not None and self._pid == os.getpid() and not self._closed else self._open()

    def _open(self) -> Driver:
        with self._lock:
            if self._closed:
                raise AppClosed
            if self._pid != os.getpid():  # after a fork the parent's connections are the parent's
                self._driver, self._pid = None, os.getpid()
            if self._driver is None:
                if self.ring is not None and self._given is None and scheme_of(self.url) in HTTP:
                    raise InvalidInput("key_file", "the keys are the server's, which seals and opens; leave it out here")
                opened = self._given if self._given is not None else open_driver(self.url, **self.options())
                self._driver = self.dressed(opened)
                if self._clock is None:
                    self._clock = getattr(self._driver, "clock", None) or SystemClock()
            return self._driver

    def dressed(self, driver: Driver) -> Driver:
        """The driver, behind one that encrypts and decrypts if there are keys."""
        ring = self.ring
        return driver if ring is None else cast("Driver", SealedDriver(driver, ring))

    @property
    def ring(self) -> KeyRing | None:
        """The keys that encrypt payloads and results; None: they are stored as plain text."""
        path = self.settings.key_file
        if self._ring is None or self._ring[0] != path:
            self._ring = (path, ring_of(path))
        return self._ring[1]

    def options(self) -> dict[str, Any]:
        """The keyword arguments for the driver of this URL, taken from the settings."""
        settings, scheme = self.settings, scheme_of(self.url)
        if scheme == "sqlite":
            return {"durability": settings.durability, "sqlite": settings.sqlite}
        if scheme in POSTGRES:
            return {
                "schema": settings.schema, "pooler": settings.pooler, "migrate": settings.migrate,
                "timeout": settings.store_timeout / SECOND, "connections": settings.connections,
            }  # fmt: skip
        if scheme in HTTP:
            token = None if settings.token == NONE else settings.token
            return {"token": token, "timeout": settings.store_timeout / SECOND}
        return {}

    @property
    def run_logs(self) -> RunLogs:
        """The directory of run logs for this store. Made anew if the URL or the settings have been changed."""
        asked = (self.url, self.settings)
        if self._run_logs is None or self._run_logs[0] != asked:
            chosen = self.settings.log_root != AUTO
            self._run_logs = (asked, RunLogs(root_of(self.settings, self.url), self.settings.log_limit, chosen=chosen))
        return self._run_logs[1]

    @property
    def sender(self) -> Sends:
        """Sends the requests to webhooks."""
        if self._sender is None:
            self._sender = Sender.from_settings(self.settings)
        return self._sender

    @sender.setter
    def sender(self, sender: Sends) -> None:
        self._sender = sender

    def now(self) -> Micros:
        """The time by the clock of the store, in microseconds since 1970."""
        if self._clock is None:
            self._open()
            assert self._clock is not None, "an open store has a clock"
        return self._clock.now()

    def now_beside(self, conn: object) -> Micros:
        """`now()` for an enqueue on the caller's own connection, which must not wait for the caller's own write lock."""
        if conn is not None and self._clock is None:
            self._open_beside(conn)
        return self.now()

    def reopen(self) -> bool:
        """Undo `close`, unless the driver was passed in; returns whether it was closed."""
        with self._lock:
            was_closed = self._closed and self._given is None
            self._closed = self._closed and not was_closed
        return was_closed

    async def close(self) -> None:
        with self._lock:
            self._closed, driver = True, self._driver
            self._clock = self._given_clock  # the next driver brings its own
            self._driver = None
        if driver is not None and self._pid == os.getpid():
            await driver.close()

    # ------------------------------------------------------------------------------------------------------ who asks

    def shares(self, other: Client) -> bool:
        """Whether both are the same client, apart from the person in whose name they act."""
        return self.__dict__ is other.__dict__

    def selecting(self, words: str) -> Client:
        """A client for a change of many jobs; one that acts for somebody notes these words in the audit log."""
        return self

    def bounded(self, options: JobOptions) -> JobOptions:
        """The options of a new job, checked against what the person may do for whom this client acts."""
        return options

    # -------------------------------------------------------------------------------------------------------- enqueue

    async def enqueue(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        if self.tracing is None:
            return await self._enqueue(new, now, conn, notify)
        with self.tracing.producing(new) as traced:
            return await self._enqueue(traced, now, conn, notify)

    async def _enqueue(self, new: Sequence[NewJob], now: Micros, conn: object, notify: bool) -> list[Enqueued]:
        driver = self.driver
        if conn is not None:
            if self.declared and not driver.capabilities.single_writer:
                await self.declare()
            return await driver.enqueue_within_async(conn, new, now=now, notify=notify)
        transaction = joined.get()
        if transaction is not None and transaction.client.shares(self):
            return await transaction.enqueue(new)
        if self.declared:
            await self.declare()
        answers = await driver.enqueue(new, now=now)
        if self.due_listeners:
            for job in new:
                self.tell_due(job.run_at)
        return answers

    def enqueue_sync(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        if self.tracing is None:
            return self._enqueue_sync(new, now, conn, notify)
        with self.tracing.producing(new) as traced:
            return self._enqueue_sync(traced, now, conn, notify)

    def _enqueue_sync(self, new: Sequence[NewJob], now: Micros, conn: object, notify: bool) -> list[Enqueued]:
        if self._driver is None or self.declared:
            self._open_beside(conn)
        driver = self.driver
        if conn is not None:
            return driver.enqueue_within(conn, new, now=now, notify=notify)
        transaction = joined.get()
        if transaction is not None and transaction.client.shares(self):
            return transaction.enqueue_sync(new)
        answers = driver.enqueue_sync(new, now=now)
        if self.due_listeners:
            for job in new:
                self.tell_due(job.run_at)
        return answers

    async def declare(self) -> None:
        """Store the queues and limits that the program declares. Two callers at the same time write them twice, which is
        harmless; neither returns before they are stored."""
        wishes = list(self.declared)
        await self.driver.alter(wishes, now=self.now())
        self.declared = [wish for wish in self.declared if wish not in wishes]

    async def ready(self) -> None:
        """Open the store and store the program's declarations, so that errors show at the start."""
        self._open()
        if self.declared:
            await self.declare()

    def open(self) -> None:
        """The blocking form of `ready`."""
        self._open()
        if self.declared:
            apart(self.declare)

    def _open_beside(self, conn: object) -> None:
        """`open` while the caller's own transaction may hold the write lock; if it does, say what to do."""
        try:
            self.open()
        except StoreBusy:
            if conn is None:
                raise
            raise WrongConnection(
                "the store is not open yet, and cannot be while your transaction holds the write lock; call app.open() "
                "before the first transaction"
            ) from None

    def tell_due(self, run_at: Micros | None) -> None:
        """Tell the workers of this process when a delayed job is due, so that they need not poll for it."""
        if run_at is not None:
            for listener in self.due_listeners:
                listener(run_at)

    # ----------------------------------------------------------------------------------------------------- one job

    async def head(self, job_id: str) -> Job:
        """The current row of a job: its own, or the last link of its retry chain. Raises `JobNotFound`."""
        for _ in range(CHAIN_LIMIT):
            [job] = await self.driver.get([job_id])
            if job is None:
                raise JobNotFound(job_id)
            if job.superseded_by is None:
                return job
            job_id = job.superseded_by
        raise JobNotFound(job_id)

    async def links(self, job_id: str) -> list[Job]:
        """The job and the links of its retry chain that follow it, in order; empty if there is no such job. Stops at a
        link that was there before: SQL by hand may have made a circle."""
        found: dict[str, Job] = {}
        following: str | None = job_id
        while following is not None and following not in found:
            [job] = await self.driver.get([following])
            if job is None:
                break
            found[job.id] = job
            following = job.superseded_by
        return list(found.values())

    async def newest_runs(
        self, links: Sequence[str], limit: int = RUNS_LIMIT, before: int | None = None
    ) -> dict[str, list[Run]]:
        """The newest `limit` executions of a retry chain, as a list in order for each link. With `before`, only
        executions of the last link with a smaller number count."""
        found: dict[str, list[Run]] = {}
        for job_id in reversed(links):
            if limit == 0:
                break
            found[job_id] = await self.driver.runs(job_id, before=before, limit=limit)
            limit -= len(found[job_id])
            before = None
        return found

    async def alter_head(
        self, job_id: str, make: Callable[[str], Alteration], what: str, why: str
    ) -> tuple[str, AlterAnswer]:
        """Change the last link of a retry chain, and try again with the next one if another link takes over meanwhile.

        Returns the id of the link and the answer. Raises `JobNotFound`, or `Refused` with `what` and `why`."""
        self.check_apart(what)
        while True:
            head = await self.head(job_id)
            [answer] = await self.driver.alter([make(head.id)], now=self.now())
            if answer == "wrong_state":
                latest = await self.head(job_id)
                if latest.id == head.id:
                    raise Refused(head.id, what, f"it is {latest.state}; {why}")
            elif answer == "duplicate":
                raise Refused(head.id, what, "another job with its dedupe key is queued or running")
            elif answer in KEPT:
                raise Refused(head.id, what, KEPT[answer])
            elif answer == "not_found":
                raise JobNotFound(head.id)
            else:
                return head.id, answer

    def check_apart(self, what: str) -> None:
        """Raise `InvalidInput` inside a transaction of this client, which only enqueues can join."""
        if self.around() is not None:
            raise InvalidInput(
                "transaction", f"only enqueues join it; nothing can be {what} here, because that waits for the write lock "
                "which this block holds: do it before or after"
            )  # fmt: skip

    def around(self) -> Around | None:
        """The transaction of this client in whose block the caller is."""
        transaction = joined.get()
        return transaction if transaction is not None and transaction.client.shares(self) else None

    def watch(self) -> ResultWatch:
        """What waits for results on the current event loop."""
        loop = asyncio.get_running_loop()
        watch = self._watches.get(loop)
        if watch is None:
            for closed in [other for other in list(self._watches) if other.is_closed()]:
                self._watches.pop(closed, None)  # it refers to its loop, so a weak dictionary would keep both for ever
            watch = self._watches[loop] = ResultWatch(lambda: self.driver)
        return watch

    def tell_settled(self) -> None:
        """Wake those who wait for results on this event loop; a worker calls it after it has settled jobs."""
        watch = self._watches.get(asyncio.get_running_loop())
        if watch is not None:
            watch.tell()
