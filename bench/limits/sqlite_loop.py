"""The bare loop on SQLite: apsw and nothing else, on the schema that our migrations make.

This is the denominator of every SQLite figure, so it leaves out no obligation and adds no comfort. It keeps what full
history and fencing cost: the order of dispatch, a lease with token and expiry, a run row for each execution, the
foreign key, every index, CHECK and trigger of the schema, a guarded settle, and a durable commit for the claim and
another for the settle. It drops what is ours: contracts, values, threads, event loop, expired leases, due times,
limits, pauses.

    python bench/limits/sqlite_loop.py claim --batch 500 --jobs 50000
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args

import apsw
import msgspec

from windlass.drivers.sqlite import SqliteDriver
from windlass.policies import DEFAULT_RETRY

Part = Literal["claim", "bulk", "one"]
Row = tuple[Any, ...]

# ------------------------------------------------------------------------------------------- what both sides work on

TYPE: Final = "noop"
QUEUE: Final = "default"
WORKER: Final = "bench-worker"
PAYLOAD: Final = b'{"args":[1,2],"kwargs":{"x":"hello"}}'
MAX_ATTEMPTS: Final = 6
MAX_LOST: Final = 3
RETRY_POLICY: Final = DEFAULT_RETRY.encode()
LEASE: Final = 30_000_000
CONSTANTS: Final = {
    "type": TYPE, "queue": QUEUE, "worker": WORKER, "payload": PAYLOAD, "max_attempts": MAX_ATTEMPTS,
    "max_lost": MAX_LOST, "retry_policy": RETRY_POLICY,
}  # fmt: skip
PRAGMAS: Final = ("synchronous = full", "foreign_keys = on", "cache_size = -65536", "temp_store = memory")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    jobs: int
    batch: int
    width: int
    callers: int
    blocking: bool
    history: int
    parent: str | None  # the directory in which files are made; None = the system's


class Measured(msgspec.Struct, frozen=True):
    jobs: int
    seconds: float


def job_id(number: int) -> str:
    """Of the length, and in the order, of the time-ordered UUIDs that a client makes."""
    return f"0192f3a4-7000-7000-8000-{number:012x}"


def micros() -> int:
    return time.time_ns() // 1000


def options_of(description: str, argv: list[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("part", choices=get_args(Part))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=500, help="jobs in a transaction (claim and bulk)")
    parser.add_argument("--width", type=int, default=1, help="rows in an INSERT (bulk, of the bare loop)")
    parser.add_argument("--callers", type=int, default=1, help="callers at once (one, of the driver)")
    parser.add_argument("--blocking", action="store_true", help="callers are threads without a loop (one, of the driver)")
    parser.add_argument("--history", type=int, default=0, help="finished jobs that are already in the file")
    parser.add_argument("--dir", dest="parent", help="where the file is made, and removed again")
    return msgspec.convert(vars(parser.parse_args(argv)), Options)


def answer(measured: Measured) -> None:
    """One line of JSON, for a person as for run.py."""
    print(json.dumps({**msgspec.structs.asdict(measured), "per_second": measured.jobs / measured.seconds}))


# ---------------------------------------------------------------------------------------------------------- the file


@contextlib.contextmanager
def fresh_file(parent: str | None) -> Iterator[Path]:
    """An empty store, made by the driver's own migrations."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=parent) as directory:
        path = Path(directory) / "jobs.db"
        asyncio.run(SqliteDriver(path).close())
        yield path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """The settings of the driver's writer; WAL is a property of the file."""
    db = apsw.Connection(str(path), statementcachesize=200)
    try:
        for pragma in PRAGMAS:
            db.execute(f"pragma {pragma}")
        assert db.pragma("journal_mode") == "wal"
        yield db
    finally:
        db.close()


