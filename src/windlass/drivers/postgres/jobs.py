"""Enqueueing: values → statements. One statement for a batch without keys, whatever its size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import astuple

from windlass.core.admission import check_jobs
from windlass.core.changes import RetryChild, bounded
from windlass.core.eligibility import is_due
from windlass.core.fields import check_now
from windlass.core.positions import dense
from windlass.drivers.postgres.arrays import Blobs, Ints, Texts
from windlass.drivers.postgres.faults import Taken
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import history_out, mapping_out, strings_out
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId
from windlass.types import Micros, NewJob

_FIELDS: Final = list(NewJob.__struct_fields__)
_ENCODED: Final[dict[str, Callable[[Any], str | None]]] = {
    "limit_keys": strings_out,
    "tags": strings_out,
    "headers": mapping_out,
    "history": history_out,
}
_NUMBERS: Final = frozenset(
    "priority run_at timeout_ns attempts max_attempts max_lost template_version fire_at group_seq".split()
)
# Fields that are one value for most batches: (place in NewJob, name, kind of array, how it is encoded)
_COLUMNS: Final[list[tuple[int, str, Any, Any]]] = [
    (place, name, Ints if name in _NUMBERS else Texts, _ENCODED.get(name))
    for place, name in enumerate(_FIELDS)
    if name not in ("id", "payload", "idempotency_expires_at", "on_duplicate", "after", "after_rule", "opens")
]
_ID, _PAYLOAD, _QUEUE = _FIELDS.index("id"), _FIELDS.index("payload"), _FIELDS.index("queue")
# Two who insert the same keys in another order must not wait for each other in a ring
IN_ORDER: Final = "order by each.dedupe_key, each.schedule_id, each.fire_at on conflict do nothing returning id"
_USED: Final = re.compile(r"\(id\)=\((.*)\)")


def is_keyed(jobs: Sequence[NewJob]) -> bool:
    return any(job.idempotency_key is not None or job.dedupe_key is not None or job.fire_at is not None for job in jobs)


def check(jobs: Sequence[NewJob], now: Micros) -> bool:
    """Answers whether they are alike."""
    check_now(now)
    alike = check_jobs(jobs)
    if len({job.id for job in jobs}) < len(jobs) and not is_keyed(jobs):
        raise DuplicateId(Counter(job.id for job in jobs).most_common(1)[0][0])
    return alike


def insert_at_once(jobs: Sequence[NewJob], now: Micros, alike: bool = False) -> Op[bool]:
    """One statement. False, and nothing is stored, when one of the queues has dense positions. `alike`: it is known that
    they differ in nothing but id and payload."""
    statement = insertion_of_alike(jobs, now) if alike and len(jobs) > 1 else insertion(jobs, now)
    return (yield from _insert(statement, jobs)) == len(jobs)


def insert_together(calls: Sequence[tuple[Sequence[NewJob], Micros]]) -> Op[bool]:
    """Those of several calls, in one statement; else as `insert_at_once`."""
    jobs = [job for new, _ in calls for job in new]
    nows = [now for new, now in calls for _ in new]
    return (yield from _insert(insertion(jobs, nows[-1], nows=nows), jobs)) == len(jobs)


def insert_quickly(jobs: Sequence[NewJob], now: Micros, alike: bool) -> Op[list[Enqueued] | None]:
    return answered(jobs) if (yield from insert_at_once(jobs, now, alike)) else None


def insert(jobs: Sequence[NewJob], now: Micros) -> Op[None]:
    """The same inside a transaction, whatever the queues."""
    if jobs and not (yield from insert_at_once(jobs, now)):
        positions = yield from dense_positions(jobs)
        yield from _insert(insertion(jobs, now, positions), jobs)


def insert_free(jobs: Sequence[NewJob], now: Micros) -> Op[set[str]]:
    """Those of the jobs whose keys nobody holds; answers their ids. Inside a transaction."""
    positions = yield from dense_positions(jobs)
    statement = insertion(jobs, now, positions)
    rows = yield Statement(statement.sql.replace("returning 1", IN_ORDER), statement.params)
    return {row[0] for row in rows}


def _insert(statement: Statement, jobs: Sequence[NewJob]) -> Op[int]:
    """How many were stored."""
    try:
        return sum(count for (count,) in (yield statement))
    except Taken as taken:  # looking for used ids beforehand would cost every enqueue what only the rare failure needs
        if not taken.constraint.endswith("jobs_pkey"):
            raise
        used = _USED.search(taken.detail)
        raise DuplicateId(used[1] if used else jobs[0].id) from None


def insertion(
    jobs: Sequence[NewJob], now: Micros, positions: Sequence[int | None] | None = None, nows: Sequence[Micros] | None = None
) -> Statement:
    """`nows`: of each, where they were not enqueued at one moment."""
    if len(jobs) == 1 and positions is None and nows is None:
        return insertion_of_one(jobs[0], now)
    columns = list(zip(*map(astuple, jobs), strict=True))
    params: dict[str, Any] = {
        "ids": Texts(columns[_ID]), "payloads": Blobs(columns[_PAYLOAD]), "now": now,
        "positions": None if positions is None else Ints(positions), "placed": positions is not None,
        "names": Texts(set(columns[_QUEUE])), "now_each": None if nows is None else Ints(nows),
    }  # fmt: skip
    for place, name, kind, encode in _COLUMNS:
        values = columns[place]
        if values.count(values[0]) == len(values):
            params[name] = values[0] if encode is None else encode(values[0])
            params[f"{name}_each"] = None
        else:
            params[name] = None
            params[f"{name}_each"] = kind(values) if encode is None else Texts(map(encode, values))
    return SQL.insert_jobs(**params)


def insertion_of_alike(jobs: Sequence[NewJob], now: Micros) -> Statement:
    ids, payloads = Texts([job.id for job in jobs]), Blobs([job.payload for job in jobs])
    return SQL.insert_alike(ids=ids, payloads=payloads, now=now, **_encoded(jobs[0]))


def insertion_of_one(job: NewJob, now: Micros) -> Statement:
    return SQL.insert_job(id=job.id, payload=job.payload, now=now, **_encoded(job))


def _encoded(job: NewJob) -> dict[str, Any]:
    values = astuple(job)
    return {name: values[place] if encode is None else encode(values[place]) for place, name, _, encode in _COLUMNS}


def dense_positions(jobs: Sequence[NewJob]) -> Op[list[int | None]]:
    """The Job Scheduler's rule: the largest position of the queue and priority plus the gap, under the queue's lock."""
    names = {job.queue for job in jobs}
    dense_queues = {name for (name,) in (yield SQL.lock_queues(names=Texts(names)))}
    last: dict[tuple[str, int], int | None] = {}
    positions: list[int | None] = []
    for job in jobs:
        place = (job.queue, job.priority)
        if job.queue not in dense_queues:
            positions.append(None)
            continue
        if place not in last:
            last[place] = (yield SQL.last_position(queue=job.queue, priority=job.priority))[0][0]
        last[place] = dense(last[place])
        positions.append(last[place])
    return positions


def insert_child(parent_seq: int, queue: str, priority: int, child: RetryChild, now: Micros) -> Op[None]:
    """The next link of a chain, at the tail of its queue."""
    position: int | None = None
    if (yield SQL.lock_queues(names=Texts([queue]))):
        position = dense((yield SQL.last_position(queue=queue, priority=priority))[0][0])
    try:
        yield SQL.insert_child(
            id=child.id, ready=is_due(child.run_at, now), position=position, now=now,
            run_at=bounded(child.run_at), attempts=child.attempts, manual=child.manual, parent_seq=parent_seq,
        )  # fmt: skip
    except Taken as taken:
        if taken.constraint.endswith("jobs_pkey"):
            raise DuplicateId(child.id) from None
        raise


def brought(jobs: Sequence[NewJob], answers: Sequence[Enqueued], now: Micros) -> set[str]:
    """The queues in which there is something new to be claimed."""
    return {job.queue for job, answer in zip(jobs, answers, strict=True) if not answer.existed and is_due(job.run_at, now)}


def answered(jobs: Sequence[NewJob]) -> list[Enqueued]:
    return [Enqueued(job.id) for job in jobs]


def enqueued_before(jobs: Sequence[NewJob], now: Micros) -> Op[set[str]]:
    """Which of these an enqueue has stored whose reply was lost: the same ids, made at the same instant."""
    rows = yield SQL.enqueued_before(ids=Texts(job.id for job in jobs), now=now)
    return {row[0] for row in rows}
