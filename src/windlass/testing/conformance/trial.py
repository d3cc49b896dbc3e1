"""What every conformance case stands on: a fresh store, a clock that stands still, and short words for long calls."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from windlass.clock import SECOND, ManualClock
from windlass.core.alterations import Alteration
from windlass.core.changes import Ack, Answer, Fail, Retry, Settlement
from windlass.core.duties import Done, Duty, Prune
from windlass.core.queries import InOrder
from windlass.core.settle import Execution, Outcome, settle
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, Enqueued, Extended, Leadership, Renewal
from windlass.records import WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

LEASE: Final[Micros] = 30 * SECOND
MINUTE: Final[Micros] = 60 * SECOND


class Suite:
    """Subclass it in a test file, say how to make a driver, and pytest does the rest."""

    def make_driver(self) -> Driver:
        """A driver on a fresh, empty store."""
        raise NotImplementedError("return a driver on a fresh, empty store")

    def another(self, driver: Driver) -> Driver:
        """A second driver object on the same store. The same one, for stores that cannot be shared."""
        return driver


class Trial:
    """One case: a driver, the present moment, and names for what is done most."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.clock = ManualClock()
        self._names = itertools.count(1)

    @property
    def now(self) -> Micros:
        return self.clock.now()

    def name(self, stem: str = "job") -> str:
        return f"{stem}-{next(self._names)}"

    def new(self, **fields: Any) -> NewJob:
        return NewJob(**{"id": self.name(), "type": "work", **fields})

    async def enqueue(self, **fields: Any) -> str:
        return (await self.answer(**fields)).id

    async def enqueue_all(self, jobs: int, **fields: Any) -> list[str]:
        """So many that are alike, in one call."""
        return [answer.id for answer in await self.driver.enqueue([self.new(**fields) for _ in range(jobs)], now=self.now)]

    async def answer(self, **fields: Any) -> Enqueued:
        [answer] = await self.driver.enqueue([self.new(**fields)], now=self.now)
        return answer

    async def claim(
        self, *queues: str, limit: int = 100, lease_for: Micros = LEASE, token: str | None = None, **wish: Any
    ) -> list[Claimed]:
        claim = Claim(
            queues=queues or ("default",), limit=limit, lease_for=lease_for, worker_id=wish.pop("worker_id", "worker"),
            token=token or self.name("token"), **wish,
        )  # fmt: skip
        return await self.driver.claim(claim, now=self.now)

    async def take(self, *queues: str, **wish: Any) -> Claimed:
        """Claim one job that must be there."""
        [job] = await self.claim(*queues, limit=1, **wish)
        return job

    async def running(self, **fields: Any) -> Claimed:
        """Enqueue a job and claim it."""
        job_id = await self.enqueue(**fields)
        job = await self.take(fields.get("queue", "default"))
        assert job.id == job_id, "another job stood before the one just enqueued"
        return job

    async def settle(self, *changes: Settlement) -> list[Answer]:
        return await self.driver.settle(changes, now=self.now)

    async def end(self, job: Claimed, outcome: Outcome, **circumstances: Any) -> Answer:
        """Let core decide what an outcome means, and apply it."""
        run = Execution(**{"at": self.now, "child_id": self.name("link"), **circumstances})
        [answer] = await self.settle(settle(job, outcome, run))
        return answer

    async def ack(self, job: Claimed, **fields: Any) -> Answer:
        [answer] = await self.settle(Ack(**{"handle": job.handle, "token": job.token, "at": self.now, **fields}))
        return answer

    async def retry(self, job: Claimed, **fields: Any) -> Answer:
        told = {
            "handle": job.handle,
            "token": job.token,
            "at": self.now,
            "run_at": None,
            "attempts": 1,
            "error": "boom",
        }
        [answer] = await self.settle(Retry(**{**told, **fields}))
        return answer

    async def fail(self, job: Claimed, **fields: Any) -> Answer:
        told = {"handle": job.handle, "token": job.token, "at": self.now, "kind": "exhausted", "reason": "enough"}
        [answer] = await self.settle(Fail(**{**told, **fields}))
        return answer

    async def extend(self, job: Claimed, lease_for: Micros = LEASE, **fields: Any) -> Extended:
        renewal = Renewal(**{"handle": job.handle, "token": job.token, **fields})
        [extended] = await self.driver.extend([renewal], lease_for=lease_for, now=self.now)
        return extended

    async def alter(self, change: Alteration) -> str:
        [answer] = await self.driver.alter([change], now=self.now)
        return answer

    async def order(self, queue: str = "default") -> list[str]:
        """The queued jobs of a queue, first to last."""
        return [job.id for job in await self.driver.read(InOrder(queue=queue, limit=10_000))]

    def worker(self, worker_id: str, **fields: Any) -> WorkerInfo:
        told = {
            "hostname": "host", "pid": 1, "pool_size": 10, "version": "1", "queues": ("default",), "types": ("work",),
            "wakeups": "poll", "running": 0, "started_at": self.now,
        }  # fmt: skip
        return WorkerInfo(id=worker_id, **{**told, **fields})

    async def beat(self, worker_id: str, **fields: Any) -> None:
        await self.driver.beat(self.worker(worker_id, **fields), now=self.now)

    async def lead(self, worker_id: str, lease_for: Micros = LEASE) -> Leadership:
        return await self.driver.lead(worker_id, lease_for=lease_for, now=self.now)

    async def maintain(self, duty: Duty, epoch: int | None = None) -> Done | None:
        return await self.driver.maintain(duty, epoch=epoch, now=self.now)

    async def prune(self, **rules: Any) -> int:
        """How many rows go, by these rules."""
        done = await self.maintain(Prune(**rules))
        assert done is not None, "a person was refused"
        return done.rows

    async def quiet(self) -> None:
        """Until nobody is told of anything for some time: a store that has just begun to listen tells of that once."""
        silent = 0
        while silent < 4:
            silent = 0 if await self.driver.wait(timeout=0.05) else silent + 1

    async def job(self, job_id: str) -> Job:
        [job] = await self.driver.get([job_id])
        assert job is not None, f"{job_id} is not in the store"
        return job

    async def jobs(self, ids: Sequence[str]) -> list[Job]:
        return [await self.job(job_id) for job_id in ids]

    async def last_run(self, job_id: str) -> Run:
        return (await self.driver.runs(job_id))[-1]


S = TypeVar("S", bound=Suite)
Case = Callable[[S, Trial], Awaitable[None]]


def promise(case: Case[S]) -> Callable[[S], None]:
    """Turn `async def test_x(self, t)` into a test that runs on a driver of its own. Its docstring is the promise."""

    def test(self: S) -> None:
        asyncio.run(_try(self, case))

    test.__name__, test.__qualname__, test.__doc__ = case.__name__, case.__qualname__, case.__doc__
    test.__module__ = case.__module__
    return test


async def _try(suite: S, case: Case[S]) -> None:
    driver = suite.make_driver()
    try:
        await case(suite, Trial(driver))
    finally:
        await driver.close()
