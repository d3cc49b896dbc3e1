"""TaskHarbor's driver contract under its own names, on a queue of its preset."""

from __future__ import annotations

from typing import Any

from windlass import Windlass
from windlass.clock import SECOND
from windlass.drivers.singular import Lease, RetryUpdate, ack, enqueue, extend_lease, fail, reserve, retry
from windlass.drivers.values import Enqueued
from windlass.options import plan
from windlass.presets import TASKHARBOR
from windlass.types import Claimed, Job, Micros, NewJob

from .place import Place

LEASE: Micros = 30 * SECOND


class Harbor:
    """A queue on the preset, with the calls of the driver contract under their own names."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.app: Windlass = place.app()
        self.app.queue("harbor", preset="taskharbor")
        self.driver = self.app.client.driver
        self._made = 0

    @property
    def now(self) -> Micros:
        return self.place.clock.now()

    def record(self, run_at: Micros | None = None, key: str | None = None, **fields: Any) -> NewJob:
        self._made += 1
        said = {"queue": "harbor", **({"idempotency_key": key} if key is not None else {})}
        made = plan(fields.pop("type", "send"), said, TASKHARBOR, self.app.client.settings)
        new = made.make(f"job-{self._made}", b"\x00\xff raw", self.now)
        return _with(new, codec="raw", run_at=run_at, **fields)

    async def enqueue(self, run_at: Micros | None = None, **fields: Any) -> str:
        return (await self.answer(run_at, **fields)).id

    async def answer(self, run_at: Micros | None = None, **fields: Any) -> Enqueued:
        return await enqueue(self.driver, self.record(run_at, **fields), now=self.now)

    async def reserve(self, lease_for: Micros = LEASE) -> Claimed | None:
        return await reserve(self.driver, "harbor", now=self.now, lease_for=lease_for)

    async def inflight(self, **fields: Any) -> Claimed:
        await self.enqueue(**fields)
        job = await self.reserve()
        assert job is not None
        return job

    async def ack(self, job: Claimed, token: str | None = None) -> object:
        return await ack(self.driver, job.id, token or job.token, now=self.now)

    async def retry(self, job: Claimed, token: str | None = None, **update: Any) -> object:
        told = RetryUpdate(**{"attempts": 1, "last_error": "boom", **update})
        return await retry(self.driver, job.id, token or job.token, told, now=self.now)

    async def fail(self, job: Claimed, token: str | None = None, reason: str = "no hope") -> object:
        return await fail(self.driver, job.id, token or job.token, reason, now=self.now)

    async def extend(self, job: Claimed, token: str | None = None, lease_for: Micros = LEASE) -> Lease:
        return await extend_lease(self.driver, job.id, token or job.token, now=self.now, lease_for=lease_for)

    async def row(self, job: Claimed | str) -> Job:
        [row] = await self.driver.get([job if isinstance(job, str) else job.id])
        assert row is not None
        return row

    async def word(self, job: Claimed | str) -> str:
        return (await self.app.job(job if isinstance(job, str) else job.id).words("taskharbor")).state


def _with(new: NewJob, **fields: Any) -> NewJob:
    told = {name: getattr(new, name) for name in new.__struct_fields__}
    return NewJob(**{**told, **fields})
