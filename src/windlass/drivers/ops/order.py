"""Changes to the order of a queue: values → statements. A job moves only while it is queued.

A change is planned first, by reading alone, because the rows that it touches must be known before they are locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct

from windlass.core.alterations import AlterAnswer, Move, MoveBeside, Ordering, Renormalise, SetPriority, Swap
from windlass.core.duties import Done, TidyPositions
from windlass.core.eligibility import dispatch_order
from windlass.core.positions import FRONT, REAR, Place, between, is_crowded, renormalised, stands, tail
from windlass.core.queries import InOrder
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.rows import job_in
from windlass.drivers.statement import Op
from windlass.types import Job, Micros

EVERYBODY = 2**62


class Spot(Struct, frozen=True, gc=False):
    """The place of a job. Without a position it is the tail of a queue whose positions come from a sequence."""

    seq: int
    priority: int
    position: int | None


Plan = tuple[AlterAnswer, list[Spot]]


def reorder(db: Dialect, change: Ordering, now: Micros) -> Op[AlterAnswer]:
    answer, spots = yield from plan(db, change)
    yield from write(db, spots, now)
    return answer


def plan(db: Dialect, change: Ordering) -> Op[Plan]:
    if isinstance(change, Renormalise):
        spots = yield from renormalise(db, change.queue)
        return ("applied" if spots else "unchanged"), spots
    ids = [change.job_id, change.other_id] if isinstance(change, MoveBeside | Swap) else [change.job_id]
    found = {row[1]: job_in(row) for row in (yield db.sql.get_jobs(ids=db.texts(ids)))}
    jobs = [found[job_id] for job_id in ids if job_id in found]
    if len(jobs) < len(ids):
        return "not_found", []
    if any(job.state != "queued" for job in jobs):
        return "wrong_state", []
    match change:
        case Move():
            return (yield from move(db, jobs[0], change))
        case SetPriority():
            return (yield from set_priority(db, jobs[0], change.priority))
        case MoveBeside():
            return (yield from move_beside(db, jobs[0], jobs[1], change))
        case Swap():
            return (yield from swap(db, jobs[0], jobs[1]))


def move(db: Dialect, job: Job, change: Move) -> Op[Plan]:
    if change.to == "top":
        before, after = None, (yield from neighbour(db, job, job.priority, FRONT, "after"))
    else:
        before, after = (yield from neighbour(db, job, job.priority, REAR, "before")), None
    return (yield from put(db, job, job.priority, before, after))


def set_priority(db: Dialect, job: Job, priority: int) -> Op[Plan]:
    if job.priority == priority:
        return "unchanged", []
    last = yield from neighbour(db, job, priority, REAR, "before")
    return (yield from put(db, job, priority, last, None))


def move_beside(db: Dialect, job: Job, other: Job, change: MoveBeside) -> Op[Plan]:
    if job.queue != other.queue or (job.priority != other.priority and not change.take_priority):
        return "apart", []
    next_to = yield from neighbour(db, job, other.priority, place(other), change.side)
    before, after = (next_to, place(other)) if change.side == "before" else (place(other), next_to)
    return (yield from put(db, job, other.priority, before, after))


def put(db: Dialect, job: Job, priority: int, before: Place | None, after: Place | None) -> Op[Plan]:
    """Between two others."""
    if priority == job.priority and stands(place(job), before, after):
        return "unchanged", []
    position: int | None = None
    if after is not None or (yield from is_dense(db, job.queue)):
        position = between(before and before[0], after and after[0])
        if position is None:
            order = [spot for spot in (yield from standing(db, job.queue, priority)) if spot.seq != job.seq]
            index = len(order) if after is None else [spot.seq for spot in order].index(after[2])
            order.insert(index, Spot(job.seq, job.priority, job.position))
            return "applied", (yield from spread(db, job.queue, priority, order))
    return "applied", [Spot(job.seq, priority, position)]


def swap(db: Dialect, job: Job, other: Job) -> Op[Plan]:
    if (job.queue, job.priority) != (other.queue, other.priority):
        return "apart", []
    if (yield from shares(db, job)) or (yield from shares(db, other)):  # exchanging positions would not be enough
        order = yield from standing(db, job.queue, job.priority)
        seqs = [spot.seq for spot in order]
        here, there = seqs.index(job.seq), seqs.index(other.seq)
        order[here], order[there] = order[there], order[here]
        return "applied", (yield from spread(db, job.queue, job.priority, order))
    return "applied", [Spot(job.seq, job.priority, other.position), Spot(other.seq, job.priority, job.position)]


def shares(db: Dialect, job: Job) -> Op[bool]:
    """Whether somebody else has the same position."""
    next_to = yield from neighbour(db, job, job.priority, (job.position, 0, 0), "after")
    return next_to is not None and next_to[0] == job.position


def neighbour(db: Dialect, job: Job, priority: int, at: Place, side: Literal["before", "after"]) -> Op[Place | None]:
    """The job next to a place, among the other queued jobs of that queue and priority."""
    block = db.sql.place_before if side == "before" else db.sql.place_after
    position, created_at, number = at
    found = yield block(
        queue=job.queue, priority=priority, seq=job.seq, position=position, created_at=created_at, number=number
    )
    return (found[0][0], found[0][1], found[0][2]) if found else None


def place(job: Job) -> Place:
    return (job.position, job.created_at, job.seq)


def is_dense(db: Dialect, queue: str) -> Op[bool]:
    rows = yield db.sql.queue_positions(queue=queue)
    return bool(rows) and rows[0][0] == "dense"


def write(db: Dialect, spots: Sequence[Spot], now: Micros) -> Op[None]:
    if not spots:
        return
    positions: list[int] = []
    for spot in spots:
        if spot.position is None:
            [(number,)] = yield db.sql.draw_number()
        positions.append(tail(number) if spot.position is None else spot.position)
    seqs = db.ints(spot.seq for spot in spots)
    yield from db.lock("lock_jobs", seqs=seqs)
    yield db.sql.place_jobs(
        seqs=seqs, priorities=db.ints(spot.priority for spot in spots), positions=db.ints(positions), now=now
    )


# ------------------------------------------------------------------------------------------------------ fresh positions


def standing(db: Dialect, queue: str, priority: int) -> Op[list[Spot]]:
    rows = yield db.sql.queue_order(queue=queue, limit=EVERYBODY)
    return [Spot(seq, of, position) for seq, _, of, position in rows if of == priority]


def spread(db: Dialect, queue: str, priority: int, order: Sequence[Spot]) -> Op[list[Spot]]:
    """Fresh positions for jobs of one queue and priority, in this order: those that change."""
    last = None if (yield from is_dense(db, queue)) else max(spot.position or 0 for spot in order)
    fresh = zip(order, renormalised(len(order), last), strict=True)
    spots = [(spot, Spot(spot.seq, priority, position)) for spot, position in fresh]
    return [new for old, new in spots if new != old]


def renormalise(db: Dialect, queue: str) -> Op[list[Spot]]:
    spots: list[Spot] = []
    for priority, order in (yield from by_priority(db, queue, EVERYBODY)):
        spots += yield from spread(db, queue, priority, order)
    return spots


def settle_down(db: Dialect, queue: str, now: Micros) -> Op[None]:
    """A queue is dense no longer: who stands beyond the number that comes next comes down to it, with all of that priority
    and in their order, because those who come now are to stand behind."""
    yield from write(db, (yield from come_down(db, queue)), now)


def come_down(db: Dialect, queue: str) -> Op[list[Spot]]:
    """Asked again, it names no others: numbers only grow."""
    orders = yield from by_priority(db, queue, EVERYBODY)
    if not orders:
        return []
    [(number,)] = yield db.sql.draw_number()
    spots: list[Spot] = []
    for priority, order in orders:
        if (order[-1].position or 0) > tail(number):
            fresh = zip(order, renormalised(len(order), tail(number)), strict=True)
            spots += [Spot(spot.seq, priority, position) for spot, position in fresh]
    return spots


def tidy(db: Dialect, duty: TidyPositions, now: Micros) -> Op[Done]:
    """All queues are held before any job, as everybody does who changes several; then the jobs of all of them."""
    queues = sorted(name for name, positions, *_ in (yield db.sql.all_queues()) if positions == "dense")
    yield from db.lock("lock_order", names=db.texts(queues))
    yield from db.lock("hold_queues", names=db.texts(queues))
    spots: list[Spot] = []
    for queue in queues:
        orders = yield from by_priority(db, queue, duty.limit + 1)
        if sum(len(order) for _, order in orders) > duty.limit:  # left to the move that needs the room
            continue
        for priority, order in orders:
            if is_crowded([spot.position or 0 for spot in order]):
                spots += yield from spread(db, queue, priority, order)
    yield from write(db, spots, now)
    return Done(len(spots))


def by_priority(db: Dialect, queue: str, limit: int) -> Op[list[tuple[int, list[Spot]]]]:
    rows = yield db.sql.queue_order(queue=queue, limit=limit)
    spots = [Spot(seq, priority, position) for seq, _, priority, position in rows]
    return [(priority, list(order)) for priority, order in groupby(spots, key=lambda spot: spot.priority)]


def in_order(db: Dialect, query: InOrder) -> Op[list[Job]]:
    """The queued jobs in order. Two statements read them; jobs that left the queue in between are left out."""
    rows = yield db.sql.queue_order(queue=query.queue, limit=query.limit)
    found = [job_in(row) for row in (yield db.sql.get_jobs(ids=db.texts(row[1] for row in rows)))]
    return sorted((job for job in found if job.state == "queued"), key=dispatch_order)
