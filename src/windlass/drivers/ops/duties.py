"""Maintenance, one bounded piece at a time: values → statements. `samples.py` has the duty that mostly reads."""

from __future__ import annotations

from windlass.core.admission_of_workers import check_duty
from windlass.core.duties import (
    AgeJobs,
    Done,
    FanOut,
    ForgetEvents,
    ForgetKeys,
    ForgetUsage,
    Mend,
    Prune,
    RecountLimits,
    RemoveDeadWorkers,
    ReturnSpace,
    RollUpUsage,
    TellDependants,
    TidyPositions,
)
from windlass.core.fields import check_now
from windlass.drivers.ops.deliveries import fan_out, forget_events
from windlass.drivers.ops.dependencies import pay
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.fleet import is_allowed
from windlass.drivers.ops.order import tidy
from windlass.drivers.ops.repair import mend
from windlass.drivers.ops.retention import prune
from windlass.drivers.ops.usage import forget_usage, roll_up_usage
from windlass.drivers.statement import Op
from windlass.types import Micros

Here = (
    Prune
    | ForgetKeys
    | RemoveDeadWorkers
    | RollUpUsage
    | ForgetUsage
    | ReturnSpace
    | TidyPositions
    | RecountLimits
    | AgeJobs
    | Mend
    | FanOut
    | ForgetEvents
    | TellDependants
)


def maintain(db: Dialect, duty: Here, epoch: int | None, now: Micros) -> Op[Done | None]:
    check_duty(duty)
    check_now(now)
    if not (yield from is_allowed(db, epoch, now)):
        return None
    match duty:
        case Prune():
            return (yield from prune(db, duty, now))
        case ForgetKeys():
            gone = len((yield db.sql.forget_keys(now=now, limit=duty.limit)))
            return Done(gone, more=gone == duty.limit)
        case RemoveDeadWorkers():
            return (yield from remove_dead_workers(db, duty, now))
        case RollUpUsage():
            return (yield from roll_up_usage(db, duty, now))
        case ForgetUsage():
            return (yield from forget_usage(db, duty, now))
        case ReturnSpace():
            return (yield from db.return_space(duty))
        case TidyPositions():
            return (yield from tidy(db, duty, now))
        case RecountLimits():
            return (yield from db.gate.recount(duty, now))
        case AgeJobs():
            return (yield from age_jobs(db, duty, now))
        case Mend():
            return (yield from mend(db, duty, now))
        case FanOut():
            return (yield from fan_out(db, duty, now))
        case ForgetEvents():
            return (yield from forget_events(db, duty, now))
        case TellDependants():
            told = yield from pay(db, now, duty.limit)
            return Done(told, more=told >= duty.limit)


def age_jobs(db: Dialect, duty: AgeJobs, now: Micros) -> Op[Done]:
    raised, more = 0, False
    for queue, after, to in (yield db.sql.ageing_queues()):
        rows = yield db.sql.age(queue=queue, before=now - after, age_to=to, limit=duty.limit, now=now)
        raised += len(rows)
        more = more or len(rows) == duty.limit
    return Done(raised, more=more)


def remove_dead_workers(db: Dialect, duty: RemoveDeadWorkers, now: Micros) -> Op[Done]:
    dead = yield db.sql.remove_workers(silent_for=duty.silent_for, now=now)
    if dead:
        yield db.sql.revoke(workers=db.texts(row[0] for row in dead), now=now)
    return Done(len(dead))
