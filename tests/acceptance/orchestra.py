"""The Task Orchestrator's queue on its preset, and workers that exist as rows only."""

from __future__ import annotations

from random import Random
from typing import Any

from windlass import Windlass
from windlass.admin import Admin
from windlass.clock import SECOND
from windlass.drivers.values import Claim
from windlass.options import plan
from windlass.presets import ORCHESTRATOR
from windlass.records import WorkerInfo
from windlass.types import Claimed, Micros, NewJob

from .place import Place

QUEUE = "orchestra"
TERM: Micros = 30 * SECOND


class Orchestra:
    """An app whose queue is on the preset, and workers that exist as rows only."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.app: Windlass = place.app()
        self.app.queue(QUEUE, preset="orchestrator")
        self.driver = self.app.client.driver
        self._random = Random(3)

    @property
    def now(self) -> Micros:
        return self.place.clock.now()

    def task(self, type: str = "task:backup", **said: Any) -> NewJob:  # noqa: A002 - its name in the tasks table
        made = plan(type, {"queue": QUEUE, **said}, ORCHESTRATOR, self.app.client.settings)
        return made.make(self.app.client.ids.job(self.now), b"{}", self.now)

    async def enqueue(self, type: str = "task:backup", **said: Any) -> str:  # noqa: A002
        [answer] = await self.driver.enqueue([self.task(type, **said)], now=self.now)
        return answer.id

    async def claim(
        self, worker_id: str = "host-1-a", limit: int = 10, *, start: bool = True, lease: Micros = TERM
    ) -> list[Claimed]:
        token = f"{self._random.random()}"
        wish = Claim(
            queues=(QUEUE,), limit=limit, lease_for=lease, worker_id=worker_id, token=token, start=start
        )  # fmt: skip
        return await self.driver.claim(wish, now=self.now)

    async def word(self, job_id: str) -> str:
        return (await self.app.job(job_id).words("orchestrator")).state

    async def beat(self, worker_id: str) -> None:
        about = WorkerInfo(
            id=worker_id, hostname="host", pid=1, pool_size=4, version="1.2.3", queues=(QUEUE,), types=(), wakeups="poll",
            running=0, started_at=self.now,
        )  # fmt: skip
        await self.driver.beat(about, now=self.now)

    async def acquire(self, worker_id: str) -> bool:
        """Whether this worker leads after it has asked: rows affected = 1."""
        answer = await self.driver.lead(worker_id, lease_for=TERM, now=self.now)
        return answer.worker_id == worker_id

    async def leaders(self) -> list[str]:
        return [view.id for view in (await Admin(self.app.client).workers()).workers if view.is_leader]
