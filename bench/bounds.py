"""What bounds cost: the driver's claim + settle with limits, with jobs that wait for limits, and with turns of orgs.

python bench/bounds.py plain --batch 500 --jobs 50000      every part does the same work; plain has nothing of the kind
python bench/bounds.py limits --store postgres             100 types and 1,000 keys, each with a limit, two on every job
python bench/bounds.py waiting --backlog 10000             10 keys of limit 2: so many jobs more than are measured wait
python bench/bounds.py parking --backlog 10000             the same, and the claims that park them, once for each job
python bench/bounds.py fair                                1,000 orgs take turns
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, get_args

import msgspec
from limits.postgres_loop import rest
from limits.sqlite_loop import (
    LEASE,
    MAX_ATTEMPTS,
    MAX_LOST,
    PAYLOAD,
    QUEUE,
    RETRY_POLICY,
    WORKER,
    Measured,
    answer,
    fresh_file,
    job_id,
)
from server import fresh_database

from windlass.core.alterations import Alteration, PutLimit, PutQueue
from windlass.core.limits import PARK_BITE
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

Part = Literal["plain", "limits", "waiting", "parking", "fair"]
AnyDriver = SqliteDriver | PostgresDriver

TYPES: Final = 100
KEYS: Final = 1_000
ROOM: Final = 1_000_000  # nobody waits in the part that measures what taking and giving back costs
NARROW_KEYS: Final = 10
NARROW: Final = 2
ORGS: Final = 1_000
FILLING: Final = 5_000
SUCCEEDED: Final = Succeeded()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    jobs: int
    batch: int
    backlog: int
    store: Literal["sqlite", "postgres"]
    server: str | None
    parent: str | None


def options_of(argv: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description="What bounds cost, by the driver's contract.")
    parser.add_argument("part", choices=get_args(Part))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--backlog", type=int, default=0, help="jobs that still wait when the clock stops")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--server", metavar="URL", help="of a PostgreSQL to use (default: one is started)")
    parser.add_argument("--dir", dest="parent", help="where files are made")
    return Options(**vars(parser.parse_args(argv)))


# ------------------------------------------------------------------------------------------------------------ what is there


def described(part: Part) -> list[Alteration]:
    match part:
        case "limits":
            by_type = [PutLimit(f"type:noop-{n}", ROOM) for n in range(TYPES)]
            return [*by_type, *(PutLimit(f"key:k{n}", ROOM) for n in range(KEYS))]
        case "waiting" | "parking":
            return [PutLimit(f"key:k{n}", NARROW) for n in range(NARROW_KEYS)]
        case "fair":
            return [PutQueue(QUEUE, order="fair")]
        case "plain":
            return []


def new_job(part: Part, number: int) -> NewJob:
    more: dict[str, Any] = {}
    if part == "limits":
        more = {"type": f"noop-{number % TYPES}", "limit_keys": (f"key:k{number * 7 % KEYS}",)}
    elif part in ("waiting", "parking"):
        more = {"limit_keys": (f"key:k{number % NARROW_KEYS}",)}
    elif part == "fair":
        more = {"org_id": f"org-{number % ORGS:04}"}
    return NewJob(**{
        "id": job_id(number), "type": "noop", "payload": PAYLOAD, "max_attempts": MAX_ATTEMPTS, "max_lost": MAX_LOST,
        "retry_policy": RETRY_POLICY, **more,
    })  # fmt: skip


async def fill(driver: AnyDriver, part: Part, jobs: int) -> None:
    changes = described(part)
    if changes:
        await driver.alter(changes, now=driver.clock.now())
    for first in range(1, jobs + 1, FILLING):
        numbers = range(first, min(first + FILLING, jobs + 1))
        await driver.enqueue([new_job(part, number) for number in numbers], now=driver.clock.now())


# ----------------------------------------------------------------------------------------------------------------- the loop


async def take(driver: AnyDriver, batch: int) -> int:
    """One claim, and the settlement of all it got."""
    now = driver.clock.now()
    wish = Claim(queues=(QUEUE,), limit=batch, lease_for=LEASE, worker_id=WORKER, token=f"{time.perf_counter_ns():032x}")
    jobs = await driver.claim(wish, now=now)
    run = Execution(driver.clock.now())
    answers = await driver.settle([settle(job, SUCCEEDED, run) for job in jobs], now=run.at)
    assert answers == ["applied"] * len(jobs), "a settlement was refused"
    return len(jobs)


async def drain(driver: AnyDriver, options: Options) -> Measured:
    began, done = time.perf_counter(), 0
    while done < options.jobs:
        got = await take(driver, options.batch)
        if not got:
            break
        done += got
    return Measured(done, time.perf_counter() - began)


@contextmanager
def fresh_store(options: Options) -> Iterator[Callable[[], AnyDriver]]:
    """What opens it."""
    if options.store == "sqlite":
        with fresh_file(options.parent) as path:
            yield lambda: SqliteDriver(path)
    else:
        with fresh_database(options.server, options.parent) as url:
            yield lambda: PostgresDriver(url)


async def ready(driver: AnyDriver) -> int:
    """How many a claim would still look at, but for those who were let through to the permits that are free."""
    counts = await driver.count(now=driver.clock.now())
    return max(sum(count.jobs for count in counts if count.label == "queued") - NARROW_KEYS * NARROW, 0)


async def prepare(driver: AnyDriver, options: Options) -> None:
    """The first claims of a backlog park what has to wait, once for each job. In `waiting` that is over before the clock
    starts; those claims have jobs of their own."""
    total, claims = options.jobs + options.backlog, 0
    if options.part == "waiting":
        claims = -(-total // (PARK_BITE - NARROW_KEYS * NARROW)) + 1
    try:
        await fill(driver, options.part, total + claims * NARROW_KEYS * NARROW)
        for _ in range(claims):
            await take(driver, options.batch)
        assert options.part != "waiting" or not await ready(driver), "some are not parked yet"
    finally:
        await driver.close()


async def timed(driver: AnyDriver, options: Options) -> Measured:
    try:
        await take(driver, 1)  # opens what is opened on first use
        return await drain(driver, options)
    finally:
        await driver.close()


def measure(options: Options) -> Measured:
    with fresh_store(options) as opened:
        first = opened()
        asyncio.run(prepare(first, options))
        if isinstance(first, PostgresDriver):
            rest(first.place.url)
        found = asyncio.run(timed(opened(), options))
    missing = options.jobs - found.jobs
    assert missing <= NARROW_KEYS * NARROW + 1, f"only {found.jobs:,} of {options.jobs:,} jobs were done"
    return found


if __name__ == "__main__":
    answer(measure(options_of()))
