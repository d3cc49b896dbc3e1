"""The order of a queue, as people change it: only while a job is queued."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from windlass.core import rows
from windlass.core.alterations import AlterAnswer, Move, MoveBeside, Ordering, Renormalise, SetPriority, Swap
from windlass.core.duties import Done, TidyPositions
from windlass.core.eligibility import dispatch_order
from windlass.core.positions import Place, between, is_crowded, renormalised, stands, tail
from windlass.drivers.memory.jobs import is_dense
from windlass.drivers.memory.tables import Tables
from windlass.types import Job, Micros


def reorder(tables: Tables, change: Ordering, now: Micros) -> AlterAnswer:
    if isinstance(change, Renormalise):
        return "applied" if renormalise(tables, change.queue, now) else "unchanged"
    ids = [change.job_id, change.other_id] if isinstance(change, MoveBeside | Swap) else [change.job_id]
    jobs = [job for job in map(tables.find, ids) if job is not None]
    if len(jobs) < len(ids):
        return "not_found"
    if any(job.state != "queued" for job in jobs):
        return "wrong_state"
    match change:
        case Move():
            others = peers(tables, jobs[0], jobs[0].priority)
            index = 0 if change.to == "top" else len(others)
            return put(tables, jobs[0], others, index, now)
        case SetPriority():
            return set_priority(tables, jobs[0], change.priority, now)
        case MoveBeside():
            return move_beside(tables, jobs[0], jobs[1], change, now)
        case Swap():
            return swap(tables, jobs[0], jobs[1], now)


def move_beside(tables: Tables, job: Job, other: Job, change: MoveBeside, now: Micros) -> AlterAnswer:
    if job.queue != other.queue or (job.priority != other.priority and not change.take_priority):
        return "apart"
    others = peers(tables, job, other.priority)
    index = others.index(other) + (1 if change.side == "after" else 0)
    return put(tables, job, others, index, now, other.priority)


def set_priority(tables: Tables, job: Job, priority: int, now: Micros) -> AlterAnswer:
    if job.priority == priority:
        return "unchanged"
    others = peers(tables, job, priority)
    return put(tables, job, others, len(others), now, priority)


def put(
    tables: Tables, job: Job, others: list[Job], index: int, now: Micros, priority: int | None = None
) -> AlterAnswer:  # fmt: skip
    """Among the others, at this place of theirs."""
    priority = job.priority if priority is None else priority
    before = place(others[index - 1]) if index > 0 else None
    after = place(others[index]) if index < len(others) else None
    if priority == job.priority and stands(place(job), before, after):
        return "unchanged"
    if after is not None or is_dense(tables, job.queue):
        position = between(before and before[0], after and after[0])
    else:
        position = tail(tables.next_seq())
    if position is not None:
        tables.put(rows.placed(job, priority, position, now))
    else:
        spread(tables, [*others[:index], job, *others[index:]], priority, now)
    return "applied"


def swap(tables: Tables, job: Job, other: Job, now: Micros) -> AlterAnswer:
    if (job.queue, job.priority) != (other.queue, other.priority):
        return "apart"
    order = sorted([*peers(tables, job, job.priority), job], key=place)
    shared = [one.position for one in order]
    if shared.count(job.position) > 1 or shared.count(other.position) > 1:  # exchanging positions would not be enough
        here, there = order.index(job), order.index(other)
        order[here], order[there] = other, job
        spread(tables, order, job.priority, now)
    else:
        tables.put(rows.placed(job, job.priority, other.position, now))
        tables.put(rows.placed(other, job.priority, job.position, now))
    return "applied"


def spread(tables: Tables, order: Sequence[Job], priority: int, now: Micros) -> int:
    """Fresh positions for jobs of one queue and priority, in this order; how many of them changed."""
    last = None if is_dense(tables, order[0].queue) else max(job.position for job in order)
    fresh = renormalised(len(order), last)
    placed = [rows.placed(job, priority, position, now) for job, position in zip(order, fresh, strict=True)]
    changed = [
        job for job, old in zip(placed, order, strict=True) if (job.priority, job.position) != (old.priority, old.position)
    ]  # fmt: skip
    for job in changed:
        tables.put(job)
    return len(changed)


def renormalise(tables: Tables, queue: str, now: Micros) -> int:
    return sum(spread(tables, list(order), priority, now) for priority, order in by_priority(in_order(tables, queue)))


def settle_down(tables: Tables, queue: str, now: Micros) -> None:
    """A queue is dense no longer: who stands beyond the number that comes next comes down to it, with all of that priority
    and in their order, because those who come now are to stand behind."""
    orders = by_priority(in_order(tables, queue))
    if not orders:
        return
    last = tail(tables.next_seq())
    for priority, order in orders:
        if order[-1].position > last:
            for job, position in zip(order, renormalised(len(order), last), strict=True):
                tables.put(rows.placed(job, priority, position, now))


def tidy(tables: Tables, duty: TidyPositions, now: Micros) -> Done:
    changed = 0
    for queue in [row.name for row in tables.queues.values() if row.positions == "dense"]:
        jobs = in_order(tables, queue)
        for priority, order in by_priority(jobs) if len(jobs) <= duty.limit else ():
            if is_crowded([job.position for job in order]):
                changed += spread(tables, order, priority, now)
    return Done(changed)


def by_priority(jobs: Sequence[Job]) -> list[tuple[int, list[Job]]]:
    return [(priority, list(order)) for priority, order in groupby(jobs, key=lambda job: job.priority)]


def in_order(tables: Tables, queue: str) -> list[Job]:
    """The queued jobs of a queue in dispatch order, whatever they wait for."""
    return sorted((job for job in tables.jobs.values() if (job.queue, job.state) == (queue, "queued")), key=dispatch_order)


def peers(tables: Tables, job: Job, priority: int) -> list[Job]:
    """The other queued jobs of its queue and this priority, in order."""
    return [other for other in in_order(tables, job.queue) if other.priority == priority and other.seq != job.seq]


def place(job: Job) -> Place:
    return (job.position, job.created_at, job.seq)
