"""Windlass as its users meet it: an app, its tasks, and worker processes started from the command line.

Nothing here is nearer to the store than a user is. Jobs are enqueued by the tasks' own calls; workers are
`python -m windlass worker bench_tasks:app`; what they cost is read from outside. Every drain is counted afterwards.

    python bench/fleet.py drain --jobs 50000 --processes 2 [--store postgres [--server URL]]
    python bench/fleet.py drain --beside finished --rows 1000000
    python bench/fleet.py urgent --rows 100000
    python bench/fleet.py steady --rate 2000 --seconds 600 --held --store postgres
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final

import bench_tasks
from bench_tasks import noop, stamp
from beside import MEASURED, put, queues_of
from grounds import Ground, Measured, ground
from parts import LONGEST_S, WARM_UPS, Options, options_of, rate, wait_for_marks, waits, warm_up
from pressure import steady, urgent
from processes import cpu_percent, cpu_seconds, latencies_ms, percentile, rss_mb, wait_until
from workers import APPS, ARGUMENTS, Kind, Running, enqueue_all, on_store, set_paused, worker

from windlass.app import Windlass

GAP_S: Final = 0.020
LOOK_S: Final = 0.005
RUNS: Final[dict[Kind, int]] = {"retry": 2, "lean": 0}  # rows of runs, of a job; else 1


# -------------------------------------------------------------------------------------------------------------- drain


def drain(there: Ground, options: Options) -> Measured:
    """The clock runs from the moment a paused queue is opened, every process ready and waiting, until a look at the store
    finds nothing queued and nothing running: the last settlement is committed by then."""
    name, task = APPS[options.kind]
    app: Windlass = getattr(bench_tasks, name)
    queues, spread = queues_of(options.beside, options.rows), options.beside == "queues"
    with on_store(bench_tasks.app, there.url):  # what is beside is of that app
        put(there, options.beside, options.rows)
    with on_store(app, there.url):
        enqueue_all(app, task, options.jobs, queues, priority=MEASURED)
        last = there.last()
        set_paused(app, True, queues)
        there.rest()
        serves = queues if spread else ()
        with worker(there.url, there.directory, name, processes=options.processes, queues=serves) as running:
            found = timed_drain(there, options.jobs, last, running, lambda: set_paused(app, False, queues), spread=spread)
    there.check(task.name, options.jobs, options.jobs * RUNS.get(options.kind, 1))
    return {**found, "series": {"per_second": there.tally(task.name)}}


def timed_drain(
    there: Ground, jobs: int, last: int, running: Running, opens: Callable[[], None], *, spread: bool = False
) -> Measured:
    """`opens` lets them begin; `last` is the number of the job that stands last."""
    cpu = cpu_seconds(running.pid)
    there.begin()
    began = time.monotonic()
    opens()
    wait_until(
        lambda: _drained(there, running, last, spread), LONGEST_S, lambda: running.words("it is not drained"), LOOK_S
    )
    seconds = time.monotonic() - began
    server, cpu, memory = there.end(jobs), cpu_seconds(running.pid) - cpu, rss_mb(running.pid)
    return {**rate(jobs, seconds), "cpu_us": cpu * 1e6 / jobs, "rss_mb": memory, **server}


def _drained(there: Ground, running: Running, last: int, spread: bool) -> bool:
    running.check()
    return there.is_drained(last, MEASURED, spread=spread)


# ------------------------------------------------------------------------------------------------------------ enqueue


async def enqueue_each(jobs: int, callers: int) -> float:
    async def call(first: int) -> None:
        for _ in range(first, jobs, callers):
            await noop.enqueue(*ARGUMENTS)

    began = time.perf_counter()
    await asyncio.gather(*(call(first) for first in range(callers)))
    return time.perf_counter() - began


def enqueue_blocking(jobs: int) -> float:
    began = time.perf_counter()
    for _ in range(jobs):
        noop.enqueue_sync(*ARGUMENTS)
    return time.perf_counter() - began


async def enqueue_many(app: Windlass, jobs: int, batch: int) -> float:
    began = time.perf_counter()
    for done in range(0, jobs, batch):
        await app.enqueue_many(noop.job(*ARGUMENTS) for _ in range(min(batch, jobs - done)))
    return time.perf_counter() - began


def enqueue(there: Ground, options: Options) -> Measured:
    async def work(app: Windlass) -> float:
        async with app:
            if options.part == "many":
                return await enqueue_many(app, options.jobs, options.batch)
            return await enqueue_each(options.jobs, options.callers)

    with on_store(bench_tasks.app, there.url) as app:
        app.client.now()  # opens the store: no part of an enqueue
        there.begin()
        cpu = time.process_time()
        seconds = enqueue_blocking(options.jobs) if options.blocking else asyncio.run(work(app))
        cpu = time.process_time() - cpu
        server = there.end(options.jobs)
    stored = there.one(f"select count(*) from {there.names['jobs']}")
    assert stored == options.jobs, f"{stored} jobs are stored, {options.jobs} were enqueued"
    return {**rate(options.jobs, seconds), "cpu_us": cpu * 1e6 / options.jobs, **server}


# -------------------------------------------------------------------------------------------------- an idle worker


def latency(there: Ground, options: Options) -> Measured:
    """One job at a time from this process into an idle worker process, the durable commit included. A few jobs go before,
    so that whatever is made on first use has been made."""
    marks, calls = there.directory / "marks", []
    with on_store(bench_tasks.app, there.url), worker(there.url, there.directory, marks=marks) as running:
        warm_up(marks, running)
        for _ in range(options.jobs):
            sent = time.monotonic()
            stamp.enqueue_sync(sent)
            calls.append((time.monotonic() - sent) * 1_000)
            time.sleep(GAP_S)
            running.check()
        wait_for_marks(marks, WARM_UPS + options.jobs, running)
    taken = latencies_ms(marks)[WARM_UPS:]
    assert len(taken) == options.jobs, f"{len(taken)} handlers ran for {options.jobs} jobs"
    return {**waits(taken), "call_ms": percentile(calls, 50)}


def idle(there: Ground, options: Options) -> Measured:
    marks = there.directory / "marks"
    with on_store(bench_tasks.app, there.url), worker(there.url, there.directory, marks=marks) as running:
        warm_up(marks, running)
        share = cpu_percent(running.pid, options.seconds)
        return {"seconds": options.seconds, "cpu_percent": share, "rss_mb": rss_mb(running.pid)}


# ----------------------------------------------------------------------------------------------------------- measuring


def measure(options: Options) -> Measured:
    parts = {
        "drain": drain, "one": enqueue, "many": enqueue, "latency": latency, "idle": idle, "urgent": urgent,
        "steady": steady,
    }  # fmt: skip
    with ground(options.store, options.server, options.parent) as there:
        return parts[options.part](there, options)


if __name__ == "__main__":
    print(json.dumps(measure(options_of())))
