"""A store as it looks after a busy week: nearly everything has ended, some waits, little runs. Written as rows, because a
million jobs that are really run would take longer than what is measured."""

from __future__ import annotations

from typing import Final

from pages_ink import Ink, Postgres, Sqlite
from pages_rest import fill_rest

from windlass.drivers import migrate

WEEK: Final = 7 * 86_400_000_000
WEEKS: Final = 4  # before the last one, whose jobs were pruned; what they used stayed

# `n` runs from 1 to {rows}; created over the last week, the newest now.
KINDS: Final = """
  case when n > {rows} - {rows} / 2500 and n % 2 = 0 then 'running'
       when n > {rows} - {rows} / 50 and n % 3 <> 0 then 'ready'
       when n % 33 = 0 then 'scheduled'
       when n % 500 = 1 then 'blocked'
       when n % 1000 = 7 then 'parked'
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
    "dead_kind, dead_at, dead_reason, schedule_id, fire_at, group_id, group_seq, waiting_on, parked_on, tags, last_error, "
    "payload"
)
WAITING: Final = "('ready', 'scheduled', 'blocked', 'parked')"
TRIED: Final = "(kind = 'scheduled' and n % 2 = 0)"  # failed, and will be tried again
RAN: Final = f"(kind not in {WAITING} or {TRIED})"
VALUES: Final = f"""
  n, {{id}}, 'q' || (n % 20), case when n % 100003 = 5 then 'rare' else 'task' || (n % 50) end,
  'org' || (n % 500), case when kind in {WAITING} then 'queued' else kind end,
  {{ready}}, n % 3, 100 * n, {{created}}, {{created}}, {{created}},
  case when kind = 'scheduled' then {{future}} end, case when kind = 'dead' or {TRIED} then 1 else 0 end,
  case when {RAN} then 1 else 0 end, 5, case when kind = 'running' then 'token' end,
  case when kind = 'running' then {{soon}} end, case when {RAN} then 'worker-' || (n % 40) end,
  case when {RAN} then {{created}} end, case when {RAN} then {{created}} end,
  case when kind in ('succeeded', 'dead', 'cancelled') then {{ended}} end,
  case when kind = 'dead' or {TRIED} then {{ended}} end,
  case when kind = 'dead' then 'exhausted' end, case when kind = 'dead' then {{ended}} end,
  case when kind = 'dead' then {{error}} end,
  case when n % 100 = 7 then 'schedule-' || (n % 7) end, case when n % 100 = 7 then {{created}} end,
  case when n % 200 = 11 then 'large' when n % 10 = 9 then 'g' || (n / 100) end,
  case when n % 10 = 9 or n % 200 = 11 then n end,
  case when kind = 'blocked' then 1 else 0 end, case when kind = 'parked' then 'tag:all' end,
  case when n % 5 = 0 then {{tags}} end, case when {TRIED} then {{error}} else '' end, {{payload}}"""


RUNS: Final = """
insert into {s}runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, claimed_at, started_at, finished_at,
                     status, wait_us, cpu_us, peak_rss, error, traceback)
select seq, 1, 'run-' || seq, worker_id, org_id, queue, type, claimed_at, started_at, coalesce(finished_at, failed_at),
       case when failed_at is not null then 'failed' when state = 'cancelled' then 'skipped'
            when state = 'succeeded' then 'completed' end, 2000 + seq % 90000, 4000 + seq % 7000, 30000000 + seq % 90000000,
       case when failed_at is not null then coalesce(dead_reason, last_error) end,
       case when failed_at is not null then {trace} || coalesce(dead_reason, last_error) end
  from {s}jobs where executions > 0"""
TRACE: Final = (
    "'Traceback (most recent call last):\n  File \"shop/orders.py\", line 812, in run\n    await self.client.send(order)\n'"
)
GROUPS: Final = """
insert into {s}groups (group_id, name, total, remaining, succeeded, failed, cancelled, created_at, finished_at)
select group_id, 'Import ' || group_id, count(*), sum(case when finished_at is null then 1 else 0 end),
       sum(case when state = 'succeeded' then 1 else 0 end), sum(case when state = 'dead' then 1 else 0 end),
       sum(case when state = 'cancelled' then 1 else 0 end), min(created_at),
       case when sum(case when finished_at is null then 1 else 0 end) = 0 then max(finished_at) end
  from {s}jobs where group_id is not null group by group_id"""
USAGE: Final = """
insert into {s}usage_hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select {hour}, org_id, queue, type, status, count(*), sum({took}), sum(wait_us), sum(cpu_us), max(peak_rss)
  from {s}runs where finished_at is not null group by 1, 2, 3, 4, 5"""
DAYS: Final = """
insert into {s}usage_daily (day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select {day}, org_id, queue, type, outcome, sum(runs), sum(run_us), sum(wait_us), sum(cpu_us), max(peak_rss)
  from {s}usage_hourly where hour < {until} group by 1, 2, 3, 4, 5"""
EARLIER: Final = """
insert into {s}usage_hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select {ago}, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss
  from {s}usage_hourly where hour > {week} on conflict do nothing"""


def fill(url: str, rows: int, now: int) -> None:
    migrate(url)
    ink: Ink = Sqlite(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else Postgres(url)
    fill_jobs(ink, rows, now)
    fill_what_ran(ink, now)
    fill_rest(ink, rows, now)
    ink.done()


def fill_jobs(ink: Ink, rows: int, now: int) -> None:
    words, pause = ink.words, WEEK // rows
    created = f"{now} - ({rows} - n) * {pause}"
    values = VALUES.format(
        id=words.id, ready="kind not in ('scheduled', 'blocked', 'parked')", created=words.at.format(created),
        future=words.at.format(f"{now} + 3600000000 + n"), soon=words.at.format(f"{now} + 30000000"),
        ended=words.at.format(f"{created} + 5000000 + n % 7 * 1000000"), error=f"({ERRORS})", tags=words.tags,
        payload=words.payload,
    )  # fmt: skip
    kinds = f"select n, {KINDS.format(rows=rows)} as kind from {words.numbers.format(rows)} as numbers"
    ink.execute(f"insert into {words.schema}jobs ({COLUMNS}) select {values} from ({kinds}) as jobs")


def fill_what_ran(ink: Ink, now: int) -> None:
    words = ink.words
    trace = TRACE if words.schema == "" else f"E{TRACE}"
    ink.execute(RUNS.format(s=words.schema, trace=trace))
    ink.execute(GROUPS.format(s=words.schema))
    hour, took = words.hour.format("finished_at"), words.micros.format("finished_at", "started_at")
    ink.execute(USAGE.format(s=words.schema, hour=hour, took=took))
    for week in range(1, WEEKS + 1):
        ago, last = words.ago.format("hour", week * WEEK), words.at.format(now - WEEK)
        ink.execute(EARLIER.format(s=words.schema, ago=ago, week=last))
    over = now - now % 3_600_000_000
    ink.execute(DAYS.format(s=words.schema, day=words.day.format("hour"), until=words.at.format(str(over))))
    ink.insert("meta", "key, value", [("usage_watermark", str(now)), ("usage_days", str(over))])
