"""Which jobs may be claimed, and in what order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.eligibility import (
    dispatch_order,
    goes_on_at,
    is_due,
    is_expired,
    is_free,
    is_promotable,
    is_wanted,
    label_of,
    needs_decision,
)
from windlass.core.positions import renormalised
from windlass.types import LABELS, Job

from .make import LEASE, NOW, queued, running

SMALL = st.integers(-2, 2)
JOBS = st.lists(st.tuples(SMALL, SMALL, st.integers(0, 2)), max_size=12).map(
    lambda rows: [
        queued(id=f"j{seq}", seq=seq, priority=priority, position=position, created_at=NOW + created)
        for seq, (priority, position, created) in enumerate(rows)
    ]
)


@given(JOBS, st.randoms(use_true_random=False))
def test_the_order_is_priority_down_then_position_created_at_and_seq_up(jobs: list[Job], random: Any) -> None:
    expected = list(jobs)  # a plain stable sort, one key at a time, least important first
    expected.sort(key=lambda j: j.seq)
    expected.sort(key=lambda j: j.created_at)
    expected.sort(key=lambda j: j.position)
    expected.sort(key=lambda j: j.priority, reverse=True)
    shuffled = list(jobs)
    random.shuffle(shuffled)
    assert sorted(shuffled, key=dispatch_order) == expected


@given(JOBS)
def test_the_order_is_total(jobs: list[Job]) -> None:
    assert len({dispatch_order(job) for job in jobs}) == len(jobs)


@given(JOBS)
def test_fresh_positions_do_not_change_the_order(jobs: list[Job]) -> None:
    before = sorted(jobs, key=dispatch_order)
    after = [replace(job, position=p) for job, p in zip(before, renormalised(len(before)), strict=True)]
    assert [job.id for job in sorted(after, key=dispatch_order)] == [job.id for job in before]


def test_equal_priorities_in_tail_position_are_first_in_first_out() -> None:
    jobs = [queued(seq=n, position=100 * n) for n in (1, 2, 3)]
    assert sorted([jobs[2], jobs[0], jobs[1]], key=dispatch_order) == jobs


@pytest.mark.parametrize(("run_at", "due"), [(None, True), (NOW - 1, True), (NOW, True), (NOW + 1, False)])
def test_a_job_is_due_at_the_very_instant_it_names(run_at: int | None, due: bool) -> None:
    assert is_due(run_at, NOW) is due


@pytest.mark.parametrize(("offset", "expired"), [(-1, False), (0, True), (1, True)])
def test_a_lease_is_expired_at_the_very_instant_it_names(offset: int, expired: bool) -> None:
    assert is_expired(running(), NOW + LEASE + offset) is expired


def test_only_a_running_job_can_expire() -> None:
    assert not is_expired(queued(), NOW + 10 * LEASE)


@pytest.mark.parametrize("waiting_on", [0, 1])
@pytest.mark.parametrize("parked_on", [None, "key:x"])
def test_only_time_may_keep_a_free_job_waiting(waiting_on: int, parked_on: str | None) -> None:
    job = queued(ready=False, run_at=NOW, waiting_on=waiting_on, parked_on=parked_on)
    assert is_free(job) is (waiting_on == 0 and parked_on is None)
    assert is_promotable(job, NOW) is is_free(job)
    assert not is_promotable(job, NOW - 1)


def test_a_job_that_is_ready_or_not_queued_needs_no_promotion() -> None:
    assert not is_promotable(queued(ready=True), NOW)
    assert not is_promotable(running(ready=False), NOW)
    assert not is_promotable(queued(ready=False, state="cancelled"), NOW)


@pytest.mark.parametrize(
    ("fields", "decide"),
    [
        ({}, False),
        ({"crash_policy": "fail"}, True),
        ({"cancel_requested_at": NOW}, True),
        ({"max_lost": 3, "lost": 1}, False),
        ({"max_lost": 3, "lost": 2}, True),
        ({"max_lost": 1, "lost": 0}, True),
        ({"max_lost": 0, "lost": 99}, False),
        ({"max_attempts": 3, "executions": 2}, False),
        ({"max_attempts": 3, "executions": 3}, True),
        ({"max_attempts": 3, "executions": 4, "skipped": 2}, False),
        ({"max_attempts": 3, "executions": 4, "skipped": 1}, True),
        ({"max_attempts": 0, "executions": 99, "lost": 98}, False),
    ],
)
def test_a_claim_takes_back_by_itself_only_what_simply_returns_to_the_queue(fields: dict[str, Any], decide: bool) -> None:
    assert needs_decision(running(**fields)) is decide


@pytest.mark.parametrize(
    ("job", "label"),
    [
        (queued(), "queued"),
        (queued(run_at=NOW), "queued"),
        (queued(run_at=NOW + 1), "scheduled"),
        (queued(waiting_on=1), "blocked"),
        (queued(waiting_on=1, parked_on="key:x", run_at=NOW + 1), "blocked"),
        (queued(parked_on="key:x"), "parked"),
        (queued(parked_on="key:x", run_at=NOW + 1), "parked"),
        (running(started_at=None), "claimed"),
        (running(), "running"),
        (running(waiting_on=1, parked_on="key:x"), "running"),
        (queued(state="succeeded"), "succeeded"),
        (queued(state="dead"), "dead"),
        (queued(state="cancelled", run_at=NOW + 1), "cancelled"),
    ],
)
def test_a_label_says_what_keeps_a_job_waiting_and_whether_a_leased_one_has_begun(job: Job, label: str) -> None:
    assert label_of(job, NOW) == label
    assert label in LABELS


@pytest.mark.parametrize("on_unknown", ["wait", "dead"])
def test_a_claim_wants_its_types_and_when_it_has_no_handler_only_what_is_to_die(on_unknown: Any) -> None:
    job = queued(type="mail", on_unknown=on_unknown)
    assert is_wanted(job, None, unhandled=False)
    assert is_wanted(job, ("mail", "other"), unhandled=False)
    assert not is_wanted(job, ("other",), unhandled=False)
    assert not is_wanted(job, (), unhandled=False)
    assert is_wanted(job, ("mail",), unhandled=True) == is_wanted(job, None, unhandled=True) == (on_unknown == "dead")
    assert not is_wanted(job, ("other",), unhandled=True)


def test_only_a_lease_can_have_lapsed() -> None:
    """Rows that somebody else wrote may say anything: an expiry without a lease, a lease without an expiry."""
    assert is_expired(running(lease_expires_at=NOW), NOW)
    assert not is_expired(queued(lease_expires_at=NOW), NOW)
    assert not is_expired(running(lease_expires_at=None), NOW)


def test_a_claim_that_goes_on_keeps_its_moment_for_a_sixth_of_its_lease() -> None:
    assert goes_on_at(NOW, 60, 10) == NOW
    assert goes_on_at(NOW, 60, 11) == NOW + 11
