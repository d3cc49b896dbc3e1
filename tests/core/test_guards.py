"""The fence: who may settle a job, and what a repeated call is told."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.changes import Answer, Outcome
from windlass.core.guards import BRINGS_BACK, is_repeat, judge, rounds
from windlass.types import STATES, TERMINAL, Job, State

from .make import FENCE, LEASE, NOW, OTHER_FENCE, queued, running

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
EXPIRY = NOW + LEASE
BEFORE, AT, AFTER = EXPIRY - 1, EXPIRY, EXPIRY + 1


def in_state(state: State, **fields: object) -> Job:
    if state == "running":
        return replace(running(), **fields)
    ended = {"finished_at": NOW} if state in TERMINAL else {}
    return replace(queued(), state=state, **ended, **fields)


def asked(job: Job | None, outcome: Outcome | None, fence: str = FENCE, now: int = BEFORE, lapsed: bool = False) -> Answer:
    return judge(job, token=fence, outcome=outcome, lapsed=lapsed, now=now)


# ----------------------------------------------------------------------------------------------- first calls, no repeat


@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
@pytest.mark.parametrize("fence", [FENCE, OTHER_FENCE])
@pytest.mark.parametrize("now", [BEFORE, AT, AFTER])
def test_a_running_job_obeys_its_own_token_until_the_instant_of_expiry(
    outcome: Outcome | None, fence: str, now: int
) -> None:
    expected = "expired" if now >= EXPIRY else "applied" if fence == FENCE else "mismatch"
    assert asked(running(), outcome, fence, now) == expected


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("fence", [FENCE, OTHER_FENCE])
@pytest.mark.parametrize("now", [BEFORE, AT, AFTER])
def test_recovery_closes_only_the_lease_it_saw_and_only_once_that_has_lapsed(
    outcome: Outcome, fence: str, now: int
) -> None:
    expected = "mismatch" if fence != FENCE else "applied" if now >= EXPIRY else "not_lapsed"
    assert asked(running(), outcome, fence, now, lapsed=True) == expected


@pytest.mark.parametrize("state", [s for s in STATES if s != "running"])
@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
@pytest.mark.parametrize("lapsed", [False, True])
def test_a_job_that_is_not_running_has_no_lease_to_act_on(state: State, outcome: Outcome | None, lapsed: bool) -> None:
    assert asked(in_state(state), outcome, lapsed=lapsed) == "not_inflight"


@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
def test_an_unknown_job_is_not_inflight(outcome: Outcome | None) -> None:
    assert asked(None, outcome) == "not_inflight"


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("lapsed", [False, True])
def test_a_job_that_never_runs_twice_ends_and_is_not_brought_back(outcome: Outcome, lapsed: bool) -> None:
    expected = "never_twice" if outcome in BRINGS_BACK else "applied"
    job = running(retry_mode="new_job")
    assert asked(job, outcome, now=AFTER if lapsed else BEFORE, lapsed=lapsed) == expected
    assert asked(job, None) == "applied"


@pytest.mark.parametrize("outcome", [*OUTCOMES, None])
def test_a_row_that_runs_without_a_lease_obeys_nobody(outcome: Outcome | None) -> None:
    """As others may write it."""
    assert asked(running(lease_expires_at=None, lease_token=None), outcome) == "not_inflight"


def test_a_stale_token_cannot_settle() -> None:
    taken_over = running(lease_token=OTHER_FENCE, last_token=FENCE, last_outcome="expire")
    assert asked(taken_over, "ack") == "mismatch"
    assert asked(taken_over, None) == "mismatch"


def test_not_inflight_comes_before_expired_and_expired_before_mismatch() -> None:
    assert asked(queued(lease_expires_at=EXPIRY), "ack", OTHER_FENCE, AFTER) == "not_inflight"
    assert asked(running(), "ack", OTHER_FENCE, AFTER) == "expired"


# -------------------------------------------------------------------------------------------------------------- repeats


@pytest.mark.parametrize("mode", ["same_job", "new_job"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("said", OUTCOMES)
@pytest.mark.parametrize("again", OUTCOMES)
def test_a_repeat_is_the_same_outcome_again_or_fail_after_ack_but_never_a_retry_of_a_finished_job(
    state: State, said: Outcome, again: Outcome, mode: str
) -> None:
    """Or what would have brought a job back that was cancelled instead, or made the next link: its worker cannot know."""
    job = in_state(state, last_token=FENCE, last_outcome=said, retry_mode=mode)
    if state == "running":
        job = replace(job, lease_token=OTHER_FENCE)
    same = said == again or (said, again) == ("ack", "fail")
    expected = same and not (again == "retry" and state in TERMINAL)
    expected |= state == said == "cancelled" and (again in BRINGS_BACK or (again, mode) == ("fail", "new_job"))
    assert is_repeat(job, FENCE, again) is expected
    refused = "mismatch" if state == "running" else "not_inflight"
    assert asked(job, again) == ("repeated" if expected else refused)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_another_token_never_repeats(outcome: Outcome) -> None:
    job = in_state("dead", last_token=FENCE, last_outcome=outcome)
    assert asked(job, outcome, OTHER_FENCE) == "not_inflight"


@pytest.mark.parametrize("state", [s for s in STATES if s != "running"])
@pytest.mark.parametrize("said", OUTCOMES)
def test_extending_is_never_a_repeat(state: State, said: Outcome) -> None:
    assert asked(in_state(state, last_token=FENCE, last_outcome=said), None) == "not_inflight"


def test_a_lost_reply_of_retry_is_answered_also_when_the_job_runs_elsewhere_by_now() -> None:
    elsewhere = running(lease_token=OTHER_FENCE, last_token=FENCE, last_outcome="retry")
    assert asked(elsewhere, "retry") == "repeated"
    assert asked(elsewhere, "retry", now=AFTER) == "repeated"
    assert asked(elsewhere, "ack") == "mismatch"


def test_ack_after_fail_is_no_repeat() -> None:
    assert asked(in_state("dead", last_token=FENCE, last_outcome="fail"), "ack") == "not_inflight"


# --------------------------------------------------------------------------------------------------------------- rounds


def test_units_for_one_row_go_into_successive_rounds() -> None:
    items = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]
    assert rounds(items) == [[("a", 1), ("b", 2)], [("a", 3), ("b", 5)], [("a", 4)]]
    assert rounds([]) == []


@given(st.lists(st.integers(0, 4)))
def test_no_round_names_a_row_twice_and_each_row_keeps_its_order(keys: list[int]) -> None:
    out = rounds((key, index) for index, key in enumerate(keys))
    for turn in out:
        assert len({key for key, _ in turn}) == len(turn)
        assert [index for _, index in turn] == sorted(index for _, index in turn)
    for key in set(keys):
        assert [i for turn in out for k, i in turn if k == key] == [i for i, k in enumerate(keys) if k == key]
    assert sum(map(len, out)) == len(keys)
    assert all(out)
