"""Any driver against the memory driver, over random histories, as a Hypothesis state machine.

    TestMine = differential(lambda: MyDriver(fresh_place())).TestCase

After every step both stores must hold the same rows and both must have given the same answers. Because that is blind to
a mistake the two share, the machine also checks invariants of its own, which no driver is asked about.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.changes import (
    Alteration,
    Cancel,
    Delete,
    Move,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    Revoke,
    RunNow,
    SetPaused,
    Settlement,
)
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
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Claim, Driver, JobQuery, Renewal
from windlass.errors import WindlassError
from windlass.policies import Retry, fixed
from windlass.policies import rule as error_rule
from windlass.testing.comparison import difference, ranked, shown
from windlass.testing.model_fleet import WORKERS, FleetRules
from windlass.types import ACTIVE, TERMINAL, Claimed, Job, NewJob, Positions, Run

QUEUES = ("a", "b")
KEYS = ("k1", "k2")
POLICIES = (
    None, Retry(backoff=fixed(5)).encode(), Retry(backoff=fixed(0), count_lost=False).encode(),
    Retry(rules=(error_rule("fatal", dead=True),)).encode(),
)  # fmt: skip

Pair = tuple[Claimed, Claimed]  # the same lease as memory and as the driver under test gave it
Change = tuple[Settlement, Settlement]

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
        "on_unknown": st.sampled_from(("wait", "wait", "dead")),
        "payload": st.sampled_from((b"{}", b"[1]")),
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


class _Differential(FleetRules):
    def newest(self) -> int:
        raise NotImplementedError

    def make_driver(self) -> Driver:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.spec = MemoryDriver()
        self.driver = self.make_driver()
        self.now = 1_000_000 * SECOND
        self.names = 0
        self.positions: dict[str, Positions] = {}
        self.held: list[Pair] = []  # what both drivers leased, valid or not
        self.sent: list[Change] = []  # settlements that were sent once, for sending again
        self.replayed: set[str] = set()
        self.before: dict[str, Job] = {}
        self.ended: dict[str, Run] = {}
        self.acked: Counter[str] = Counter()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.driver.close())
        self.loop.run_until_complete(self.spec.close())
        self.loop.close()

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def both(self, method: str, *args: Any, theirs: tuple[Any, ...] | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Ask both drivers the same; they must answer, or refuse, alike."""
        self.spec._tables.last_seq = max(self.spec._tables.last_seq, self.newest())
        told = self._ask(self.spec, method, *args, **kwargs)
        answer = self._ask(self.driver, method, *(args if theirs is None else theirs), **kwargs)
        assert shown(answer) == shown(told), f"{method}: the driver says {answer}, memory says {told}"
        return told, answer

    def _ask(self, driver: Driver, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.loop.run_until_complete(getattr(driver, method)(*args, **kwargs))
        except WindlassError as error:
            return (type(error).__name__, getattr(error, "job_id", None))

    # ---------------------------------------------------------------------------------------------------------- rules

    @rule(by=st.sampled_from((0, 1, SECOND, 7 * SECOND, 31 * SECOND, 100 * SECOND)))
    def time_passes(self, by: int) -> None:
        self.now += by

    @initialize(batch=st.lists(new_jobs, min_size=1, max_size=4), dense=st.booleans())
    def begin(self, batch: list[dict[str, Any]], dense: bool) -> None:
        self.positions = {queue: "dense" if dense and queue == "b" else "tail" for queue in QUEUES}
        self.both("alter", [PutQueue("b", "dense")] if dense else [], now=self.now)
        self.enqueue(batch)

    @rule(queue=st.sampled_from(QUEUES), preset=st.none() | st.just("mail"))
    def describe(self, queue: str, preset: str | None) -> None:
        """How positions are given stays: numbers of the tail may have gaps in one driver and none in the other, so only
        within one kind is their order the same."""
        self.both("alter", [PutQueue(queue, self.positions[queue], preset)], now=self.now)

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
            fields |= {"retry_mode": "new_job", "crash_policy": "fail"}
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

    @rule(limit=st.sampled_from((1, 10)), twice=st.booleans())
    def recover(self, limit: int, twice: bool) -> None:
        (_, mine), (_, theirs) = self.both("expire", now=self.now, limit=limit)
        run = [Execution(at=self.now, child_id=self.name("link")) for _ in mine]
        changes = [recover(job, r) for job, r in zip(mine, run, strict=True)]
        others = [recover(job, r) for job, r in zip(theirs, run, strict=True)]
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
            st.builds(PutLimit, st.sampled_from(("l1", "l2")), st.none() | st.integers(0, 3)),
            st.builds(PutGroup, st.just("g"), st.sampled_from((1, 2, 5))),
        )
    )
    def configure(self, change: Alteration) -> None:
        self.both("alter", [change], now=self.now)

    def _forget(self) -> None:
        """Jobs that went, and of their runs those that nobody counted."""
        jobs = {job.id for job in self._jobs(self.spec)}
        self.before = {job_id: job for job_id, job in self.before.items() if job_id in jobs}
        self.ended = {run.run_id: run for run in self.ended.values() if run.job_id in jobs or not self.uncounted(run)}

    # ----------------------------------------------------------------------------------------------------- invariants

    def _jobs(self, driver: Driver) -> tuple[Job, ...]:
        page = self._ask(driver, "find", JobQuery(superseded=True, limit=10_000))
        jobs: tuple[Job, ...] = page.jobs
        return jobs

    @invariant()
    def both_hold_the_same(self) -> None:
        jobs = self._jobs(self.spec)
        for mine, other in zip(ranked(jobs), ranked(self._jobs(self.driver)), strict=True):
            assert mine == other, difference(mine, other)
        self.both("shared")
        self.both("count", now=self.now)
        self.both("waiting_types", None, limit=3)
        for job in jobs:
            self.both("runs", job.id)

    @invariant()
    def rows_are_sound(self) -> None:
        jobs = self._jobs(self.driver)
        active = Counter(job.dedupe_key for job in jobs if job.dedupe_key is not None and job.state in ACTIVE)
        assert all(count == 1 for count in active.values()), "two active jobs hold one dedupe key"
        automatic = Counter(job.retry_of for job in jobs if job.retry_of is not None and not job.manual)
        assert all(count == 1 for count in automatic.values()), "a failure has two automatic retries"
        for job in jobs:
            runs: list[Run] = self._ask(self.driver, "runs", job.id)
            _check_row(job, runs)
            if job.id not in self.replayed:  # a person may allow more
                _check_maxima(job)
            self._check_history(job, runs)
        assert all(count == 1 for count in self.acked.values()), "one lease was settled twice"
        self.check_usage()

    def _check_history(self, job: Job, runs: list[Run]) -> None:
        before = self.before.get(job.id)
        if before is not None and before != job:
            assert job.updated_at > before.updated_at, "a change that updated_at does not show"
            if before.state in TERMINAL and job.id not in self.replayed:
                assert (job.state, job.finished_at) == (before.state, before.finished_at), "a terminal state changed"
        self.before[job.id] = job
        for run in runs:
            if run.run_id in self.ended:
                assert run == self.ended[run.run_id], "an ended run changed"
            elif run.status is not None:
                self.ended[run.run_id] = run

    @invariant()
    def shared_rows_add_up(self) -> None:
        jobs = self._jobs(self.driver)
        shared = self._ask(self.driver, "shared")
        for limit in shared.limits:
            holders = sum(job.state == "running" and limit.key in job.limit_keys for job in jobs)
            assert limit.used == holders, f"{limit.key}: {limit.used} permits are out, {holders} jobs hold one"
            if limit.max_used is None or limit.used < limit.max_used:
                self._check_nobody_starves(limit.key, jobs)
        for group in shared.groups:
            assert group.total == group.remaining + group.succeeded + group.failed + group.cancelled
            assert (group.finished_at is not None) == (group.remaining == 0)

    def _check_nobody_starves(self, key: str, jobs: tuple[Job, ...]) -> None:
        """A job that waits for a key with room has a rival of its own queue and type that may take it."""
        free = {(job.queue, job.type) for job in jobs if job.state == "queued" and job.ready and key in job.limit_keys}
        for job in jobs:
            assert job.parked_on != key or (job.queue, job.type) in free, f"{job.id} waits for {key}, which has room"

    @invariant()
    def nothing_runs_early(self) -> None:
        for job in self._jobs(self.driver):
            if job.state == "running" and job.claimed_at is not None and job.run_at is not None:
                assert job.run_at <= job.claimed_at, f"{job.id} was claimed before its time"
            assert job.parked_on is None or job.run_at is None or job.run_at <= self.now, "parked before its time"


