"""Adding up what ended: values → statements."""

from __future__ import annotations

from windlass.core.duties import Done, RollUpUsage
from windlass.core.usage import latest
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Blocks, Op
from windlass.types import Micros


def watermark(sql: Blocks) -> Op[Micros | None]:
    """Runs that ended up to here are in `usage_hourly`; None before the first roll-up."""
    rows = yield sql.watermark()
    return rows[0][0] if rows else None


def roll_up_usage(db: Dialect, duty: RollUpUsage, now: Micros) -> Op[Done]:
    yield from db.lock("lock_usage")
    until, counted = latest(duty.until, now), (yield from watermark(db.sql))
    if counted is not None and until <= counted:
        return Done(0)
    after = -1 if counted is None else counted
    full = yield db.sql.bite_edge(counted=after, until=until, limit=duty.limit)
    edge = full[0][0] if full else until
    [(runs,)] = yield db.sql.count_ended(counted=after, edge=edge)
    if runs:
        yield db.sql.roll_up(counted=after, edge=edge)
    yield db.sql.set_watermark(edge=edge)
    return Done(runs, more=bool(full))
