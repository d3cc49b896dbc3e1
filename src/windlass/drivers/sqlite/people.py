"""What people and services ask for: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

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
from windlass.drivers.sqlite.inspect import get
from windlass.drivers.sqlite.jobs import insert_children
from windlass.drivers.sqlite.limits import put_limit, unpark
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros


def alter(changes: Sequence[Alteration], now: Micros) -> Op[list[AlterAnswer]]:
    for change in changes:
        check_alteration(change)
    answers: list[AlterAnswer] = []
    for change in changes:
        answer = yield from alter_one(change, now)
        answers.append(answer)
    return answers


def alter_one(change: Alteration, now: Micros) -> Op[AlterAnswer]:
    match change:
        case Cancel():
            return (yield from cancel(change, now))
        case Replay():
            return (yield from replay(change, now))
        case RunNow():
            return (yield from run_now(change, now))
        case PutQueue():
            yield SQL.put_queue(
                name=change.name, positions=change.positions, preset=change.preset, settings=change.settings,
                paused_at=now if change.paused else None, now=now,
            )  # fmt: skip
            return "applied"
        case PutLimit():
            return (yield from put_limit(change, now))
        case PutGroup():
            rows = yield SQL.put_group(
                group_id=change.group_id, name=change.name, mode=change.mode, on_failure=change.on_failure,
                total=change.total, now=now,
            )  # fmt: skip
            return "applied" if rows else "unchanged"


def cancel(change: Cancel, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get([change.job_id])
    if job is None:
        return "not_found"
    if job.state == "cancelled" or (job.state == "running" and job.cancel_requested_at is not None):
        return "unchanged"
    if job.state == "running":
        yield SQL.cancel_running(id=job.id, now=now)
        return "requested"
    if job.state != "queued":
        return "wrong_state"
    yield SQL.cancel_queued(id=job.id, reason=storable(change.reason), now=now)
    if job.group_id is not None:
        yield SQL.count_member(group_id=job.group_id, ending="cancelled", now=now)
    yield from unpark(job.limit_keys, now)
    return "applied"


def replay(change: Replay, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get([change.job_id])
    if job is None:
        return "not_found"
    if job.state != "dead" or job.dead_kind == "superseded":
        return "wrong_state"
    if job.dedupe_key is not None and (yield SQL.dedupe_holder(key=job.dedupe_key)):
        return "duplicate"
    if job.retry_mode == "new_job":
        [taken] = yield from get([change.child_id])
        if taken is not None:
            return "duplicate"
        child = RetryChild(change.child_id, None, 0 if change.reset_attempts else job.attempts, manual=True)
        yield from insert_children([(job.seq, job.queue, job.priority, child)], now)
        yield SQL.supersede(id=job.id, child_id=child.id, now=now)
    else:
        yield SQL.replay(id=job.id, reset=change.reset_attempts, now=now)
    if job.group_id is not None:
        yield SQL.uncount_failed(group_id=job.group_id)
    return "applied"


def run_now(change: RunNow, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get([change.job_id])
    if job is None or job.state != "queued":
        return "not_found" if job is None else "wrong_state"
    yield SQL.run_now(id=job.id, now=now)
    return "applied"
