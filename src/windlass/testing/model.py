"""Any driver against the memory driver, over random histories, as a Hypothesis state machine.

    TestMine = differential(lambda: MyDriver(fresh_place())).TestCase

After every step both stores must hold the same rows and both must have given the same answers. Because that is blind to
a mistake the two share, the machine also checks invariants of its own, which no driver is asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from windlass.extras import MissingExtra

try:  # before our own modules, which ask for it too
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
except ModuleNotFoundError as error:
    raise MissingExtra("testing", "hypothesis") from error

from windlass.clock import SECOND
from windlass.core.alterations import (
    Alteration,
    Cancel,
    Delete,
    Move,
    PutGroup,
    PutQueue,
    Replay,
    Revoke,
    RunNow,
    SetPaused,
)
from windlass.core.events import announced
from windlass.core.queries import AllGroups, AllLimits, AllQueues
from windlass.core.recovery import recover
from windlass.core.settle import (
    Execution,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    WasCancelled,
    settle,
)
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, Renewal
from windlass.policies import Retry, fixed
from windlass.policies import rule as error_rule
from windlass.testing.comparison import difference, ranked
from windlass.testing.model_access import AccessRules
from windlass.testing.model_fleet import WORKERS, FleetRules
from windlass.testing.model_groups import GroupRules
from windlass.testing.model_limits import QUEUES, LimitRules
from windlass.testing.model_listings import ListingRules
from windlass.testing.model_machine import Change
from windlass.testing.model_order import OrderRules
from windlass.testing.model_schedules import ScheduleRules
from windlass.testing.model_soundness import SoundRows
from windlass.testing.model_webhooks import WebhookRules
from windlass.types import NewJob

ON_FAILURE = st.sampled_from(("stop", "continue", "skip"))
KEYS = ("k1", "k2")
POLICIES = (
    None, Retry(backoff=fixed(5)).encode(), Retry(backoff=fixed(0), count_lost=False).encode(),
    Retry(rules=(error_rule("fatal", dead=True),)).encode(),
)  # fmt: skip

SELDOM = st.sampled_from((False, False, False, True))
picks = st.lists(st.integers(0, 5), min_size=1, max_size=3)  # counted from the newest
delays = st.sampled_from((0, 1, SECOND, 5 * SECOND, 40 * SECOND))
new_jobs = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "type": st.sampled_from(("x", "y")),
        "priority": st.sampled_from((0, 0, 1, -1)),
        "wait": st.sampled_from((None, None, None, 0, SECOND, 40 * SECOND)),
        "chain": st.booleans(),
        "max_attempts": st.sampled_from((0, 1, 2, 3)),
        "max_lost": st.sampled_from((0, 1, 2)),
        "retry_policy": st.sampled_from(POLICIES),
        "idempotency_key": st.sampled_from((None, None, None, *KEYS)),
        "dedupe_key": st.sampled_from((None, None, None, *KEYS)),
        "on_duplicate": st.sampled_from(("ignore", "ignore", "touch", "replace", "raise")),
        "key_life": st.none() | delays,
        "group_id": st.none() | st.just("g"),
        "limit_keys": st.sampled_from(((), (), ("l1",), ("l1", "l2"), ("l2",))),
        "org_id": st.sampled_from((None, None, "o", "p")),
        "tags": st.sampled_from(((), (), ("t",), ("t", "s"))),
        "on_unknown": st.sampled_from(("wait", "wait", "dead")),
        "payload": st.sampled_from((b"{}", b"[1]")),
        "history": st.sampled_from(("full", "failures")),
    }
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, st.sampled_from((None, b"1"))),
    st.builds(Failed, st.sampled_from(("boom", "bang")), st.sampled_from(((), ("fatal",))), st.none() | delays),
    st.builds(Rejected, st.just("no")),
    st.builds(Snoozed, delays),
    st.just(Released()),
    st.just(WasCancelled()),
)


def differential(make_driver: Callable[[], Driver], newest: Callable[[], int] | None = None) -> type[RuleBasedStateMachine]:
    """The state machine for drivers made by `make_driver`, each on a fresh store. `newest` answers the last number that the
    store has given to a job, where what was rolled back uses up numbers: memory then goes on from there, because places
    are made of numbers, and are compared between queues and with those of jobs that were moved."""

    class Differential(_Differential):
        def newest(self) -> int:
            return 0 if newest is None else newest()

        def make_driver(self) -> Driver:
            return make_driver()

    return Differential


class _Differential(
    FleetRules, GroupRules, ScheduleRules, OrderRules, LimitRules, AccessRules, ListingRules, WebhookRules, SoundRows
):
    # ---------------------------------------------------------------------------------------------------------- rules

    @rule(by=st.sampled_from((0, 1, SECOND, 7 * SECOND, 31 * SECOND, 100 * SECOND)))
    def time_passes(self, by: int) -> None:
        self.now += by

    @initialize(batch=st.lists(new_jobs, min_size=1, max_size=4), dense=st.booleans())
    def begin(self, batch: list[dict[str, Any]], dense: bool) -> None:
        self.positions = {queue: "dense" if dense and queue == "b" else "tail" for queue in QUEUES}
        self.both("alter", [PutQueue("b", "dense")] if dense else [], now=self.now)
        self.enqueue(batch)

    @rule(batch=st.lists(new_jobs, min_size=1, max_size=4))
    def enqueue(self, batch: list[dict[str, Any]]) -> None:
        self.both("enqueue", [self._new(dict(fields)) for fields in batch], now=self.now)

    def _new(self, fields: dict[str, Any]) -> NewJob:
        wait, life, chain = fields.pop("wait"), fields.pop("key_life"), fields.pop("chain")
        if fields["idempotency_key"] is not None:
            fields |= {
                "idempotency_scope": "s",
                "idempotency_expires_at": None if life is None else self.now + life,
            }
        if chain:
            fields |= {"retry_mode": "new_job", "crash_policy": "fail", "history": "full"}
        return NewJob(id=self.name("job"), run_at=None if wait is None else self.now + wait, **fields)

    @rule(
        queues=st.sampled_from((("a",), ("b",), ("b", "a"), ("a", "b"))),
        limit=st.sampled_from((1, 2, 5)),
        types=st.sampled_from((None, None, None, ("x",))),
        unhandled=SELDOM,
        worker=st.sampled_from(WORKERS),
        start=st.booleans(),
        reclaim=st.sampled_from((True, True, False)),
    )
    def claim(self, worker: str, **fields: Any) -> None:
        wish = Claim(lease_for=30 * SECOND, worker_id=worker, token=self.name("token"), **fields)
        mine, theirs = self.both("claim", wish, now=self.now)
        self.held += zip(mine, theirs, strict=True)

    @precondition(lambda self: self.held)
    @rule(
        chosen=picks,
        token=st.sampled_from((None, None, "wrong")),
        began=st.booleans(),
        progress=st.sampled_from((None, 0.5)),
        by_id=st.booleans(),
    )
    def extend(self, chosen: list[int], token: str | None, began: bool, progress: float | None, by_id: bool) -> None:
        pairs = _pick(self.held, chosen)

        def renewals(side: int) -> list[Renewal]:
            jobs = [pair[side] for pair in pairs]
            start = self.now if began else None
            return [Renewal(job.id if by_id else job.handle, token or job.token, start, progress) for job in jobs]

        self.both("extend", renewals(0), theirs=(renewals(1),), lease_for=30 * SECOND, now=self.now)

    @precondition(lambda self: self.held)
    @rule(
        chosen=picks,
        ends=st.lists(outcomes, min_size=3, max_size=3),
        began=st.booleans(),
        ago=st.sampled_from((0, 0, SECOND, 70 * SECOND)),
        token=st.sampled_from((None, None, None, "wrong")),
        by_id=st.booleans(),
    )
    def settle(self, chosen: list[int], ends: list[Outcome], began: bool, ago: int, token: str | None, by_id: bool) -> None:
        changes: list[Change] = []
        for (mine, theirs), end in zip(_pick(self.held, chosen), ends, strict=False):
            at = self.now - ago
            change = settle(mine, end, Execution(at, at if began else None, self.name("link")))
            change = announced(self.subscribed(), mine, change)
            change = replace(change, token=token or change.token, handle=mine.id if by_id else mine.handle)
            changes.append((change, replace(change, handle=theirs.id if by_id else theirs.handle)))
        self._settle(changes)
        self.sent += changes

    @precondition(lambda self: self.sent)
    @rule(chosen=picks)
    def settle_again(self, chosen: list[int]) -> None:
        """A lost reply: the same call once more, maybe much later."""
        self._settle(_pick(self.sent, chosen))

    def _settle(self, changes: list[Change]) -> None:
        answers, _ = self.both("settle", [c[0] for c in changes], theirs=([c[1] for c in changes],), now=self.now)
        if isinstance(answers, list):
            self.acked.update(
                c[0].token + str(c[0].handle) for c, a in zip(changes, answers, strict=True) if a == "applied"
            )
            self.ended_unkept([c[0] for c, a in zip(changes, answers, strict=True) if a == "applied"])

    @rule(limit=st.sampled_from((1, 10)), twice=st.booleans())
    def recover(self, limit: int, twice: bool) -> None:
        (_, mine), (_, theirs) = self.both("expire", now=self.now, limit=limit)
        run = [Execution(at=self.now, child_id=self.name("link")) for _ in mine]
        hooks = self.subscribed()
        changes = [announced(hooks, job, recover(job, r)) for job, r in zip(mine, run, strict=True)]
        others = [announced(hooks, job, recover(job, r)) for job, r in zip(theirs, run, strict=True)]
        for _ in range(2 if twice else 1):
            self.both("settle", changes, theirs=(others,), now=self.now)

    @rule(pick=st.integers(0, 30), what=st.sampled_from(("cancel", "replay", "keep", "now", "delete", "top", "bottom")))
    def people(self, pick: int, what: str) -> None:
        jobs = sorted(self.before)
        job_id = jobs[pick % len(jobs)] if jobs else "nobody"
        change: Alteration
        match what:
            case "cancel":
                change = Cancel(job_id)
            case "now":
                change = RunNow(job_id)
            case "delete":
                change = Delete(job_id)
            case "top" | "bottom":
                change = Move(job_id, what)
            case _:
                change = Replay(job_id, self.name("manual"), reset_attempts=what == "replay")
        [answer], _ = self.both("alter", [change], now=self.now)
        if isinstance(change, Replay) and answer == "applied":
            self.replayed.add(job_id)
        self._forget()

    @rule(
        change=st.one_of(
            st.builds(SetPaused, st.sampled_from(QUEUES), SELDOM),
            st.builds(Revoke, st.sampled_from((*WORKERS, "nobody"))),
            st.builds(lambda total, rule: PutGroup("g", total, on_failure=rule), st.sampled_from((1, 2, 5)), ON_FAILURE),
        )
    )
    def configure(self, change: Alteration) -> None:
        self.both("alter", [change], now=self.now)

    def gone(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Jobs that went, and of their runs those that nobody counted."""
        jobs = {job.id for job in self._jobs(self.spec)}
        self.before = {job_id: job for job_id, job in self.before.items() if job_id in jobs}
        self.ended = {run.run_id: run for run in self.ended.values() if run.job_id in jobs or not self.uncounted(run)}

    # ----------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def both_hold_the_same(self) -> None:
        jobs = self._jobs(self.spec)
        for mine, other in zip(ranked(jobs), ranked(self._jobs(self.driver)), strict=True):
            assert mine == other, difference(mine, other)
        for query in (AllQueues(), AllGroups(), AllLimits()):
            self.both("read", query)
        self.both("count", now=self.now)
        self.both("waiting_types", None, limit=3)
        for job in jobs:
            self.both("runs", job.id)


T = TypeVar("T")


def _pick(items: list[T], chosen: list[int]) -> list[T]:
    return [items[-1 - number % len(items)] for number in chosen]