# The columns that the driver's insert names, with its per-job values as parameters.
COLUMNS: Final = """
  seq, ready, position, created_at, queued_at, updated_at, state, executions, skipped, lost, waiting_on, after_rule,
  manual, last_error, id, type, queue, org_id, priority, run_at, timeout_ns, attempts, max_attempts, max_lost,
  retry_mode, crash_policy, on_unknown, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id,
  template_version, schedule_id, fire_at, group_id, group_seq, limit_keys, tags, headers, codec, payload
"""
VALUES: Final = """
  (?, ?, ?, ?, ?, ?, 'queued', 0, 0, 0, 0, 'cancel',
   0, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
   ?, ?, ?, ?, ?, ?, ?, ?,
   ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT: Final = f"insert into jobs ({COLUMNS}) values {VALUES}"

LAST_SEQ: Final = "select coalesce((select seq from sqlite_sequence where name = 'jobs'), 0)"

HISTORY: Final = """
with recursive number (n) as (select :first union all select n + 1 from number where n < :last)
insert into jobs (seq, id, type, queue, state, position, created_at, queued_at, updated_at, executions, max_attempts,
                  max_lost, retry_policy, worker_id, claimed_at, started_at, finished_at, last_token, last_outcome,
                  payload)
select n, printf('0192f3a4-7000-7000-8000-%012x', n), :type, :queue, 'succeeded', 100 * n, :now, :now, :now + 2, 1,
       :max_attempts, :max_lost, :retry_policy, :worker, :now, :now, :now + n, printf('%032x', n / 500), 'ack', :payload
  from number
"""

HISTORY_RUNS: Final = """
insert into runs (job_seq, attempt_no, run_id, worker_id, queue, type, claimed_at, started_at, finished_at, status,
                  wait_us)
select seq, 1, printf('0192f3a4-7000-7000-8000-%012x', seq), worker_id, queue, type, claimed_at, started_at,
       finished_at, 'completed', 0
  from jobs where seq between ? and ?
"""


def job_row(seq: int, now: int) -> Row:
    return (
        seq, True, 100 * seq, now, now, now, job_id(seq), TYPE, QUEUE, None, 0, None, 0, 0, MAX_ATTEMPTS, MAX_LOST,
        "same_job", "requeue", "wait", RETRY_POLICY, None, None, None, None, None, None, None, None, None, None, None,
        None, "json", PAYLOAD,
    )  # fmt: skip


def last_seq(db: apsw.Connection) -> int:
    return number(db, LAST_SEQ)


def number(db: apsw.Connection, sql: str) -> int:
    value = db.execute(sql).get
    assert isinstance(value, int)
    return value


def fill(path: Path, *, jobs: int, history: int) -> None:
    """Finished jobs with their runs first, then queued ones, and nothing left in the WAL."""
    with opened(path) as db:
        for first in range(1, history + 1, 100_000):
            last = min(first + 99_999, history)
            with db:
                db.execute(HISTORY, {**CONSTANTS, "first": first, "last": last, "now": micros()})
                db.execute(HISTORY_RUNS, (first, last))
        insert_all(db, jobs=jobs, batch=10_000)
        db.execute("pragma wal_checkpoint(truncate)")


def check_drained(path: Path, expected: int) -> None:
    """A fast loop that lost something has measured nothing."""
    with opened(path) as db:
        jobs = number(db, "select count(*) from jobs where state = 'succeeded' and last_outcome = 'ack'")
        runs = number(db, "select count(*) from runs where status = 'completed'")
        left = number(db, "select count(*) from jobs where state <> 'succeeded'")
    assert (jobs, runs, left) == (expected, expected, 0), f"{jobs=} {runs=} {left=}, expected {expected}"


# ---------------------------------------------------------------------------------------------------- claim and settle

# Reading before writing is faster than `returning`, and answers in the order of dispatch.
PICK: Final = """
select seq, id, type, payload, attempts, executions + 1, max_attempts, retry_policy from jobs indexed by jobs_ready
 where queue = ?1 and state = 'queued' and ready = 1
 order by priority desc, position, created_at, seq
 limit ?2
"""

CLAIM: Final = """
update jobs
   set state = 'running', lease_token = ?2, lease_expires_at = ?3, worker_id = ?4, claimed_at = ?5, started_at = ?5,
       executions = executions + 1, progress = null, progress_note = null, updated_at = max(?5, updated_at + 1)
 where seq in (select value from json_each(?1)) and state = 'queued'
"""

OPEN_RUNS: Final = """
insert into runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                  claimed_at, started_at, wait_us, artifacts)
select seq, executions, ?2 || printf('%012x', seq), worker_id, org_id, queue, type, template_id, template_version,
       claimed_at, started_at, max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0), '[]'
  from jobs where seq in (select value from json_each(?1))
