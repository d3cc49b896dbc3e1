"""A store that can be broken, a clock that stands still, and coordinators of as many workers as a test wants.

Ticks are called one by one: what a loop would do in an hour takes no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from windlass.client import Client
from windlass.clock import SECOND, ManualClock
from windlass.config import settings_from
from windlass.coordinator import Coordinator
from windlass.coordinator.ticking import Ticks
from windlass.core.changes import Ack
from windlass.core.queries import AllWorkers
from windlass.drivers import open_driver
from windlass.drivers.values import Claim
from windlass.records import WorkerInfo
from windlass.testing.faulty import Faulty
from windlass.types import Claimed, NewJob
from windlass.worker.recovering import recover_lapsed
from windlass.worker.stats import Stats

PATIENCE = 10.0


class Member:
    """One worker's part in the fleet."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.stats = Stats()
        self.running = 0
        self.trusts = True
        client = ground.client
        about = WorkerInfo(
            id=name, hostname="here", pid=7, pool_size=12, version="1.2.3", queues=("a", "b"), types=("t",), wakeups="",
            running=0, started_at=ground.clock.now(),
        )  # fmt: skip

        async def recover() -> None:
            self.stats.recovered += await recover_lapsed(client)

        self.part = Coordinator(
            client, self.stats, about, running=lambda: self.running, recover=recover, trusts=lambda: self.trusts
        )
        self.registry, self.election = self.part.registry, self.part.election

    def duty(self, name: str) -> Ticks:
        [duty] = [duty for duty in self.part.duties if duty.name == name]
        return duty

    async def elected(self) -> int:
        """Registered, and the leader."""
        await self.registry.tick()
        await self.election.tick()
        assert self.election.epoch is not None
        return self.election.epoch


class Ground:
    def __init__(self, url: str, **settings: Any) -> None:
        self.clock = ManualClock()
        self.store = Faulty(open_driver(url))
        self.client = Client(url, settings_from(settings, {}), driver=self.store, clock=self.clock, random=Random(1))
        self.settings = self.client.settings

    def member(self, name: str) -> Member:
        return Member(self, name)

    async def registered(self) -> dict[str, WorkerInfo]:
        return {row.id: row for row in await self.store.driver.read(AllWorkers())}

    async def enqueue(self, *ids: str, **fields: Any) -> None:
        jobs = [NewJob(id=name, type="t", queue="a", **fields) for name in ids]
        await self.store.driver.enqueue(jobs, now=self.clock.now())

    async def claim(self, worker_id: str, limit: int = 10, lease: int = 30 * SECOND) -> list[Claimed]:
        wish = Claim(queues=("a",), limit=limit, lease_for=lease, worker_id=worker_id, token=f"t{self.clock.now()}")
        return await self.store.driver.claim(wish, now=self.clock.now())

    async def finished(self, *ids: str) -> None:
        """Jobs that have succeeded now."""
        await self.enqueue(*ids)
        now = self.clock.now()
        done = [Ack(handle=job.handle, token=job.token, at=now) for job in await self.claim("w", len(ids))]
        assert await self.store.driver.settle(done, now=now) == ["applied"] * len(ids)

    async def states(self, *ids: str) -> list[str | None]:
        return [None if job is None else job.state for job in await self.store.driver.get(list(ids))]


def on_ground(url: str, play: Callable[[Ground], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        ground = Ground(url, **settings)
        try:
            async with asyncio.timeout(PATIENCE):
                await play(ground)
        finally:
            await ground.client.close()

    asyncio.run(main())
