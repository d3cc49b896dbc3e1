"""Handles of jobs: what `enqueue` returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar, cast

import msgspec

from windlass.apart import apart, check_no_loop
from windlass.clock import duration
from windlass.context import running_now
from windlass.core.alterations import Cancel, Delete, Replay, RunNow
from windlass.core.eligibility import label_of
from windlass.core.fields import check_limit
from windlass.core.history import RUNS_LIMIT
from windlass.errors import InvalidInput, JobCancelled, JobDead, shown
from windlass.foreign import JOB, Translates
from windlass.placing import Placed
from windlass.policies import Duration
from windlass.sealing import readable
from windlass.telling import why_it_waits
from windlass.types import Job, Run
from windlass.words import System, Words, words_of

if TYPE_CHECKING:
    from windlass.client import Client
    from windlass.codec import Results

R = TypeVar("R")


class JobHandle(Placed, Translates, Generic[R]):
    """A stored job, by its id: wait for its result, look at it, cancel it, run it again.

    Each call reads the store. If retries of the job are jobs of their own (`retry_mode="new_job"`), it concerns the last
    of them. Raises `JobNotFound` if there is no such job, and `Refused` if its state does not allow the change."""

    __slots__ = ("_results", "existed")
    _foreign = JOB

    def __init__(self, client: Client, job_id: str, results: Results | None, existed: bool = False) -> None:
        super().__init__(client, job_id)
        self.existed: Final = existed  # a job with the same key was there already, and this is it
        self._results = results

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until the job has ended and return what its handler returned.

        Raises `JobDead` or `JobCancelled` if it ended so, `JobNotFound` if there is no such job, `TimeoutError` after
        `timeout`, which does not stop the job, and `WouldHang` where it cannot end before the caller does."""
        seconds = None if timeout is None else duration(timeout, field="timeout") / 1_000_000
        within = running_now()
        try:
            async with asyncio.timeout(seconds) as limit:
                job = await self._client.watch().wait(
                    self.id, within.job if within is not None else None, self._client.around()
                )
        except TimeoutError:
            if not limit.expired():
                raise
            helps = why_it_waits(self._client.driver.capabilities.durable, f"windlass jobs why {self.id}")
            raise TimeoutError(f"job {self.id!r} has not ended within {seconds:g} s; {helps}") from None
        if job.state == "dead":
            raise JobDead(job.id, job.dead_reason or job.last_error, job.dead_kind)
        if job.state == "cancelled":
            raise JobCancelled(job.id, job.last_error)
        if self._results is not None:
            return cast("R", self._results.decode(job.result))
        return cast(
            "R", None if job.result is None else msgspec.json.decode(readable(job.result, "result"))
        )  # its task is not known here

    def result_sync(self, timeout: Duration | None = None) -> R:
        """The blocking form of `result`, for code without an event loop."""
        check_no_loop("result_sync()", "await job.result()")
        return apart(lambda: self.result(timeout))

    async def fetch(self) -> Job:
        """The job as it is stored now."""
        return await self._client.head(self.id)

    def fetch_sync(self) -> Job:
        """The blocking form of `fetch`."""
        return apart(lambda: self.fetch())

    async def runs(self, *, limit: int = RUNS_LIMIT) -> list[Run]:
        """The newest `limit` executions, the oldest of them first."""
        check_limit(limit)
        links = [job.id for job in await self._client.links(self.id)]
        found = await self._client.newest_runs(links, limit)
        return [run for link in links for run in found.get(link, ())]

    def runs_sync(self, *, limit: int = RUNS_LIMIT) -> list[Run]:
        """The blocking form of `runs`."""
        return apart(lambda: self.runs(limit=limit))

    async def words(self, system: System) -> Words:
        """The state of the job, in the words of one of the earlier systems."""
        job = await self.fetch()
        return words_of(label_of(job, self._client.now()), job.dead_kind, system)

    def words_sync(self, system: System) -> Words:
        """The blocking form of `words`."""
        return apart(lambda: self.words(system))

    async def cancel(self, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        """Cancel the job. A queued one is `cancelled` at once; of a running one it is `requested`: its handler is
        interrupted within about a second, and a handler that returns nevertheless has succeeded."""
        if not isinstance(reason, str):
            raise InvalidInput("reason", f"must be text, got {shown(reason)}")
        _, answer = await self._client.alter_head(
            self.id, lambda head: Cancel(head, reason), "cancelled", "only queued and running jobs can be"
        )
        if answer == "unchanged" and (await self.fetch()).state == "cancelled":
            return "cancelled"
        return "cancelled" if answer == "applied" else "requested"

    def cancel_sync(self, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        """The blocking form of `cancel`."""
        return apart(lambda: self.cancel(reason))

    async def retry(self) -> JobHandle[R]:
        """Run a dead job again, with all its attempts, and return the handle of the job that will run."""
        child = self._client.ids.job(self._client.now())
        head, _ = await self._client.alter_head(
            self.id, lambda job_id: Replay(job_id, child), "retried", "only dead jobs can be"
        )
        latest = await self._client.head(head)
        return JobHandle(self._client, latest.id, self._results)

    def retry_sync(self) -> JobHandle[R]:
        """The blocking form of `retry`."""
        return apart(lambda: self.retry())

    async def run_now(self) -> None:
        """Make a job that waits for its time due at once."""
        await self._client.alter_head(self.id, lambda head: RunNow(head), "brought forward", "only queued jobs can be")

    def run_now_sync(self) -> None:
        """The blocking form of `run_now`."""
        return apart(lambda: self.run_now())

    async def delete(self) -> None:
        """Remove a finished job with its executions and all links of its retry chain."""
        await self._client.alter_head(
            self.id, lambda head: Delete(head), "deleted", "only finished jobs can be; cancel it first"
        )

    def delete_sync(self) -> None:
        """The blocking form of `delete`."""
        return apart(lambda: self.delete())
