"""Changes that people and services ask for, each guarded by the state of its row."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.acting import By
from windlass.core.admission_of_changes import check_alterations
from windlass.core.alterations import (
    Acquire,
    AlterAnswer,
    Alteration,
    Cancel,
    CancelGroup,
    CreateToken,
    Delete,
    Grant,
    Leave,
    Move,
    MoveBeside,
    Note,
    NoteUse,
    OfWebhooks,
    PauseLimit,
    PutGroup,
    PutLimit,
    PutQueue,
    ReleaseHold,
    RemoveLimit,
    Renew,
    Renormalise,
    Replay,
    RetryGroup,
    Revoke,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
    Unchanged,
)
from windlass.core.audit import lines
from windlass.core.changes import RetryChild, storable
from windlass.core.eligibility import is_expired
from windlass.core.fields import check_now
from windlass.drivers.memory import deliveries, schedules
from windlass.drivers.memory.bounds import reaches
from windlass.drivers.memory.dependencies import advance, hand_over, stop
from windlass.drivers.memory.events import announce_cancelled
from windlass.drivers.memory.fleet import leave
from windlass.drivers.memory.groups import cancel_group, retry_group
from windlass.drivers.memory.holds import hold
from windlass.drivers.memory.jobs import insert_child
from windlass.drivers.memory.limits import keys_of, let_through, pause_limit, put_limit, remove_limit
from windlass.drivers.memory.order import reorder, settle_down
from windlass.drivers.memory.settlement import count, uncount
from windlass.drivers.memory.tables import Tables
from windlass.drivers.memory.tokens import of_tokens
from windlass.types import ACTIVE, TERMINAL, Group, Job, Micros, Queue


def alter(tables: Tables, changes: Sequence[Alteration], now: Micros, by: By | None = None) -> list[AlterAnswer]:
    check_now(now)
    check_alterations(changes, by)
    answers: list[AlterAnswer] = []
    for change in changes:
        foreign = by is not None and by.bounded and not reaches(tables, by, change)
        answers.append("not_found" if foreign else alter_one(tables, change, now))
    for line in [] if by is None else lines(by, changes, answers, now):
        tables.add_audit(line)
    return answers


def alter_one(tables: Tables, change: Alteration, now: Micros) -> AlterAnswer:
    match change:
        case Unchanged():
            job = tables.find(change.change.job_id)
            if job is None:
                return "not_found"
            return alter_one(tables, change.change, now) if job.updated_at == change.seen else "changed"
        case Cancel():
            return cancel(tables, change, now)
        case Replay():
            return replay(tables, change, now)
        case RunNow():
            return run_now(tables, change, now)
        case Move() | MoveBeside() | Swap() | SetPriority() | Renormalise():
            return reorder(tables, change, now)
        case Acquire() | Grant() | Renew() | ReleaseHold():
            return hold(tables, change, now)
        case Delete():
            return delete(tables, change)
        case Revoke():
            return revoke(tables, change, now)
        case Leave():
            return leave(tables, change, now)
        case SetPaused():
            return set_paused(tables, change, now)
        case PutQueue():
            return put_queue(tables, change, now)
        case PutLimit():
            return put_limit(tables, change, now)
        case RemoveLimit():
            return remove_limit(tables, change, now)
        case PauseLimit():
            return pause_limit(tables, change, now)
        case PutGroup():
            return put_group(tables, change, now)
        case CancelGroup():
            return cancel_group(tables, change, now)
        case RetryGroup():
            return retry_group(tables, change, now)
        case Note():
            return "applied"
        case CreateToken() | RevokeToken() | NoteUse():
            return of_tokens(tables, change, now)
        case _ if isinstance(change, OfWebhooks):
            return deliveries.alter(tables, change, now)
        case _:
            return schedules.alter(tables, change, now)


def cancel(tables: Tables, change: Cancel, now: Micros) -> AlterAnswer:
    job = tables.find(change.job_id)
    if job is None:
        return "not_found"
    if job.state == "cancelled" or (job.state == "running" and job.cancel_requested_at is not None):
        return "unchanged"
    if job.state == "running":
        tables.put(rows.cancel_requested(job, storable(change.reason), now))
        return "requested"
    if job.state != "queued":
        return "wrong_state"
    tables.put(rows.cancelled(job, storable(change.reason), now))
    announce_cancelled(tables, [job.id], now)
    ended = [job.id] if job.awaited else []
    if job.group_id is not None:
        count(tables, job.group_id, "cancelled", now)
        ended += stop(tables, job.group_id, "cancelled", now)
    let_through(tables, keys_of(job), now)
    advance(tables, ended, now)
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
        if job.awaited:
            hand_over(tables, job, child.id, now)
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


def delete(tables: Tables, change: Delete) -> AlterAnswer:
    job = tables.find(change.job_id)
    if job is None:
        return "not_found"
    chain = links(tables, job)
    if any(link.state not in TERMINAL or link.awaited for link in chain):  # who owes others the word of its end, stays
        return "wrong_state"
    for link in chain:
        tables.remove(link)
    return "applied"


def links(tables: Tables, job: Job) -> list[Job]:
    """All links of a job's retry chain: what it retries, and what took over from it."""
    found, ids = [job], [job.retry_of, job.superseded_by]
    while ids:
        link = tables.find(ids.pop() or "")
        if link is not None and link not in found:
            found.append(link)
            ids += [link.retry_of, link.superseded_by]
    return found


def revoke(tables: Tables, change: Revoke, now: Micros) -> AlterAnswer:
    held = [job for job in (tables.jobs[seq] for seq in tables.leased) if job.worker_id == change.worker_id]
    valid = [job for job in held if not is_expired(job, now)]
    for job in valid:
        tables.put(rows.revoked(job, now))
    return "applied" if valid else "unchanged"


def set_paused(tables: Tables, change: SetPaused, now: Micros) -> AlterAnswer:
    queue = tables.queues.get(change.queue, Queue(name=change.queue))
    if (queue.paused_at is not None) == change.paused:
        return "unchanged"
    tables.put_in(tables.queues, change.queue, replace(queue, paused_at=now if change.paused else None))
    return "applied"


def put_queue(tables: Tables, change: PutQueue, now: Micros) -> AlterAnswer:
    before = tables.queues.get(change.name)
    queue = Queue(
        name=change.name, positions=change.positions, preset=change.preset, settings=change.settings,
        paused_at=None if before is None else before.paused_at, order=change.order, age_after=change.age_after,
        age_to=change.age_to,
    )  # fmt: skip
    tables.put_in(tables.queues, change.name, queue)
    if change.order != ("strict" if before is None else before.order):
        for job in [job for job in tables.jobs.values() if job.queue == change.name and job.state in ACTIVE]:
            tables.put(replace(job, updated_at=rows.touched(job, now)))  # stores mark whose turn each counts for
    if before is not None and before.positions == "dense" and change.positions == "tail":
        settle_down(tables, change.name, now)
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
