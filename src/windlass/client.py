"""The store with a clock, ids and settings around it, opened on first use."""

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
from windlass.config import NONE, Settings
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.history import RUNS_LIMIT
from windlass.core.settle import Outcome
from windlass.drivers import HTTP, POSTGRES, open_driver
from windlass.drivers.protocol import Driver, Enqueued
from windlass.drivers.sealed import SealedDriver
from windlass.errors import AppClosed, InvalidInput, JobNotFound, Refused, StoreBusy, WrongConnection
from windlass.ids import Ids
from windlass.outgoing import Sender, Sends
from windlass.results import ResultWatch
from windlass.runlogs import RunLogs, root_of
from windlass.sealing import KeyRing, ring_of
from windlass.subscriptions import Subscriptions
from windlass.types import Claimed, Job, Micros, NewJob, Run
from windlass.urls import redacted, scheme_of

if TYPE_CHECKING:
    from windlass.options import JobOptions

T = TypeVar("T")
CHAIN_LIMIT: Final = 10_000


class Joins(Protocol):
    """A transaction that enqueues of its client join."""

    client: Client

    async def enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]: ...
    def enqueue_sync(self, new: Sequence[NewJob]) -> list[Enqueued]: ...


class Consumes(Protocol):
    """The span of one execution."""

    def end(self, outcome: Outcome, traceback: str | None = None) -> None: ...
    def lost(self) -> None: ...


class Traces(Protocol):
    """What follows jobs from where they are made to where they run: `telemetry/tracing.py`."""

    def producing(self, new: Sequence[NewJob]) -> AbstractContextManager[Sequence[NewJob]]: ...
    def consuming(self, job: Claimed, within: Context | None) -> Consumes: ...


joined: ContextVar[Joins | None] = ContextVar("windlass_transaction", default=None)


class Client:
    """Everything that talks to one store. Threads and event loops may share it."""

    def __init__(
        self, url: str, settings: Settings, *, driver: Driver | None = None, clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:  # fmt: skip
        self.url = url
        self.settings = settings
        self.ids = Ids(random)
        self.declared: list[Alteration] = []  # queues as the program describes them, written before the first enqueue
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
        """The URL for people: without its password."""
        return redacted(self.url)

    @property
    def driver(self) -> Driver:
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
        """With what stands before it: the seal, where there are keys."""
        ring = self.ring
        return driver if ring is None else cast("Driver", SealedDriver(driver, ring))

    @property
    def ring(self) -> KeyRing | None:
        """The keys that payloads and results are sealed with; None: they are stored as they are."""
        path = self.settings.key_file
        if self._ring is None or self._ring[0] != path:
            self._ring = (path, ring_of(path))
        return self._ring[1]

    def options(self) -> dict[str, Any]:
        """What the settings say to the driver that the URL names."""
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
        """Where runs on this store keep what they log. The URL and the settings may still change after the start."""
        asked = (self.url, self.settings)
        if self._run_logs is None or self._run_logs[0] != asked:
            self._run_logs = (asked, RunLogs(root_of(self.settings, self.url), self.settings.log_limit))
        return self._run_logs[1]

    @property
    def sender(self) -> Sends:
        """How webhooks are called."""
        if self._sender is None:
            self._sender = Sender.from_settings(self.settings)
        return self._sender

    @sender.setter
    def sender(self, sender: Sends) -> None:
        self._sender = sender

    def now(self) -> Micros:
        if self._clock is None:
            self._open()
            assert self._clock is not None, "an open store has a clock"
        return self._clock.now()

    def now_beside(self, conn: object) -> Micros:
        """The same for an enqueue on the caller's own connection: the store may have to be opened for it first."""
        if conn is not None and self._clock is None:
            self._open_beside(conn)
        return self.now()

    def reopen(self) -> bool:
        """Take back a close. True when there was one; a driver that was given stays closed."""
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
        """Whether both are the same client, perhaps in somebody's name."""
        return self.__dict__ is other.__dict__

    def selecting(self, words: str) -> Client:
        """For changes to all that match: where changes are noted, so are these words."""
        return self

    def bounded(self, options: JobOptions) -> JobOptions:
        """What may be said of a new job, by whoever this client acts for."""
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
        """Write the queues that the program describes. Two callers at once write the same twice, which harms nobody;
        none of them goes on before they are stored."""
        wishes = list(self.declared)
        await self.driver.alter(wishes, now=self.now())
        self.declared = [wish for wish in self.declared if wish not in wishes]

    async def ready(self) -> None:
        """Open the store and write the queues that the program describes: what is wrong with it should be told now."""
        self._open()
        if self.declared:
            await self.declare()

    def open(self) -> None:
        """Open the store and write the queues that the program describes, from blocking code."""
        self._open()
        if self.declared:
            apart(self.declare)

    def _open_beside(self, conn: object) -> None:
        """The same while the caller's own transaction may hold the write lock."""
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
        """A worker in this process need not find out by polling when a delayed job is due."""
        if run_at is not None:
            for listener in self.due_listeners:
                listener(run_at)

    # ----------------------------------------------------------------------------------------------------- one job

    async def head(self, job_id: str) -> Job:
        """The job, or the link that its retry chain has reached by now."""
        for _ in range(CHAIN_LIMIT):
            [job] = await self.driver.get([job_id])
            if job is None:
                raise JobNotFound(job_id)
            if job.superseded_by is None:
                return job
            job_id = job.superseded_by
        raise JobNotFound(job_id)

    async def links(self, job_id: str) -> list[Job]:
        """The job and the links that took over from it, first to last; nothing of a job that is not there. A hand may have
        made a ring of them."""
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
        """The newest executions of a retry chain, by its links, each first to last. What came before is left out; with
        `before`, so are those of the last link from that number on."""
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
        """Change the chain's last link. Should it be superseded meanwhile, its successor is asked instead."""
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
            elif answer == "not_found":
                raise JobNotFound(head.id)
            else:
                return head.id, answer

    def check_apart(self, what: str) -> None:
        """Refuse inside of a transaction of this client."""
        transaction = joined.get()
        if transaction is not None and transaction.client.shares(self):
            raise InvalidInput(
                "transaction", f"only enqueues join it; nothing can be {what} here, because that waits for the write lock "
                "which this block holds: do it before or after"
            )  # fmt: skip

    def watch(self) -> ResultWatch:
        loop = asyncio.get_running_loop()
        watch = self._watches.get(loop)
        if watch is None:
            for closed in [other for other in list(self._watches) if other.is_closed()]:
                self._watches.pop(closed, None)  # it refers to its loop, so a weak dictionary would keep both for ever
            watch = self._watches[loop] = ResultWatch(lambda: self.driver)
        return watch

    def tell_settled(self) -> None:
        """Called by a worker on its event loop."""
        watch = self._watches.get(asyncio.get_running_loop())
        if watch is not None:
            watch.tell()
