"""Waiting for jobs to end: one query per process and tick for all that are awaited, and none while nobody waits.

The pause between two looks grows from 10 ms to half a second while nothing ends. A worker in the same process says at
once when it has settled something, so that `await job.result()` in one program does not wait for the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from windlass.apart import WouldHang
from windlass.drivers.protocol import Driver
from windlass.errors import JobNotFound
from windlass.types import TERMINAL, Claimed, Job

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.5
ITSELF: Final = (
    "a handler cannot wait for its own job, which ends after it does: "
    "return the result, or raise Snooze(...) to look again later. A task that goes on after the handler waits in a context "
    "of its own: asyncio.create_task(..., context=contextvars.Context())"
)
HELD: Final = (
    "nothing ends in this store before this block does, which holds its only write lock: wait before the block, or let "
    "another job do what follows (after=[...], group.finish_with(...))"
)
UNCOMMITTED: Final = (
    "what this block has enqueued begins when this block ends: wait for what was enqueued before the block, or let another "
    "job do what follows (after=[...], group.finish_with(...))"
)


class Around(Protocol):
    """A transaction in whose block somebody waits."""

    @property
    def alone(self) -> bool:
        """While it is open nobody else can write."""
        ...

    def has_new(self, noun_id: str) -> bool:
        """Whether this job or group is known to nobody else so far."""
        ...


class Waiter(NamedTuple):
    told: asyncio.Future[Job]
    within: Claimed | None  # the job whose handler waits
    around: Around | None  # the transaction that is open meanwhile
    passed: set[str]  # links of the chain that others have taken over from


class ResultWatch:
    """The waiters of one event loop."""

    def __init__(self, driver: Callable[[], Driver]) -> None:
        self._driver = driver
        self._awaited: dict[str, list[Waiter]] = {}
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, job_id: str, within: Claimed | None = None, around: Around | None = None) -> Job:
        """The job, or the last link of its chain, once it has ended. A handler says `within` which job it waits, and which
        transaction it has `around` it."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(job_id, []).append(Waiter(future, within, around, set()))
        self._told.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())
        try:
            return await future
        finally:
            if not future.done() or future.cancelled() or future.exception() is not None:  # who has a job is forgotten
                self._forget(future)

    def tell(self) -> None:
        """Something may have ended."""
        if self._awaited:
            self._told.set()

    def _forget(self, future: asyncio.Future[Job]) -> None:
        for job_id, waiters in list(self._awaited.items()):
            self._awaited[job_id] = [waiter for waiter in waiters if waiter.told is not future]
            if not self._awaited[job_id]:
                del self._awaited[job_id]

    async def _watch(self) -> None:
        pause = FIRST_PAUSE
        while self._awaited:
            self._told.clear()
            try:
                ended = await self._look()
            except Exception as error:
                self._fail(error)
                return
            pause = FIRST_PAUSE if ended else min(pause * 1.5, LONGEST_PAUSE)
            try:
                await asyncio.wait_for(self._told.wait(), pause)
                pause = FIRST_PAUSE
            except TimeoutError:
                pass

    async def _look(self) -> bool:
        ids = list(self._awaited)
        ended = False
        for job_id, job in zip(ids, await self._driver().get(ids), strict=True):
            if job is not None and job.superseded_by is not None:
                self._follow(job, job.superseded_by)
            elif job is None or job.state in TERMINAL:
                ended = True
                for waiter in self._awaited.pop(job_id, []):
                    if not waiter.told.done():
                        _answer(waiter, job, job_id)
            else:
                for waiter in self._awaited.get(job_id, ()):
                    if (why := _in_vain(waiter, job)) is not None and not waiter.told.done():
                        waiter.told.set_exception(WouldHang(why))
        return ended

    def _follow(self, job: Job, following: str) -> None:
        """To the next link. A chain that somebody's SQL has tied to itself has no last one: the job stands for itself."""
        for waiter in self._awaited.pop(job.id, []):
            waiter.passed.add(job.id)
            if following not in waiter.passed:
                self._awaited.setdefault(following, []).append(waiter)
            elif not waiter.told.done():
                _answer(waiter, job, job.id)
        self._told.set()

    def _fail(self, error: Exception) -> None:
        """Tell all waiters that the store cannot be read, so that they do not wait for ever."""
        for waiters in self._awaited.values():
            for waiter in waiters:
                if not waiter.told.done():
                    waiter.told.set_exception(error)
        self._awaited.clear()


def is_same_run(job: Job, within: Claimed) -> bool:
    """By the lease too: another store may have a job with this id, and a later run is somebody else's."""
    return job.state == "running" and (job.id, job.lease_token) == (within.id, within.token)


def _in_vain(waiter: Waiter, job: Job) -> str | None:
    if waiter.within is not None and is_same_run(job, waiter.within):
        return ITSELF
    return HELD if waiter.around is not None and waiter.around.alone else None


def _answer(waiter: Waiter, job: Job | None, job_id: str) -> None:
    if job is not None:
        waiter.told.set_result(job)
    elif waiter.around is not None and waiter.around.has_new(job_id):
        waiter.told.set_exception(WouldHang(UNCOMMITTED))
    else:
        waiter.told.set_exception(JobNotFound(job_id))
