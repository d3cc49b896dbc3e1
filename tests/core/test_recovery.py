"""A lapsed lease → what becomes of the job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core import rows
from windlass.core.alterations import Replay
from windlass.core.changes import Ack, Cancelled, CountMember, Expire, Fail, Retry, RetryChild, effect_of
from windlass.core.eligibility import is_expired, needs_decision
from windlass.core.guards import judge
from windlass.core.recovery import CRASH_ERROR, reconcile, recover
from windlass.core.settle import Execution
from windlass.policies import Retry as Policy
from windlass.policies import fixed
from windlass.types import Job, RunStatus

from .make import FENCE, LEASE, NOW, claimed, new, queued, running

LATER = NOW + LEASE
RUN = Execution(LATER, child_id="job-2")
OWNED: dict[str, Any] = {"group_id": "g"}


def test_a_bare_job_is_taken_back_for_ever() -> None:
    change = recover(claimed(executions=1_000, lost=999), RUN)
    assert isinstance(change, Expire)
    assert change.lapsed


def test_taking_back_frees_the_permit_counts_the_loss_and_makes_the_job_due_at_once() -> None:
    change = recover(claimed(attempts=1, **OWNED), RUN)
    assert isinstance(change, Expire)
    assert change.riders == ()
    effect = effect_of(change)
    assert (effect.state, effect.run_status, effect.run_at, effect.keep_run_at) == ("queued", "failed", None, False)
    assert (effect.lost, effect.skipped, effect.attempts, effect.last_error) == (1, 0, None, None)


def test_a_loss_is_not_a_recorded_failure() -> None:
    change = recover(claimed(attempts=1), RUN)
    job = rows.settled(running(attempts=1, run_at=NOW), change, effect_of(change), LATER)
    assert (job.attempts, job.lost, job.failed_at, job.run_at, job.ready) == (1, 1, None, None, True)


@pytest.mark.parametrize(
    ("max_lost", "lost", "dead"), [(3, 0, False), (3, 1, False), (3, 2, True), (1, 0, True), (0, 9, False)]
)
def test_a_job_that_kills_its_workers_too_often_is_dead_as_lost(max_lost: int, lost: int, dead: bool) -> None:
    change = recover(claimed(max_lost=max_lost, lost=lost, executions=lost + 1, **OWNED), RUN)
    assert isinstance(change, Fail) is dead
    if isinstance(change, Fail):
        assert change.kind == "lost"
        assert f"{lost + 1} times" in change.reason
        assert change.riders == (CountMember("g", "failed"),)
        assert effect_of(change).lost == 1


@pytest.mark.parametrize(
    ("executions", "skipped", "dead"), [(1, 0, False), (2, 0, False), (3, 0, True), (4, 2, False), (4, 1, True)]
)
def test_a_maximum_of_executions_counts_the_lost_ones_but_not_the_skipped(
    executions: int, skipped: int, dead: bool
) -> None:
    change = recover(claimed(max_attempts=3, executions=executions, skipped=skipped), RUN)
    assert isinstance(change, Fail) is dead
    if isinstance(change, Fail):
        assert change.kind == "lost"
        assert "execution 3 of 3" in change.reason


def test_a_policy_may_leave_losses_out_of_the_maximum() -> None:
    policy = Policy(max_attempts=1, count_lost=False).encode()
    assert isinstance(recover(claimed(max_attempts=1, retry_policy=policy), RUN), Expire)
    assert isinstance(recover(claimed(max_attempts=1, retry_policy=policy, executions=50, lost=49), RUN), Expire)
    assert isinstance(recover(claimed(max_attempts=1, retry_policy=policy, max_lost=1), RUN), Fail)
    counting = Policy(max_attempts=1).encode()
    assert isinstance(recover(claimed(max_attempts=1, retry_policy=counting), RUN), Fail)


# ---------------------------------------------------------------------------------------------------- never run twice


def test_a_crash_of_a_never_twice_job_is_a_failure_with_a_retry_child() -> None:
    policy = Policy(max_attempts=4, backoff=fixed("10s")).encode()
    job = claimed(retry_mode="new_job", crash_policy="fail", max_attempts=4, retry_policy=policy, **OWNED)
    change = recover(job, RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.reason, change.attempts, change.lapsed) == ("superseded", CRASH_ERROR, 1, True)
    assert change.riders == (RetryChild("job-2", LATER + 10 * SECOND, 1),)
    assert effect_of(change).lost == 1


def test_a_crash_in_the_last_link_ends_the_chain() -> None:
    job = claimed(retry_mode="new_job", crash_policy="fail", max_attempts=4, attempts=3, **OWNED)
    change = recover(job, RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.reason, change.attempts) == ("exhausted", CRASH_ERROR, 4)
    assert change.riders == (CountMember("g", "failed"),)


def test_a_crash_under_the_fail_policy_goes_by_the_retry_policy_also_in_place() -> None:
    change = recover(claimed(crash_policy="fail", max_attempts=3), RUN)
    assert isinstance(change, Retry)
    assert (change.attempts, change.error, change.lapsed) == (1, CRASH_ERROR, True)
    assert effect_of(change).lost == 1


def test_max_lost_does_not_shorten_a_chain_that_counts_crashes_as_failures() -> None:
    job = claimed(retry_mode="new_job", crash_policy="fail", max_attempts=4, max_lost=1)
    change = recover(job, RUN)
    assert isinstance(change, Fail)
    assert change.kind == "superseded"


# ------------------------------------------------------------------------------------------- rows that others wrote


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize(("status", "kind", "ending"), [
    ("completed", Ack, "succeeded"), ("skipped", Cancelled, "cancelled"), ("failed", Fail, "failed"),
    (None, Fail, "failed"),
])  # fmt: skip
def test_a_job_that_ends_as_its_run_says_is_counted_in_its_group(
    status: RunStatus | None, kind: type, ending: str, late: int
) -> None:
    """And its lease is named as what it is: lapsed from the instant of its expiry."""
    last = replace(
        rows.run_of(running(), "run-1"), status=status, error="told", finished_at=None if status is None else NOW
    )
    change = reconcile(claimed(max_attempts=1, **OWNED), last, Execution(LATER - 1 + late))
    assert type(change) is kind
    assert change.riders == (CountMember("g", ending),)  # type: ignore[arg-type]
    assert change.lapsed is (late == 1)


# ---------------------------------------------------------------------------------------------- the sweep and the claim

SMALL = st.integers(0, 4)


@given(
    max_lost=SMALL, lost=SMALL, max_attempts=SMALL, executions=st.integers(1, 5), skipped=SMALL,
    fail=st.booleans(),
)  # fmt: skip
def test_what_a_claim_takes_back_by_itself_is_what_recovery_would_take_back(
    max_lost: int, lost: int, max_attempts: int, executions: int, skipped: int, fail: bool
) -> None:
    skipped = min(skipped, executions - 1)
    job = running(
        max_lost=max_lost, lost=lost, max_attempts=max_attempts, executions=executions, skipped=skipped,
        crash_policy="fail" if fail else "requeue",
    )  # fmt: skip
    change = recover(rows.as_claimed(job, "run-1", 1), RUN)
    assert isinstance(change, Expire) is not needs_decision(job)


def test_recovery_run_twice_changes_nothing() -> None:
    job = running()
    change = recover(rows.as_claimed(job, "run-1", 1), RUN)
    after = rows.settled(job, change, effect_of(change), LATER)
    assert judge(job, token=FENCE, outcome="expire", lapsed=True, now=LATER) == "applied"
    assert judge(after, token=FENCE, outcome="expire", lapsed=True, now=LATER) == "repeated"
    assert not is_expired(after, LATER)


def losses(job: Job) -> tuple[int, Job]:
    """Lose every execution of a job until it stays where it is."""
    for turn in range(1, 60):
        now = NOW + turn * LEASE
        job = rows.claimed(job, token=f"t{turn}", worker_id="w", lease_for=LEASE, start=True, now=now)
        change = recover(rows.as_claimed(job, "run-1", 1), Execution(now + LEASE))
        job = rows.settled(job, change, effect_of(change), now + LEASE)
        if job.state != "queued":
            return turn, job
    return 0, job


@pytest.mark.parametrize(
    ("fields", "starts"),
    [({"max_lost": 3}, 3), ({"max_lost": 1}, 1), ({"max_attempts": 1, "max_lost": 3}, 1), ({"max_attempts": 25}, 25),
     ({"max_attempts": 6, "max_lost": 3}, 3), ({}, 0)],
)  # fmt: skip
def test_a_poison_pill_stops_at_its_first_limit(fields: dict[str, int], starts: int) -> None:
    turns, job = losses(rows.enqueued(new(**fields), seq=1, position=100, now=NOW))
    assert turns == starts
    if starts:
        assert (job.state, job.dead_kind, job.lost) == ("dead", "lost", starts)


def test_a_replayed_job_has_its_whole_allowance_again() -> None:
    dead = queued(state="dead", executions=4, skipped=1, attempts=3, lost=2, max_attempts=3, finished_at=NOW)
    again = rows.replayed(dead, Replay("job-1", "job-2"), LATER)
    assert (again.state, again.attempts, again.lost, again.executions - again.skipped) == ("queued", 0, 0, 0)
    assert losses(again)[0] == 3
    kept = rows.replayed(dead, Replay("job-1", "job-2", reset_attempts=False), LATER)
    assert losses(kept)[0] == 1
