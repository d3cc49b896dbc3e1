"""What fleet.py measures, on PostgreSQL: an app, its tasks and worker processes, and what they cost the server.

python bench/postgres_fleet.py drain --jobs 50000 --processes 2 [--server URL]
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import bench_tasks
import msgspec
import psycopg
from fleet import (
    APPS,
    LONGEST_S,
    Measured,
    Options,
    Running,
    enqueue_all,
    enqueue_seconds,
    idle,
    latency,
    on_store,
    parser,
    rate,
    set_paused,
    worker,
)
from limits.postgres_loop import check_drained, migrated, rest
from limits.sqlite_loop import QUEUE
from processes import cpu_seconds, rss_mb, wait_until
from server import cost_of, fresh_database

from windlass.app import Windlass

LOOK_S: Final = 0.005
LAST: Final = "select finished_at is not null from windlass.jobs where seq = (select max(seq) from windlass.jobs)"
LEFT: Final = f"""
select exists (select from windlass.jobs where queue = '{QUEUE}' and state = 'queued' and ready)
    or exists (select from windlass.jobs where queue = '{QUEUE}' and state = 'running')
"""


class PostgresOptions(Options, frozen=True, kw_only=True):
    server: str | None


def drain(url: str, directory: Path, options: Options) -> Measured:
    """The clock runs from the moment a paused queue is opened, every process ready and waiting, until a look at the store
    finds nothing queued and nothing running: the last settlement is committed by then."""
    migrated(url)
    name, task = APPS[options.kind]
    app: Windlass = getattr(bench_tasks, name)
    with on_store(app, url), psycopg.connect(url, autocommit=True) as connection:
        enqueue_all(app, task, options.jobs)
        set_paused(app, True)
        rest(url)
        cost = cost_of(connection)
        with worker(url, directory, name, processes=options.processes) as running:
            cpu = cpu_seconds(running.pid)
            cost.begin()
            began = time.monotonic()
            set_paused(app, False)
            wait_until(
                lambda: is_drained(connection, running),
                LONGEST_S,
                lambda: running.words("the queue is not drained"),
                LOOK_S,
            )
            seconds = time.monotonic() - began
            server, cpu, memory = cost.end(options.jobs), cpu_seconds(running.pid) - cpu, rss_mb(running.pid)
        check_drained(url, options.jobs)
    return {**rate(options.jobs, seconds), "cpu_us": cpu * 1e6 / options.jobs, "rss_mb": memory, **server}


def is_drained(connection: psycopg.Connection[Any], running: Running) -> bool:
    """Looks are work for the server that is measured. Asking whether anything is left reads what is dead in the indexes, so
    it waits until the job that stands last has been done."""
    running.check()
    [(done,)] = connection.execute(LAST, prepare=True).fetchall()
    if not done:
        return False
    [(left,)] = connection.execute(LEFT, prepare=True).fetchall()
    return not left


def enqueue(url: str, options: Options) -> Measured:
    migrated(url)
    with psycopg.connect(url, autocommit=True) as connection:
        cost = cost_of(connection)
        cost.begin()
        seconds = enqueue_seconds(url, options)
        server = cost.end(options.jobs)
        [(stored,)] = connection.execute("select count(*) from windlass.jobs").fetchall()
    assert stored == options.jobs, f"{stored} jobs are stored, {options.jobs} were enqueued"
    return {**rate(options.jobs, seconds), **server}


def options_of(argv: list[str] | None = None) -> PostgresOptions:
    options = parser()
    options.add_argument("--server", metavar="URL", help="of a PostgreSQL to use (default: one is started)")
    return msgspec.convert(vars(options.parse_args(argv)), PostgresOptions)


def measure(options: PostgresOptions) -> Measured:
    with (
        tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.parent) as name,
        fresh_database(options.server, options.parent) as url,
    ):
        directory = Path(name)
        match options.part:
            case "drain":
                return drain(url, directory, options)
            case "one" | "many":
                return enqueue(url, options)
            case "latency":
                return latency(url, directory, options)
            case "idle":
                return idle(url, directory, options)


if __name__ == "__main__":
    print(json.dumps(measure(options_of())))
