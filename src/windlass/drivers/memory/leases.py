"""Claiming, extending and taking back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.admission import check_claim
from windlass.core.admission_of_settlements import check_renewal
from windlass.core.changes import Expire, storable
from windlass.core.dependencies import BITES, SWEPT
from windlass.core.eligibility import is_expired, is_promotable, is_wanted, needs_decision
from windlass.core.fields import check_lease, check_limit, check_now
from windlass.core.guards import judge
from windlass.core.limits import PARK_BITE
from windlass.core.settle import riders_of
from windlass.drivers.memory.dependencies import pay
from windlass.drivers.memory.events import announce
from windlass.drivers.memory.fairness import Fairness
from windlass.drivers.memory.holds import end_stale, is_open
from windlass.drivers.memory.limits import free_permits, may_give, take_permits, wake
from windlass.drivers.memory.settlement import apply, ride
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Claim, Extended, Renewal
from windlass.types import Claimed, Job, Micros


def claim(tables: Tables, wish: Claim, now: Micros) -> list[Claimed]:
    check_claim(wish, now)
    while True:
        taken, more = claim_once(tables, wish, now)
        if taken or not more:
            return taken


def claim_once(tables: Tables, wish: Claim, now: Micros) -> tuple[list[Claimed], bool]:
    """Claim jobs. Returns them, and whether it stopped because it had parked as many as one transaction of a store may."""
    if wish.reclaim:
        end_stale(tables, wish.queues, wish.worker_id, now)
        take_back(tables, now, queues=wish.queues)
    queues = [queue for queue in dict.fromkeys(wish.queues) if is_open(tables, queue)]
    promote(tables, queues, now)
    prefix = rows.run_prefix(wish.token, now)
    wake(tables, now)
    taken: list[Claimed] = []
    parked = 0
    fair = Fairness(tables, queues, wish)
    while len(taken) < wish.limit and parked < PARK_BITE:
        job = first(tables, [queue for queue in queues if may_give(tables, queue, now)], wish, fair)
        if job is None:
            break
        fair.offered(job)
        permits = take_permits(tables, job, now)
        if permits is not None:
            taken.append(lease(tables, job, wish, prefix, permits, now))
            fair.granted(job)
        parked += permits is None
    fair.charge()
    return taken, parked == PARK_BITE


def promote(tables: Tables, queues: Sequence[str], now: Micros) -> None:
    for queue in queues:
        for seq in list(tables.waiting[queue]):
            job = tables.jobs[seq]
            if is_promotable(job, now):
                tables.put(replace(job, ready=True, updated_at=rows.touched(job, now)))


def first(tables: Tables, queues: Sequence[str], wish: Claim, fair: Fairness) -> Job | None:
    """The next wanted job in dispatch order over all these queues; a fair one offers whose turn it is."""

    def suits(seq: int) -> bool:
        job = tables.jobs[seq]
        return is_wanted(job, wish.types, unhandled=wish.unhandled) and fair.is_in_turn(job)

    heads = [next((order for order in tables.ready[queue] if suits(order[3])), None) for queue in queues]
    best = min((order for order in heads if order is not None), default=None)
    return None if best is None else tables.jobs[best[3]]


def lease(tables: Tables, job: Job, wish: Claim, prefix: str, permits: tuple[str, ...], now: Micros) -> Claimed:
    leased = tables.put(
        rows.claimed(
            job, token=wish.token, worker_id=wish.worker_id, lease_for=wish.lease_for, start=wish.start, permits=permits,
            now=now,
        )
    )  # fmt: skip
    run = rows.run_of(leased, f"{prefix}{job.seq:012x}")
    if job.history == "full":
        tables.put_run(job.seq, run)
    return rows.as_claimed(leased, run.run_id, (job.seq, leased.executions))


def extend(tables: Tables, renewals: Sequence[Renewal], lease_for: Micros, now: Micros) -> list[Extended]:
    check_lease(lease_for)
    check_now(now)
    for renewal in renewals:
        check_renewal(renewal)
    return [extend_one(tables, renewal, now + lease_for, now) for renewal in renewals]


def extend_one(tables: Tables, renewal: Renewal, expires_at: Micros, now: Micros) -> Extended:
    job = tables.find(renewal.handle)
    answer = judge(job, token=renewal.token, outcome=None, lapsed=False, now=now)
    if job is None or answer != "applied":
        return Extended(answer)
    if job.started_at is None and renewal.started_at is not None and job.history == "full":
        tables.put_run(job.seq, replace(tables.runs[job.seq][-1], started_at=renewal.started_at))
    note = None if renewal.progress_note is None else storable(renewal.progress_note)
    renewed = rows.extended(
        job, expires_at=expires_at, started_at=renewal.started_at, progress=renewal.progress, note=note, now=now
    )
    tables.put(renewed)
    return Extended("applied", renewed.lease_expires_at, job.cancel_requested_at is not None)


def expire(tables: Tables, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
    check_now(now)
    check_limit(limit)
    taken_back = take_back(tables, now, limit=limit)
    for _ in range(BITES):
        if pay(tables, now, SWEPT) < SWEPT:
            break
    undecided = [job for job in lapsed(tables, now) if needs_decision(job)][:limit]
    return taken_back, [rows.as_claimed(j, tables.run_of(j).run_id, (j.seq, j.executions)) for j in undecided]


def take_back(tables: Tables, now: Micros, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
    """Expire what needs no decision, the longest lapsed first."""
    jobs = [job for job in lapsed(tables, now) if not needs_decision(job) and (queues is None or job.queue in queues)]
    back = jobs[:limit]
    for job in back:
        assert job.lease_token is not None, "running without a lease"
        handle = (job.seq, job.executions)
        change = Expire(handle=handle, token=job.lease_token, at=now, lapsed=True, riders=riders_of(job, None))
        ride(tables, job, apply(tables, job, change, now, []), now)
    free_permits(tables, [key for job in back for key in job.permits], now)
    announce(tables, sorted(back, key=lambda job: job.seq), now)
    return len(back)


def lapsed(tables: Tables, now: Micros) -> list[Job]:
    jobs = [tables.jobs[seq] for seq in tables.leased if is_expired(tables.jobs[seq], now)]
    return sorted(jobs, key=lambda job: (job.lease_expires_at or 0, job.seq))
