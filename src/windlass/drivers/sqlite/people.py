"""What people and services ask for: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.admission import check_alteration
from windlass.core.changes import (
    AlterAnswer,
    Alteration,
    Cancel,
    Delete,
    Leave,
    Move,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    RetryChild,
    Revoke,
    RunNow,
    SetPaused,
    storable,
)
from windlass.core.positions import beyond
from windlass.drivers.sqlite.fleet import leave
from windlass.drivers.sqlite.inspect import get
from windlass.drivers.sqlite.jobs import insert_children
from windlass.drivers.sqlite.limits import put_limit, unpark
from windlass.drivers.sqlite.rows import to_json
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import TERMINAL, Micros


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
        case Move():
            return (yield from move(change, now))
        case Delete():
            return (yield from delete(change))
        case Revoke():
            return "applied" if (yield SQL.revoke(worker_id=change.worker_id, now=now)) else "unchanged"
        case Leave():
            return (yield from leave(change, now))
        case SetPaused():
            rows = yield SQL.set_paused(queue=change.queue, paused=change.paused, now=now)
            return "applied" if rows else "unchanged"
        case PutQueue():
            yield SQL.put_queue(
                name=change.name, positions=change.positions, preset=change.preset, settings=change.settings, now=now
            )
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
        yield SQL.cancel_running(id=job.id, reason=storable(change.reason), now=now)
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


def move(change: Move, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get([change.job_id])
    if job is None or job.state != "queued":
        return "not_found" if job is None else "wrong_state"
    block = SQL.first_place if change.to == "top" else SQL.last_place
    found = yield block(queue=job.queue, priority=job.priority, seq=job.seq)
    end = (found[0][0], found[0][1], found[0][2]) if found else None
    position = beyond((job.position, job.created_at, job.seq), end, change.to)
    if position is None:
        return "unchanged"
    yield SQL.move_job(seq=job.seq, position=position, now=now)
    return "applied"


def delete(change: Delete) -> Op[AlterAnswer]:
    chain = yield SQL.links(id=change.job_id)
    if not chain:
        return "not_found"
    if any(state not in TERMINAL for _, state in chain):
        return "wrong_state"
    yield SQL.delete_chains(seqs=to_json([seq for seq, _ in chain]))
    return "applied"
