"""Queues taken for direct execution: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.alterations import Acquire, AlterAnswer, Grant, Holding, ReleaseHold, Renew
from windlass.core.holds import KEPT, is_valid, line_of, renewed
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.notes import note
from windlass.drivers.statement import Op, Row
from windlass.types import Hold, Micros


def hold(db: Dialect, change: Holding, now: Micros) -> Op[AlterAnswer]:
    if isinstance(change, Acquire):
        return (yield from acquire(db, change, now))
    quiet = isinstance(change, Grant) and (yield from db.outlast_claims())  # before we lock what claims look at
    yield from db.lock("lock_hold", id=change.hold_id)
    found = yield from find(db, change.hold_id)
    if found is None:
        return "not_found"
    if isinstance(change, ReleaseHold):
        return (yield from release(db, found, change, now))
    if not is_valid(found, now):
        return "wrong_state"
    match change:
        case Renew():
            yield from write(db, renewed(found, change.expires_in, now, granted=False))
            return "applied"
        case Grant():
            granted = found.granted_at is not None or (quiet and (yield from vacate(db, found.queue, now)))
            yield from write(db, renewed(found, change.expires_in, now, granted=granted))
            return "applied" if granted else "requested"


def acquire(db: Dialect, change: Acquire, now: Micros) -> Op[AlterAnswer]:
    known = yield from find(db, change.hold_id)
    if known is not None:
        return "unchanged" if is_valid(known, now) and known.queue == change.queue else "wrong_state"
    yield from end_stale(db, [change.queue], change.by, now)
    expires_at = now + change.expires_in
    if not (yield db.sql.insert_hold(id=change.hold_id, queue=change.queue, by=change.by, expires_at=expires_at, now=now)):
        return "busy"
    yield db.sql.forget_holds(queue=change.queue, before=now - KEPT)
    return "applied"


def release(db: Dialect, found: Hold, change: ReleaseHold, now: Micros) -> Op[AlterAnswer]:
    if found.status != "ACTIVE":
        return "unchanged"
    yield db.sql.close_hold(id=found.hold_id, status="RELEASED", now=now)
    if change.by is not None:
        yield from tell(db, found, "hold.released", change.by, now)
    return "applied"


def end_stale(db: Dialect, queues: Sequence[str], actor: str, now: Micros) -> Op[None]:
    """Holds of these queues whose time is over end here, and leave a line in the audit log."""
    rows = yield db.sql.end_stale_holds(queues=db.texts(queues), now=now)
    for found in sorted(map(hold_in, rows), key=lambda hold: hold.hold_id):
        yield from tell(db, found, "hold.expired", actor, now)


def vacate(db: Dialect, queue: str, now: Micros) -> Op[bool]:
    """Whether no job of a queue has a valid lease; then no lapsed one comes back to life."""
    [(valid,)] = yield db.sql.has_valid_lease(queue=queue, now=now)
    if valid:
        return False
    yield db.sql.fence_lapsed(queue=queue, now=now)
    [(left,)] = yield db.sql.has_unfenced_lease(queue=queue)
    return not left


def find(db: Dialect, hold_id: str) -> Op[Hold | None]:
    rows = yield db.sql.get_hold(id=hold_id)
    return hold_in(rows[0]) if rows else None


def hold_in(row: Row) -> Hold:
    return Hold(**dict(zip(Hold.__struct_fields__, row, strict=True)))


def write(db: Dialect, row: Hold) -> Op[None]:
    yield db.sql.renew_hold(id=row.hold_id, expires_at=row.expires_at, granted_at=row.granted_at)


def tell(db: Dialect, found: Hold, action: str, actor: str, now: Micros) -> Op[None]:
    yield from note(db, [line_of(found, action, actor, now)])
