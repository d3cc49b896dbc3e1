"""Rows that others wrote and that contradict each other: found, and put right as far as no decision is needed."""

from __future__ import annotations

from windlass.core.duties import Done
from windlass.core.rows import run_prefix
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.limits import unpark
from windlass.drivers.statement import Op, Row
from windlass.types import Micros

GIVEN = "mended"  # in place of a token: what the id of a run that was given begins with


def faults(db: Dialect) -> Op[list[Row]]:
    """The fields of `Fault`."""
    found: list[Row] = [
        ("ended_run", job_id, f"its run is {status}") for job_id, status in (yield db.sql.ended_under_way())
    ]
    found += [("missing_run", job_id, "it is running without a run") for (job_id,) in (yield db.sql.runless())]
    found += [("orphan_run", run_id, f"of no job ({kind} in {queue})") for run_id, queue, kind in (yield db.sql.orphans())]
    found += [
        ("permits", key, f"{used} are counted, {held} are held") for key, used, held in (yield db.sql.wrong_permits())
    ]
    return sorted(found)


def mend(db: Dialect, now: Micros) -> Op[Done]:
    """Limits are held before they are counted again, and first of all."""
    keys = [row[0] for row in (yield db.sql.wrong_permits())]
    yield from db.lock("lock_limits", keys=db.texts(keys))
    begun = [row[0] for row in (yield db.sql.begin_runless(now=now))]
    if begun:
        yield db.sql.give_runs(seqs=db.ints(begun), prefix=run_prefix(GIVEN, now))
    gone = yield db.sql.delete_orphans()
    counted = [row[0] for row in (yield db.sql.recount(keys=db.texts(keys)))] if keys else []
    yield from unpark(db.sql, counted, now)
    return Done(len(begun) + len(gone) + len(counted))
