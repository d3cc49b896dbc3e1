"""A whole driver: rows in dictionaries, and one JSON file that every change replaces.

`windlass.drivers.memory` has the rules, as functions over `Tables`. Left is what every author must think about: who may
open the store, when to acknowledge, what is true after a failure. A toy: the event loop stands still while it writes.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Literal, TypeVar

import msgspec

from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers import values as v
from windlass.drivers.memory import duties, fleet, inspect, jobs, leases, people, settlement
from windlass.drivers.memory.snapshot import Snapshot, restore, snapshot
from windlass.drivers.memory.tables import Tables
from windlass.drivers.untransactional import Untransactional
from windlass.errors import DriverClosed, DriverForked, StoreFull, StoreUnavailable
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

T = TypeVar("T")


class File(msgspec.Struct):
    version: Literal[1]  # nothing here has a default: half a file must not pass for an empty store
    rows: Snapshot


class JsonDriver(Untransactional):
    capabilities = v.Capabilities(durable=True, shared=False, wakeups="push", sql=False, transactional=False)

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        """`sync=False` leaves flushing to the operating system: safe when the process dies, not when the power does."""
        self.path = os.path.realpath(path)  # a rename would replace a symbolic link, not what it points to
        self._flush: Callable[[int], None] = lambda fd: os.fsync(fd) if sync else None
        self._tables, self._told, self._closed, self._pid = Tables(), asyncio.Event(), False, os.getpid()
        with self._turn(), ExitStack() as held:
            # The lock is on a file of its own that stays: a lock belongs to the inode, and the store's is replaced.
            held.callback(os.close, lock := os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600))
            held.callback(os.close, directory := os.open(os.path.dirname(self.path), os.O_RDONLY))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreUnavailable(f"{self.path}: another driver has it open; close that one first") from None
            if os.path.exists(self.path):
                self._load()
            self._directory, self._held, self._lock = directory, held.pop_all(), Lock()

    def _load(self) -> None:
        try:
            file = msgspec.json.decode(Path(self.path).read_bytes(), type=File)
        except msgspec.DecodeError as error:  # starting empty instead would erase, at the first change, what is left
            raise StoreUnavailable(f"{self.path}: not a store ({error}); restore a backup or move it away") from None
        restore(self._tables, file.rows)

    def _save(self) -> None:
        """Whoever opens the file, whenever we die, finds all of the old or all of the new."""
        t, new = self._tables, Path(f"{self.path}.new")
        if not t.changed:
            return  # and wake nobody: two idle workers would wake each other with empty claims for ever
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(msgspec.json.encode(File(1, snapshot(t))))
                out.flush()
                self._flush(out.fileno())  # first the content, then the name: a power cut must not keep only the name
            os.replace(new, self.path)
            self._closed = True  # should what follows fail, nobody knows which file a power cut leaves: open it again
        finally:
            new.unlink(missing_ok=True)  # half a file would keep a full disk full
        self._flush(self._directory)
        self._closed = False
        self._told.set()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Nothing awaits inside a turn, and threads come one by one, so no reader sees what is not stored."""
        if self._closed or self._pid != os.getpid():  # a forked child shares our lock, but not what we change from now on
            raise DriverClosed if self._closed else DriverForked
        try:
            yield
        except OSError as error:
            raise StoreFull(self.path) if error.errno == errno.ENOSPC else StoreUnavailable(str(error)) from error

    # fmt: off
    def _read(self, look: Callable[[Tables], T]) -> T:
        with self._lock, self._turn():
            return look(self._tables)
    def _write(self, change: Callable[[Tables], T]) -> T:
        with self._lock, self._turn(), self._tables.transaction():
            answer = change(self._tables)
            self._save()  # inside the transaction: what the disk refused is undone in memory too
        return answer
    async def wait(self, *, timeout: float) -> bool:
        told = self._read(lambda t: self._told)  # stays set until somebody has seen it: no change is missed
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), timeout)
            told.clear()
            return True
        return False
    async def close(self) -> None:
        await asyncio.sleep(0)  # claims that were sent before this are still answered
        self._closed = True
        self._held.close()
        self._told.set()
    async def enqueue(self, new: Sequence[NewJob], *, now: Micros) -> list[v.Enqueued]:
        return self._write(lambda t: jobs.enqueue(t, new, now))
    def enqueue_sync(self, new: Sequence[NewJob], *, now: Micros) -> list[v.Enqueued]:
        return self._write(lambda t: jobs.enqueue(t, new, now))
    async def claim(self, claim: v.Claim, *, now: Micros) -> list[Claimed]:
        await asyncio.sleep(0)  # nothing else here waits, and a worker that claims and settles would starve the others
        return self._write(lambda t: leases.claim(t, claim, now))
    async def extend(self, renewals: Sequence[v.Renewal], *, lease_for: Micros, now: Micros) -> list[v.Extended]:
        return self._write(lambda t: leases.extend(t, renewals, lease_for, now))
    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        return self._write(lambda t: settlement.settle(t, changes, now))
    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        return self._write(lambda t: leases.expire(t, now, limit))
    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        return self._write(lambda t: people.alter(t, changes, now, by))
    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        return self._write(lambda t: fleet.beat(t, worker, now))
    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> v.Leadership:
        return self._write(lambda t: fleet.lead(t, worker_id, lease_for, now))
    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        return self._write(lambda t: duties.maintain(t, duty, epoch, now))
    async def get(self, ids: Sequence[str]) -> list[Job | None]: return self._read(lambda t: inspect.get(t, ids))
    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        return self._read(lambda t: inspect.runs(t, job_id, before, limit))
    async def find(self, query: v.JobQuery) -> v.Page: return self._read(lambda t: inspect.find(t, query))
    async def count(self, *, now: Micros) -> list[v.Count]: return self._read(lambda t: inspect.count(t, now))
    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[v.WaitingType]:
        return self._read(lambda t: inspect.waiting_types(t, queues, limit))
    async def read(self, query: Query[R]) -> list[R]: return self._read(lambda t: inspect.read(t, query))
    async def examine(self, *, now: Micros) -> list[Finding]: return self._read(lambda t: [])
