"""Changes that people and services ask for: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

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
from windlass.core.fields import check_now
from windlass.drivers.ops import adopting, deliveries, schedules
from windlass.drivers.ops.bounds import reaches
from windlass.drivers.ops.dependencies import advance, count_member, hand_over
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import announce_cancelled
from windlass.drivers.ops.fleet import leave
from windlass.drivers.ops.groups import cancel_group, retry_group
from windlass.drivers.ops.holds import hold
from windlass.drivers.ops.inspect import get
from windlass.drivers.ops.limits import keys_of
from windlass.drivers.ops.notes import note
from windlass.drivers.ops.order import reorder, settle_down
from windlass.drivers.ops.replaying import unless_taken
from windlass.drivers.ops.tokens import of_tokens
from windlass.drivers.statement import Op
from windlass.types import TERMINAL, Job, Micros


def alter(db: Dialect, changes: Sequence[Alteration], now: Micros, by: By | None = None) -> Op[list[AlterAnswer]]:
    check_now(now)
    check_alterations(changes, by)
    yield from db.lock_for(changes, now)
    answers: list[AlterAnswer] = []
    for change in changes:
        foreign = by is not None and by.bounded and not (yield from reaches(db, by, change))
        answer = "not_found" if foreign else (yield from alter_one(db, change, now))
        answers.append(answer)
    if by is not None:
        yield from note(db, lines(by, changes, answers, now))
    return answers


def alter_one(db: Dialect, change: Alteration, now: Micros) -> Op[AlterAnswer]:
    match change:
        case Unchanged():
            return (yield from if_unchanged(db, change, now))
        case Cancel():
            return (yield from cancel(db, change, now))
        case Replay():
            return (yield from replay(db, change, now))
        case RunNow():
            return (yield from run_now(db, change, now))
        case Move() | MoveBeside() | Swap() | SetPriority() | Renormalise():
            return (yield from reorder(db, change, now))
        case Acquire() | Grant() | Renew() | ReleaseHold():
            return (yield from hold(db, change, now))
        case Delete():
            return (yield from delete(db, change))
        case Revoke():
            return "applied" if (yield db.sql.revoke(workers=db.texts([change.worker_id]), now=now)) else "unchanged"
        case Leave():
            return (yield from leave(db, change, now))
        case SetPaused():
            rows = yield db.sql.set_paused(queue=change.queue, paused=change.paused, now=now)
            return "applied" if rows else "unchanged"
        case PutQueue():
            return (yield from put_queue(db, change, now))
        case PutLimit():
            return (yield from db.gate.put(change, now))
        case RemoveLimit():
            return (yield from db.gate.remove(change, now))
        case PauseLimit():
            return (yield from db.gate.pause(change, now))
        case PutGroup():
            rows = yield db.sql.put_group(
                group_id=change.group_id, name=change.name, mode=change.mode, on_failure=change.on_failure,
                total=change.total, now=now,
            )  # fmt: skip
            return "applied" if rows else "unchanged"
        case CancelGroup():
            return (yield from cancel_group(db, change, now))
        case RetryGroup():
            return (yield from retry_group(db, change, now))
        case Note():
            return "applied"
        case CreateToken() | RevokeToken() | NoteUse():
            return (yield from of_tokens(db, change, now))
        case _ if isinstance(change, OfWebhooks):
            return (yield from deliveries.alter(db, change, now))
        case _:
            return (yield from schedules.alter(db, change, now))


def if_unchanged(db: Dialect, change: Unchanged, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get(db, [change.change.job_id])
    if job is None:
        return "not_found"
    return (yield from alter_one(db, change.change, now)) if job.updated_at == change.seen else "changed"


def put_queue(db: Dialect, change: PutQueue, now: Micros) -> Op[AlterAnswer]:
    before = yield db.sql.order_of(name=change.name)
    yield db.sql.put_queue(
        name=change.name, positions=change.positions, preset=change.preset, settings=change.settings,
        order=change.order, age_after=change.age_after, age_to=change.age_to, now=now,
    )  # fmt: skip
    if (before[0][0] if before else "strict") != change.order:
        yield from adopting.turn(db.gate, change.name, fair=change.order == "fair", now=now)
    if before and before[0][1] == "dense" and change.positions == "tail":
        yield from settle_down(db, change.name, now)
    return "applied"


def cancel(db: Dialect, change: Cancel, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get(db, [change.job_id])
    if job is None:
        return "not_found"
    if job.state == "cancelled" or (job.state == "running" and job.cancel_requested_at is not None):
        return "unchanged"
    if job.state == "running":
        yield db.sql.cancel_running(id=job.id, reason=storable(change.reason), now=now)
        return "requested"
    if job.state != "queued":
        return "wrong_state"
    yield db.sql.cancel_queued(id=job.id, reason=storable(change.reason), now=now)
    yield from announce_cancelled(db, [job.id], now)
    ended = [job.id] if job.awaited else []
    if job.group_id is not None:
        ended += yield from count_member(db, job.group_id, "cancelled", now)
    yield from db.gate.pass_on(keys_of(job), now)
    yield from advance(db, ended, now)
    return "applied"


def replay(db: Dialect, change: Replay, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get(db, [change.job_id])
    if job is None:
        return "not_found"
    if job.state != "dead" or job.dead_kind == "superseded":
        return "wrong_state"
    if job.dedupe_key is not None and (yield db.sql.dedupe_holder(key=job.dedupe_key)):
        return "duplicate"
    if (yield from unless_taken(db, bring_back(db, job, change, now))) is None:
        return "duplicate"
    if job.group_id is not None:
        yield db.sql.uncount_failed(group_id=job.group_id)
    needed = [row[1] for row in (yield db.sql.edges_before(id=job.id))]
    if needed:
        yield db.sql.doubt_groups(ids=db.texts(needed))
    return "applied"


def bring_back(db: Dialect, job: Job, change: Replay, now: Micros) -> Op[None]:
    if job.retry_mode == "new_job":
        child = RetryChild(change.child_id, None, 0 if change.reset_attempts else job.attempts, manual=True)
        yield from db.insert_child(job.seq, job.queue, job.priority, child, now)
        yield db.sql.supersede(id=job.id, child_id=child.id, now=now)
        if job.awaited:
            yield from hand_over(db, job.id, child.id, now)
    else:
        yield db.sql.replay(id=job.id, reset=change.reset_attempts, now=now)


def run_now(db: Dialect, change: RunNow, now: Micros) -> Op[AlterAnswer]:
    [job] = yield from get(db, [change.job_id])
    if job is None or job.state != "queued":
        return "not_found" if job is None else "wrong_state"
    yield db.sql.run_now(id=job.id, now=now)
    return "applied"


def delete(db: Dialect, change: Delete) -> Op[AlterAnswer]:
    chain = yield db.sql.links(id=change.job_id)
    if not chain:
        return "not_found"
    if any(state not in TERMINAL or awaited for _, state, awaited in chain):  # who owes others the word of its end, stays
        return "wrong_state"
    gone = yield from db.delete_chain([seq for seq, *_ in chain])
    if not gone.left:
        return "applied"
    return "referred" if gone.refused else "busy"
