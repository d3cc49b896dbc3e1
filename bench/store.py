"""The SQLite driver through its public contract, doing the work of limits/sqlite_loop.py.

python bench/store.py claim --batch 500 --jobs 50000
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from limits.sqlite_loop import (
    LEASE,
    MAX_ATTEMPTS,
    MAX_LOST,
    PAYLOAD,
    QUEUE,
    RETRY_POLICY,
    TYPE,
    WORKER,
    Measured,
    Options,
    answer,
    check_drained,
    fill,
    fresh_file,
    job_id,
    options_of,
)

from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

SUCCEEDED: Final = Succeeded()


def new_job(number: int) -> NewJob:
    return NewJob(
        id=job_id(number), type=TYPE, payload=PAYLOAD, max_attempts=MAX_ATTEMPTS, max_lost=MAX_LOST,
        retry_policy=RETRY_POLICY,
    )  # fmt: skip


async def drain(driver: SqliteDriver, batch: int) -> int:
    done = 0
    while True:
        now = driver.clock.now()
        wish = Claim(queues=(QUEUE,), limit=batch, lease_for=LEASE, worker_id=WORKER, token=f"{now:032x}")
        jobs = await driver.claim(wish, now=now)
        if not jobs:
            return done
        now = driver.clock.now()
        run = Execution(now)
        answers = await driver.settle([settle(job, SUCCEEDED, run) for job in jobs], now=now)
        done += answers.count("applied")


async def enqueue_all(driver: SqliteDriver, *, jobs: int, batch: int) -> int:
    for done in range(0, jobs, batch):
        numbers = range(done + 1, min(done + batch, jobs) + 1)
        await driver.enqueue([new_job(number) for number in numbers], now=driver.clock.now())
    return jobs


async def enqueue_each(driver: SqliteDriver, *, jobs: int, callers: int) -> int:
    async def call(first: int) -> int:
        numbers = range(first, jobs + 1, callers)
        for number in numbers:
            await driver.enqueue([new_job(number)], now=driver.clock.now())
        return len(numbers)

    return sum(await asyncio.gather(*(call(first) for first in range(1, callers + 1))))


def enqueue_blocking(driver: SqliteDriver, *, jobs: int, callers: int) -> int:
    def call(first: int) -> int:
        numbers = range(first, jobs + 1, callers)
        for number in numbers:
            driver.enqueue_sync([new_job(number)], now=driver.clock.now())
        return len(numbers)

    if callers == 1:
        return call(1)
    with ThreadPoolExecutor(callers) as threads:
        return sum(threads.map(call, range(1, callers + 1)))


async def timed(path: Path, work: Callable[[SqliteDriver], Awaitable[int]]) -> Measured:
    driver = SqliteDriver(path)
    try:
        began = time.perf_counter()
        jobs = await work(driver)
        return Measured(jobs, time.perf_counter() - began)
    finally:
        await driver.close()


def timed_blocking(path: Path, *, jobs: int, callers: int) -> Measured:
    driver = SqliteDriver(path)
    try:
        began = time.perf_counter()
        done = enqueue_blocking(driver, jobs=jobs, callers=callers)
        return Measured(done, time.perf_counter() - began)
    finally:
        asyncio.run(driver.close())


def measure(options: Options) -> Measured:
    with fresh_file(options.parent) as path:
        drains = options.part == "claim"
        fill(path, jobs=options.jobs if drains else 0, history=options.history)
        match options.part:
            case "claim":
                measured = asyncio.run(timed(path, lambda driver: drain(driver, options.batch)))
                check_drained(path, options.history + options.jobs)
            case "bulk":
                measured = asyncio.run(
                    timed(path, lambda driver: enqueue_all(driver, jobs=options.jobs, batch=options.batch))
                )
            case "one" if options.blocking:
                measured = timed_blocking(path, jobs=options.jobs, callers=options.callers)
            case "one":
                measured = asyncio.run(
                    timed(path, lambda driver: enqueue_each(driver, jobs=options.jobs, callers=options.callers))
                )
    return measured


if __name__ == "__main__":
    answer(measure(options_of("The SQLite driver through its contract.")))
