"""Queues taken for direct execution."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core import rows
from windlass.core.alterations import Acquire, AlterAnswer, Grant, Holding, ReleaseHold, Renew
from windlass.core.eligibility import is_expired
from windlass.core.holds import KEPT, acquired, ended, is_valid, line_of, renewed
from windlass.drivers.memory.tables import Tables
from windlass.types import Hold, Micros


def hold(tables: Tables, change: Holding, now: Micros) -> AlterAnswer:
    if isinstance(change, Acquire):
        return acquire(tables, change, now)
    found = tables.holds.get(change.hold_id)
    if found is None:
        return "not_found"
    if isinstance(change, ReleaseHold):
        return release(tables, found, change, now)
    if not is_valid(found, now):
        return "wrong_state"
    match change:
        case Renew():
            put(tables, renewed(found, change.expires_in, now, granted=False))
            return "applied"
        case Grant():
            granted = found.granted_at is not None or vacate(tables, found.queue, now)
            put(tables, renewed(found, change.expires_in, now, granted=granted))
            return "applied" if granted else "requested"


def acquire(tables: Tables, change: Acquire, now: Micros) -> AlterAnswer:
    known = tables.holds.get(change.hold_id)
    if known is not None:
        return "unchanged" if is_valid(known, now) and known.queue == change.queue else "wrong_state"
    end_stale(tables, [change.queue], change.by, now)
    if active(tables, change.queue) is not None:
        return "busy"
    for old in [row for row in tables.holds.values() if row.queue == change.queue and (row.ended_at or now) < now - KEPT]:
        tables.drop_from(tables.holds, old.hold_id)
    put(tables, acquired(change, now))
    return "applied"


def release(tables: Tables, found: Hold, change: ReleaseHold, now: Micros) -> AlterAnswer:
    if found.status != "ACTIVE":
        return "unchanged"
    put(tables, ended(found, "RELEASED", now))
    if change.by is not None:
        tables.add_audit(line_of(found, "hold.released", change.by, now))
    return "applied"


def end_stale(tables: Tables, queues: Sequence[str], actor: str, now: Micros) -> None:
    """Holds of these queues whose time is over end here, and leave a line in the audit log."""
    stale = [
        row for row in tables.holds.values() if row.queue in queues and row.status == "ACTIVE" and not is_valid(row, now)
    ]
    for row in sorted(stale, key=lambda row: row.hold_id):
        put(tables, ended(row, "EXPIRED", now))
        tables.add_audit(line_of(row, "hold.expired", actor, now))


def vacate(tables: Tables, queue: str, now: Micros) -> bool:
    """Whether no job of a queue has a valid lease; then no lapsed one comes back to life."""
    running = [job for job in (tables.jobs[seq] for seq in sorted(tables.leased)) if job.queue == queue]
    if not all(is_expired(job, now) for job in running):
        return False
    for job in running:
        if job.lease_expires_at != job.claimed_at:
            tables.put(rows.fenced(job, now))
    return True


def is_open(tables: Tables, queue: str) -> bool:
    """Whether jobs of a queue may be claimed at all."""
    row = tables.queues.get(queue)
    return (row is None or row.paused_at is None) and active(tables, queue) is None


def active(tables: Tables, queue: str) -> Hold | None:
    return next((row for row in tables.holds.values() if row.queue == queue and row.status == "ACTIVE"), None)


def put(tables: Tables, row: Hold) -> None:
    tables.put_in(tables.holds, row.hold_id, row)
