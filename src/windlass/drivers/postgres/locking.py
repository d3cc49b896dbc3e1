"""Locks what a change may touch before it is read: schedules, queues, limits, groups, then jobs, each in the order of
keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windlass.core.alterations import (
    Alteration,
    Cancel,
    CancelGroup,
    Delete,
    EndDelivery,
    Fire,
    Move,
    MoveBeside,
    OfSchedules,
    OfWebhooks,
    Ordering,
    PauseLimit,
    PutLimit,
    PutQueue,
    RemoveLimit,
    Renormalise,
    Replay,
    ReplayDelivery,
    RetryGroup,
    Revoke,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
    TakeDelivery,
    Unchanged,
)
from windlass.core.dependencies import INLINE
from windlass.drivers.ops.deleting import Link
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.order import Spot, come_down, is_dense, plan
from windlass.drivers.postgres import limits
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.faults import is_locked_out
from windlass.drivers.postgres.savepoints import guarded
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import limits_of, strings_in
from windlass.drivers.statement import Op, Row
from windlass.errors import WrongConnection
from windlass.types import TERMINAL, Micros

BY_JOB = Cancel | Replay | RunNow | Delete | Move | MoveBeside | Swap | SetPriority
PLACES = Replay | RetryGroup | Move | MoveBeside | Swap | SetPriority  # what they do depends on the others of a queue
WHOLE_GROUP = CancelGroup | RetryGroup
BRIEFLY = "500"  # milliseconds
SENT = TakeDelivery | EndDelivery | ReplayDelivery


def lock_all(db: Dialect, changes: Sequence[Alteration], now: Micros) -> Op[None]:
    """Queues, limits and groups that the changes touch, then the jobs, each in the order of keys: what is read from here
    on stays true, and two who name the same rows in another order do not wait for each other in a ring."""
    changes = [change.change if isinstance(change, Unchanged) else change for change in changes]
    yield from lock_schedules(changes)
    yield from limits.hold_claims_for_new(change.key for change in changes if isinstance(change, PutLimit | PauseLimit))
    found = yield from named(changes, now)
    seqs = Ints(found)
    queues = {change.name for change in changes if isinstance(change, PutQueue)}
    queues |= {change.queue for change in changes if isinstance(change, SetPaused)}
    queues |= {job.queue for change in changes if isinstance(change, Fire) for job in change.jobs}
    keys = {change.key for change in changes if isinstance(change, PutLimit | RemoveLimit | PauseLimit)}
    groups: set[str] = {change.group_id for change in changes if isinstance(change, WHOLE_GROUP)}
    ordered = {change.queue for change in changes if isinstance(change, Renormalise)}
    if seqs:
        if any(isinstance(change, PLACES) for change in changes):
            ordered.update(queue for _, queue, _ in (yield SQL.places(seqs=seqs)))
        if any(isinstance(change, Replay | RetryGroup) for change in changes):
            groups.update(row[0] for row in (yield SQL.doubtful_groups(seqs=seqs)))
        for group_id, permits, *about in (yield SQL.concerning(seqs=seqs)):
            groups.update([group_id] if group_id is not None else [])
            keys.update(strings_in(permits), limits_of(about))
        if any(isinstance(change, Cancel | CancelGroup) for change in changes):
            more, others, theirs = yield from reached(found, groups, deep=True)
            seqs, groups, keys = Ints(found | more), groups | others, keys | theirs
    if ordered:
        yield SQL.lock_order(names=Texts(ordered))
    if queues | ordered:
        yield SQL.hold_queues(names=Texts(queues | ordered))
    yield from limits.lock(keys)
    if groups:
        yield SQL.lock_groups(ids=Texts(groups))
    placed = yield from all_placed(db, changes)
    if placed:
        seqs = Ints({*seqs, *placed})
    doomed = yield from linked(changes)
    if staying := Ints(seq for seq in seqs if seq not in doomed):
        yield SQL.lock_jobs(seqs=staying)
    if doomed:
        yield from hold_doomed(sorted(doomed))
    yield from lock_deliveries(changes)


def hold_doomed(seqs: Sequence[int]) -> Op[None]:
    """As a delete locks them. Shared rows are held by now, and an application may hold these for as long as it likes: they
    are not waited for long, and who finds them held does not delete them."""
    [(usual, _)] = yield SQL.be_brief(timeout=BRIEFLY)
    try:
        yield from guarded(_lock_doomed(seqs))
    except Exception as error:
        if not is_locked_out(error):
            raise
    yield SQL.be_brief(timeout=usual)


def _lock_doomed(seqs: Sequence[int]) -> Op[None]:
    yield SQL.lock_doomed(seqs=Ints(seqs))


def linked(changes: Sequence[Alteration]) -> Op[set[int]]:
    """All links of the chains that are to be deleted."""
    seqs: set[int] = set()
    for change in changes:
        if isinstance(change, Delete):
            seqs.update(row[0] for row in (yield SQL.links(id=change.job_id)))
    return seqs


def lock_deliveries(changes: Sequence[Alteration]) -> Op[None]:
    """After everything else: webhooks that the changes may alter, then what is on its way to them."""
    ours = [change for change in changes if isinstance(change, OfWebhooks)]
    hooks = {c.webhook_id for c in ours if not isinstance(c, SENT) or (isinstance(c, EndDelivery) and c.disable)}
    if hooks:
        yield SQL.lock_webhooks(ids=Texts(sorted(hooks)))
    sent = [change for change in ours if isinstance(change, SENT)]
    if sent:
        events, to = {change.event_id for change in sent}, {change.webhook_id for change in sent}
        again = {change.event_id for change in sent if isinstance(change, ReplayDelivery)}
        if again:
            yield SQL.keep_events(ids=Ints(sorted(again)))
        yield SQL.lock_deliveries(events=Ints(sorted(events)), webhooks=Texts(sorted(to)))


def lock_schedules(changes: Sequence[Alteration]) -> Op[None]:
    """Before everything else: what defines jobs, then the schedules that fire."""
    if any(isinstance(change, OfSchedules) and not isinstance(change, Fire) for change in changes):
        yield SQL.hold_templates()
    fired = Texts({change.schedule_id for change in changes if isinstance(change, Fire)})
    if fired:
        yield SQL.lock_schedules(ids=fired)


def all_placed(db: Dialect, changes: Sequence[Alteration]) -> Op[set[int]]:
    """The jobs that a change of the order moves: many, where positions are made afresh. It is planned once more when
    they are locked."""
    seqs: set[int] = set()
    for change in changes:
        spots: Sequence[Spot] = ()
        if isinstance(change, Ordering):
            _, spots = yield from plan(db, change)
        elif isinstance(change, PutQueue) and change.positions == "tail" and (yield from is_dense(db, change.name)):
            spots = yield from come_down(db, change.name)
        seqs.update(spot.seq for spot in spots)
    return seqs


def reached(seqs: Iterable[int], groups: Iterable[str], *, deep: bool) -> Op[tuple[set[int], set[str], set[str]]]:
    """What the end of these jobs, members of these groups, may touch besides them, without locks: jobs, groups, limit keys.
    Who begins to wait for one of them after this look is told without waiting, or by a sweep."""
    more: set[int] = set()
    keys: set[str] = set()
    names = Texts(sorted(set(groups)))
    if names:
        for seq, *about in (yield SQL.stopped_with(ids=names)):
            more.add(seq)
            keys.update(limits_of(about))
    found = yield SQL.reach(seqs=Ints({*seqs, *more}), deep=deep, limit=2 * INLINE)
    more.update(row[0] for row in found)
    return more, {row[1] for row in found if row[1] is not None}, keys


def hold_parents(ids: Sequence[str], *, ours: bool) -> Op[list[Row]]:
    """The last links of these jobs' chains; those that have not ended are locked. Another may take over while one waits
    for the lock of one. A running job is its worker's: a lock on it must not outlast its heartbeat, so a caller's
    transaction, which may be long, cannot have one."""
    held: set[int] = set()
    while True:
        heads = yield SQL.heads_of(ids=Texts(ids))
        open_heads = {row[2]: row for row in heads if row[3] not in TERMINAL}
        running = next((row[0] for row in open_heads.values() if row[3] == "running"), None)
        if running is not None and not ours:
            raise WrongConnection(
                f"after: the job {running!r} is running, and a lock on it until your commit would keep its worker from "
                "renewing its lease; enqueue what waits for it after your own commit"
            )
        if open_heads.keys() <= held:
            return heads
        makes_runs = ours or any(row[3] in TERMINAL and row[3] != "succeeded" for row in heads)
        lock = SQL.lock_open if makes_runs else SQL.lock_open_for_long
        held.update(row[0] for row in (yield lock(seqs=Ints(sorted(open_heads.keys() - held)))))


def named(changes: Sequence[Alteration], now: Micros) -> Op[set[int]]:
    """The jobs that the changes are about: with a deletion all links of the chain, with a dead worker what it leased."""
    seqs: set[int] = set()
    ids = Texts(dict.fromkeys(
        job_id for change in changes if isinstance(change, BY_JOB)
        for job_id in ([change.job_id, change.other_id] if isinstance(change, MoveBeside | Swap) else [change.job_id])
    ))  # fmt: skip
    workers = Texts(change.worker_id for change in changes if isinstance(change, Revoke))
    if ids:
        seqs.update(row[1] for row in (yield SQL.seqs_of(ids=ids)))
    if workers:
        seqs.update(row[0] for row in (yield SQL.leased_by(workers=workers, now=now)))
    whole = Texts(sorted({change.group_id for change in changes if isinstance(change, WHOLE_GROUP)}))
    if whole:
        seqs.update(row[0] for row in (yield SQL.members_in(ids=whole)))
    return seqs | (yield from linked(changes))


def still_ended(heads: Mapping[int, Micros], ended: Mapping[str, Micros | None]) -> Op[list[Link]]:
    """Every link of those chains that nobody holds and nobody has brought back since it was read when they, and their
    groups, ended; they are locked. Who was brought back may have ended anew by now. Nobody is waited for: what is left out
    is found again by a later sweep."""
    links = yield SQL.chains(seqs=Ints(heads))
    groups = {group_id for _, _, group_id in links if group_id is not None}
    waiting: set[str] = set()
    if groups:
        waiting = {row[0] for row in (yield SQL.held_groups(ids=Texts(groups))) if not row[1]}
        names = sorted(groups)
        rows = yield SQL.open_groups(ids=Texts(names), ended=Ints(ended.get(name) for name in names))
        waiting |= {row[0] for row in rows}
    locked = {row[0]: row[1:] for row in (yield SQL.lock_ended(seqs=Ints(seq for _, seq, _ in links)))}
    kept = {head for head, seq, group_id in links if seq not in locked or group_id in waiting}
    kept |= {head for head, at in heads.items() if locked.get(head) != (False, at)}
    return [(head, seq, group_id) for head, seq, group_id in links if head not in kept]
