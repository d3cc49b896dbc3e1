"""Turns of orgs in queues with order="fair", and priorities that grow with waiting."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.duties import AgeJobs, Done
from windlass.core.eligibility import dispatch_order, is_wanted
from windlass.core.fairness import Turns, due_for_ageing, served, share_of
from windlass.core.sampling import due_since
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Claim
from windlass.types import Job, Micros


def turns_of(tables: Tables, queue: str) -> Turns:
    """The next turns, by the weights of all organisations, since one may arrive while others are served."""
    shares = {share: row for (name, share), row in tables.shares.items() if name == queue}
    orgs = {key.removeprefix("org:"): limit for key, limit in tables.limits.items() if key.startswith("org:")}
    return Turns(shares, {share_of(org_id): limit.weight for org_id, limit in orgs.items()})


class Fairness:
    """The turns of organisations, for one claim."""

    def __init__(self, tables: Tables, queues: Sequence[str], wish: Claim) -> None:
        self._tables = tables
        self._wish = wish
        fair = [name for name in queues if name in tables.queues and tables.queues[name].order == "fair"]
        self._turns = {queue: turns_of(tables, queue) for queue in fair}

    def is_in_turn(self, job: Job) -> bool:
        turns = self._turns.get(job.queue)
        if turns is None:
            return True
        ready = (self._tables.jobs[order[3]] for order in self._tables.ready[job.queue])
        wanted = [other for other in ready if is_wanted(other, self._wish.types, unhandled=self._wish.unhandled)]
        return share_of(job.org_id) == turns.next({share_of(other.org_id) for other in wanted})

    def offered(self, job: Job) -> None:
        if job.queue in self._turns:
            self._turns[job.queue].offered[share_of(job.org_id)] += 1

    def granted(self, job: Job) -> None:
        if job.queue in self._turns:
            self._turns[job.queue].granted[share_of(job.org_id)] += 1

    def charge(self) -> None:
        tables = self._tables
        for queue, turns in self._turns.items():
            for share, count, weight in turns.charges():
                row = served(tables.shares.get((queue, share)), turns.clock, count, weight)
                tables.put_in(tables.shares, (queue, share), row)


def age_jobs(tables: Tables, duty: AgeJobs, now: Micros) -> Done:
    raised, more = 0, False
    for queue in [row for _, row in sorted(tables.queues.items()) if row.age_after is not None and row.age_to is not None]:
        assert queue.age_after is not None, "filtered above"
        assert queue.age_to is not None, "filtered above"
        parked = (job for job in tables.jobs.values() if job.queue == queue.name and job.parked_on is not None)
        ready = (tables.jobs[order[3]] for order in tables.ready[queue.name])
        old = [
            job for job in sorted((*ready, *parked), key=dispatch_order)
            if job.priority < queue.age_to and due_for_ageing(due_since(job), job.aged_at, queue.age_after, now)
        ][: duty.limit]  # fmt: skip
        for job in old:
            tables.put(replace(job, priority=job.priority + 1, aged_at=now, updated_at=rows.touched(job, now)))
        raised += len(old)
        more = more or len(old) == duty.limit
    return Done(raised, more=more)
