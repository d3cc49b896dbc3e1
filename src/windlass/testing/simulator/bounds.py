"""What bounds the work of a simulated fleet: limits that cap, rates, pauses of a type or an org, a queue with turns; and
what must hold of them.

Turns and buckets are kept once more here, from what claims answered, in other words than in `core`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, Protocol

from windlass.clock import SECOND
from windlass.core.alterations import Alteration, PauseLimit, PutLimit, PutQueue
from windlass.core.limits import concerns
from windlass.drivers.values import Claim
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.conduct import require
from windlass.testing.simulator.history import History
from windlass.testing.simulator.work import CAREFUL, PLAIN
from windlass.types import Job, Limit, Micros, Queue

CAPPED, FAIR = "a", "b"  # queues
LIMITS: Final = {"l1": 1, "l2": 2, f"type:{CAREFUL}": 4, "org:o": 3}
PAUSED: Final = (f"type:{PLAIN}", "org:o")
CAPS: Final = ("global", f"queue:{CAPPED}")
SMALL: Final = 1e-6


def always() -> list[Alteration]:
    return [*(PutLimit(key, most) for key, most in LIMITS.items()), PutLimit("l3", per_second=2.0, burst=2.0)]


def are_there(seed: int) -> bool:
    """Not drawn, and in none of the seeds that have a name: what those tell stays as it was."""
    return seed % 13 in (3, 4, 5, 7, 12)


def at_first(rng: Random) -> list[Alteration]:
    return [
        PutLimit(f"queue:{CAPPED}", rng.choice((1, 2, 3))), PutLimit("global", rng.choice((2, 4))),
        PutQueue(FAIR, order="fair"), PutLimit("org:p", per_second=4.0, burst=2.0, weight=2.0),
    ]  # fmt: skip


def wish(rng: Random) -> Alteration:
    """Of the operator: pauses come and go, caps are raised and lowered."""
    if rng.random() < 0.5:
        return PauseLimit(rng.choice(PAUSED), rng.random() < 0.4)
    return PutLimit(rng.choice(CAPS), rng.choice((1, 2, 3, None)))


def in_the_end() -> list[Alteration]:
    return [PauseLimit(key, False) for key in PAUSED]


class BoundedRows(Protocol):
    def jobs(self) -> Mapping[int, Job]: ...
    def limits(self) -> Iterable[Limit]: ...
    def queue(self, name: str) -> Queue | None: ...


def is_concerned(job: Job, key: str) -> bool:
    return concerns(key, queue=job.queue, kind=job.type, org_id=job.org_id, tags=job.tags, limit_keys=job.limit_keys)


def is_due(old: Job, job: Job) -> bool:
    """Whether nothing happened to a queued job but that its time has come."""
    return job.ready and not old.ready and old.parked_on is None


class Bounds:
    def __init__(self, history: History, rows: BoundedRows) -> None:
        self._history = history
        self._rows = rows
        self._held: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, Micros]] = {}  # tokens, and when there were so many
        self._latest: Micros = 0  # by anybody's clock
        self._places: defaultdict[str, dict[str | None, float]] = defaultdict(dict)  # of the orgs of a fair queue
        self._clock: defaultdict[str, float] = defaultdict(float)

    def judge(self, call: Call, known: Mapping[int, Job]) -> None:
        """`known`: the rows as they were before the call."""
        self._latest = max(self._latest, call.now)
        if call.method == "alter":
            for change, answer in zip(call.batch, call.answer, strict=True):
                if isinstance(change, PutLimit) and answer == "applied":
                    self._buckets.pop(change.key, None)
        elif call.method == "claim":
            ids = {job.id: seq for seq, job in known.items()}
            rows = self._rows.jobs()
            self._claimed(call, [rows[ids[claimed.id]] for claimed in call.answer], known)
        for limit in self._rows.limits():
            self._fill(limit)

    def _fill(self, limit: Limit) -> float | None:
        """By our own account, as far as the row says that it was filled. Whose clock is ahead fills it for all."""
        if limit.per_second is None or limit.burst is None or limit.refilled_at is None:
            return None
        tokens, since = self._buckets.get(limit.key, (limit.burst, limit.refilled_at))
        require(limit.refilled_at <= max(since, self._latest), "a bucket is not filled ahead of time", limit.key)
        tokens = min(limit.burst, tokens + max(limit.refilled_at - since, 0) * limit.per_second / SECOND)
        self._buckets[limit.key] = (tokens, max(since, limit.refilled_at))
        return tokens

    def fair(self, queues: Iterable[str]) -> set[str]:
        rows = {name: self._rows.queue(name) for name in queues}
        return {name for name, row in rows.items() if row is not None and row.order == "fair"}

    def full(self, queues: Iterable[str]) -> set[str]:
        """Queues of which a cap keeps a claim from taking one more."""
        caps = {limit.key for limit in self._rows.limits() if limit.max_used is not None and limit.used >= limit.max_used}
        return {queue for queue in queues if caps & {"global", f"queue:{queue}"}}

    # ---------------------------------------------------------------------------------------------------------- claims

    def _claimed(self, call: Call, taken: list[Job], known: Mapping[int, Job]) -> None:
        limits = {limit.key: limit for limit in self._rows.limits()}
        for limit in limits.values():
            self._began(limit, [job for job in taken if is_concerned(job, limit.key)])
        for queue in sorted(self.fair({job.queue for job in taken})):
            self._took_turns(queue, [job for job in taken if job.queue == queue], call, known, limits)
        shut = {limit.key for limit in limits.values() if limit.paused_at is not None}
        if shut and any(job.parked_on in shut for job in self._rows.jobs().values()):
            self._history.sometimes("key_paused")

    def _began(self, limit: Limit, jobs: list[Job]) -> None:
        if not jobs:
            return
        require(limit.paused_at is None, "a paused key starts nothing", f"{jobs[0].id} of {limit.key}")
        tokens = self._fill(limit)
        if tokens is None:
            return
        tokens -= len(jobs)
        self._buckets[limit.key] = (tokens, self._buckets[limit.key][1])
        require(tokens > -SMALL, "a rate lets no more through than it says", f"{limit.key}: {tokens} are left")

    def _took_turns(
        self, queue: str, taken: list[Job], call: Call, known: Mapping[int, Job], limits: Mapping[str, Limit]
    ) -> None:
        """Each org has a place in virtual time, which moves by 1/weight with each of its jobs; who was idle begins where
        the queue is. Whoever has a job that could have been taken stands no earlier than the last that was."""
        wish: Claim = call.batch
        places, clock = self._places[queue], self._clock[queue]
        latest = clock
        for job in taken:
            start = max(places.get(job.org_id, 0.0), clock)
            latest = max(latest, start)
            limit = limits.get(f"org:{job.org_id}") if job.org_id is not None else None
            places[job.org_id] = start + 1.0 / (1.0 if limit is None else limit.weight)
        self._clock[queue] = latest
        others = [
            (known.get(seq), job) for seq, job in self._rows.jobs().items() if job.queue == queue and job.state == "queued"
        ]
        # Whose job found no permit in this claim, perhaps once more, was offered its turn; who was let through by that came
        # too late for it. A job whose time has come meanwhile was there from the beginning.
        offered = {
            job.org_id for old, job in others if old is None or (old.updated_at != job.updated_at and not is_due(old, job))
        }
        for _, job in others:
            suits = job.ready and not wish.unhandled and (wish.types is None or job.type in wish.types)
            if suits and job.org_id not in offered:
                place = max(places.get(job.org_id, 0.0), clock)
                require(place > latest - SMALL, "nobody's turn is passed over", f"{job.id}: {place} before {latest}")
        if len({job.org_id for job in taken}) > 1:
            self._history.sometimes("took_turns")

    # ----------------------------------------------------------------------------------------------------- as a whole

    def check(self) -> None:
        """Valid leases stay within the limit; where it was lowered below what runs, none is added."""
        jobs = [job for job in self._rows.jobs().values() if job.state == "running" or job.permits]
        for limit in self._rows.limits():
            held = sum(limit.key in job.permits for job in jobs)
            concerned = sum(job.state == "running" and is_concerned(job, limit.key) for job in jobs)
            require(held == concerned, "who runs holds its permits", f"{limit.key}: {held} hold one of {concerned}")
            require(limit.used == held, "no permit leaks", f"{limit.key}: {limit.used} are out, {held} jobs hold one")
            if limit.max_used is not None and held > limit.max_used:
                self._history.sometimes("cap_lowered")
                grew = held > self._held[limit.key]
                require(not grew, "a limit bounds valid leases", f"{limit.key}: {held} of {limit.max_used}")
            self._held[limit.key] = held
