"""What people and services ask for, each guarded by the state of its row."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.admission import check_alteration
from windlass.core.changes import (
    AlterAnswer,
    Alteration,
    Cancel,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    RetryChild,
    RunNow,
    storable,
)
from windlass.drivers.memory.jobs import insert_child
from windlass.drivers.memory.limits import put_limit, unpark
from windlass.drivers.memory.settlement import count, uncount
from windlass.drivers.memory.tables import Tables
from windlass.types import Group, Micros, Queue


def alter(tables: Tables, changes: Sequence[Alteration], now: Micros) -> list[AlterAnswer]:
    for change in changes:
        check_alteration(change)
    return [alter_one(tables, change, now) for change in changes]


def alter_one(tables: Tables, change: Alteration, now: Micros) -> AlterAnswer:
    match change:
        case Cancel():
            return cancel(tables, change, now)
        case Replay():
            return replay(tables, change, now)
        case RunNow():
            return run_now(tables, change, now)
        case PutQueue():
            return put_queue(tables, change, now)
        case PutLimit():
            return put_limit(tables, change, now)
        case PutGroup():
            return put_group(tables, change, now)


def cancel(tables: Tables, change: Cancel, now: Micros) -> AlterAnswer:
    job = tables.find(change.job_id)
    if job is None:
        return "not_found"
    if job.state == "cancelled" or (job.state == "running" and job.cancel_requested_at is not None):
        return "unchanged"
    if job.state == "running":
        tables.put(rows.cancel_requested(job, now))
        return "requested"
    if job.state != "queued":
        return "wrong_state"
    tables.put(rows.cancelled(job, storable(change.reason), now))
    if job.group_id is not None:
        count(tables, job.group_id, "cancelled", now)
    unpark(tables, job.limit_keys, now)
    return "applied"


def replay(tables: Tables, change: Replay, now: Micros) -> AlterAnswer:
    job = tables.find(change.job_id)
    if job is None:
        return "not_found"
    if job.state != "dead" or job.dead_kind == "superseded":
        return "wrong_state"
    if job.dedupe_key is not None and job.dedupe_key in tables.dedupe:
        return "duplicate"
    if job.retry_mode == "new_job":
        if change.child_id in tables.seqs:
            return "duplicate"
        child = RetryChild(change.child_id, None, 0 if change.reset_attempts else job.attempts, manual=True)
        insert_child(tables, job, child, now)
        tables.put(replace(job, dead_kind="superseded", superseded_by=child.id, updated_at=rows.touched(job, now)))
    else:
        tables.put(rows.replayed(job, change, now))
    if job.group_id is not None:
        uncount(tables, job.group_id, "failed")
    return "applied"


def run_now(tables: Tables, change: RunNow, now: Micros) -> AlterAnswer:
    job = tables.find(change.job_id)
    if job is None or job.state != "queued":
        return "not_found" if job is None else "wrong_state"
    tables.put(rows.brought_forward(job, now))
    return "applied"


def put_queue(tables: Tables, change: PutQueue, now: Micros) -> AlterAnswer:
    before = tables.queues.get(change.name)
    since = None if before is None else before.paused_at
    paused_at = (since or now) if change.paused else None
    queue = Queue(
        name=change.name,
        positions=change.positions,
        preset=change.preset,
        settings=change.settings,
        paused_at=paused_at,
    )
    tables.put_in(tables.queues, change.name, queue)
    return "applied"


def put_group(tables: Tables, change: PutGroup, now: Micros) -> AlterAnswer:
    if change.group_id in tables.groups:
        return "unchanged"
    group = Group(
        group_id=change.group_id, name=change.name, mode=change.mode, on_failure=change.on_failure, total=change.total,
        remaining=change.total, created_at=now,
    )  # fmt: skip
    tables.put_in(tables.groups, change.group_id, group)
    return "applied"
