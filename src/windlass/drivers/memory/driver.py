"""The driver itself: a lock around the tables, and waiters to be woken. Nothing here knows a rule."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from windlass.core.acting import By
from windlass.core.admission_of_queries import check_ids
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.fields import check_now
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.memory import duties, fleet, inspect, jobs, leases, people, settlement
from windlass.drivers.memory.tables import Tables
from windlass.drivers.memory.transactions import MemoryTransaction
from windlass.drivers.untransactional import no_async_connection
from windlass.drivers.values import (
    Capabilities,
    Claim,
    Count,
    Enqueued,
    Extended,
    JobQuery,
    Leadership,
    Page,
    Renewal,
    WaitingType,
)
from windlass.errors import DriverClosed, WrongConnection
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

T = TypeVar("T")


class MemoryDriver:
    capabilities = Capabilities(
        durable=False, shared=False, wakeups="push", sql=False, transactional=True, single_writer=False
    )

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.Lock()
        self._closed = False
        self._unseen = False  # something changed while nobody waited
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def _read(self, look: Callable[[Tables], T]) -> T:
        with self._lock:
            if self._closed:
                raise DriverClosed
            return look(self._tables)

    def _write(self, change: Callable[[Tables], T]) -> T:
        with self._lock:
            if self._closed:
                raise DriverClosed
            with self._tables.transaction():
                answer = change(self._tables)
            if self._tables.changed:
                self._wake()
        return answer

    async def enqueue(self, new: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return self._write(lambda tables: jobs.enqueue(tables, new, now))

    def enqueue_sync(self, new: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return self._write(lambda tables: jobs.enqueue(tables, new, now))

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        return self._write(lambda tables: leases.claim(tables, claim, now))

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        return self._write(lambda tables: leases.extend(tables, renewals, lease_for, now))

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        return self._write(lambda tables: settlement.settle(tables, changes, now))

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        return self._write(lambda tables: leases.expire(tables, now, limit))

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        return self._write(lambda tables: people.alter(tables, changes, now, by))

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        self._write(lambda tables: fleet.beat(tables, worker, now))

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        return self._write(lambda tables: fleet.lead(tables, worker_id, lease_for, now))

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        return self._write(lambda tables: duties.maintain(tables, duty, epoch, now))

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        check_ids(ids)
        return self._read(lambda tables: inspect.get(tables, ids))

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        return self._read(lambda tables: inspect.runs(tables, job_id, before, limit))

    async def find(self, query: JobQuery) -> Page:
        return self._read(lambda tables: inspect.find(tables, query))

    async def count(self, *, now: Micros) -> list[Count]:
        return self._read(lambda tables: inspect.count(tables, now))

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        return self._read(lambda tables: inspect.waiting_types(tables, queues, limit))

    async def read(self, query: Query[R]) -> list[R]:
        return self._read(lambda tables: inspect.read(tables, query))

    async def examine(self, *, now: Micros) -> list[Finding]:
        check_now(now)
        return self._read(lambda _: [])

    def transaction(self) -> MemoryTransaction:
        self._read(lambda _: None)
        return MemoryTransaction(keep=self._write, attempt=self._attempt)

    def _attempt(self, change: Callable[[Tables], T]) -> T:
        def look(tables: Tables) -> T:
            with tables.trial():
                return change(tables)

        return self._read(look)

    def enqueue_within(
        self, connection: object, new: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._read(lambda _: None)
        raise WrongConnection("the memory store shares no connection; enqueue after your own commit, or use sqlite://")

    async def enqueue_within_async(
        self, connection: object, new: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._read(lambda _: None)
        raise no_async_connection(connection)

    async def wait(self, *, timeout: float) -> bool:
        told = asyncio.Event()
        waiter = (asyncio.get_running_loop(), told)
        with self._lock:
            if self._closed:
                raise DriverClosed
            if self._unseen:  # it came between the caller's last look and this wait
                self._unseen = False
                return True
            self._waiters.add(waiter)
        try:
            await asyncio.wait_for(told.wait(), timeout)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiters.discard(waiter)
        return True

    def _wake(self) -> None:
        """Called under the lock."""
        self._unseen = not self._waiters
        for loop, told in self._waiters:
            with suppress(RuntimeError):  # that loop is closed, and with it whoever waited
                loop.call_soon_threadsafe(told.set)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            self._wake()
