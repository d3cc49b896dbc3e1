"""What a change may touch is locked before it is read: schedules, queues, limits, groups, then jobs, each in the order of
keys."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.alterations import (
    Alteration,
    Cancel,
    Delete,
    Fire,
    Move,
    OfSchedules,
    PauseLimit,
    PutLimit,
    PutQueue,
    RemoveLimit,
    Replay,
    Revoke,
    RunNow,
    SetPaused,
)
from windlass.core.limits import keys_of
from windlass.drivers.postgres import limits
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import strings_in
from windlass.drivers.statement import Op
from windlass.types import Micros

BY_JOB = Cancel | Replay | RunNow | Move | Delete


def lock_all(changes: Sequence[Alteration], now: Micros) -> Op[None]:
    """Queues, limits and groups that the changes touch, then the jobs, each in the order of keys: what is read from here
    on stays true, and two who name the same rows in another order do not wait for each other in a ring."""
    yield from lock_schedules(changes)
    yield from limits.hold_runs_for_new(change.key for change in changes if isinstance(change, PutLimit | PauseLimit))
    seqs = yield from named(changes, now)
    queues = {change.name for change in changes if isinstance(change, PutQueue)}
    queues |= {change.queue for change in changes if isinstance(change, SetPaused)}
    queues |= {job.queue for change in changes if isinstance(change, Fire) for job in change.jobs}
    keys = {change.key for change in changes if isinstance(change, PutLimit | RemoveLimit | PauseLimit)}
    groups: set[str] = set()
    if seqs:
        if any(isinstance(change, Replay) for change in changes):  # its child takes a place in a queue
            queues.update(queue for _, queue, _ in (yield SQL.places(seqs=seqs)))
        for group_id, permits, limit_keys, kind, org_id, tags in (yield SQL.concerning(seqs=seqs)):
            groups.update([group_id] if group_id is not None else [])
            keys.update(strings_in(permits), keys_of(strings_in(limit_keys), kind, org_id, strings_in(tags)))
    if queues:
        yield SQL.hold_queues(names=Texts(queues))
    yield from limits.lock(keys)
    if groups:
        yield SQL.lock_groups(ids=Texts(groups))
    if seqs:
        yield SQL.lock_jobs(seqs=seqs)


def lock_schedules(changes: Sequence[Alteration]) -> Op[None]:
    """Before everything else: what defines jobs, then the schedules that fire."""
    if any(isinstance(change, OfSchedules) and not isinstance(change, Fire) for change in changes):
        yield SQL.hold_templates()
    fired = Texts({change.schedule_id for change in changes if isinstance(change, Fire)})
    if fired:
        yield SQL.lock_schedules(ids=fired)


def named(changes: Sequence[Alteration], now: Micros) -> Op[Ints]:
    """The jobs that the changes are about: with a deletion all links of the chain, with a dead worker what it leased."""
    seqs: set[int] = set()
    ids = Texts(dict.fromkeys(change.job_id for change in changes if isinstance(change, BY_JOB)))
    workers = Texts(change.worker_id for change in changes if isinstance(change, Revoke))
    if ids:
        seqs.update(row[1] for row in (yield SQL.seqs_of(ids=ids)))
    if workers:
        seqs.update(row[0] for row in (yield SQL.leased_by(workers=workers, now=now)))
    for change in changes:
        if isinstance(change, Delete):
            seqs.update(row[0] for row in (yield SQL.links(id=change.job_id)))
    return Ints(seqs)


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
