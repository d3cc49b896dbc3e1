"""What else is in the store while a drain is measured: a million jobs that wait, that are for later, that have ended; a
hundred thousand that are parked; a thousand queues. Nothing of it is counted."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from bench_tasks import app, filler
from grounds import Ground
from limits.sqlite_loop import LEASE, MAX_ATTEMPTS, MAX_LOST, PAYLOAD, RETRY_POLICY, WORKER, micros
from workers import QUEUE, enqueue_all

from windlass.core.alterations import PutLimit
from windlass.drivers.values import Claim

Beside = Literal["nothing", "backlog", "future", "finished", "parked", "queues"]
MEASURED: Final = 1  # the priority of what is measured: a backlog stands behind it
BITE: Final = 100_000  # rows in a statement
LATER: Final = "60d"
KEY: Final = "key:full"

FINISHED: Final = {
    "sqlite": """
with recursive number (n) as (select :first union all select n + 1 from number where n < :last)
insert into jobs (seq, id, type, queue, state, position, created_at, queued_at, updated_at, executions, max_attempts,
                  max_lost, retry_policy, worker_id, claimed_at, started_at, finished_at, last_token, last_outcome,
                  payload)
select n, printf('0192f3a4-7000-7000-8000-%012x', n), :type, :queue, 'succeeded', 100 * n, :now, :now, :now + 2, 1,
       :max_attempts, :max_lost, :retry_policy, :worker, :now, :now, :now + n, printf('%032x', n / 500), 'ack', :payload
  from number;
insert into runs (job_seq, attempt_no, run_id, worker_id, queue, type, claimed_at, started_at, finished_at, status,
                  wait_us)
select seq, 1, printf('0192f3a4-7000-7000-8000-%012x', seq), worker_id, queue, type, claimed_at, started_at,
       finished_at, 'completed', 0
  from jobs where seq between :first and :last
""",
    "postgres": """
with done as (
  insert into windlass.jobs (id, type, queue, state, position, executions, max_attempts, max_lost, retry_policy, worker_id,
                             claimed_at, started_at, finished_at, last_token, last_outcome, payload)
  select '0192f3a4-7000-7000-8000-' || lpad(to_hex(n), 12, '0'), %(type)s, %(queue)s, 'succeeded', 100 * n, 1,
         %(max_attempts)s, %(max_lost)s, %(retry_policy)s, %(worker)s, now(), now(), now() + n * interval '1 microsecond',
         lpad(to_hex(n / 500), 32, '0'), 'ack', %(payload)s
    from generate_series(%(first)s::bigint, %(last)s::bigint) as n
  returning seq, id, worker_id, queue, type, claimed_at, started_at, finished_at
)
insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, queue, type, claimed_at, started_at, finished_at, status,
                           wait_us)
select seq, 1, id, worker_id, queue, type, claimed_at, started_at, finished_at, 'completed', 0 from done
""",
}


def queues_of(beside: Beside, rows: int) -> list[str]:
    """Those that hold the jobs that are measured."""
    return [f"q{number:04}" for number in range(rows)] if beside == "queues" else [QUEUE]


def put(there: Ground, beside: Beside, rows: int) -> None:
    match beside:
        case "backlog":
            enqueue_all(app, filler, rows)
        case "future":
            enqueue_all(app, filler, rows, delay=LATER)
        case "finished":
            finish(there, rows)
        case "parked":
            asyncio.run(park(there, rows))
        case "nothing" | "queues":
            pass


def finish(there: Ground, rows: int) -> None:
    """Jobs that have ended, with their runs."""
    known: dict[str, Any] = {
        "type": filler.name, "queue": QUEUE, "worker": WORKER, "payload": PAYLOAD, "max_attempts": MAX_ATTEMPTS,
        "max_lost": MAX_LOST, "retry_policy": RETRY_POLICY, "now": micros(),
    }  # fmt: skip
    for first in range(1, rows + 1, BITE):
        there.execute(FINISHED[there.store], {**known, "first": first, "last": min(first + BITE - 1, rows)})


async def park(there: Ground, rows: int) -> None:
    """A limit that lets nobody through: claims set aside whoever they find, so many at a time."""
    driver = there.driver()
    try:
        await driver.alter([PutLimit(KEY, 0)], now=driver.clock.now())
        await asyncio.to_thread(enqueue_all, app, filler, rows, limits=(KEY.removeprefix("key:"),))
        for number in range(rows):
            wish = Claim(queues=(QUEUE,), limit=500, lease_for=LEASE, worker_id=WORKER, token=f"{number:032x}")
            assert not await driver.claim(wish, now=driver.clock.now()), "the limit lets nobody through"
            labels = {count.label: count.jobs for count in await driver.count(now=driver.clock.now())}
            if labels.get("parked", 0) == rows:
                return
        raise SystemExit(f"{rows} jobs were to be parked: {labels}")
    finally:
        await driver.close()
