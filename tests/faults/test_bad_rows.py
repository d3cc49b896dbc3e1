"""Rows that somebody wrote with SQL and that make no sense: refused by the store, set aside, or left waiting where people
see them. The worker lives, others are served, nothing loops, and every list can still be read."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

import apsw
import psycopg

from windlass.clock import LAST_INSTANT
from windlass.core.counters import MOST_COUNTED
from windlass.core.positions import FURTHEST
from windlass.drivers.values import JobQuery

from . import tasks
from .conftest import FleetMaker
from .fleet import Fleet

FAR = 9_200_000_000_000_000_000
LARGEST = 2**63 - 1
COLUMNS = {
    "type": ["'nobody.knows'", "'\t'", "'\U0001f600'", "'" + "t" * 200 + "'"],
    "payload": [
        "{blob:}",
        "{blob:00}",
        "{blob:ff}",
        "{blob:5b5d}",
        "{blob:6e756c6c}",
        "{blob:7b226e756d626572223a226f6e65227d}",
    ],
    "codec": ["''", "'pickle'", "'sealed'", "'zstd'"],
    "headers": ['\'{"a": "\\ud800"}\'', "'nonsense'", "'[]'", "'null'", '\'{"a": {"b": 1}}\'', "'7'"],
    "tags": ["'[\"\\ud800\"]'", "'nonsense'", "'{}'", "'[1, null]'", "'\"text\"'"],
    "limit_keys": ["'nonsense'", "'{}'", "'[1, null]'", "'[\"nobody made this\"]'", '\'["key:few", "key:few"]\''],
    "retry_policy": ["'nonsense'", "'[]'", '\'{"kind": "none"}\'', "'{}'", "'null'"],
    "priority": ["-2147483648", "2147483647", "1.5", "'high'"],
    "position": [str(LARGEST), str(FURTHEST), str(-FURTHEST), "-9000000000000000000", "9000000000000000000", "'first'"],
    "attempts": [str(LARGEST), str(MOST_COUNTED), "-1", "2147483647", "1.5"],
    "executions": [str(LARGEST), str(MOST_COUNTED), "-1", "7", "2000000000"],
    "max_attempts": [str(LARGEST), "-1", "1", "2147483647"],
    "max_lost": [str(LARGEST), "-1", "1"],
    "timeout_ns": [str(LARGEST), "-1", "1", "9000000000000000000"],
    "lost": [str(LARGEST), str(MOST_COUNTED)],
    "seq": [str(2**53)],
    "run_at": [
        "'infinity'",
        "'-infinity'",
        "{at:-1}",
        "{at:0}",
        f"{{at:{FAR}}}",
        f"{{at:{LAST_INSTANT}}}",
        "'294260-01-01'",
        "'soon'",
    ],
    "queued_at": ["'infinity'", "'-infinity'", "'4713-01-01 BC'", f"{{at:{LAST_INSTANT}}}"],
    "updated_at": ["'infinity'", f"{{at:{LAST_INSTANT}}}"],
    "created_at": ["'infinity'", "{at:-1}", "{at:0}", f"{{at:{FAR}}}"],
    "group_id": ["'no group'"],
    "schedule_id": ["'no schedule'"],
    "template_id": ["'no template'"],
    "retry_of": ["'no job'"],
    "superseded_by": ["'no job'"],
    "parked_on": ["'key:nobody'"],
    "waiting_on": ["3"],
    "share": ["'nobody'"],
    "dedupe_key": ["''"],
    "idempotency_key": ["'k'"],
    "on_unknown": ["'explode'", "'dead'"],
    "retry_mode": ["'never'", "'new_job'"],
    "crash_policy": ["'explode'", "'fail'"],
    "history": ["'none'", "'failures'"],
    "state": ["'running'", "'lost'", "'succeeded'", "'dead'"],
    "cancel_requested_at": ["{at:1}"],
    "progress": ["-1", "'half'"],
    "result": ["{blob:ff}"],
    "org_id": ["''", "'" + "o" * 10_000 + "'"],
}
OTHERS = 20
MOST_EXECUTIONS = 31  # what the policy of these tasks allows, and one


def written(fleet: Fleet, column: str, value: str, good: str) -> str | None:
    """The id of the row that was made, or nothing when the store refused it."""
    postgres = fleet.on.name == "PostgreSQL"
    for mark, form in (
        ("{blob:", "decode('{}', 'hex')" if postgres else "x'{}'"),
        ("{at:", "at({})" if postgres else "{}"),
    ):
        if value.startswith(mark):
            value = form.format(value.removeprefix(mark).rstrip("}"))
    names = ["type", "queue", "payload", "codec", "retry_policy"]
    chosen = ", ".join(value if name == column else name for name in names)
    more = ("", "") if column in names else (f", {column}", f", {value}")
    sql = f"insert into jobs ({', '.join(names)}{more[0]}) select {chosen}{more[1]} from jobs where id = ? returning id"
    with suppress(apsw.Error, psycopg.Error):
        return str(fleet.rows(sql, good)[0][0])
    return None


async def seen() -> set[str]:
    """Every job that a list shows, each also looked at alone."""
    driver, found, before = tasks.app.client.driver, set[str](), None
    while True:
        page = await driver.find(JobQuery(superseded=True, before=before, limit=50))
        found |= {job.id for job in page.jobs}
        for job in page.jobs:
            await driver.get([job.id])
        before = page.cursor
        if before is None:
            return found


def test_rows_that_make_no_sense_stop_nobody(new_quick_fleet: FleetMaker) -> None:
    with new_quick_fleet(lease="2s", grace="200ms") as fleet:
        good = tasks.quick.enqueue_sync(0).id
        bad = {
            row: f"{column} = {value}"
            for column, values in COLUMNS.items() for value in values
            for row in [written(fleet, column, value, good)] if row is not None
        }  # fmt: skip
        others = [tasks.quick.enqueue_sync(n).id for n in range(OTHERS)]
        worker = fleet.start("run")

        def done() -> bool:
            marks = ", ".join("?" for _ in others)
            return fleet.count(f"id in ({marks}) and state = 'succeeded'", *others) == OTHERS

        fleet.until("the others are done", done)
        fleet.until("nothing runs", lambda: fleet.count("state = 'running'") == 0)
        listed = asyncio.run(seen())
        fresh = tasks.quick.enqueue_sync(1).id
        fleet.until("one more is done", lambda: fleet.count("id = ? and state = 'succeeded'", fresh))
        assert worker.popen.poll() is None, "the worker gave up"
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        rows = {row: rest for row, *rest in fleet.rows("select id, state, executions - skipped, dead_reason from jobs")}
        told = worker.errors.read_text()

    assert len(bad) > 25, "nearly everything was refused, which is another test"
    assert listed >= set(bad), "a list does not show what is in the store"
    for row, how in bad.items():
        state, executions, reason = rows[row]
        assert state in ("queued", "succeeded", "dead", "cancelled"), (how, state)
        assert executions <= MOST_EXECUTIONS or "executions" in how, (how, executions)
        assert (state == "dead") == (reason is not None), how
    assert told.count("\n") < 40 * len(bad), "it never stops complaining"
