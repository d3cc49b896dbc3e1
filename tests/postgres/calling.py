"""A driver behind a network that fails, and every call that can be made on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from windlass.clock import SECOND
from windlass.core.alterations import SetPaused
from windlass.core.changes import Ack, Retry
from windlass.core.duties import ForgetKeys, SampleQueues
from windlass.core.queries import AllWorkers
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Claim, JobQuery, Renewal
from windlass.records import WorkerInfo
from windlass.types import Claimed, NewJob

from .proxy import Proxy
from .server import Server, unique_name

TIMEOUT = 1.0
LEASE = 30 * SECOND
_numbers = count()


def new(job_id: str | None = None, **fields: Any) -> NewJob:
    return NewJob(**{"id": job_id or f"job-{next(_numbers)}", "type": "work", **fields})


def wish(limit: int = 10, lease_for: int = LEASE, **fields: Any) -> Claim:
    token = f"token-{next(_numbers)}"
    return Claim(queues=("default",), limit=limit, lease_for=lease_for, worker_id="w", token=token, **fields)


def ack(job: Claimed, now: int) -> Ack:
    return Ack(handle=job.handle, token=job.token, at=now)


def retry(job: Claimed, now: int) -> Retry:
    return Retry(handle=job.handle, token=job.token, at=now, run_at=None, attempts=1, error="boom")


class Line:
    """A driver that reaches its server through a proxy, and another that reaches it directly."""

    def __init__(self, server: Server, proxy: Proxy, schema: str, timeout: float) -> None:
        self.server, self.proxy, self.schema = server, proxy, schema
        self.direct = PostgresDriver(server.dsn(), schema=schema)
        self.driver = PostgresDriver(proxy.dsn(), schema=schema, timeout=timeout)

    def now(self) -> int:
        return self.direct.clock.now()

    async def claimed(self, jobs: int = 1) -> list[Claimed]:
        await self.direct.enqueue([new() for _ in range(jobs)], now=self.now())
        taken = await self.driver.claim(wish(jobs), now=self.now())
        assert len(taken) == jobs
        return taken

    async def close(self) -> None:
        self.proxy.heal()
        await self.driver.close()
        await self.direct.close()


@contextmanager
def line(server: Server, timeout: float = TIMEOUT) -> Iterator[Line]:
    with Proxy(server.port) as proxy:
        made = Line(server, proxy, unique_name("line"), timeout)
        try:
            yield made
        finally:
            asyncio.run(made.close())


Call = Callable[[PostgresDriver, int], Awaitable[Any]]


def calls(job: Claimed) -> dict[str, Call]:
    """Each method of a driver once. `job` is one that the driver holds."""
    me = WorkerInfo(
        id="w", hostname="h", pid=1, pool_size=1, version="1", queues=(), types=(), wakeups="push", running=0, started_at=1
    )
    return {
        "enqueue": lambda d, now: d.enqueue([new()], now=now),
        "enqueue with a key": lambda d, now: d.enqueue([new(dedupe_key="k")], now=now),
        "enqueue_sync": lambda d, now: asyncio.to_thread(d.enqueue_sync, [new()], now=now),
        "claim": lambda d, now: d.claim(wish(), now=now),
        "extend": lambda d, now: d.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=now),
        "settle": lambda d, now: d.settle([ack(job, now)], now=now),
        "settle in a transaction": lambda d, now: d.settle([retry(job, now)], now=now),
        "expire": lambda d, now: d.expire(now=now, limit=10),
        "alter": lambda d, now: d.alter([SetPaused("other", True)], now=now),
        "beat": lambda d, now: d.beat(me, now=now),
        "lead": lambda d, now: d.lead("w", lease_for=LEASE, now=now),
        "maintain": lambda d, now: d.maintain(ForgetKeys(), epoch=None, now=now),
        "sample": lambda d, now: d.maintain(SampleQueues(keep=SECOND), epoch=None, now=now),
        "get": lambda d, now: d.get([job.id]),
        "runs": lambda d, now: d.runs(job.id),
        "find": lambda d, now: d.find(JobQuery()),
        "count": lambda d, now: d.count(now=now),
        "waiting_types": lambda d, now: d.waiting_types(None, limit=5),
        "read": lambda d, now: d.read(AllWorkers()),
        "examine": lambda d, now: d.examine(now=now),
        "wait": lambda d, now: d.wait(timeout=TIMEOUT),
    }


async def timed(call: Awaitable[Any]) -> tuple[float, Any]:
    """How long it took, and what it answered or raised."""
    began = time.monotonic()
    try:
        answer = await call
    except Exception as error:
        answer = error
    return time.monotonic() - began, answer


class Machine:
    """`with Machine() as machine`: the longest time for which a thread that has nothing to do was kept from doing it."""

    def __enter__(self) -> Machine:
        self.longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()
        return self

    def _measure(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(0.01):
            before, took = time.monotonic(), time.monotonic() - before
            self.longest = max(self.longest, took - 0.01)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


class Lag:
    """`async with Lag() as lag`: the longest time for which the event loop did nothing else."""

    async def __aenter__(self) -> Lag:
        self.longest = 0.0
        self._task = asyncio.create_task(self._measure())
        return self

    async def _measure(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            self.longest = max(self.longest, time.monotonic() - before - 0.01)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
