"""Which jobs may be claimed, and in what order.

The order is total and a function of stored fields alone, so the same rows always give the same order:
priority DESC, position ASC, created_at ASC, seq ASC, over all jobs that are ready. Immediate, scheduled-and-due,
retried and reclaimed jobs compete in that one order; none is starved by the others.

SQL drivers write the same rules once more (`claim`, `promote` and `expire` in sql/leases.sql); the conformance suite and
the differential model hold the two together.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from windlass.types import Job, Label, Micros

PROMOTE_BITE: Final = 1_000  # rows per promotion statement; a claim promotes until a bite is not full
GOES_STALE: Final = 6  # times as long as a claim may go on at the moment at which it began, a lease is at least
AT_ONCE: Final = 10_000  # rows that one transaction of a claim promotes or takes back: the next goes on from there


def dispatch_order(job: Job) -> tuple[int, int, Micros, int]:
    return (-job.priority, job.position, job.created_at, job.seq)


def first_share(limit: int, queues: int) -> int:
    """How many of each queue a claim over several looks at first. They share the limit, mostly: of a thousand queues
    few have more than these among the first five hundred, and of those the rest is looked at then."""
    return min(limit, max(4, -(-2 * limit // max(queues, 1))))


def goes_on_at(now: Micros, lease_for: Micros, took: Micros) -> Micros:
    """The moment of a claim that goes on in another transaction, so long after `now`: the same, if that is no large part of
    the lease. Else what it takes would be leased for too short a time, or no longer, when somebody hears of it."""
    return now + took if took > lease_for // GOES_STALE else now


def is_due(run_at: Micros | None, now: Micros) -> bool:
    return run_at is None or run_at <= now


def is_free(job: Job) -> bool:
    """Nothing but time keeps it from running."""
    return job.waiting_on == 0 and job.parked_on is None


def is_wanted(job: Job, types: Collection[str] | None, *, unhandled: bool) -> bool:
    """Whether a claim asks for this job. `unhandled`: it wants only those that are to die when nobody handles them."""
    return (types is None or job.type in types) and (not unhandled or job.on_unknown == "dead")


def is_promotable(job: Job, now: Micros) -> bool:
    return job.state == "queued" and not job.ready and is_free(job) and is_due(job.run_at, now)


def is_expired(job: Job, now: Micros) -> bool:
    return job.state == "running" and job.lease_expires_at is not None and job.lease_expires_at <= now


def needs_decision(job: Job) -> bool:
    """An expired job that a claim must leave to core's sweep: everything that might not simply go back to the queue."""
    if job.crash_policy == "fail" or job.cancel_requested_at is not None:
        return True
    if job.max_lost > 0 and job.lost + 1 >= job.max_lost:
        return True
    return job.max_attempts > 0 and max(job.attempts + 1, job.executions - job.skipped) >= job.max_attempts


def label_of(job: Job, now: Micros) -> Label:
    """The state as people see it: what keeps a queued job waiting, and whether a leased one has begun."""
    if job.state == "running":
        return "running" if job.started_at is not None else "claimed"
    if job.state != "queued":
        return job.state
    if job.waiting_on > 0:
        return "blocked"
    if job.parked_on is not None:
        return "parked"
    return "queued" if is_due(job.run_at, now) else "scheduled"
