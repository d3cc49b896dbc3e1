"""Maintenance, one bounded piece at a time: values → statements. `samples.py` has the duty that mostly reads."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.admission import check_duty, check_now
from windlass.core.duties import Done, ForgetKeys, Prune, RemoveDeadWorkers, RollUpUsage
from windlass.core.retention import kept_for
from windlass.core.usage import latest
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.fleet import is_allowed
from windlass.drivers.postgres.settlement import watermark
from windlass.drivers.postgres.sql import SQL
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
    doomed = yield from still_ended(heads)
    rows = (yield SQL.delete_jobs(seqs=Ints(doomed))) if doomed else []
    groups = {row[0] for row in rows if row[0] is not None}
    if groups:
        yield SQL.delete_groups(groups=Texts(sorted(groups)))
    return Done(len(rows), more=len(heads) == duty.limit)


def still_ended(heads: Sequence[int]) -> Op[list[int]]:
    """Every link of those chains that nobody holds and nobody has brought back since they were read; they are locked. What
    is left out is found again the next time."""
    links = yield SQL.chains(seqs=Ints(heads))
    groups = {group_id for _, _, group_id in links if group_id is not None}
    waiting: set[str] = set()
    if groups:
        yield SQL.lock_groups(ids=Texts(groups))
        waiting = {row[0] for row in (yield SQL.open_groups(ids=Texts(groups)))}
    locked: dict[int, bool] = dict((yield SQL.lock_ended(seqs=Ints(seq for _, seq, _ in links))))
    kept = {head for head, seq, group_id in links if seq not in locked or group_id in waiting}
    kept |= {head for head in heads if locked.get(head, True)}
    return [seq for head, seq, _ in links if head not in kept]


def _cutoff(kept: Micros | None, now: Micros) -> Micros | None:
    return None if kept is None else now - kept


def remove_dead_workers(duty: RemoveDeadWorkers, now: Micros) -> Op[Done]:
    dead = yield SQL.remove_workers(silent_for=duty.silent_for, now=now)
    for (worker_id,) in dead:
        yield SQL.revoke(worker_id=worker_id, now=now)
    return Done(len(dead))


def roll_up_usage(duty: RollUpUsage, now: Micros) -> Op[Done]:
    yield SQL.lock_usage()
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
