"""Maintenance, one bounded piece at a time: values → statements. `samples.py` has the duty that mostly reads."""

from __future__ import annotations

from windlass.core.admission import check_duty, check_now
from windlass.core.duties import Done, ForgetKeys, Prune, RemoveDeadWorkers, RollUpUsage
from windlass.core.retention import kept_for
from windlass.core.usage import latest
from windlass.drivers.sqlite.fleet import is_allowed
from windlass.drivers.sqlite.rows import to_json
from windlass.drivers.sqlite.settlement import watermark
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.types import Micros


def maintain(duty: Prune | ForgetKeys | RemoveDeadWorkers | RollUpUsage, epoch: int | None, now: Micros) -> Op[Done | None]:
    check_duty(duty)
    check_now(now)
    if not (yield from is_allowed(epoch, now)):
        return None
    match duty:
        case Prune():
            return (yield from prune(duty, now))
        case ForgetKeys():
            gone = len((yield SQL.forget_keys(now=now, limit=duty.limit)))
            return Done(gone, more=gone == duty.limit)
        case RemoveDeadWorkers():
            return (yield from remove_dead_workers(duty, now))
        case RollUpUsage():
            return (yield from roll_up_usage(duty, now))


def prune(duty: Prune, now: Micros) -> Op[Done]:
    counted = yield from watermark()
    cutoffs = {state: _cutoff(kept, now) for state, kept in kept_for(duty).items()}
    found: list[Row] = []
    for state, cutoff in cutoffs.items():
        if cutoff is not None:
            found += yield SQL.prunable(state=state, **cutoffs, watermark=counted, limit=duty.limit)
    heads = [seq for _, seq in sorted(found)[: duty.limit]]
    if not heads:
        return Done(0)
    rows = yield SQL.delete_chains(seqs=to_json(heads))
    groups = {row[0] for row in rows if row[0] is not None}
    if groups:
        yield SQL.delete_groups(groups=to_json(sorted(groups)))
    return Done(len(rows), more=len(heads) == duty.limit)


def _cutoff(kept: Micros | None, now: Micros) -> Micros | None:
    return None if kept is None else now - kept


def remove_dead_workers(duty: RemoveDeadWorkers, now: Micros) -> Op[Done]:
    dead = yield SQL.remove_workers(silent_for=duty.silent_for, now=now)
    for (worker_id,) in dead:
        yield SQL.revoke(worker_id=worker_id, now=now)
    return Done(len(dead))


def roll_up_usage(duty: RollUpUsage, now: Micros) -> Op[Done]:
    until, counted = latest(duty.until, now), (yield from watermark())
    if counted is not None and until <= counted:
        return Done(0)
    after = -1 if counted is None else counted
    full = yield SQL.bite_edge(counted=after, until=until, limit=duty.limit)
    edge = full[0][0] if full else until
    [(runs,)] = yield SQL.count_ended(counted=after, edge=edge)
    if runs:
        yield SQL.roll_up(counted=after, edge=edge)
    yield SQL.set_watermark(edge=edge)
    return Done(runs, more=bool(full))
