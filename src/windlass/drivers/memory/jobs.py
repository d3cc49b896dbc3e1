"""Enqueueing: rows, keys and places."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.admission import check_job
from windlass.core.changes import RetryChild
from windlass.core.dependencies import is_linked
from windlass.core.fields import check_now
from windlass.core.positions import dense, tail
from windlass.core.uniqueness import is_taken, may_replace, may_touch
from windlass.drivers.memory.dependencies import chain_head, link
from windlass.drivers.memory.limits import keys_of, let_through
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, DuplicateJob
from windlass.types import Job, Micros, NewJob, Queue


def enqueue(tables: Tables, jobs: Sequence[NewJob], now: Micros) -> list[Enqueued]:
    check_now(now)
    for job in jobs:
        check_job(job)
    answers = [enqueue_one(tables, job, now) for job in jobs]
    if is_linked(jobs):
        link(tables, jobs, answers, now)
    return answers


def enqueue_one(tables: Tables, new: NewJob, now: Micros) -> Enqueued:
    holder = holder_of(tables, new, now)
    return insert(tables, new, now) if holder is None else duplicate(tables, new, holder, now)


def insert(tables: Tables, new: NewJob, now: Micros) -> Enqueued:
    if new.id in tables.seqs:
        raise DuplicateId(new.id)
    seq, position = next_place(tables, new.queue, new.priority)
    tables.put(rows.enqueued(new, seq=seq, position=position, now=now))
    take_key(tables, new, new.id)
    return Enqueued(new.id)


def take_key(tables: Tables, new: NewJob, holder: str) -> None:
    if new.idempotency_scope is not None and new.idempotency_key is not None:
        key = (new.idempotency_scope, new.idempotency_key)
        tables.put_in(tables.keys, key, (holder, new.idempotency_expires_at))


def insert_child(tables: Tables, parent: Job, child: RetryChild, now: Micros) -> None:
    if child.id in tables.seqs:
        raise DuplicateId(child.id)
    seq, position = next_place(tables, parent.queue, parent.priority)
    tables.put(rows.child_of(parent, child, seq=seq, position=position, now=now))


def next_place(tables: Tables, queue: str, priority: int) -> tuple[int, int]:
    """A new seq and the position at the tail."""
    seq = tables.next_seq()
    if not is_dense(tables, queue):
        return seq, tail(seq)
    peers = [j.position for j in tables.jobs.values() if (j.queue, j.priority, j.state) == (queue, priority, "queued")]
    return seq, dense(max(peers, default=None))


def is_dense(tables: Tables, queue: str) -> bool:
    return tables.queues.get(queue, Queue(name=queue)).positions == "dense"


def holder_of(tables: Tables, new: NewJob, now: Micros) -> str | None:
    """The id of the job that holds one of the new job's keys, at the head of its chain."""
    keyed = holder_by_key(tables, new, now)
    if keyed is not None:
        return chain_head(tables, keyed)
    if new.dedupe_key is not None and new.dedupe_key in tables.dedupe:
        return tables.jobs[tables.dedupe[new.dedupe_key]].id
    if new.schedule_id is not None and new.fire_at is not None:
        fired = tables.fires.get((new.schedule_id, new.fire_at))
        return None if fired is None else chain_head(tables, tables.jobs[fired].id)
    return None


def duplicate(tables: Tables, new: NewJob, holder: str, now: Micros) -> Enqueued:
    if new.on_duplicate == "raise":
        raise DuplicateJob(holder, new.idempotency_key or new.dedupe_key or "")
    job = tables.find(holder)
    if job is not None and new.on_duplicate == "touch" and may_touch(job):
        tables.put(replace(job, updated_at=rows.touched(job, now)))
    if job is not None and new.on_duplicate == "replace" and may_replace(job):
        tables.put(rows.replaced(job, new, now))
        let_through(tables, keys_of(job), now)  # it may have been the one that was let through
    if new.idempotency_key is not None and holder_by_key(tables, new, now) is None:
        take_key(tables, new, holder)  # answered by another key: the same call again must be answered alike
    return Enqueued(holder, existed=True)


def holder_by_key(tables: Tables, new: NewJob, now: Micros) -> str | None:
    held = tables.keys.get((new.idempotency_scope or "", new.idempotency_key or ""))
    return held[0] if held is not None and is_taken(held[1], now) else None
