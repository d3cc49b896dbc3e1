"""What is measured, part by part. The worker of a drain runs in this process, with nothing else to do; that of the last
part in a process of its own, because that is how long a user waits."""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import Struct

from windlass.app import Windlass
from windlass.bench.place import Place
from windlass.bench.tasks import began, noop, noop_blocking
from windlass.tasks import Task
from windlass.worker.serving import short_turns

ARGUMENTS: Final = (1, 2, "hello")
CALL: Final = 1_000  # jobs in one enqueue_many
GAP: Final = 0.02  # seconds between two jobs for an idle worker
REST: Final = 0.2  # for a worker that has started to come to rest
LOOK: Final = 0.002
PATIENCE: Final = 600.0
WARM_UPS: Final = 3
STOPS_WITHIN: Final = 10.0


class Figure(Struct, frozen=True, kw_only=True):
    """One part, and what came out."""

    name: str
    what: str
    jobs: int
    seconds: float
    per_second: float | None = None
    cpu_us: float | None = None  # of this process, for each job
    p50_ms: float | None = None
    p99_ms: float | None = None


class Part(Struct, frozen=True):
    name: str
    what: str
    jobs: int
    run: Callable[[Place, int], Awaitable[Sequence[float] | tuple[float, float]]]
    waits: bool = False  # it answers how long each job waited; else seconds, and seconds of processor time


def parts_of(jobs: int) -> list[Part]:
    """With so many jobs to drain; enqueueing one at a time costs a commit each, and has a fifth of them."""
    singles, probes = max(jobs // 5, 10), min(max(jobs // 50, 10), 200)
    return [
        Part("enqueue_one", "enqueue one, 1 caller", singles, lambda place, n: _each(place, n, 1)),
        Part("enqueue_one_10", "enqueue one, 10 callers", singles, lambda place, n: _each(place, n, 10)),
        Part("enqueue_many", f"enqueue_many, {CALL:,} a call", jobs, _many),
        Part("drain_async", "drain, async handlers", jobs, lambda place, n: _drain(place, n, noop)),
        Part("drain_thread", "drain, blocking handlers in threads", jobs, lambda place, n: _drain(place, n, noop_blocking)),
        Part("pick_up", "from enqueue to an idle worker's handler", probes, _pick_up, waits=True),
    ]


async def measured(place: Place, part: Part) -> Figure:
    began_at = time.perf_counter()
    async with asyncio.timeout(PATIENCE):
        answer = await part.run(place, part.jobs)
    if part.waits:
        waits = sorted(1_000 * wait for wait in answer)
        return Figure(
            name=part.name, what=part.what, jobs=part.jobs, seconds=time.perf_counter() - began_at,
            p50_ms=percentile(waits, 50), p99_ms=percentile(waits, 99),
        )  # fmt: skip
    seconds, cpu = answer
    return Figure(
        name=part.name, what=part.what, jobs=part.jobs, seconds=seconds, per_second=part.jobs / seconds,
        cpu_us=1e6 * cpu / part.jobs,
    )  # fmt: skip


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of them that so many of a hundred do not exceed."""
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


# ------------------------------------------------------------------------------------------------------------- enqueueing


@asynccontextmanager
async def _opened(place: Place, function: Callable[..., Any], queue: str) -> AsyncIterator[tuple[Windlass, Task[..., Any]]]:
    app = place.app()
    task: Task[..., Any] = app.task(queue=queue)(function)
    async with app:
        await app.client.ready()  # opening the store is no part of what is measured
        yield app, task


async def _each(place: Place, jobs: int, callers: int) -> tuple[float, float]:
    """Jobs that nobody takes: their queue is none that is drained."""
    async with _opened(place, noop, "one") as (_, task):

        async def call(first: int) -> None:
            for _ in range(first, jobs, callers):
                await task.enqueue(*ARGUMENTS)

        cpu, began_at = time.process_time(), time.perf_counter()
        await asyncio.gather(*map(call, range(callers)))
        return time.perf_counter() - began_at, time.process_time() - cpu


async def _many(place: Place, jobs: int) -> tuple[float, float]:
    async with _opened(place, noop, "many") as (app, task):
        cpu, began_at = time.process_time(), time.perf_counter()
        await _fill(app, task, jobs)
        return time.perf_counter() - began_at, time.process_time() - cpu


async def _fill(app: Windlass, task: Task[..., Any], jobs: int) -> None:
    for done in range(0, jobs, CALL):
        await app.enqueue_many(task.job(*ARGUMENTS) for _ in range(min(CALL, jobs - done)))


# --------------------------------------------------------------------------------------------------------------- draining


async def _drain(place: Place, jobs: int, function: Callable[..., Any]) -> tuple[float, float]:
    """From the moment a paused queue is opened, the worker ready and waiting, until every settlement is stored."""
    queue = function.__name__
    async with _opened(place, function, queue) as (app, task):
        await _fill(app, task, jobs)
        await app.admin.pause(queue)
        async with app.running() as worker:
            await asyncio.sleep(REST)
            with short_turns():
                cpu, began_at = time.process_time(), time.perf_counter()
                await app.admin.resume(queue)
                while worker.stats.succeeded < jobs:  # noqa: ASYNC110  (plain numbers: nobody tells of them)
                    await asyncio.sleep(LOOK)
                return time.perf_counter() - began_at, time.process_time() - cpu


# ------------------------------------------------------------------------------------------------------- an idle worker


async def _pick_up(place: Place, jobs: int) -> list[float]:
    """Seconds from just before a call that enqueues to the start of the handler: the durable commit is inside."""
    async with _opened(place, began, "default") as (app, task), _somebody(place, app):
        for _ in range(WARM_UPS):
            await (await task.enqueue()).result("1m")
        return [await _probe(task) for _ in range(jobs)]


async def _probe(task: Task[..., Any]) -> float:
    await asyncio.sleep(GAP)
    sent = time.perf_counter()
    handle = await task.enqueue()
    at: float = await handle.result("1m")
    return at - sent


@asynccontextmanager
async def _somebody(place: Place, app: Windlass) -> AsyncIterator[None]:
    """A worker in a process of its own, where the store can be shared."""
    if not place.shared:
        async with app.running():
            yield
        return
    command = [sys.executable, "-m", "windlass", "worker", "windlass.bench.tasks:app", "--quiet"]
    process = await asyncio.create_subprocess_exec(
        *command, env=place.environment(), stdout=asyncio.subprocess.DEVNULL, process_group=0
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOPS_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
