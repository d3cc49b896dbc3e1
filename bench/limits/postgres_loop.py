"""The bare loop on PostgreSQL: a client library and nothing else, on the schema that our migrations make.

It runs the driver's own statements, so it leaves out no obligation: the order of dispatch, a lease with token and expiry, a
run row for each execution, the foreign key, every index, CHECK and trigger, a guarded settle, and a durable commit for the
claim and another for the settle. Claims on one connection overlap with settles on another, each in a thread of its own.
What it drops is ours: contracts, values, deadlines, reconnection, the event loop, the worker.

    python bench/limits/postgres_loop.py claim --batch 500 --jobs 50000 [--client asyncpg] [--lean]
    python bench/limits/postgres_loop.py one --jobs 5000 [--callers 10]

With `--lean` the jobs have history="failures": no run rows, one row of usage for each settle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, Final, Literal, get_args

import asyncpg
import msgspec
import psycopg

sys.path.append(str(Path(__file__).parents[1]))

from server import cost_of, fresh_database

from limits.sqlite_loop import (
    LEASE,
    MAX_ATTEMPTS,
    MAX_LOST,
    PAYLOAD,
    QUEUE,
    RETRY_POLICY,
    TYPE,
    WORKER,
    job_id,
    micros,
)
from windlass.clock import moment
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.arrays import Instants, Ints, Texts
from windlass.drivers.postgres.jobs import insertion, insertion_of_alike
from windlass.drivers.postgres.leases import claim_statement
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import SWITCHES, Place
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Row, Statement
from windlass.drivers.values import Claim
from windlass.types import NewJob

Part = Literal["claim", "bulk", "one"]
Client = Literal["psycopg", "asyncpg"]
Measured = dict[str, float]  # by quantity: see report.QUANTITIES
FILLING: Final = 10_000
AHEAD: Final = 2  # batches that are claimed and not yet settled


class Options(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    jobs: int
    batch: int
    callers: int
    client: Client
    server: str | None
    lean: bool
    parent: str | None


# ---------------------------------------------------------------------------------------------------- the statements


def claim(batch: int, token: str) -> Statement:
    wish = Claim(queues=(QUEUE,), limit=batch, lease_for=LEASE, worker_id=WORKER, token=token)
    return claim_statement(wish, micros())


def ack(rows: list[Row], token: str) -> Statement:
    now, seqs = micros(), sorted(row[1] for row in rows)
    about: dict[str, Any] = {
        "seqs": Ints(seqs), "tokens": Texts([token]), "which": Ints([1] * len(seqs)), "ats": Instants([now] * len(seqs)),
        "starts": Instants([0] * len(seqs)), "now": now,
    }  # fmt: skip
    return SQL.ack(limited=False, **about) if rows[0][-1] is None else SQL.ack_unkept(**about)


def insert(first: int, count: int, *, lean: bool = False) -> Statement:
    jobs = [
        NewJob(id=job_id(number), type=TYPE, payload=PAYLOAD, max_attempts=MAX_ATTEMPTS, max_lost=MAX_LOST,
               retry_policy=RETRY_POLICY, history="failures" if lean else "full")
        for number in range(first, first + count)
    ]  # fmt: skip
    return insertion_of_alike(jobs, micros()) if count > 1 else insertion(jobs, micros())


def taken(rows: list[Row]) -> list[Row]:
    """A claim that found nothing answers one row without a job."""
    return [] if rows[0][1] is None else rows


# ------------------------------------------------------------------------------------------------------ psycopg, threads


def connect(url: str, *, switches: bool = False) -> psycopg.Connection[Row]:
    """Set up as the driver sets up its own."""
    return Link(Place.of(url), switches=switches).open()


def execute(connection: psycopg.Connection[Row], statement: Statement) -> list[Row]:
    return connection.cursor(binary=True).execute(statement.sql, statement.params, prepare=True).fetchall()


def drain_in_threads(url: str, batch: int) -> int:
    claimed: Queue[tuple[str, list[Row]] | None] = Queue(AHEAD)
    settled: list[int] = []

    def settling() -> None:
        with connect(url, switches=True) as connection:
            while (one := claimed.get()) is not None:
                token, rows = one
                settled.append(len(execute(connection, ack(rows, token))))

    settler = Thread(target=settling)
    settler.start()
    with connect(url, switches=True) as connection:
        while True:
            token = f"{micros():032x}"
            rows = taken(execute(connection, claim(batch, token)))
            if not rows:
                break
            claimed.put((token, rows))
    claimed.put(None)
    settler.join()
    return sum(settled)


# --------------------------------------------------------------------------------------------------------------- asyncpg


async def drain_by_asyncpg(url: str, batch: int) -> int:
    async def opened() -> Any:
        return await asyncpg.connect(url, server_settings={**SWITCHES, "timezone": "UTC"})

    async def fetch(connection: Any, statement: Statement) -> list[Row]:
        params = [[moment(at or 0) for at in value] if isinstance(value, Instants) else value for value in statement.params]
        rows: list[Row] = await connection.fetch(statement.sql, *params)
        return rows

    claims, settles = await opened(), await opened()
    settling: asyncio.Task[list[Row]] | None = None
    done, token = 0, f"{micros():032x}"
    rows = taken(await fetch(claims, claim(batch, token)))
    while rows:
        following = f"{micros():032x}"
        claiming = asyncio.ensure_future(fetch(claims, claim(batch, following)))
        if settling is not None:
            done += len(await settling)
        settling = asyncio.ensure_future(fetch(settles, ack(rows, token)))
        token, rows = following, taken(await claiming)
    if settling is not None:
        done += len(await settling)
    await claims.close()
    await settles.close()
    return done


# ------------------------------------------------------------------------------------------------------------- measuring


def migrated(url: str) -> None:
    asyncio.run(PostgresDriver(url).close())


def fill(url: str, jobs: int, *, lean: bool = False) -> None:
    with connect(url) as connection:
        for done in range(0, jobs, FILLING):
            execute(connection, insert(done + 1, min(FILLING, jobs - done), lean=lean))
    rest(url)


def rest(url: str) -> None:
    """What loading left behind is no part of what is measured."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def check_drained(url: str, expected: int, *, lean: bool = False) -> None:
    """A fast loop that lost something has measured nothing."""
    with psycopg.connect(url) as connection:
        [found] = connection.execute(
            """select (select count(*) from windlass.jobs where state = 'succeeded' and last_outcome = 'ack'),
                      (select count(*) from windlass.runs where status = 'completed'),
                      (select count(*) from windlass.runs),
                      (select coalesce(sum(runs), 0)::bigint from windlass.usage_batches),
                      (select count(*) from windlass.jobs where state <> 'succeeded')"""
        ).fetchall()
    jobs, completed, runs, counted, left = found
    rows, batches = (0, expected) if lean else (expected, 0)
    assert found == (expected, rows, rows, batches, 0), (
        f"{jobs=} {completed=} {runs=} {counted=} {left=}, expected {expected}"
    )


