"""Enqueueing: values → statements. One statement for a batch without keys, whatever its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import astuple

from windlass.core.admission import check_job
from windlass.core.changes import RetryChild, bounded
from windlass.core.eligibility import is_due
from windlass.core.fairness import share_of
from windlass.core.positions import dense, tail
from windlass.core.uniqueness import keys_of
from windlass.drivers.rows import limits_of, mapping_out, strings_out, to_json
from windlass.drivers.sqlite.library import CONSTRAINT
from windlass.drivers.sqlite.limits import GATE
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, DuplicateJob
from windlass.types import Micros, NewJob

# Where the fields that need encoding sit in a NewJob, and where those end that are stored as they are.
_FIELDS = list(NewJob.__struct_fields__)
_PLAIN = _FIELDS.index("limit_keys")
PAGE = 4096
LAST_SEQ = SQL.last_seq()


def weight(jobs: Sequence[NewJob]) -> int:
    """The size of a transaction in rows. A page of payload counts as one row, because it takes as much work."""
    try:
        return len(jobs) + sum([len(job.payload) for job in jobs]) // PAGE
    except TypeError:  # it is not bytes, and will be refused
        return len(jobs)


def enqueue(jobs: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
    keyed = False
    for job in jobs:
        check_job(job)
        keyed = keyed or job.idempotency_key is not None or job.dedupe_key is not None or job.fire_at is not None
    if not keyed:
        yield from insert(jobs, now)
        return [Enqueued(job.id) for job in jobs]
    answers: dict[int, Enqueued] = {}
    fresh: list[int] = []  # to be inserted together, in the order given
    promised: set[tuple[str, ...]] = set()
    for index, job in enumerate(jobs):
        keys = keys_of(job)
        if not promised.isdisjoint(keys):  # one of those before it in the batch holds its key: store them first
            yield from insert_keyed([jobs[n] for n in fresh], now)
            fresh.clear()
        holder = yield from holder_of(job, now)
        if holder is None:
            fresh.append(index)
            promised.update(keys)
            answers[index] = Enqueued(job.id)
        else:
            answers[index] = yield from duplicate(job, holder, now)
    yield from insert_keyed([jobs[n] for n in fresh], now)
    return [answers[index] for index in range(len(jobs))]


def insert_keyed(jobs: Sequence[NewJob], now: Micros) -> Op[None]:
    yield from insert(jobs, now)
    yield from take_keys((job, job.id) for job in jobs)


def insert(jobs: Sequence[NewJob], now: Micros) -> Op[None]:
    if not jobs:
        return
    if len({job.id for job in jobs}) < len(jobs):
        raise DuplicateId(Counter(job.id for job in jobs).most_common(1)[0][0])
    [(seq, special)] = yield LAST_SEQ
    if special:
        rows = yield from special_rows(jobs, seq, now)
    else:
        rows = [row_of(job, seq + n, tail(seq + n), now) for n, job in enumerate(jobs, 1)]
    try:
        yield from SQL.insert_job.bulk(rows)
    except CONSTRAINT:  # looking for used ids beforehand would cost every enqueue what only the rare failure needs
        used = yield SQL.ids_in_use(ids=to_json([job.id for job in jobs]), last_seq=seq)
        if used:
            raise DuplicateId(used[0][0]) from None
        raise


def special_rows(jobs: Sequence[NewJob], seq: int, now: Micros) -> Op[list[Row]]:
    """Dense positions, by the Job Scheduler's rule (the largest position of the queue and priority plus the gap, read under
    the write lock), and shares of fair queues."""
    rules = yield SQL.queue_rules(names=to_json(list({job.queue for job in jobs})))
    dense_queues = {name for name, positions, _ in rules if positions == "dense"}
    fair_queues = {name for name, _, fairness in rules if fairness == "fair"}
    last: dict[tuple[str, int], int | None] = {}
    rows: list[Row] = []
    for n, job in enumerate(jobs, 1):
        place, share = (job.queue, job.priority), share_of(job.org_id) if job.queue in fair_queues else None
        if job.queue not in dense_queues:
            rows.append(row_of(job, seq + n, tail(seq + n), now, share))
            continue
        if place not in last:
            last[place] = (yield SQL.last_position(queue=job.queue, priority=job.priority))[0][0]
        last[place] = dense(last[place])
        rows.append(row_of(job, seq + n, last[place], now, share))
    return rows


def row_of(job: NewJob, seq: int, position: int | None, now: Micros, share: str | None = None) -> Row:
    """The parameters of insert_job, in their order."""
    plain = astuple(job)[:_PLAIN]
    ready = job.run_at is None or job.run_at <= now
    history = None if job.history == "full" else job.history
    if job.limit_keys or job.tags or job.headers:
        encoded = (strings_out(job.limit_keys), strings_out(job.tags), mapping_out(job.headers))
        return (seq, ready, position, now, *plain, *encoded, job.codec, job.payload, share, history)
    return (seq, ready, position, now, *plain, None, None, None, job.codec, job.payload, share, history)


def holder_of(job: NewJob, now: Micros) -> Op[str | None]:
    """The id of the job that holds one of this job's keys, at the head of its chain."""
    if job.idempotency_key is not None:
        rows = yield SQL.key_holder(scope=job.idempotency_scope, key=job.idempotency_key, now=now)
        if rows:
            return (yield from chain_head(rows[0][0]))
    if job.dedupe_key is not None:
        rows = yield SQL.dedupe_holder(key=job.dedupe_key)
        if rows:
            return str(rows[0][0])
    if job.schedule_id is not None and job.fire_at is not None:
        rows = yield SQL.fire_holder(schedule_id=job.schedule_id, fire_at=job.fire_at)
        if rows:
            return (yield from chain_head(rows[0][0]))
    return None


