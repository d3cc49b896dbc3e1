"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.alterations import AlterAnswer, PutLimit
from windlass.core.counters import give_back, take
from windlass.core.eligibility import dispatch_order
from windlass.drivers.memory.tables import Tables
from windlass.types import Job, Limit, Micros


def take_permits(tables: Tables, job: Job, now: Micros) -> bool:
    """All of a job's permits, or none: then it is parked on the first key that has no room."""
    limits = [tables.limits[key] for key in job.limit_keys if key in tables.limits]
    full = next((limit.key for limit in limits if take(limit.used, limit.max_used) is None), None)
    if full is None:
        for limit in limits:
            tables.put_in(tables.limits, limit.key, replace(limit, used=limit.used + 1))
        return True
    tables.put(replace(job, ready=False, parked_on=full, updated_at=rows.touched(job, now)))
    unpark(tables, [key for key in job.limit_keys if key != full], now)
    return False


def free_permits(tables: Tables, keys: Sequence[str], now: Micros) -> None:
    for key in keys:
        limit = tables.limits.get(key)
        if limit is not None:
            tables.put_in(tables.limits, key, replace(limit, used=give_back(limit.used)))
    unpark(tables, keys, now)


def unpark(tables: Tables, keys: Sequence[str], now: Micros) -> None:
    """Let the first jobs that wait for a key with room be considered again: one of every queue and type, because one
    alone might stand in a queue that nobody serves."""
    for key in keys:
        limit = tables.limits.get(key)
        if limit is not None and take(limit.used, limit.max_used) is None:
            continue
        first: dict[tuple[str, str], Job] = {}
        for job in sorted((job for job in tables.jobs.values() if job.parked_on == key), key=dispatch_order):
            first.setdefault((job.queue, job.type), job)
        for job in first.values():
            let_through(tables, job, now)


def let_through(tables: Tables, job: Job, now: Micros) -> None:
    tables.put(replace(job, ready=True, parked_on=None, updated_at=rows.touched(job, now)))


def put_limit(tables: Tables, change: PutLimit, now: Micros) -> AlterAnswer:
    """A new limit starts from what is in use (only here are running jobs counted, never in a claim). Everybody may try
    again: those who find no room are parked by the next claim that meets them."""
    limit = tables.limits.get(change.key)
    if limit is None:
        holding = sum(change.key in tables.jobs[seq].limit_keys for seq in tables.leased)
        limit = Limit(key=change.key, max_used=None, used=holding)
    tables.put_in(tables.limits, change.key, replace(limit, max_used=change.max_used))
    for job in [job for job in tables.jobs.values() if job.parked_on == change.key]:
        let_through(tables, job, now)
    return "applied"
