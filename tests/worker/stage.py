"""What these tests share: an app on a real store, and a store that can be made to fail, hang or lose a reply.

`Faulty` is no stand-in: every call reaches the real driver, and a fault is something that happens before or after it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from windlass.app import Windlass
from windlass.clock import ManualClock
from windlass.drivers import open_driver
from windlass.drivers.protocol import Driver
from windlass.errors import StoreError
from windlass.policies import Retry, fixed
from windlass.types import Job
from windlass.worker import Worker

Fault = Callable[[Callable[[], Awaitable[Any]], tuple[Any, ...]], Awaitable[Any]]
AT_ONCE = Retry(max_attempts=3, backoff=fixed("0s"))
BREAKABLE = frozenset(
    "claim extend settle expire alter get waiting_types wait beat lead maintain examine".split(),
)
PATIENCE = 8.0  # seconds after which a test is told that what it waits for will not come


class Unreachable(StoreError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("the store is away")


class Faulty:
    """A real driver whose calls by name may be given a fault."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.faults: dict[str, Fault] = {}
        self._mended = asyncio.Event()
        self.calls: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.seen: dict[str, list[tuple[Any, ...]]] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.driver, name)
        if name not in BREAKABLE:
            return call

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            self.seen.setdefault(name, []).append(args)
            fault = self.faults.get(name)
            self.under_way[name] += 1
            try:
                return await (call(*args, **kwargs) if fault is None else fault(lambda: call(*args, **kwargs), args))
            finally:
                self.under_way[name] -= 1

        return guarded

    def fail(self, *names: str, error: BaseException | None = None) -> None:
        """From now on these calls raise before they reach the store."""

        async def fault(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            raise error or Unreachable()

        for name in names:
            self.faults[name] = fault

    def hang(self, *names: str) -> None:
        """From now on these calls do not return before the store is mended."""
        mended = self._mended = asyncio.Event()

        async def fault(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            await mended.wait()
            return await call()

        for name in names:
            self.faults[name] = fault

    def lose_reply(self, name: str) -> None:
        """The next call is committed, and its caller hears of an error."""

        async def fault(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            await call()
            del self.faults[name]
            raise Unreachable

        self.faults[name] = fault

    def hold(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """The next call reaches the store; its answer waits for the second event. The first one tells that it waits."""
        waits, go = asyncio.Event(), asyncio.Event()

        async def fault(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            del self.faults[name]
            answer = await call()
            waits.set()
            await go.wait()
            return answer

        self.faults[name] = fault
        return waits, go

    def mend(self) -> None:
        self.faults.clear()
        self._mended.set()


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
        """Return once it holds. Things that happen on an event loop and in threads have no other common signal."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = condition()
                if answer if isinstance(answer, bool) else await answer:
                    return
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