"""

# Every job keeps the moment at which its own handler ended: {seq: at}.
SETTLE: Final = """
update jobs
   set state = 'succeeded', lease_token = null, lease_expires_at = null, last_token = ?2, last_outcome = 'ack',
       finished_at = done.value, updated_at = max(?3, updated_at + 1)
  from json_each(?1) as done
 where jobs.seq = cast(done.key as integer) and state = 'running' and lease_token = ?2 and lease_expires_at > ?3
"""

CLOSE_RUNS: Final = """
update runs set status = 'completed', finished_at = done.value from json_each(?1) as done
 where job_seq = cast(done.key as integer) and runs.status is null
"""


def claim(db: apsw.Connection, batch: int, token: str) -> list[Row]:
    now = micros()
    db.execute("begin immediate")
    rows = db.execute(PICK, (QUEUE, batch)).fetchall()
    if rows:
        seqs = seqs_of(rows)
        db.execute(CLAIM, (seqs, token, now + LEASE, WORKER, now))
        assert db.changes() == len(rows), "a picked job was not queued"
        db.execute(OPEN_RUNS, (seqs, f"{token[:8]}-{token[8:12]}-7000-8000-"))
    db.execute("commit")
    return rows


def settle(db: apsw.Connection, rows: list[Row], token: str) -> None:
    now = micros()
    ends = msgspec.json.encode({row[0]: now for row in rows}).decode()
    db.execute("begin immediate")
    db.execute(SETTLE, (ends, token, now))
    assert db.changes() == len(rows), "the fence refused a job"
    db.execute(CLOSE_RUNS, (ends,))
    assert db.changes() == len(rows), "a job had no open run"
    db.execute("commit")


def seqs_of(rows: list[Row]) -> str:
    return msgspec.json.encode([row[0] for row in rows]).decode()


def drain(db: apsw.Connection, batch: int) -> int:
    done = 0
    while True:
        token = f"{micros():032x}"
        rows = claim(db, batch, token)
        if not rows:
            return done
        settle(db, rows, token)
        done += len(rows)


# -------------------------------------------------------------------------------------------------------------- enqueue


def insert_all(db: apsw.Connection, *, jobs: int, batch: int, width: int = 1) -> int:
    """`executemany` in transactions of `batch`, `width` rows to a statement. Making the rows is part of it, as making
    the values is part of the driver's."""
    sql = f"insert into jobs ({COLUMNS}) values {','.join([VALUES] * width)}"
    for done in range(0, jobs, batch):
        db.execute("begin immediate")
        seq, now = last_seq(db), micros()
        rows = [job_row(seq + n, now) for n in range(1, min(batch, jobs - done) + 1)]
        db.executemany(sql, rows if width == 1 else joined(rows, width))
        db.execute("commit")
    return jobs


def joined(rows: list[Row], width: int) -> list[Row]:
    """The parameters of `width` rows as those of one statement."""
    assert len(rows) % width == 0, "a batch must be a multiple of the width"
    return [tuple(itertools.chain.from_iterable(rows[n : n + width])) for n in range(0, len(rows), width)]


def insert_each(db: apsw.Connection, *, jobs: int) -> int:
    """INSERT and COMMIT, one job at a time, in the caller's own thread."""
    for _ in range(jobs):
        db.execute("begin immediate")
        db.execute(INSERT, job_row(last_seq(db) + 1, micros()))
        db.execute("commit")
    return jobs


# ----------------------------------------------------------------------------------------------------------- measuring


def timed(work: Callable[[], int]) -> Measured:
    began = time.perf_counter()
    jobs = work()
    return Measured(jobs, time.perf_counter() - began)


def measure(options: Options) -> Measured:
    with fresh_file(options.parent) as path:
        drains = options.part == "claim"
        fill(path, jobs=options.jobs if drains else 0, history=options.history)
        with opened(path) as db:
            match options.part:
                case "claim":
                    measured = timed(lambda: drain(db, options.batch))
                case "bulk":
                    measured = timed(lambda: insert_all(db, jobs=options.jobs, batch=options.batch, width=options.width))
                case "one":
                    measured = timed(lambda: insert_each(db, jobs=options.jobs))
        if drains:
            check_drained(path, options.history + options.jobs)
    return measured


if __name__ == "__main__":
    answer(measure(options_of("The bare loop on SQLite.")))
