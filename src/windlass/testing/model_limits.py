"""The part of the state machine in `model.py` that bounds jobs: limits of every kind, rates, pauses, turns of orgs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from windlass.clock import SECOND
from windlass.core.alterations import Alteration, PauseLimit, PutLimit, PutQueue, RemoveLimit
from windlass.core.limits import concerns, has_rate, is_shut, keys_of
from windlass.core.queries import AllLimits, LimitUses, NextRefill
from windlass.testing.model_machine import Machine
from windlass.types import Job, Limit, Order

QUEUES = ("a", "b")
KEYS = ("l1", "l2", "type:x", "org:o", "tag:t", "queue:a", "global")
OFTEN = (*KEYS[:4], *KEYS[:2])

rates = st.sampled_from(((None, None), (None, None), (1.0, 1.0), (0.3, 2.0), (7.0, None)))
changes: st.SearchStrategy[Alteration] = st.one_of(
    st.builds(
        lambda key, most, rate, declared: PutLimit(key, most, rate[0], rate[1], declared=declared),
        st.sampled_from((*KEYS, *OFTEN)),
        st.none() | st.integers(0, 3),
        rates,
        st.booleans(),
    ),
    st.builds(lambda weight: PutLimit("org:o", None, weight=weight), st.sampled_from((0.5, 2.0, 3.0))),
    st.builds(RemoveLimit, st.sampled_from(KEYS)),
    st.builds(PauseLimit, st.sampled_from(("type:x", "org:o", "global", "l1")), st.booleans()),
    st.builds(PauseLimit, st.sampled_from(("type:x", "org:o", "global", "l1")), st.just(False)),
)


def keys_of_job(job: Job) -> tuple[str, ...]:
    return keys_of(job.limit_keys, job.type, job.org_id, job.tags)


class LimitRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.limits_before: dict[str, Limit] = {}

    @rule(change=changes)
    def bound(self, change: Alteration) -> None:
        self.both("alter", [change], now=self.now)

    @rule(
        queue=st.sampled_from(QUEUES), preset=st.none() | st.just("mail"),
        order=st.sampled_from(("strict", "fair", "fair")),
        ageing=st.sampled_from((None, None, (SECOND, 1), (7 * SECOND, 3))),
    )  # fmt: skip
    def describe(self, queue: str, preset: str | None, order: Order, ageing: tuple[int, int] | None) -> None:
        """How positions are given stays: numbers of the tail may have gaps in one driver and none in the other, so only
        within one kind is their order the same."""
        after, to = ageing or (None, None)
        change = PutQueue(queue, self.positions[queue], preset, order=order, age_after=after, age_to=to)
        self.both("alter", [change], now=self.now)

    @rule(queues=st.sampled_from((("a",), ("a", "b"))))
    def ask(self, queues: tuple[str, ...]) -> None:
        self.both("read", LimitUses(keys=KEYS, limit=2))
        self.both("read", NextRefill(queues=queues, now=self.now))
        self.both("read", NextRefill(queues=queues, now=self.now, types=("x",)))

    @invariant()
    def permits_add_up(self) -> None:
        jobs: tuple[Job, ...] = self._jobs(self.driver)
        limits: dict[str, Limit] = {limit.key: limit for limit in self._ask(self.driver, "read", AllLimits())}
        for limit in limits.values():
            holders = [job for job in jobs if limit.key in job.permits]
            concerned = [job for job in jobs if job.state == "running" and concerns(limit.key, **about(job))]
            assert holders == concerned, f"{limit.key} concerns others than those who hold a permit"
            assert limit.used == len(holders), f"{limit.key}: {limit.used} permits are out, {len(holders)} hold one"
            before = self.limits_before.get(limit.key)
            if limit.max_used is not None and limit.used > limit.max_used:
                assert before is None or limit.used <= before.used, f"{limit.key} was overdrawn"
        self.limits_before = limits
        for job in jobs:
            assert not job.permits or job.state == "running", f"{job.id} holds permits and does not run"
            if job.parked_on is not None:
                self._check_waits_for_reason(job, limits.get(job.parked_on), jobs)

    def _check_waits_for_reason(self, job: Job, limit: Limit | None, jobs: tuple[Job, ...]) -> None:
        """There is no room; or a token is waited for; or a rival of its own queue and type may take what there is."""
        assert limit is not None, f"{job.id} waits for {job.parked_on}, which bounds nothing"
        assert limit.key in keys_of_job(job), f"{job.id} waits for what does not concern it"
        if is_shut(limit) or (has_rate(limit) and limit.wake_at is not None):
            return
        rivals = [other for other in jobs if other.state == "queued" and other.ready and limit.key in keys_of_job(other)]
        alike = [other for other in rivals if (other.queue, other.type) == (job.queue, job.type)]
        assert alike, f"{job.id} waits for {limit.key}, which has room"


def about(job: Job) -> dict[str, Any]:
    return {
        "queue": job.queue, "kind": job.type, "org_id": job.org_id, "tags": job.tags, "limit_keys": job.limit_keys,
    }  # fmt: skip
