"""Adding up what ended, and what was added up: values → statements."""

from __future__ import annotations

from typing import Any, Final

from windlass.core.duties import Done, ForgetUsage, RollUpUsage
from windlass.core.history import SAMPLED
from windlass.core.queries import UsageBy
from windlass.core.usage import DAY, day_of, hour_of, latest, whole_days
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Blocks, Op, Row, Statement
from windlass.records import Usage
from windlass.types import Micros

FURTHEST: Final = 32  # days that are read in one statement when hours are asked for


def watermark(sql: Blocks) -> Op[Micros | None]:
    """Runs that ended up to here are in `usage_hourly`; None before the first roll-up."""
    rows = yield sql.watermark()
    return rows[0][0] if rows else None


def days_until(sql: Blocks) -> Op[Micros | None]:
    """Hours that began before this moment are in `usage_daily`; None while there are none."""
    rows = yield sql.days_until()
    return rows[0][0] if rows else None


def roll_up_usage(db: Dialect, duty: RollUpUsage, now: Micros) -> Op[Done]:
    yield from db.lock("lock_usage")
    until, counted = latest(duty.until, now), (yield from watermark(db.sql))
    if counted is not None and until <= counted:
        return Done(0)
    after = -1 if counted is None else counted
    full = yield db.sql.bite_edge(counted=after, until=until, limit=duty.limit)
    full += yield db.sql.batch_edge(counted=after, until=until, limit=duty.limit)
    edge = min(row[0] for row in full) if full else until
    [(runs,)] = yield db.sql.count_ended(counted=after, edge=edge)
    if runs:
        yield db.sql.roll_up(counted=after, edge=edge)
    [(unkept,)] = yield db.sql.count_batches(counted=after, edge=edge)
    if unkept:
        yield db.sql.roll_up_batches(counted=after, edge=edge)
    yield db.sql.drop_batches(before=edge - SAMPLED)
    yield db.sql.set_watermark(edge=edge)
    if counted is None or hour_of(edge) > hour_of(counted):
        yield from fold_days(db, hour_of(edge))
    return Done(runs + unkept, more=bool(full))


def fold_days(db: Dialect, hour: Micros) -> Op[None]:
    """Hours that are over are added to their days: once an hour, from what was added up, so that no run is read twice."""
    folded = yield from days_until(db.sql)
    if folded is None or folded < hour:
        yield db.sql.fold_days(since=-1 if folded is None else folded, until=hour)
        yield db.sql.set_days_until(hour=hour)


def forget_usage(db: Dialect, duty: ForgetUsage, now: Micros) -> Op[Done]:
    """Days are few, a twenty-fourth of their hours where much happens: they go the same way."""
    if duty.keep is None:
        return Done(0)
    yield from db.lock("lock_usage")
    before = day_of(now - duty.keep)
    hours = yield db.sql.forget_hours(before=before, limit=duty.limit)
    days = yield db.sql.forget_days(before=before, limit=duty.limit)
    return Done(len(hours), more=duty.limit in (len(hours), len(days)))


# ------------------------------------------------------------------------------------------------------------------ asking


def added_up(db: Dialect, asked: UsageBy) -> Op[list[Usage]]:
    if 0 < asked.step < DAY and DAY % asked.step == 0:
        rows = yield from by_hours(db, asked)
    else:
        folded = (yield from days_until(db.sql)) if asked.step % DAY == 0 else None
        first, last = (asked.since, asked.since) if folded is None else whole_days(asked.since, asked.until, folded)
        rows = yield part(db, asked, asked.since, first, last, asked.until, asked.limit)
    return [Usage(**dict(zip(Usage.__struct_fields__, row, strict=True))) for row in rows]


def by_hours(db: Dialect, asked: UsageBy) -> Op[list[Row]]:
    """A day at first and then more of them, as long as there is room for rows: they come in the order of time."""
    found: list[Row] = []
    at, days = asked.since, 1
    while len(found) < asked.limit:
        hours = yield db.sql.first_hour(since=at)
        if not hours or hours[0][0] >= asked.until:
            break
        at = hours[0][0]
        end = min(day_of(at) + days * DAY, asked.until)
        found += yield part(db, asked, at, at, at, end, asked.limit - len(found))
        at, days = end, min(2 * days, FURTHEST)
    return found


def part(db: Dialect, asked: UsageBy, since: Micros, first: Micros, last: Micros, until: Micros, limit: int) -> Statement:
    queues: Any = None if asked.queues is None else db.texts(asked.queues)
    return db.sql.usage_by(
        since=since, first=first, last=last, until=until, step=asked.step, by_org=asked.by_org, by_queue=asked.by_queue,
        by_type=asked.by_type, by_outcome=asked.by_outcome, org_id=asked.org_id, queues=queues, type=asked.type,
        limit=limit,
    )  # fmt: skip
