"""The Job Scheduler's queue on its preset, with a dispatcher that takes one step when a test says so."""

from __future__ import annotations

from typing import Any

from windlass import Windlass
from windlass.core.changes import Answer, Report
from windlass.core.eligibility import label_of
from windlass.core.settle import Execution, Outcome, Succeeded, settle
from windlass.drivers.values import Claim
from windlass.options import plan
from windlass.presets import SCHEDULER
from windlass.types import Claimed, Job, Micros, NewJob, Run
from windlass.words import Words, words_of

from .place import Place

QUEUE = "stories"
LEASE: Micros = 30_000_000


class Desk:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.app: Windlass = place.app()
        self.app.queue(QUEUE, preset="scheduler")

    @property
    def now(self) -> Micros:
        return self.place.clock.now()

    def job(self, type: str = "story", params: bytes = b"{}", **said: Any) -> NewJob:  # noqa: A002
        made = plan(type, {"queue": QUEUE, **said}, SCHEDULER, self.app.client.settings)
        return made.make(self.app.client.ids.job(self.now), params, self.now)

    async def enqueue(self, type: str = "story", params: bytes = b"{}", **said: Any) -> str:  # noqa: A002
        [answer] = await self.app.client.enqueue([self.job(type, params, **said)], self.now)
        return answer.id

    async def dispatch(self, limit: int = 1) -> list[Claimed]:
        token = self.app.client.ids.token()
        wish = Claim(queues=(QUEUE,), limit=limit, lease_for=LEASE, worker_id="dispatcher", token=token)
        return await self.app.client.driver.claim(wish, now=self.now)

    async def dispatch_all(self) -> list[str]:
        """One after another, because one runs at a time; each succeeds. Their ids, in order."""
        order: list[str] = []
        while found := await self.dispatch(10):
            [job] = found
            order.append(job.id)
            await self.end(job, Succeeded())
        return order

    async def dispatched(self, **said: Any) -> Claimed:
        await self.enqueue(**said)
        [job] = await self.dispatch()
        return job

    async def end(self, job: Claimed, outcome: Outcome, report: Report | None = None) -> Answer:
        change = settle(job, outcome, Execution(self.now, None, self.app.client.ids.job(self.now), 0.0, report))
        [answer] = await self.app.client.driver.settle([change], now=self.now)
        return answer

    async def row(self, job_id: str) -> Job:
        [row] = await self.app.client.driver.get([job_id])
        assert row is not None
        return row

    async def runs(self, job_id: str) -> list[Run]:
        return await self.app.client.driver.runs(job_id)

    async def words(self, job_id: str) -> Words:
        row, runs = await self.row(job_id), await self.runs(job_id)
        return words_of(label_of(row, self.now), row.dead_kind, "scheduler", runs[-1].status if runs else None)

    async def chain(self, job_id: str) -> list[Job]:
        """The links from this one to the last."""
        links = [await self.row(job_id)]
        while links[-1].superseded_by is not None:
            links.append(await self.row(links[-1].superseded_by))
        return links
