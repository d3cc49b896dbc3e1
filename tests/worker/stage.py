"""What these tests share: an app on a real store that can be made to fail, hang or lose a reply."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from windlass.app import Windlass
from windlass.clock import ManualClock
from windlass.context import Context
from windlass.drivers import open_driver
from windlass.policies import Retry, fixed
from windlass.tasks import Task
from windlass.testing.faulty import Faulty
from windlass.types import Job
from windlass.worker import Worker

AT_ONCE = Retry(max_attempts=3, backoff=fixed("0s"))
PATIENCE = 30.0  # seconds after which a test is told that what it waits for will not come


class Stage:
    """An app whose clock stands still, on a store that can be broken."""

    def __init__(self, url: str, **settings: Any) -> None:
        usual: dict[str, Any] = {
            "lease": "300ms", "grace": "2s", "poll": "20ms", "concurrency": 4, "threads": 2, "retry": AT_ONCE,
        }  # fmt: skip
        self.clock = ManualClock()
        self.store = Faulty(open_driver(url))
        self.url = url
        self.app = Windlass(url, driver=self.store, clock=self.clock, random=Random(1), **(usual | settings))

    async def fetch(self, job_id: str) -> Job:
        [job] = await self.store.driver.get([job_id])
        assert job is not None, "it was enqueued"
        return job

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        """Return once it holds and the worker has heard of it.

        Things that happen on an event loop and in threads have no other common signal.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = condition()
                if answer if isinstance(answer, bool) else await answer:
                    return await self.store.answered()
                await asyncio.sleep(0.005)

    async def until_state(self, job_id: str, *states: str) -> Job:
        async def reached() -> bool:
            return (await self.fetch(job_id)).state in states

        await self.until(reached)
        return await self.fetch(job_id)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[Worker]:
        worker = self.app.worker(**options)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            self.store.mend()
            if not worker.stopping:
                worker.stop()
            async with asyncio.timeout(PATIENCE):
                await task

    async def drain(self, **options: Any) -> Worker:
        worker = self.app.worker(**options)
        async with asyncio.timeout(PATIENCE):
            await worker.run(drain=True)
        return worker


async def heard(event: threading.Event) -> None:
    """An event that handlers of both kinds wait for."""
    while not event.is_set():  # noqa: ASYNC110 - nothing tells a loop of it
        await asyncio.sleep(0.002)


def heeding(stage: Stage, run: str) -> tuple[Task[..., None], threading.Event, list[str]]:
    """A task, async or in a thread, that ends when the event is set; and the ids of the jobs that began, in their order."""
    go, began = threading.Event(), list[str]()

    @stage.app.task(context=True)
    async def waits(ctx: Context) -> None:
        began.append(ctx.job.id)
        await heard(go)

    @stage.app.task(context=True)
    def blocks(ctx: Context) -> None:
        began.append(ctx.job.id)
        assert go.wait(PATIENCE)

    return (waits if run == "async" else blocks), go, began


def sleeping(stage: Stage) -> tuple[Task[..., None], list[int]]:
    """A task that sleeps until it is stopped; and at what times of the stage's clock it was."""
    stopped_at: list[int] = []

    @stage.app.task
    async def sleeps() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped_at.append(stage.clock.now())
            raise

    return sleeps, stopped_at


async def let_lapse(stage: Stage, lease: int, stopped_at: list[int], steps: int = 20) -> None:
    """A lease goes by in small steps, so that the moment can be told at which a handler was stopped."""
    for _ in range(steps):
        stage.clock.advance(lease // 20)
        await asyncio.sleep(0.03)
        if stopped_at:
            break


def on_stage(url: str, play: Callable[[Stage], Awaitable[None]], **settings: Any) -> None:
    """Run one test on a fresh app, with a time limit."""

    async def main() -> None:
        stage = Stage(url, **settings)
        try:
            async with asyncio.timeout(2 * PATIENCE):
                await play(stage)
        finally:
            await stage.app.close()

    asyncio.run(main())
