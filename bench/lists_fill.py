"""A store as it looks after a busy week: nearly everything has ended, some waits, little runs. Written as rows, because a
million jobs that are really run would take longer than what is measured."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import apsw
import psycopg

from windlass.drivers import migrate

QUEUES: Final = 20
WEEK_MINUTES: Final = 7 * 1_440
MINUTE: Final = 60_000_000

# `n` runs from 1 to {rows}; created over the last week, the newest now.
KINDS: Final = """
  case when n > {rows} - 400 and n % 2 = 0 then 'running'
       when n > {rows} - 20000 and n % 3 <> 0 then 'ready'
       when n % 33 = 0 then 'scheduled'
       when n % 500 = 1 then 'blocked'
       when n % 66 = 2 then 'dead'
       when n % 200 = 3 then 'cancelled'
       else 'succeeded' end"""
ERRORS: Final = """
  case n % 5 when 0 then 'Timeout: no answer after ' || (n % 60) || ' s' when 1 then 'KeyError: ''k' || n || ''''
       when 2 then 'ConnectionError: host-' || (n % 40) || ' refused' when 3 then 'ValueError: bad row ' || n
       else 'RuntimeError: ' || n end"""
COLUMNS: Final = (
    "seq, id, queue, type, org_id, state, ready, priority, position, created_at, queued_at, updated_at, run_at, attempts, "
    "executions, max_attempts, lease_token, lease_expires_at, worker_id, claimed_at, started_at, finished_at, failed_at, "
    "dead_kind, dead_at, dead_reason, schedule_id, fire_at, group_id, waiting_on, tags, last_error, payload"
)
VALUES: Final = """
  n, {id}, 'q' || (n % 20), case when n % 100003 = 5 then 'rare' else 'task' || (n % 50) end,
  'org' || (n % 500), case when kind in ('ready', 'scheduled', 'blocked') then 'queued' else kind end,
  {ready}, n % 3, 100 * n, {created}, {created}, {created},
  case when kind = 'scheduled' then {future} end, case when kind = 'dead' or kind = 'scheduled' then 1 else 0 end,
  case when kind in ('ready', 'scheduled', 'blocked') then 0 else 1 end, 5,
  case when kind = 'running' then 'token' end, case when kind = 'running' then {soon} end,
  case when kind not in ('ready', 'scheduled', 'blocked') then 'worker-' || (n % 40) end,
  case when kind not in ('ready', 'scheduled', 'blocked') then {created} end,
  case when kind not in ('ready', 'scheduled', 'blocked') then {created} end,
  case when kind in ('succeeded', 'dead', 'cancelled') then {ended} end,
  case when kind in ('dead', 'scheduled') then {ended} end,
  case when kind = 'dead' then 'exhausted' end, case when kind = 'dead' then {ended} end,
  case when kind = 'dead' then {error} end,
  case when n % 100 = 7 then 'schedule-' || (n % 7) end, case when n % 100 = 7 then {created} end,
  case when n % 40 = 9 then 'g' || (n / 1000) end, case when kind = 'blocked' then 1 else 0 end,
  case when n % 5 = 0 then {tags} end,
  case when kind = 'scheduled' and n % 2 = 0 then {error} else '' end,
  {payload}"""


def sample(queue: int, minute: int) -> tuple[str, str, int, str, str, str]:
    """depth, oldest, finished, waits, runs of one queue and minute, plain and a little different each time."""
    busy = 50 + (queue * 37 + minute * 13) % 200
    depth = {"queued": busy % 90, "scheduled": 1_500, "running": busy % 20, "dead": 700 + queue}
    finished = {"completed": busy, "failed": busy // 40, "skipped": busy // 90}
    spread = {str(7 + (busy + n) % 12): busy // 6 + n for n in range(6)}
    return f"q{queue}", json.dumps(depth), busy * 10_000, json.dumps(finished), json.dumps(spread), json.dumps(spread)


def samples(now: int) -> list[tuple[Any, ...]]:
    end = now - now % MINUTE
    return [
        (queue, end - back * MINUTE, depth, oldest, finished, waits, runs)
        for back in range(1, WEEK_MINUTES + 1)
        for queue, depth, oldest, finished, waits, runs in (sample(n, back) for n in range(QUEUES))
    ]


def fill_sqlite(path: str, rows: int, now: int) -> None:
    migrate(f"sqlite:////{path.lstrip('/')}")
    pause = 7 * 86_400_000_000 // rows
    created = f"({now} - ({rows} - n) * {pause})"
    values = VALUES.format(
        id="printf('0192f0c1-%04x-7000-8000-%012x', n / 65536, n)", ready="kind = 'ready'", created=created,
        future=f"{now} + 3600000000 + n", soon=f"{now} + 30000000", ended=f"({created} + 5000000 + n % 7 * 1000000)",
        error=f"({ERRORS})", tags="json_array('tag' || (n % 30), 'all')",
        payload="cast('{\"args\":{\"order\":' || n || ',\"amount\":4999,\"to\":\"ada@example.com\"}}' as blob)",
    )  # fmt: skip
    connection = apsw.Connection(path)
    for statement in (
        "pragma synchronous = off",
        "begin",
        f"with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {rows}) "
        f"insert into jobs ({COLUMNS}) select {values} from (select n, {KINDS.format(rows=rows)} as kind from numbers)",
    ):
        connection.execute(statement)
    connection.executemany(
        "insert into queue_stats (queue, minute, depth, oldest, finished, waits, runs) values (?, ?, ?, ?, ?, ?, ?)",
        samples(now),
    )
    schedules(connection.execute, "?", now)
    connection.execute("commit")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def schedules(execute: Any, mark: str, now: int) -> None:
    for n in range(7):
        values = (f"schedule-{n}", "t", f"nightly-{n}", f"{n} 3 * * *", "UTC", now + (n + 1) * MINUTE, now, now)
        marks = ", ".join([mark] * 5 + ([mark] * 3 if mark == "?" else [f"windlass.at({mark})"] * 3))
        table = "schedules" if mark == "?" else "windlass.schedules"
        execute(
            f"insert into {table} (schedule_id, template_id, name, cron_expression, timezone, next_trigger_at, created_at, "
            f"updated_at) values ({marks})",
            values,
        )


def fill_postgres(url: str, rows: int, now: int) -> None:
    migrate(url)
    pause = 7 * 86_400_000_000 // rows
    created = f"windlass.at(({now} - ({rows} - n) * {pause})::bigint)"
    values = VALUES.format(
        id="'0192f0c1-' || lpad(to_hex(n / 65536), 4, '0') || '-7000-8000-' || lpad(to_hex(n), 12, '0')",
        ready="kind = 'ready'", created=created, future=f"windlass.at(({now} + 3600000000 + n)::bigint)",
        soon=f"windlass.at({now} + 30000000)", ended=f"({created} + interval '5 seconds' + n % 7 * interval '1 second')",
        error=f"({ERRORS})", tags="jsonb_build_array('tag' || (n % 30), 'all')",
        payload="convert_to('{\"args\":{\"order\":' || n || ',\"amount\":4999,\"to\":\"ada@example.com\"}}', 'utf8')",
    )  # fmt: skip
    with psycopg.connect(url) as connection:
        connection.execute("set local session_replication_role = replica")
        connection.execute("set local synchronous_commit = off")
        connection.execute(
            f"insert into windlass.jobs ({COLUMNS}) select {values} from (select n, {KINDS.format(rows=rows)} as kind "
            f"from generate_series(1, {rows}::bigint) as n) as numbers".encode()
        )
        connection.execute("select setval('windlass.jobs_seq', %s)", (rows,))
        with connection.cursor().copy(
            "copy windlass.queue_stats (queue, minute, depth, oldest, finished, waits, runs) from stdin"
        ) as copy:
            for queue, minute, *rest in samples(now):
                copy.write_row((queue, instant(minute), *rest))
        schedules(connection.execute, "%s", now)


def instant(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat()
