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
from windlass.drivers.postgres import limits
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.faults import Taken
from windlass.drivers.postgres.fleet import leave
from windlass.drivers.postgres.inspect import get
from windlass.drivers.postgres.jobs import insert_child
from windlass.drivers.postgres.limits import put_limit, unpark
from windlass.drivers.postgres.rows import strings_in
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op
from windlass.errors import DuplicateId
from windlass.types import TERMINAL, Job, Micros

BY_JOB = Cancel | Replay | RunNow | Move | Delete


def alter(changes: Sequence[Alteration], now: Micros) -> Op[list[AlterAnswer]]:
    for change in changes:
        check_alteration(change)
    yield from lock_all(changes, now)
    answers: list[AlterAnswer] = []
    for change in changes:
        answer = yield from alter_one(change, now)
        answers.append(answer)
    return answers


def lock_all(changes: Sequence[Alteration], now: Micros) -> Op[None]:
    """Queues, limits and groups that the changes touch, then the jobs, each in the order of keys: what is read from here
    on stays true, and two who name the same rows in another order do not wait for each other in a ring."""
    yield from limits.hold_runs_for_new(change.key for change in changes if isinstance(change, PutLimit))
    seqs = yield from named(changes, now)
    queues = {change.name for change in changes if isinstance(change, PutQueue)}
    queues |= {change.queue for change in changes if isinstance(change, SetPaused)}
    keys = {change.key for change in changes if isinstance(change, PutLimit)}
    groups: set[str] = set()
    if seqs:
        if any(isinstance(change, Replay) for change in changes):  # its child takes a place in a queue
            queues.update(queue for _, queue, _ in (yield SQL.places(seqs=seqs)))
        for group_id, limit_keys in (yield SQL.shared_rows_of(seqs=seqs)):
            groups.update([group_id] if group_id is not None else [])
            keys.update(strings_in(limit_keys))
    if queues:
        yield SQL.hold_queues(names=Texts(queues))
    yield from limits.lock(keys)
    if groups:
        yield SQL.lock_groups(ids=Texts(groups))
    if seqs:
        yield SQL.lock_jobs(seqs=seqs)


def named(changes: Sequence[Alteration], now: Micros) -> Op[Ints]:
    """The jobs that the changes are about: with a deletion all links of the chain, with a dead worker what it leased."""
    seqs: set[int] = set()
    ids = Texts(dict.fromkeys(change.job_id for change in changes if isinstance(change, BY_JOB)))
    workers = Texts(change.worker_id for change in changes if isinstance(change, Revoke))
    if ids:
        seqs.update(row[1] for row in (yield SQL.seqs_of(ids=ids)))
    if workers:
        seqs.update(row[0] for row in (yield SQL.leased_by(workers=workers, now=now)))
    for change in changes:
        if isinstance(change, Delete):
            seqs.update(row[0] for row in (yield SQL.links(id=change.job_id)))
    return Ints(seqs)


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
    yield SQL.begin_replay()
    try:
        yield from bring_back(job, change, now)
    except (Taken, DuplicateId):
        yield SQL.undo_replay()
        return "duplicate"
    yield SQL.end_replay()
    if job.group_id is not None:
        yield SQL.uncount_failed(group_id=job.group_id)
    return "applied"


def bring_back(job: Job, change: Replay, now: Micros) -> Op[None]:
    if job.retry_mode == "new_job":
        child = RetryChild(change.child_id, None, 0 if change.reset_attempts else job.attempts, manual=True)
        yield from insert_child(job.seq, job.queue, job.priority, child, now)
        yield SQL.supersede(id=job.id, child_id=child.id, now=now)
    else:
        yield SQL.replay(id=job.id, reset=change.reset_attempts, now=now)


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
    yield SQL.delete_jobs(seqs=Ints(seq for seq, _ in chain))
    return "applied"
