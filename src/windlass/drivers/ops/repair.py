"""Rows that others wrote and that contradict each other: found, and put right as far as no decision is needed."""

from __future__ import annotations

from windlass.core.duties import Done, Mend
from windlass.core.rows import run_prefix
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Op, Row
from windlass.types import Micros

EVERY = 1_000_000
GIVEN = "mended"  # in place of a token: what the id of a run that was given begins with


def faults(db: Dialect) -> Op[list[Row]]:
    """The fields of `Fault`."""
    found: list[Row] = [
        ("ended_run", job_id, f"its run is {status}") for job_id, status in (yield db.sql.ended_under_way())
    ]
    found += [("missing_run", job_id, "it is running without a run") for (job_id,) in (yield db.sql.runless())]
    found += [("orphan_run", run_id, f"of no job ({kind} in {queue})") for run_id, queue, kind in (yield db.sql.orphans())]
    found += [
        ("permits", key, f"{used} are counted, {held} are held" if used != held else "a running job holds none")
        for key, used, held in (yield db.sql.miscounted(limit=EVERY))
    ]
    return sorted(found)


def mend(db: Dialect, duty: Mend, now: Micros) -> Op[Done]:
    """Limits first, by themselves: nobody begins or ends a run while they are counted again. Those who wait last, by
    themselves: who holds limits waits for no job."""
    counted = yield from db.gate.count_again(duty.limit, now)
    if counted is not None:
        return Done(counted, more=True)
    begun = [row[0] for row in (yield db.sql.begin_runless(limit=duty.limit, now=now))]
    if begun:
        yield from db.keep_runs(dict.fromkeys(begun, run_prefix(GIVEN, now)))
    gone = yield db.sql.delete_orphans(limit=duty.limit)
    if begun or gone:
        return Done(len(begun) + len(gone), more=True)
    return Done(0, more=(yield from db.gate.let_overlooked_through(duty.limit, now)))
