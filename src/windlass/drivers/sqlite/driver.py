"""A file as a job store: one writer thread with group commit, one reader thread, a watcher; many processes on one file.

WAL with `synchronous=FULL`: what `enqueue` acknowledged survives a power cut. `durability="relaxed"` gives that up for
speed, by name. Every write is one short `BEGIN IMMEDIATE` transaction; waiting for the lock is bounded by `busy_timeout`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, Literal

from windlass.clock import SECOND, AnchoredClock, ticking
from windlass.core.acting import By
from windlass.core.admission import check_claim
from windlass.core.admission_of_queries import check_ids
from windlass.core.admission_of_settlements import check_settlements
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty, SampleQueues
from windlass.core.eligibility import goes_on_at
from windlass.core.fields import check_now
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.ops import dependencies, duties, fleet, inspect, people, samples
from windlass.drivers.ops.copying import standing
from windlass.drivers.sqlite import jobs, leases, linking, settlement
from windlass.drivers.sqlite.checkpoint import Checkpoint, GuardedCheckpoint, is_affected
from windlass.drivers.sqlite.copying import HAND
from windlass.drivers.sqlite.dialect import DIALECT
from windlass.drivers.sqlite.exposure import exposure
from windlass.drivers.sqlite.files import Identity, OpenFiles, prepare
from windlass.drivers.sqlite.health import examine
from windlass.drivers.sqlite.lane import Lane
from windlass.drivers.sqlite.library import ApswConnection, Connection, Library, require, version
from windlass.drivers.sqlite.neighbours import check_neighbours
from windlass.drivers.sqlite.place import Place, Turns
from windlass.drivers.sqlite.space import shrinks
from windlass.drivers.sqlite.store import clock_at, log, migrate, open_connection, read_anchor
from windlass.drivers.sqlite.transactions import SqliteTransaction, within
from windlass.drivers.sqlite.watcher import Watcher
from windlass.drivers.statement import Op, T
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
from windlass.errors import DriverClosed, DriverForked, StoreBusy
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

Durability = Literal["full", "relaxed"]

_files: Final = OpenFiles()
_drivers: Final[weakref.WeakSet[SqliteDriver]] = weakref.WeakSet()
_inherited: Final[list[SqliteDriver]] = []  # by a fork: a child must never close, and so never collect, these connections
os.register_at_fork(after_in_child=lambda: _inherited.extend(_drivers))


class SqliteDriver:
    def __init__(
        self, path: str | os.PathLike[str], *, durability: Durability = "full", sqlite: Library = "apsw",
        busy_timeout: float = 5.0, inline: bool = False, inotify: bool = True,
    ) -> None:  # fmt: skip
        self.path: Final = os.path.realpath(path)  # SQLite keeps the WAL beside the real file, not beside a link to it
        self.library: Final = sqlite
        self._durable = durability == "full"
        self._busy_s = busy_timeout
        self._inline = inline
        self._inotify = inotify and sys.platform == "linux"
        self._pid = os.getpid()
        self._closed = False
        self._watcher: Watcher | None = None
        require(sqlite)
        check_neighbours(self.path, sqlite)
        prepare(self.path)
        identity = Identity(self.path)
        with ExitStack() as opened:  # closed again should one of the steps fail
            _files.enter(identity, self.path, sqlite)
            opened.callback(_files.leave, identity)
            self._control = self._connect(opened)
            migrate(self._control, self.path, busy_timeout)
            self.clock: Final[AnchoredClock] = clock_at(read_anchor(self._control, self.path, busy_timeout))
            self._control.wait_at_most(0)  # from now on
            writer, reader = self._connect(opened), self._connect(opened)
            checkpoint = self._checkpoint(writer, opened)
            place = self._place = Place(self.path, identity, busy_timeout, Turns())
            self._transactions: Final[set[SqliteTransaction]] = set()  # open ones; a forked child must keep these too
            self._writer = Lane("writer", writer, place, begin="begin immediate", between=checkpoint, inline=inline)
            self._reader = Lane("reader", reader, place, begin="begin", inline=inline)
            self._opened = opened.pop_all()
        _drivers.add(self)

    def _connect(self, opened: ExitStack) -> Connection:
        connection = open_connection(self.library, self.path, busy_s=self._busy_s, durable=self._durable)
        opened.callback(connection.close)
        return connection

    def _checkpoint(self, writer: Connection, opened: ExitStack) -> Checkpoint | GuardedCheckpoint | None:
        if isinstance(writer, ApswConnection):
            return Checkpoint(writer)
        if not self._guarded:
            return None
        return GuardedCheckpoint(self.path, writer, [self._control, self._connect(opened)])

    @property
    def capabilities(self) -> Capabilities:
        pushes = self._inotify if self._watcher is None else self._watcher.pushes
        return Capabilities(
            durable=True, shared=True, wakeups="push" if pushes else "poll", sql=True, transactional=True,
            single_writer=True,
        )  # fmt: skip

    # --------------------------------------------------------------------------------------------------------- writes

    async def enqueue(self, jobs_: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        new = tuple(jobs_)  # the writer's thread reads it later; the caller may change a list meanwhile
        return await self._writer.submit(lambda: linking.enqueue(new, now), weight=jobs.weight(new))

    def enqueue_sync(self, jobs_: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        new = tuple(jobs_)
        return self._writer.submit_sync(lambda: linking.enqueue(new, now), weight=jobs.weight(new))

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        self._check_open()
        check_claim(claim, now)
        began, at = ticking(), now
        rows, more = await self._write(lambda: leases.claim(claim, now))
        while more and not rows:  # others write in between
            at = goes_on_at(now, claim.lease_for, round((ticking() - began) * SECOND))
            rows, more = await self._write(partial(leases.claim, claim, at, again=True))
        return leases.claimed_of(rows, claim, at)

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        asked = tuple(renewals)
        return await self._write(lambda: leases.extend(asked, lease_for, now))

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        self._check_open()
        units = tuple(changes)
        check_settlements(units, now)  # here, while the writer has the file for somebody else
        return await self._write(lambda: settlement.settle(units, now))

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        count, paid, undecided = await self._write(lambda: leases.expire(now, limit))
        await dependencies.pay_on(DIALECT, paid, now, self._write)
        return count, undecided

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        wishes = tuple(changes)
        return await self._write(lambda: people.alter(DIALECT, wishes, now, by))

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        await self._write(lambda: fleet.beat(DIALECT, worker, now))

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        return await self._write(lambda: fleet.lead(DIALECT, worker_id, lease_for, now))

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        if isinstance(duty, SampleQueues):  # to look takes longest: nobody who writes need wait for that
            found = await self._read(lambda: samples.look(DIALECT, epoch, now))
            return await self._write(lambda: samples.write(DIALECT, duty, found, epoch, now))
        return await self._write(lambda: duties.maintain(DIALECT, duty, epoch, now))

    # ---------------------------------------------------------------------------------------------------------- reads

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        names = tuple(ids)
        check_ids(names)
        return await self._read(lambda: inspect.get(DIALECT, names))

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        return await self._read(lambda: inspect.runs(DIALECT, job_id, before, limit))

    async def find(self, query: JobQuery) -> Page:
        return await self._read(lambda: inspect.find(DIALECT, query))

    async def count(self, *, now: Micros) -> list[Count]:
        return await self._read(lambda: inspect.count(DIALECT, now))

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        names = None if queues is None else tuple(queues)
        return await self._read(lambda: inspect.waiting_types(DIALECT, names, limit))

    async def read(self, query: Query[R]) -> list[R]:
        return await self._read(lambda: inspect.read(DIALECT, query))

    async def examine(self, *, now: Micros) -> list[Finding]:
        self._check_open()
        check_now(now)
        copied = await self._read(lambda: standing(HAND))
        return [*copied, *examine(self.path, shrinks=shrinks(self._control))]

    def transact_sync(self, make: Callable[[], Op[T]]) -> T:
        """An operation, as one transaction, for a blocking caller: what copies a store."""
        return self._writer.submit_sync(make)

    def read_sync(self, make: Callable[[], Op[T]]) -> T:
        return self._reader.submit_sync(make)

    async def exposure(self) -> list[Finding]:
        self._check_open()
        return list(exposure(self.path))

    async def _write(self, make: Callable[[], Op[T]]) -> T:
        return await self._writer.submit(make)

    async def _read(self, make: Callable[[], Op[T]]) -> T:
        return await self._reader.submit(make)

    # ---------------------------------------------------------------------------------------------------- transactions

    def transaction(self) -> SqliteTransaction:
        self._check_open()
        return SqliteTransaction(self._place, self._enter, self._leave)

    def _enter(self, transaction: SqliteTransaction) -> Connection:
        self._check_open()
        _files.enter(self._place.identity, self.path, self.library)  # it may outlive the driver
        try:
            connection = open_connection(self.library, self.path, busy_s=self._busy_s, durable=self._durable)
        except BaseException:
            _files.leave(self._place.identity)
            raise
        if self._guarded:
            connection.execute("pragma wal_autocheckpoint = 0")
        self._transactions.add(transaction)
        return connection

    def _leave(self, transaction: SqliteTransaction) -> None:
        self._transactions.discard(transaction)
        _files.leave(self._place.identity)

    def enqueue_within(
        self, connection: object, jobs_: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._check_open()
        new = tuple(jobs_)
        return within(connection, linking.enqueue(new, now), self._place, self.library, guarded=self._guarded)

    async def enqueue_within_async(
        self, connection: object, jobs_: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._check_open()
        raise no_async_connection(connection)

    @property
    def _guarded(self) -> bool:
        return self.library == "stdlib" and is_affected(version(self.library))

    # ------------------------------------------------------------------------------------------------ time and wake-ups

    def remeasure(self) -> Micros:
        """Adopt the machine's present anchor. Answers the step; after one of more than a second the caller should take
        nothing back for one lease."""
        self._check_open()
        try:
            anchor = read_anchor(self._control, self.path, 0)
        except StoreBusy:  # this is an event loop's thread; the anchor is moved about once a minute, or the next time
            return 0
        step = self.clock.move_to(anchor.utc, anchor.boot)
        if abs(step) > 1_000_000:
            log.warning("the clock of %s moved by %.1f s", self.path, step / 1_000_000)
        return step

    async def wait(self, *, timeout: float) -> bool:
        self._check_open()
        if self._watcher is None:
            connection = open_connection(self.library, self.path, busy_s=self._busy_s, durable=self._durable)
            self._watcher = Watcher(self.path, connection, use_inotify=self._inotify)
            return True  # what was committed before there was a watcher, nobody can tell
        return await self._watcher.wait(timeout)

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise DriverForked
        if self._closed:
            raise DriverClosed

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid != os.getpid():  # the connections and threads are the parent's
            return
        _drivers.discard(self)
        if self._inline:
            self._close()
        else:
            await asyncio.to_thread(self._close)  # it waits for the writer's last commit

    def _close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        self._reader.close()
        self._writer.close()
        self._opened.close()
