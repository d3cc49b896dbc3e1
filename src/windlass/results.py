"""Waiting for jobs to end: one query per process and tick for all that are awaited, and none while nobody waits.

The pause between two looks grows from 10 ms to half a second while nothing ends. A worker in the same process says at
once when it has settled something, so that `await job.result()` in one program does not wait for the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from windlass.drivers.protocol import Driver
from windlass.errors import JobNotFound
from windlass.types import TERMINAL, Job

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.5


class ResultWatch:
    """For one event loop."""

    def __init__(self, driver: Callable[[], Driver]) -> None:
        self._driver = driver
        self._awaited: dict[str, list[asyncio.Future[Job]]] = {}
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, job_id: str) -> Job:
        """The job, or the last link of its chain, once it has ended."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(job_id, []).append(future)
        self._told.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())
        try:
            return await future
        finally:
            if future.cancelled():  # whoever has an answer is forgotten already
                self._forget(future)

    def tell(self) -> None:
        """Something may have ended."""
        if self._awaited:
            self._told.set()

    def _forget(self, future: asyncio.Future[Job]) -> None:
        for job_id, futures in list(self._awaited.items()):
            if future in futures:
                futures.remove(future)
                if not futures:
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
                self._awaited.setdefault(job.superseded_by, []).extend(self._awaited.pop(job_id, []))
                self._told.set()
            elif job is None or job.state in TERMINAL:
                ended = True
                for future in self._awaited.pop(job_id, []):
                    if not future.done():
                        _answer(future, job, job_id)
        return ended

    def _fail(self, error: Exception) -> None:
        """The store cannot be read: whoever waits is told why, instead of waiting for ever."""
        for futures in self._awaited.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        self._awaited.clear()


def _answer(future: asyncio.Future[Job], job: Job | None, job_id: str) -> None:
    if job is None:
        future.set_exception(JobNotFound(job_id))
    else:
        future.set_result(job)
