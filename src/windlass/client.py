"""The store with a clock, ids and settings around it, opened on first use; and a job as its caller holds it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar, cast

import msgspec

from windlass.apart import apart
from windlass.clock import SECOND, Clock, SystemClock, duration
from windlass.config import Settings
from windlass.core.alterations import (
    AlterAnswer,
    Alteration,
    Cancel,
    Delete,
    Replay,
    RunNow,
)
from windlass.core.eligibility import label_of
from windlass.drivers import POSTGRES, open_driver
from windlass.drivers.protocol import Driver, Enqueued
from windlass.errors import AppClosed, InvalidInput, JobCancelled, JobDead, JobNotFound, Refused, StoreBusy, WrongConnection
from windlass.ids import Ids
from windlass.outgoing import Sender, Sends
from windlass.placing import Placed
from windlass.policies import Duration
from windlass.results import ResultWatch
from windlass.runlogs import RunLogs, root_of
from windlass.subscriptions import Subscriptions
from windlass.types import Job, Micros, NewJob, Run
from windlass.urls import redacted, scheme_of
from windlass.words import System, Words, words_of

if TYPE_CHECKING:
    from windlass.codec import Results
    from windlass.options import JobOptions

R = TypeVar("R")
T = TypeVar("T")
CHAIN_LIMIT: Final = 10_000


class Joins(Protocol):
    """A transaction that enqueues of its client join."""

    client: Client

    async def enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]: ...
    def enqueue_sync(self, new: Sequence[NewJob]) -> list[Enqueued]: ...


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
                self._driver = self._given if self._given is not None else open_driver(self.url, **self.options())
                if self._clock is None:
                    self._clock = getattr(self._driver, "clock", None) or SystemClock()
            return self._driver

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


class JobHandle(Placed, Generic[R]):
    """A job as its caller holds it. Every call follows a retry chain to its last link."""

    __slots__ = ("_results", "existed")

    def __init__(self, client: Client, job_id: str, results: Results | None, existed: bool = False) -> None:
        super().__init__(client, job_id)
        self.existed: Final = existed  # a job with the same key was there already, and this is it
        self._results = results

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    async def result(self, timeout: Duration | None = None) -> R:
        """The handler's return value, once there is one. `JobDead`, `JobCancelled`, `JobNotFound`, `TimeoutError`."""
        seconds = None if timeout is None else duration(timeout, field="timeout") / 1_000_000
        try:
            async with asyncio.timeout(seconds) as limit:
                job = await self._client.watch().wait(self.id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {self.id!r} has not ended within {seconds:g} s") from None
        if job.state == "dead":
            raise JobDead(job.id, job.dead_reason or job.last_error)
        if job.state == "cancelled":
            raise JobCancelled(job.id, job.last_error)
        if self._results is not None:
            return cast("R", self._results.decode(job.result))
        return cast("R", None if job.result is None else msgspec.json.decode(job.result))  # its task is not known here

    def result_sync(self, timeout: Duration | None = None) -> R:
        """The same, blocking, for code without an event loop."""
        return apart(lambda: self.result(timeout))

    async def fetch(self) -> Job:
        """The row as it stands."""
        return await self._client.head(self.id)

    async def runs(self) -> list[Run]:
        """Every execution, of all links of the chain, first to last."""
        runs: list[Run] = []
        job_id: str | None = self.id
        while job_id is not None:
            [job] = await self._client.driver.get([job_id])
            if job is None:
                break
            runs += await self._client.driver.runs(job_id)
            job_id = job.superseded_by
        return runs

    async def words(self, system: System) -> Words:
        """The job's state in the words of one of the source systems."""
        job = await self.fetch()
        return words_of(label_of(job, self._client.now()), job.dead_kind, system)

    async def cancel(self, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        """A queued job is cancelled at once; a running one is asked to stop, and interrupted within about a second."""
        if not isinstance(reason, str):
            raise InvalidInput("reason", f"must be text, got {reason!r}")
        _, answer = await self._client.alter_head(
            self.id, lambda head: Cancel(head, reason), "cancelled", "only queued and running jobs can be"
        )
        if answer == "unchanged" and (await self.fetch()).state == "cancelled":
            return "cancelled"
        return "cancelled" if answer == "applied" else "requested"

    async def retry(self) -> JobHandle[R]:
        """Run a dead job again, with its whole allowance of attempts. The handle is that of the job that will run."""
        child = self._client.ids.job(self._client.now())
        head, _ = await self._client.alter_head(
            self.id, lambda job_id: Replay(job_id, child), "retried", "only dead jobs can be"
        )
        latest = await self._client.head(head)
        return JobHandle(self._client, latest.id, self._results)

    async def run_now(self) -> None:
        """A job that waits for its time is due at once."""
        await self._client.alter_head(self.id, lambda head: RunNow(head), "brought forward", "only queued jobs can be")

    async def delete(self) -> None:
        """Remove a finished job, its runs and its whole chain."""
        await self._client.alter_head(
            self.id, lambda head: Delete(head), "deleted", "only finished jobs can be; cancel it first"
        )
