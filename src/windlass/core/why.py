"""Why a job is not running: every reason that keeps it waiting, from what is stored.

`reasons` is given facts that somebody has read, and answers in the order in which they count: first what no worker could
change (time, a pause, a hold, a limit, a predecessor), then who would have to take it, then how much stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from windlass.core.eligibility import is_due, is_expired
from windlass.core.holds import is_valid
from windlass.core.limits import caps_of, has_rate, is_shut, keys_of, next_token, room
from windlass.records import QueueSample, WorkerInfo
from windlass.types import Dependency, Hold, Job, Limit, LimitUse, Micros, Queue

Kind = Literal[
    "ended", "superseded", "running", "claimed", "lapsed", "cancelling",  # it does not wait
    "time", "backoff", "predecessor", "paused", "held", "limit", "rate",  # nobody may take it
    "no worker", "not served", "unknown type", "busy", "backlog", "next",  # nobody has taken it
]  # fmt: skip


class Reason(Struct, frozen=True, kw_only=True):
    """`until`: when this one ends by itself, where that is known."""

    kind: Kind
    subject: str = ""  # what it is about: a queue, a limit, a job, a worker
    detail: str = ""  # who paused, holds, failed; the error before a retry
    until: Micros | None = None
    number: int | None = None  # jobs ahead, permits in use
    most: int | None = None  # permits there are
    names: tuple[str, ...] = ()  # the jobs that hold the permits, the predecessors, the workers that would know


class Facts(Struct, frozen=True, kw_only=True):
    """What `reasons` looks at, besides the job. `ahead` is None when nobody counted."""

    queue: Queue | None = None
    hold: Hold | None = None  # of its queue, when that is active
    limits: Sequence[Limit] = ()
    uses: Sequence[LimitUse] = ()  # who holds the permits that the job needs
    workers: Sequence[WorkerInfo] = ()  # those that are alive
    ahead: int | None = None
    samples: Sequence[QueueSample] = ()  # of its queue, latest last
    parents: Sequence[Dependency] = ()


def reasons(job: Job, facts: Facts, now: Micros) -> list[Reason]:
    if job.state != "queued":
        return [_not_waiting(job, now)]
    forbidden = [*_forbidden(job, facts, now)]
    return [*forbidden, *_not_taken(job, facts, now, forbidden=bool(forbidden))]


def _not_waiting(job: Job, now: Micros) -> Reason:
    if job.dead_kind == "superseded":
        return Reason(kind="superseded", subject=job.superseded_by or "")
    if job.state != "running":
        why = job.dead_reason if job.state == "dead" else job.last_error if job.state == "cancelled" else ""
        return Reason(kind="ended", subject=job.state, detail=why or "", until=job.finished_at)
    worker = job.worker_id or ""
    if is_expired(job, now):
        return Reason(kind="lapsed", subject=worker, until=job.lease_expires_at)
    if job.cancel_requested_at is not None:
        return Reason(kind="cancelling", subject=worker, detail=job.last_error)
    return Reason(kind="claimed" if job.started_at is None else "running", subject=worker, until=job.lease_expires_at)


def _forbidden(job: Job, facts: Facts, now: Micros) -> Iterator[Reason]:
    if job.waiting_on:
        names = tuple(edge.parent_id for edge in facts.parents if not edge.done)
        yield Reason(kind="predecessor", number=job.waiting_on, names=names)
    if not is_due(job.run_at, now):
        if job.attempts:  # of a link of a chain the error is with the one before it
            yield Reason(kind="backoff", detail=job.last_error, until=job.run_at, number=job.attempts)
        else:
            yield Reason(kind="time", until=job.run_at)
    if facts.queue is not None and facts.queue.paused_at is not None:
        yield Reason(kind="paused", subject=f"queue:{job.queue}", until=None)
    if facts.hold is not None and is_valid(facts.hold, now):
        yield Reason(kind="held", subject=facts.hold.by, detail=facts.hold.hold_id, until=facts.hold.expires_at)
    limits = {limit.key: limit for limit in facts.limits}
    for key in limits_on(job):
        limit = limits.get(key)
        if room(limit, now) == 0 or key == job.parked_on:
            yield _bounded(key, limit, facts, now)


def limits_on(job: Job) -> tuple[str, ...]:
    """The keys whose limits concern it."""
    return (*keys_of(job.limit_keys, job.type, job.org_id, job.tags), *caps_of(job.queue))


def _bounded(key: str, limit: Limit | None, facts: Facts, now: Micros) -> Reason:
    if limit is not None and limit.paused_at is not None:
        return Reason(kind="paused", subject=key)
    if limit is not None and has_rate(limit) and not is_shut(limit):
        return Reason(kind="rate", subject=key, until=limit.wake_at or next_token(limit, now))
    names = next((use.holders for use in facts.uses if use.key == key), ())
    used, most = (None, None) if limit is None else (limit.used, limit.max_used)
    return Reason(kind="limit", subject=key, number=used, most=most, names=names)


def _not_taken(job: Job, facts: Facts, now: Micros, *, forbidden: bool) -> Iterator[Reason]:
    """Also told of a job that may not be taken yet: it would wait for this next."""
    serving = [worker for worker in facts.workers if not worker.queues or job.queue in worker.queues]
    knowing = [worker for worker in serving if job.type in worker.types]
    if not facts.workers:
        yield Reason(kind="no worker")
    elif not serving:
        yield Reason(kind="not served", subject=job.queue, names=tuple(worker.id for worker in facts.workers))
    elif not knowing:
        yield Reason(kind="unknown type", subject=job.type, names=tuple(worker.id for worker in serving))
    elif forbidden:
        return
    elif facts.ahead:
        yield Reason(kind="backlog", number=facts.ahead, until=expected_at(facts.ahead, facts.samples, now))
    elif all(worker.running >= worker.pool_size for worker in knowing):
        yield Reason(kind="busy", names=tuple(worker.id for worker in knowing))
    else:
        yield Reason(kind="next", names=tuple(worker.id for worker in knowing))


def expected_at(ahead: int, samples: Sequence[QueueSample], now: Micros) -> Micros | None:
    """When it would be the job's turn if its queue went on as in the sampled minutes; None if nothing ended then."""
    ended = sum(sum(sample.finished.values()) for sample in samples)
    if not ended:
        return None
    minutes = len({sample.minute for sample in samples})
    return now + ahead * minutes * 60_000_000 // ended