def chain_head(job_id: str) -> Op[str]:
    head = yield SQL.chain_head(id=job_id)
    return str(head[0][0] if head else job_id)


def duplicate(job: NewJob, holder: str, now: Micros) -> Op[Enqueued]:
    if job.on_duplicate == "raise":
        raise DuplicateJob(holder, job.idempotency_key or job.dedupe_key or "")
    if job.on_duplicate == "touch":
        yield SQL.touch(id=holder, now=now)
    elif job.on_duplicate == "replace":
        replaced = yield SQL.replace_job(
            id=holder, payload=job.payload, codec=job.codec, headers=mapping_out(job.headers), run_at=job.run_at,
            due=is_due(job.run_at, now), now=now,
        )  # fmt: skip
        for row in replaced:  # it may have been the one that was let through
            yield from GATE.let_through(limits_of(row), now)
    if job.idempotency_key is not None:
        held = yield SQL.key_holder(scope=job.idempotency_scope, key=job.idempotency_key, now=now)
        if not held:  # answered by another key: the same call again must be answered alike
            yield from take_keys([(job, holder)])
    return Enqueued(holder, existed=True)


def take_keys(jobs: Iterable[tuple[NewJob, str]]) -> Op[None]:
    rows = [
        (job.idempotency_scope, job.idempotency_key, holder, job.idempotency_expires_at)
        for job, holder in jobs
        if job.idempotency_key is not None
    ]
    if rows:
        yield SQL.take_key.many(rows)


def insert_children(parents: Sequence[tuple[int, str, int, RetryChild]], now: Micros) -> Op[None]:
    """(parent's seq, queue, priority, child): the next links, each at the tail of its queue."""
    [(seq, _)] = yield LAST_SEQ
    for n, (parent_seq, queue, priority, child) in enumerate(parents, 1):
        used = yield SQL.ids_in_use(ids=to_json([child.id]), last_seq=seq + n)
        if used:
            raise DuplicateId(child.id)
        position = tail(seq + n)
        rules = yield SQL.queue_rules(names=to_json([queue]))
        if rules and rules[0][1] == "dense":
            position = dense((yield SQL.last_position(queue=queue, priority=priority))[0][0])
        yield SQL.insert_child(
            seq=seq + n, id=child.id, ready=is_due(child.run_at, now), position=position, now=now,
            run_at=bounded(child.run_at), attempts=child.attempts, manual=child.manual, parent_seq=parent_seq,
        )  # fmt: skip
