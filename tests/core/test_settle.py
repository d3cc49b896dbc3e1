"""The outcome of one execution → the settlement that records it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import SECOND
from windlass.core import rows
from windlass.core.changes import (
    ERROR_LIMIT,
    Ack,
    Cancelled,
    CountMember,
    Ending,
    Expire,
    Fail,
    Release,
    Report,
    Retry,
    RetryChild,
    Rider,
    Settlement,
    Snooze,
    effect_of,
    storable,
)
from windlass.core.settle import (
    Execution,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    WasCancelled,
    decide_failure,
    honour_cancel,
    settle,
)
from windlass.errors import InvalidInput
from windlass.policies import Retry as Policy
from windlass.policies import error_types, fixed, rule
from windlass.presets import PRESETS
from windlass.types import Job, NewJob, RetryMode

from .make import FENCE, LEASE, NOW, claimed, new, queued

END = NOW + 5 * SECOND
RUN = Execution(END, started_at=NOW + 1, child_id="job-2", report=Report(exit_code=3))
OWNED: dict[str, Any] = {"group_id": "g"}
BACKOFF = Policy(max_attempts=3, backoff=fixed("7s")).encode()


def kinds(riders: tuple[Rider, ...]) -> set[type]:
    return {type(rider) for rider in riders}


# ------------------------------------------------------------------------------------------- every outcome, both modes

OUTCOMES: list[tuple[Outcome, type, type, Ending | None, Ending | None]] = [
    # outcome, settlement on same_job and on new_job, and what the group counts on each
    (Succeeded(b"1"), Ack, Ack, "succeeded", "succeeded"),
    (Failed("boom"), Retry, Fail, None, None),
    (Rejected("no"), Fail, Fail, "failed", "failed"),
    (Snoozed(SECOND), Snooze, Fail, None, None),
    (Released(), Release, Fail, None, None),
    (WasCancelled("stop"), Cancelled, Cancelled, "cancelled", "cancelled"),
]


@pytest.mark.parametrize("mode", ["same_job", "new_job"])
@pytest.mark.parametrize("case", OUTCOMES, ids=lambda case: type(case[0]).__name__)
@pytest.mark.parametrize("group_id", [None, "g"])
def test_every_outcome_settles_under_the_jobs_own_fence_with_the_riders_it_owes(
    mode: RetryMode,
    case: tuple[Outcome, type, type, Ending | None, Ending | None],
    group_id: str | None,
) -> None:
    outcome, same, fresh, counted_same, counted_fresh = case
    job = claimed(retry_mode=mode, retry_policy=BACKOFF, max_attempts=3, group_id=group_id)
    change = settle(job, outcome, RUN)
    assert type(change) is (same if mode == "same_job" else fresh)
    assert (change.handle, change.token, change.at, change.started_at) == (job.handle, FENCE, END, NOW + 1)
    assert change.report == Report(exit_code=3)
    assert not change.lapsed

    ending = counted_same if mode == "same_job" else counted_fresh
    owed: list[Rider] = []
    if group_id is not None and ending is not None:
        owed.append(CountMember("g", ending))
    assert [r for r in change.riders if not isinstance(r, RetryChild)] == owed
    has_child = mode == "new_job" and isinstance(outcome, Failed | Snoozed | Released)
    assert (RetryChild in kinds(change.riders)) is has_child


def test_success_keeps_the_result() -> None:
    change = settle(claimed(), Succeeded(b"42"), RUN)
    assert isinstance(change, Ack)
    assert change.result == b"42"
    assert effect_of(change).finished_at == END


def test_a_cancelled_run_is_skipped_and_spends_no_attempt() -> None:
    effect = effect_of(settle(claimed(attempts=1), WasCancelled("stop"), RUN))
    assert (effect.state, effect.run_status, effect.skipped, effect.attempts) == ("cancelled", "skipped", 1, None)
    assert effect.error == effect.last_error == "stop"


# ------------------------------------------------------------------------------------------------------------ failures


def test_a_failed_job_goes_back_after_its_pause_with_one_attempt_more() -> None:
    change = settle(claimed(attempts=1, retry_policy=BACKOFF, max_attempts=3), Failed("boom"), RUN)
    assert isinstance(change, Retry)
    assert (change.run_at, change.attempts, change.error) == (END + 7 * SECOND, 2, "boom")
    effect = effect_of(change)
    assert (effect.state, effect.run_status, effect.failed_at, effect.last_error) == ("queued", "failed", END, "boom")


def test_the_pause_is_that_of_the_attempt_just_made() -> None:
    """Harmonyk increments first and then asks for the delay."""
    for attempts, pause in enumerate([1, 2, 4, 8, 16, 32, 60, 60]):
        change = settle(claimed(attempts=attempts), Failed("boom"), RUN)
        assert isinstance(change, Retry)
        assert change.run_at == END + pause * SECOND


def test_jitter_uses_the_roll_that_was_drawn_and_no_other() -> None:
    policy = Policy(backoff=fixed("8s"), jitter="full").encode()
    for roll, pause in [(0.0, 0), (0.25, 2), (0.75, 6)]:
        change = settle(claimed(retry_policy=policy), Failed("boom"), Execution(END, roll=roll))
        assert isinstance(change, Retry)
        assert change.run_at == END + pause * SECOND


@pytest.mark.parametrize(
    ("attempts", "executions", "skipped", "final"),
    [(0, 1, 0, False), (1, 2, 0, False), (2, 3, 0, True), (0, 3, 0, True), (0, 3, 1, False), (2, 9, 8, True),
     (5, 1, 0, True)],
)  # fmt: skip
def test_a_failure_is_final_when_failures_or_unskipped_executions_reach_the_maximum(
    attempts: int, executions: int, skipped: int, final: bool
) -> None:
    job = claimed(attempts=attempts, executions=executions, skipped=skipped, max_attempts=3)
    change = settle(job, Failed("boom"), RUN)
    assert isinstance(change, Fail) is final
    if isinstance(change, Fail):
        assert (change.kind, change.reason, change.attempts) == ("exhausted", "boom", attempts + 1)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_without_a_maximum_a_failure_is_never_final(attempts: int, executions: int) -> None:
    job = claimed(attempts=attempts, executions=executions, max_attempts=0)
    assert isinstance(settle(job, Failed("boom"), RUN), Retry)


def test_a_dead_job_keeps_its_last_error_reason_and_time() -> None:
    effect = effect_of(settle(claimed(max_attempts=1), Failed("boom"), RUN))
    assert (effect.state, effect.dead_kind, effect.dead_reason, effect.last_error) == (
        "dead",
        "exhausted",
        "boom",
        "boom",
    )
    assert effect.failed_at == effect.finished_at == END
    assert effect.attempts == 1


def test_a_handler_may_name_the_delay_itself_but_not_one_more_attempt() -> None:
    policy = Policy(max_attempts=3, backoff=fixed("7s"), jitter="full").encode()
    change = settle(claimed(retry_policy=policy, max_attempts=3), Failed("later", retry_in=3_600 * SECOND), RUN)
    assert isinstance(change, Retry)
    assert (change.run_at, change.attempts) == (END + 3_600 * SECOND, 1)
    last = claimed(retry_policy=policy, max_attempts=3, attempts=2)
    assert isinstance(settle(last, Failed("later", retry_in=0), RUN), Fail)


def test_a_delay_of_zero_is_a_delay() -> None:
    assert decide_failure(claimed(retry_policy=BACKOFF), Failed("now", retry_in=0), 0.0).delay == 0


# --------------------------------------------------------------------------------------------------------------- rules


def test_a_rule_may_end_a_job_at_once_whatever_is_left_of_its_allowance() -> None:
    policy = Policy(max_attempts=9, rules=(rule(ValueError, dead=True),)).encode()
    job = claimed(retry_policy=policy, max_attempts=9, **OWNED)
    change = settle(job, Failed("bad", error_types(UnicodeError())), RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.attempts) == ("rejected", 1)
    assert change.riders == (CountMember("g", "failed"),)
    assert isinstance(settle(job, Failed("bad", error_types(KeyError())), RUN), Retry)


def test_a_rule_that_says_dead_outweighs_the_delay_a_handler_names() -> None:
    policy = Policy(rules=(rule(ValueError, dead=True),)).encode()
    change = settle(claimed(retry_policy=policy), Failed("bad", error_types(ValueError()), retry_in=1), RUN)
    assert isinstance(change, Fail)


def test_a_rule_may_have_a_pause_of_its_own() -> None:
    policy = Policy(backoff=fixed("1s"), rules=(rule(OSError, backoff=fixed("9s")), rule(KeyError))).encode()
    for error, pause in [(ConnectionError(), 9), (KeyError(), 1), (ValueError(), 1)]:
        assert decide_failure(claimed(retry_policy=policy), Failed("x", error_types(error)), 0.0).delay == pause * SECOND


def test_a_rejected_job_is_dead_at_once_in_both_modes_and_has_no_child() -> None:
    for mode in ("same_job", "new_job"):
        change = settle(claimed(retry_mode=mode, max_attempts=9), Rejected("no handler for 'mail'"), Execution(END))
        assert isinstance(change, Fail)
        assert (change.kind, change.reason) == ("rejected", "no handler for 'mail'")
        assert change.riders == ()
        assert change.superseded_by is None


# -------------------------------------------------------------------------------------------------------------- chains


def test_a_failed_new_job_ends_superseded_and_leaves_a_child_with_one_attempt_more() -> None:
    job = claimed(retry_mode="new_job", attempts=1, retry_policy=BACKOFF, max_attempts=3, **OWNED)
    change = settle(job, Failed("boom"), RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.superseded_by, change.attempts, change.run_status) == (
        "superseded",
        "job-2",
        2,
        "failed",
    )
    assert change.riders == (RetryChild("job-2", END + 7 * SECOND, 2),)


def test_the_last_link_of_a_chain_is_dead_without_a_child() -> None:
    change = settle(claimed(retry_mode="new_job", attempts=2, max_attempts=3, **OWNED), Failed("boom"), RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.attempts) == ("exhausted", 3)
    assert change.riders == (CountMember("g", "failed"),)


def test_a_snoozed_new_job_goes_on_as_a_child_and_nothing_counts_as_failed() -> None:
    change = settle(claimed(retry_mode="new_job", attempts=1), Snoozed(60 * SECOND), RUN)
    assert isinstance(change, Fail)
    assert change.riders == (RetryChild("job-2", END + 60 * SECOND, 1),)
    effect = effect_of(change)
    assert (effect.run_status, effect.skipped, effect.attempts, effect.failed_at) == ("skipped", 1, None, None)
    assert effect.last_error is None


def test_a_released_new_job_counts_as_interrupted_because_its_id_must_never_run_again() -> None:
    change = settle(claimed(retry_mode="new_job", max_attempts=2), Released(), RUN)
    assert isinstance(change, Fail)
    assert (change.kind, change.reason, change.attempts) == ("superseded", "interrupted", 1)
    last = settle(claimed(retry_mode="new_job", max_attempts=1), Released(), RUN)
    assert isinstance(last, Fail)
    assert last.kind == "exhausted"


@pytest.mark.parametrize("outcome", [Failed("boom"), Snoozed(1), Released()])
def test_a_chain_needs_an_id_for_its_next_link(outcome: Outcome) -> None:
    with pytest.raises(InvalidInput, match="child_id"):
        settle(claimed(retry_mode="new_job"), outcome, Execution(END))


def test_a_child_inherits_the_work_but_not_the_idempotency_key() -> None:
    parent = queued(
        idempotency_key="k", idempotency_scope="s", dedupe_key="d", group_id="g", group_seq=4, limit_keys=("key:a",),
        payload=b"[1]", priority=7, retry_mode="new_job", crash_policy="fail", max_attempts=4, template_id="t",
    )  # fmt: skip
    child = rows.child_of(parent, RetryChild("job-2", END, 2), seq=9, position=900, now=NOW)
    assert (child.id, child.retry_of, child.attempts, child.run_at, child.ready) == ("job-2", "job-1", 2, END, False)
    assert (child.idempotency_key, child.idempotency_scope) == (None, None)
    for column in ("dedupe_key", "group_id", "group_seq", "limit_keys", "payload", "priority", "max_attempts", "type",
                   "retry_mode", "crash_policy", "template_id", "queue"):  # fmt: skip
        assert getattr(child, column) == getattr(parent, column)
    assert (child.executions, child.skipped, child.lost, child.manual) == (0, 0, 0, False)


# ------------------------------------------------------------------------------------------------- snooze and release


def test_snooze_and_release_never_spend_an_attempt() -> None:
    for outcome in (Snoozed(60 * SECOND), Released()):
        effect = effect_of(settle(claimed(attempts=2, max_attempts=3), outcome, RUN))
        assert (effect.state, effect.run_status, effect.attempts, effect.skipped) == ("queued", "skipped", None, 1)
        assert effect.failed_at is None


def test_a_snoozed_job_waits_and_a_released_one_keeps_its_time() -> None:
    snoozed, released = (settle(claimed(), outcome, RUN) for outcome in (Snoozed(60 * SECOND), Released()))
    assert effect_of(snoozed).run_at == END + 60 * SECOND
    assert effect_of(released).keep_run_at


# --------------------------------------------------------------------------- whole lives, played by the core alone


def play(first: NewJob, outcomes: list[Outcome] | None = None) -> tuple[list[Job], list[str]]:
    """Run a job until it has ended: every link of its chain as it was left, and the status of every run.

    After `outcomes` it always fails."""
    job, now, links, runs = rows.enqueued(first, seq=1, position=100, now=NOW), NOW, list[Job](), list[str]()
    script = iter(outcomes or [])
    for turn in range(200):
        now = max(now + SECOND, job.run_at or 0)
        job = rows.claimed(job, token=f"t{turn}", worker_id="w", lease_for=LEASE, start=True, now=now)
        run = rows.run_of(job, f"r{turn}")
        circumstances = Execution(now, child_id=f"{first.id}-{turn}", roll=0.5)
        change = settle(rows.as_claimed(job, run.run_id, 1), next(script, Failed("boom")), circumstances)
        effect = effect_of(change)
        runs.append(rows.closed(run, change, effect).status or "")
        job = rows.settled(job, change, effect, now)
        child = next((r for r in change.riders if isinstance(r, RetryChild)), None)
        if job.state != "queued":
            links.append(job)
            if child is None:
                return links, runs
            job = rows.child_of(job, child, seq=turn + 2, position=100 * (turn + 2), now=now)
    raise AssertionError("the job never ends")


def of_preset(name: str, limit: int | None) -> NewJob:
    preset = PRESETS[name]
    return new(
        retry_mode=preset.retry_mode, crash_policy=preset.crash_policy, max_attempts=preset.executions(limit),
        retry_policy=preset.retry(limit).encode(),
    )  # fmt: skip


@pytest.mark.parametrize("limit", [1, 3, 5])
@pytest.mark.parametrize(("name", "extra"), [("taskharbor", 0), ("orchestrator", 1), ("scheduler", 1), ("harmonyk", 1)])
def test_an_always_failing_job_runs_as_often_as_its_source_system_promises(name: str, extra: int, limit: int) -> None:
    links, runs = play(of_preset(name, limit))
    assert runs == ["failed"] * (limit + extra)
    assert links[-1].dead_kind == "exhausted"
    assert links[-1].attempts == limit + extra


@pytest.mark.parametrize(("name", "count"), [("taskharbor", 25), ("orchestrator", 4), ("scheduler", 4), ("harmonyk", 6)])
@pytest.mark.parametrize("unset", [None, 0])
def test_an_unset_maximum_is_the_default_of_its_source_system(name: str, count: int, unset: int | None) -> None:
    assert len(play(of_preset(name, unset))[1]) == count


def test_a_same_job_life_stays_one_row_and_a_new_job_life_runs_every_id_once() -> None:
    links, runs = play(of_preset("harmonyk", 3))
    assert [(link.executions, link.attempts) for link in links] == [(4, 4)]
    links, runs = play(of_preset("scheduler", 3))
    assert len(runs) == len(links) == 4
    assert [link.executions for link in links] == [1, 1, 1, 1]
    assert [link.attempts for link in links] == [1, 2, 3, 4]
    assert [link.dead_kind for link in links] == ["superseded"] * 3 + ["exhausted"]
    assert [link.retry_of for link in links] == [None, *(link.id for link in links[:-1])]
    assert [link.superseded_by for link in links] == [*(link.id for link in links[1:]), None]


@pytest.mark.parametrize("name", sorted(PRESETS))
@given(pauses=st.lists(st.sampled_from([Snoozed(SECOND), Released()]), max_size=6))
def test_snoozes_and_releases_in_between_leave_the_allowance_whole(name: str, pauses: list[Outcome]) -> None:
    spends = 0 if PRESETS[name].retry_mode == "same_job" else sum(isinstance(p, Released) for p in pauses)
    if spends >= 4:
        return
    links, runs = play(of_preset(name, 3), pauses)
    assert runs.count("failed") == PRESETS[name].executions(3)
    assert runs.count("skipped") == len(pauses) - spends
    assert links[-1].dead_kind == "exhausted"


def test_the_attempts_of_a_link_are_the_failed_links_of_its_chain() -> None:
    links, runs = play(of_preset("scheduler", 3), [Snoozed(1), Failed("x"), Snoozed(1), Snoozed(1), Failed("x")])
    failed = 0
    for link, status in zip(links, runs, strict=True):
        failed += status == "failed"
        assert link.attempts == failed


def test_a_life_that_ends_well_ends_at_once() -> None:
    links, runs = play(of_preset("scheduler", 3), [Failed("x"), Succeeded(b"1")])
    assert runs == ["failed", "completed"]
    assert [link.state for link in links] == ["dead", "succeeded"]


# ------------------------------------------------------------------------------------------------- a wish to cancel


def settled(mode: RetryMode, outcome: Outcome) -> Settlement:
    return settle(claimed(retry_mode=mode, max_attempts=3, **OWNED), outcome, RUN)


@pytest.mark.parametrize("mode", ["same_job", "new_job"])
@pytest.mark.parametrize("outcome", [Failed("boom"), Snoozed(1), Released()])
def test_a_job_that_was_asked_to_stop_never_comes_back(mode: RetryMode, outcome: Outcome) -> None:
    change = settled(mode, outcome)
    honoured = honour_cancel(change, cancel_requested=True, group_id="g")
    assert isinstance(honoured, Cancelled)
    assert honoured.riders == (CountMember("g", "cancelled"),)
    assert (honoured.handle, honoured.token, honoured.at, honoured.started_at, honoured.report) == (
        change.handle, change.token, change.at, change.started_at, change.report,
    )  # fmt: skip


def test_a_lapsed_lease_of_a_cancelled_job_ends_it_and_still_counts_as_lost() -> None:
    expire = Expire(handle=1, token=FENCE, at=END, lapsed=True, riders=())
    honoured = honour_cancel(expire, cancel_requested=True, group_id=None)
    assert isinstance(honoured, Cancelled)
    assert honoured.riders == ()
    assert honoured.lapsed
    assert effect_of(honoured).lost == 1


@pytest.mark.parametrize("mode", ["same_job", "new_job"])
@pytest.mark.parametrize("outcome", [Succeeded(), Rejected("no"), WasCancelled()])
def test_what_ends_a_job_anyway_stands_although_somebody_asked_to_cancel(mode: RetryMode, outcome: Outcome) -> None:
    change = settled(mode, outcome)
    assert honour_cancel(change, cancel_requested=True, group_id="g") is change


@pytest.mark.parametrize("outcome", [case[0] for case in OUTCOMES])
def test_without_a_wish_to_cancel_every_change_stands(outcome: Outcome) -> None:
    change = settled("new_job", outcome)
    assert honour_cancel(change, cancel_requested=False, group_id="g") is change


# ------------------------------------------------------------------------------------------------------ errors as text


def test_any_text_an_exception_may_carry_can_be_stored() -> None:
    assert storable("plain") == "plain"
    assert storable("a\x00b") == "a\\x00b"
    assert storable("a\udc80b") == "a\\udc80b"
    assert storable("grüße") == "grüße"
    assert len(storable("x" * (ERROR_LIMIT + 1))) == ERROR_LIMIT


@given(st.text(st.characters()))
def test_stored_text_always_encodes(text: str) -> None:
    assert "\x00" not in storable(text)
    storable(text).encode()
