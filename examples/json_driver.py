"""A whole driver in one file: rows in dictionaries, and one JSON file that is replaced by every change.

The rules come from `windlass.drivers.memory`, whose functions work on any `Tables`. What is left is what every author of
a driver has to think about: who may open the store, when a change may be acknowledged, and what is true after it failed.

A toy: a change costs as much as the file is large, and the event loop stands still while the disk is asked. See
drivers/sqlite/lane.py for a thread of its own that gathers many changes into one. docs/drivers/write-your-own.md is the
walk that ends here.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Literal, TypeVar

import msgspec

from windlass.core.changes import AlterAnswer, Alteration, Answer, Settlement
from windlass.drivers import protocol as p
from windlass.drivers.memory import inspect, jobs, leases, people, settlement
from windlass.drivers.memory.tables import Tables
from windlass.errors import DriverClosed, DriverForked, StoreFull, StoreUnavailable
from windlass.types import Claimed, Event, Group, Job, Limit, Micros, NewJob, Queue, Run

T = TypeVar("T")


class File(msgspec.Struct, kw_only=True):
    """What is stored. Nothing has a default: half a file must not pass for an empty store."""

    version: Literal[1]
    last_seq: int  # not max(seq): after a prune a new job would get the number that an old handle still carries
    jobs: list[Job]
    runs: dict[int, list[Run]]
    keys: list[tuple[tuple[str, str], tuple[str, Micros | None]]]  # pairs: a JSON object's keys cannot be tuples
    queues: dict[str, Queue]
    groups: dict[str, Group]
    limits: dict[str, Limit]
    outbox: list[Event]


class JsonDriver:
    capabilities = p.Capabilities(durable=True, shared=False, wakeups="push", sql=False)

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        """`sync=False` leaves flushing to the operating system: safe when the process dies, not when the power does."""
        self.path = os.path.realpath(path)  # a rename would replace a symbolic link, not what it points to
        self._sync, self._pid, self._lock = sync, os.getpid(), threading.Lock()
        self._closed = self._in_doubt = False
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        with ExitStack() as held, self._store_errors():
            # A lock file of its own, never renamed or deleted: the lock belongs to the inode, and ours is replaced.
            lock = held.enter_context(open(f"{self.path}.lock", "ab", opener=_private))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreUnavailable(f"{self.path}: another driver has it open; close that one first") from None
            self._directory = os.open(os.path.dirname(self.path), os.O_RDONLY)
            held.callback(os.close, self._directory)
            self._tables = self._load()
            self._stored = self._encode()
            self._held = held.pop_all()

    # ------------------------------------------------------------------------------------------------------- the file

    def _load(self) -> Tables:
        tables = Tables()
        if not os.path.exists(self.path):
            return tables
        try:
            with open(self.path, "rb") as file:
                saved = msgspec.json.decode(file.read(), type=File)
        except msgspec.DecodeError as error:  # never begin afresh here: the next change would erase what is left
            raise StoreUnavailable(f"{self.path}: is not a store ({error}); restore a backup or move it away") from None
        for job in saved.jobs:
            tables.put(job)  # also rebuilds the indexes
        tables.last_seq, tables.runs, tables.keys = saved.last_seq, saved.runs, dict(saved.keys)
        tables.queues, tables.groups, tables.limits = saved.queues, saved.groups, saved.limits
        tables.outbox = saved.outbox
        return tables

    def _encode(self) -> bytes:
        t = self._tables
        file = File(
            version=1, last_seq=t.last_seq, jobs=[t.jobs[seq] for seq in sorted(t.jobs)], runs=t.runs,
            keys=list(t.keys.items()), queues=t.queues, groups=t.groups, limits=t.limits, outbox=t.outbox,
        )  # fmt: skip
        return msgspec.json.encode(file)

    def _save(self) -> bool:
        """Make the file what the tables are; False when it is already. Whoever reads it sees the old or the new one."""
        text = self._encode()
        if text == self._stored:
            return False
        new = f"{self.path}.new"
        try:
            with open(new, "wb", opener=_private) as file:
                file.write(text)
                file.flush()
                self._fsync(file.fileno())  # before the rename, or a power cut could leave the new name on no content
            os.replace(new, self.path)
        except OSError:
            with suppress(OSError):
                os.unlink(new)  # half a file would keep a full disk full
            raise
        # If this last step fails, nobody knows which file a power cut would leave. We neither acknowledge nor go on.
        self._in_doubt = True
        self._fsync(self._directory)
        self._in_doubt, self._stored = False, text
        return True

    def _fsync(self, fd: int) -> None:
        if self._sync:
            os.fsync(fd)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(self.path) from error
            raise StoreUnavailable(f"{self.path}: {error.strerror}") from error

    # ------------------------------------------------------------------------------------------------- turns and wakes

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One at a time, readers too: nobody is shown a change that is not in the file yet."""
        if self._pid != os.getpid():
            raise DriverForked  # the child has the lock too, but not the parent's later changes
        with self._lock:
            if self._closed:
                raise DriverClosed
            if self._in_doubt:
                raise StoreUnavailable(f"{self.path}: the last change may or may not be stored; open the store again")
            yield

    def _read(self, look: Callable[[Tables], T]) -> T:
        with self._turn():
            return look(self._tables)

    def _write(self, change: Callable[[Tables], T]) -> T:
        with self._turn(), self._store_errors(), self._tables.transaction():
            answer = change(self._tables)
            changed = self._save()  # inside the transaction: what the disk refused is undone in memory too
        if changed:  # an empty claim wakes nobody, or two idle workers would wake each other for ever
            self._wake()
        return answer

    def _wake(self) -> None:
        for loop, told in list(self._waiters):
            loop.call_soon_threadsafe(told.set)
