"""Enqueueing: values → statements. One statement for a batch without keys, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import astuple

from windlass.core.admission import check_job
from windlass.core.changes import RetryChild
from windlass.core.eligibility import is_due
from windlass.core.positions import dense, tail
from windlass.core.uniqueness import enqueue_rounds, keys_of
from windlass.drivers.protocol import Enqueued
from windlass.drivers.sqlite.library import ERRORS
from windlass.drivers.sqlite.rows import mapping_out, strings_out, to_json
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.errors import DuplicateId, DuplicateJob
from windlass.types import Micros, NewJob

# Where the fields that need encoding sit in a NewJob, and where those end that are stored as they are.
_FIELDS = list(NewJob.__struct_fields__)
_PLAIN = _FIELDS.index("limit_keys")


def enqueue(jobs: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
    keyed = False
    for job in jobs:
        check_job(job)
        keyed = keyed or job.idempotency_key is not None or job.dedupe_key is not None
    if not keyed:
        yield from insert(jobs, now)
        return [Enqueued(job.id) for job in jobs]
    answers: dict[int, Enqueued] = {}
    for turn in enqueue_rounds(jobs):
        fresh: list[int] = []
        for index in turn:
            holder = yield from holder_of(jobs[index], now)
            if holder is None:
                fresh.append(index)
            else:
                answers[index] = yield from duplicate(jobs[index], holder, now)
        yield from insert([jobs[index] for index in fresh], now)
        yield from take_keys([jobs[index] for index in fresh])
        answers.update((index, Enqueued(jobs[index].id)) for index in fresh)
    return [answers[index] for index in range(len(jobs))]


def insert(jobs: Sequence[NewJob], now: Micros) -> Op[None]:
    if not jobs:
        return
    if len({job.id for job in jobs}) != len(jobs):
        raise DuplicateId(next(job.id for index, job in enumerate(jobs) if job.id in {j.id for j in jobs[:index]}))
    [(seq, any_dense)] = yield SQL.last_seq()
    if any_dense:
        rows = yield from dense_rows(jobs, seq, now)
    else:
        rows = [row_of(job, seq + n, tail(seq + n), now) for n, job in enumerate(jobs, 1)]
    try:
        yield from SQL.insert_job.bulk(rows)
    except ERRORS:  # looking for used ids beforehand would cost every enqueue what only the rare failure needs
        used = yield SQL.ids_in_use(ids=to_json([job.id for job in jobs]), last_seq=seq)
        if used:
            raise DuplicateId(used[0][0]) from None
        raise


def dense_rows(jobs: Sequence[NewJob], seq: int, now: Micros) -> Op[list[Row]]:
    """Spec 003 §3.2: the largest position of the queue and priority plus the gap, read under the write lock."""
    rules = yield SQL.queue_rules(names=to_json(list({job.queue for job in jobs})))
    dense_queues = {name for name, positions in rules if positions == "dense"}
    last: dict[tuple[str, int], int | None] = {}
    rows: list[Row] = []
    for n, job in enumerate(jobs, 1):
        place = (job.queue, job.priority)
        if job.queue not in dense_queues:
            rows.append(row_of(job, seq + n, tail(seq + n), now))
            continue
        if place not in last:
            last[place] = (yield SQL.last_position(queue=job.queue, priority=job.priority))[0][0]
        last[place] = dense(last[place])
        rows.append(row_of(job, seq + n, last[place], now))
    return rows


def row_of(job: NewJob, seq: int, position: int | None, now: Micros) -> Row:
    """The parameters of insert_job, in their order."""
    plain = astuple(job)[:_PLAIN]
    ready = job.run_at is None or job.run_at <= now
    if job.limit_keys or job.tags or job.headers:
        encoded = (strings_out(job.limit_keys), strings_out(job.tags), mapping_out(job.headers))
        return (seq, ready, position, now, *plain, *encoded, job.codec, job.payload)
    return (seq, ready, position, now, *plain, None, None, None, job.codec, job.payload)


def holder_of(job: NewJob, now: Micros) -> Op[str | None]:
    """The id of the job that holds one of this job's keys, at the head of its chain."""
    for kind, *key in keys_of(job):
        if kind == "dedupe":
            rows = yield SQL.dedupe_holder(key=key[0])
            if rows:
                return str(rows[0][0])
            continue
        rows = yield SQL.key_holder(scope=key[0], key=key[1], now=now)
        if rows:
            head = yield SQL.chain_head(id=rows[0][0])
            return str(head[0][0] if head else rows[0][0])
    return None


def duplicate(job: NewJob, holder: str, now: Micros) -> Op[Enqueued]:
    if job.on_duplicate == "raise":
        raise DuplicateJob(holder, job.idempotency_key or job.dedupe_key or "")
    if job.on_duplicate == "touch":
        yield SQL.touch(id=holder, now=now)
    elif job.on_duplicate == "replace":
        yield SQL.replace_job(
            id=holder, payload=job.payload, codec=job.codec, headers=mapping_out(job.headers), run_at=job.run_at,
            due=is_due(job.run_at, now), now=now,
        )  # fmt: skip
    return Enqueued(holder, existed=True)


def take_keys(jobs: Iterable[NewJob]) -> Op[None]:
    rows = [(j.idempotency_scope, j.idempotency_key, j.id, j.idempotency_expires_at) for j in jobs if j.idempotency_key]
    if rows:
        yield SQL.take_key.many(rows)


def insert_children(parents: Sequence[tuple[int, str, int, RetryChild]], now: Micros) -> Op[None]:
    """(parent's seq, queue, priority, child): the next links, each at the tail of its queue."""
    [(seq, _)] = yield SQL.last_seq()
    for n, (parent_seq, queue, priority, child) in enumerate(parents, 1):
        used = yield SQL.ids_in_use(ids=to_json([child.id]), last_seq=seq + n)
        if used:
            raise DuplicateId(child.id)
        position = tail(seq + n)
        rules = yield SQL.queue_rules(names=to_json([queue]))
        if rules and rules[0][1] == "dense":
            position = dense((yield SQL.last_position(queue=queue, priority=priority))[0][0])
        yield SQL.insert_child(
            seq=seq + n, id=child.id, ready=is_due(child.run_at, now), position=position, now=now, run_at=child.run_at,
            attempts=child.attempts, manual=child.manual, parent_seq=parent_seq,
        )  # fmt: skip
