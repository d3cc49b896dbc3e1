"""What people do to the order of a queue, and to a whole queue: the part of `model.py` for moves, swaps and holds.

Rules of its own: the listing is a plain sort of stored fields, and nothing of a queue has a valid lease while a hold of
it is granted and valid.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from windlass.clock import SECOND
from windlass.core.alterations import (
    Acquire,
    Alteration,
    Grant,
    MoveBeside,
    ReleaseHold,
    Renew,
    Renormalise,
    SetPriority,
    Swap,
)
from windlass.core.duties import TidyPositions
from windlass.core.eligibility import dispatch_order
from windlass.core.holds import is_valid
from windlass.core.queries import AllHolds, AuditLog, InOrder
from windlass.testing.model_machine import Machine

QUEUES = ("a", "b")
HOLDS = 4  # the last so many are asked about

terms = st.sampled_from((1, 5 * SECOND, 60 * SECOND))


class OrderRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.holds: list[str] = ["nobody"]

    @rule(
        pick=st.integers(0, 30),
        other=st.integers(0, 30),
        what=st.sampled_from(("before", "before", "after", "swap", "swap", "priority")),
        take_priority=st.booleans(),
        priority=st.sampled_from((0, 1, 1, -1)),
    )
    def reorder(self, pick: int, other: int, what: str, take_priority: bool, priority: int) -> None:
        jobs = [*sorted(self.before), "nobody"]
        one, two = jobs[pick % len(jobs)], jobs[other % len(jobs)]
        change: Alteration
        match what:
            case "swap":
                change = Swap(one, two)
            case "priority":
                change = SetPriority(one, priority)
            case _:
                change = MoveBeside(one, two, what, take_priority=take_priority)  # type: ignore[arg-type]
        self.both("alter", [change], now=self.now)

    @rule(queue=st.sampled_from(QUEUES), whole=st.booleans(), limit=st.sampled_from((1, 3, 100)))
    def renormalise(self, queue: str, whole: bool, limit: int) -> None:
        if whole:
            self.both("alter", [Renormalise(queue)], now=self.now)
        else:
            self.both("maintain", TidyPositions(limit=limit), epoch=None, now=self.now)

    @rule(queue=st.sampled_from(QUEUES), by=st.sampled_from(("api", "cron")), expires_in=terms, grant=st.booleans())
    def acquire(self, queue: str, by: str, expires_in: int, grant: bool) -> None:
        hold_id = self.name("hold")
        [answer], _ = self.both("alter", [Acquire(hold_id, queue, by, expires_in)], now=self.now)
        self.holds.append(hold_id)
        if grant and answer == "applied":
            self.both("alter", [Grant(hold_id, expires_in)], now=self.now)

    @rule(pick=st.integers(1, HOLDS), what=st.sampled_from(("grant", "grant", "renew", "release", "again")), term=terms)
    def keep(self, pick: int, what: str, term: int) -> None:
        hold_id = self.holds[-min(pick, len(self.holds))]
        changes: dict[str, Alteration] = {
            "grant": Grant(hold_id, term), "renew": Renew(hold_id, term), "again": Acquire(hold_id, "a", "api", term),
            "release": ReleaseHold(hold_id, by=None if term == 1 else "ada"),
        }  # fmt: skip
        self.both("alter", [changes[what]], now=self.now)

    @rule()
    def release_all(self) -> None:
        """So that histories do not stand still for long."""
        active = [hold.hold_id for hold in self._ask(self.spec, "read", AllHolds()) if hold.status == "ACTIVE"]
        self.both("alter", [ReleaseHold(hold_id) for hold_id in active], now=self.now)

    # ----------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def the_order_is_a_plain_sort(self) -> None:
        for queue in QUEUES:
            listed: list[list[str]] = []
            for driver in (self.spec, self.driver):
                jobs: list[Any] = self._ask(driver, "read", InOrder(queue=queue, limit=1_000))
                assert jobs == sorted(jobs, key=dispatch_order)
                listed.append([job.id for job in jobs])
            assert listed[0] == listed[1]
            queued = {job.id for job in self._jobs(self.driver) if (job.queue, job.state) == (queue, "queued")}
            assert set(listed[1]) == queued, "a queued job has no place in the order"

    @invariant()
    def nothing_runs_beside_a_granted_hold(self) -> None:
        self.both("read", AuditLog())
        holds, _ = self.both("read", AllHolds())
        active = [hold.queue for hold in holds if hold.status == "ACTIVE"]
        assert len(active) == len(set(active)), "a queue is held twice"
        taken = {hold.queue for hold in holds if hold.granted_at is not None and is_valid(hold, self.now)}
        for job in self._jobs(self.driver):
            valid = job.lease_expires_at is not None and job.lease_expires_at > self.now
            assert not (valid and job.queue in taken), f"{job.id} runs beside a granted hold"