def insert_all(url: str, jobs: int, batch: int) -> int:
    with connect(url) as connection:
        for done in range(0, jobs, batch):
            execute(connection, insert(done + 1, min(batch, jobs - done)))
    return jobs


def insert_at_once(url: str, jobs: int, callers: int) -> int:
    """One job a commit, each caller on a connection of its own."""

    def call(first: int) -> None:
        with connect(url) as connection:
            for number in range(first, jobs, callers):
                execute(connection, insert(number + 1, 1))

    with ThreadPoolExecutor(callers) as threads:
        for done in [threads.submit(call, first) for first in range(callers)]:
            done.result()
    return jobs


def timed(url: str, work: Callable[[], int]) -> Measured:
    """With what it costs this process and the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        cost = cost_of(connection)
        cost.begin()
        cpu, began = time.process_time(), time.perf_counter()
        jobs = work()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        server = cost.end(jobs)
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds, "cpu_us": cpu * 1e6 / jobs, **server}


def measure(options: Options) -> Measured:
    with fresh_database(options.server, options.parent) as url:
        migrated(url)
        if options.part == "one":
            return timed(url, lambda: insert_at_once(url, options.jobs, options.callers))
        if options.part == "bulk":
            return timed(url, lambda: insert_all(url, options.jobs, options.batch))
        fill(url, options.jobs, lean=options.lean)
        if options.client == "asyncpg":
            measured = timed(url, lambda: asyncio.run(drain_by_asyncpg(url, options.batch)))
        else:
            measured = timed(url, lambda: drain_in_threads(url, options.batch))
        check_drained(url, options.jobs, lean=options.lean)
        return measured


def options_of(argv: list[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description="The bare loop on PostgreSQL.")
    parser.add_argument("part", choices=get_args(Part))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=500, help="jobs in a statement (claim and bulk)")
    parser.add_argument("--callers", type=int, default=1, help="callers at once, in threads (one)")
    parser.add_argument("--client", choices=get_args(Client), default="psycopg", help="the library (claim)")
    parser.add_argument("--server", metavar="URL", help="of a PostgreSQL to use (default: one is started)")
    parser.add_argument("--lean", action="store_true", help="jobs with history='failures': no run rows (claim)")
    parser.add_argument("--dir", dest="parent", help="where a server that is started keeps its files")
    return msgspec.convert(vars(parser.parse_args(argv)), Options)


if __name__ == "__main__":
    print(json.dumps(measure(options_of())))
