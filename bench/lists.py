"""What pages and commands read of a store with a million jobs and a week of samples: median and worst of each read.

    python bench/lists.py [--jobs 1000000] [--times 15] [--only sqlite|postgres] [--server URL] [--keep DIR]

A read that takes longer than 300 ms in the median is marked, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
from lists_fill import fill_postgres, fill_sqlite
from server import fresh_database

from windlass.admin import Admin, Filter
from windlass.client import Client
from windlass.config import Settings

MOST_MS: Final = 300.0
WARM: Final = 2
HOUR: Final = timedelta(hours=1)
Read = Callable[[], Awaitable[Any]]


def reads(admin: Admin, now: datetime) -> dict[str, Read]:
    hour, day = now - HOUR, now - timedelta(days=1)

    def page(**wanted: Any) -> Read:
        return lambda: admin.jobs(Filter(**wanted))

    def oldest(**wanted: Any) -> Read:
        return lambda: admin.jobs(Filter(**wanted), first="oldest")

    async def deep() -> None:
        cursor = None
        for _ in range(10):
            cursor = (await admin.jobs(Filter(state="succeeded"), cursor=cursor)).cursor

    return {
        "jobs": page(), "jobs, oldest first": oldest(), "ten pages of succeeded": deep,
        "ready": page(label="queued"), "ready, oldest first": oldest(label="queued"),
        "scheduled": page(label="scheduled"), "blocked": page(label="blocked"), "parked (none)": page(label="parked"),
        "running": page(state="running"), "succeeded": page(state="succeeded"),
        "succeeded, oldest first": oldest(state="succeeded"), "dead": page(state="dead"),
        "cancelled": page(state="cancelled"), "in another system's words": page(state="dlq", system="taskharbor"),
        "a queue": page(queue="q3"), "ready of a queue": page(label="queued", queue="q3"),
        "dead of a queue": page(state="dead", queue="q3"), "a type": page(type="task7"),
        "a type that is rare": page(type="rare"), "an org (1 of 500)": page(org_id="org77"),
        "an org that has none": page(org_id="nobody"), "a tag": page(tag="tag3"), "a tag that nobody has": page(tag="no"),
        "a group": page(group_id="g500"), "a schedule": page(schedule="nightly-1"),
        "a worker": page(worker_id="worker-7"), "running at a worker": page(worker_id="worker-7", state="running"),
        "created in the last hour": page(created_from=hour), "created a day ago": page(created_until=day),
        "created in an hour of last week": page(created_from=day - 3 * timedelta(days=1), created_until=day - 71 * HOUR),
        "rare, created in the last hour": page(created_from=hour, tag="no"),
        "ended in the last hour": page(finished_from=hour), "an error's text": page(error="Timeout"),
        "an error's text, dead": page(state="dead", error="Timeout"), "an error that nobody had": page(error="no such"),
        "an error's fingerprint, dead": page(state="dead", error="0123abcd"),
        "how many are dead of a queue": lambda: admin.matching(Filter(state="dead", queue="q3")),
        "how many have a tag": lambda: admin.matching(Filter(tag="tag3")),
        "dry run over all that waits": lambda: admin.bulk("cancel", Filter(state="queued"), dry_run=True),
        "counts": admin.counts, "exact counts": lambda: admin.counts(exact=True),
        "queues with counts": admin.overview, "completions": admin.completions,
        "dead letters by error": admin.errors, "failures of the last hour": admin.failures,
        "failures of a week": lambda: admin.failures("7d"), "queue trends": admin.queue_trends,
        "overview 1h": admin.dashboard, "overview 6h": lambda: admin.dashboard("6h"),
        "overview 24h": lambda: admin.dashboard("24h"), "overview 7d": lambda: admin.dashboard("7d"),
    }  # fmt: skip


async def measure(url: str, times: int) -> bool:
    client = Client(url, Settings())
    slow = False
    try:
        for name, read in reads(Admin(client), datetime.now(UTC)).items():
            took: list[float] = []
            for _ in range(WARM + times):
                began = time.perf_counter()
                await read()
                took.append((time.perf_counter() - began) * 1_000)
            median, worst = statistics.median(took[WARM:]), max(took[WARM:])
            slow |= median > MOST_MS
            mark = "  slow" if median > MOST_MS else ""
            print(f"{name:36} {median:8.1f} ms {worst:8.1f} ms   cold {took[0]:8.1f} ms{mark}", flush=True)
    finally:
        await client.close()
    return slow


@contextmanager
def stores(only: str | None, jobs: int, server: str | None, keep: str | None) -> Iterator[Iterator[tuple[str, str]]]:
    def each() -> Iterator[tuple[str, str]]:
        now = time.time_ns() // 1_000
        if only in (None, "sqlite"):
            with tempfile.TemporaryDirectory(dir=keep) as folder:
                path = Path(folder) / "lists.db"
                fill_sqlite(str(path), jobs, now)
                yield "SQLite", f"sqlite:////{str(path).lstrip('/')}"
        if only in (None, "postgres"):
            with fresh_database(server, keep) as url:
                fill_postgres(url, jobs, now)
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("vacuum analyze")
                yield "PostgreSQL", url

    yield each()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1_000_000)
    options.add_argument("--times", type=int, default=15)
    options.add_argument("--only", choices=("sqlite", "postgres"))
    options.add_argument("--server")
    options.add_argument("--keep", help="a directory for the stores while they are measured")
    asked = options.parse_args()
    slow = False
    with stores(asked.only, asked.jobs, asked.server, asked.keep) as each:
        for name, url in each:
            print(f"\n{name}, {asked.jobs:,} jobs: median and worst of {asked.times}", flush=True)
            slow |= asyncio.run(measure(url, asked.times))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