T = TypeVar("T")


def _pick(items: list[T], chosen: list[int]) -> list[T]:
    return [items[-1 - number % len(items)] for number in chosen]


def _check_row(job: Job, runs: list[Run]) -> None:
    assert (job.state == "running") == (job.lease_token is not None) == (job.lease_expires_at is not None)
    assert (job.state in TERMINAL) == (job.finished_at is not None)
    assert (job.state == "dead") == (job.dead_kind is not None) == (job.dead_at is not None)
    assert (job.dead_kind == "superseded") == (job.superseded_by is not None)
    assert len(runs) == job.executions, "executions are run rows"
    assert [run.status for run in runs[:-1]].count(None) == 0, "only the last run may be open"
    assert (bool(runs) and runs[-1].status is None) == (job.state == "running"), "running has an open run, others none"
    assert job.skipped >= sum(run.status == "skipped" for run in runs)
    assert job.retry_mode == "same_job" or job.executions <= 1, "a never-twice job ran twice"


def _check_maxima(job: Job) -> None:
    if job.max_attempts and job.retry_mode == "same_job" and job.lost == 0:
        assert job.executions - job.skipped <= job.max_attempts, "more executions than allowed"
    assert job.max_lost == 0 or job.crash_policy == "fail" or job.lost <= job.max_lost, "lost more often than allowed"
