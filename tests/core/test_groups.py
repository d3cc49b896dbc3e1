"""What the end of a member means for the others, and what the counters of a group say."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.changes import Ending
from windlass.core.groups import GroupStatus, Progress, comes_back, progress_of, sequence_rule, status_of, stays, stops
from windlass.types import Group, GroupMode, MemberCount, OnFailure

from .make import queued


def test_a_sequence_that_stops_cancels_what_comes_next() -> None:
    assert [sequence_rule(rule) for rule in ("stop", "continue", "skip")] == ["cancel", "continue", "continue"]


@pytest.mark.parametrize(
    ("mode", "on_failure", "ending", "stopped"),
    [
        ("parallel", "stop", "failed", True), ("parallel", "stop", "cancelled", False),
        ("parallel", "stop", "succeeded", False),
        ("sequential", "stop", "failed", True), ("sequential", "stop", "cancelled", True),
        ("sequential", "stop", "succeeded", False), ("sequential", "continue", "failed", False),
        ("parallel", "skip", "failed", False),
    ],
)  # fmt: skip
def test_a_failure_stops_the_others_where_that_is_wanted(
    mode: GroupMode, on_failure: OnFailure, ending: Ending, stopped: bool
) -> None:
    assert stops(mode, on_failure, ending) is stopped


def group(**fields: Any) -> Group:
    return Group(group_id="g", total=3, **fields)


@pytest.mark.parametrize(
    ("fields", "begun", "status"),
    [
        ({"remaining": 3}, False, "pending"), ({"remaining": 3}, True, "running"),
        ({"remaining": 2, "cancelled": 1}, False, "running"), ({"succeeded": 3}, True, "completed"),
        ({"failed": 3}, True, "failed"), ({"cancelled": 3}, False, "cancelled"),
        ({"succeeded": 2, "failed": 1}, True, "partial"), ({"failed": 1, "cancelled": 2}, True, "partial"),
        ({"succeeded": 2, "failed": 1, "on_failure": "skip"}, True, "completed"),
        ({"failed": 3, "on_failure": "skip"}, True, "completed"),
        ({"succeeded": 2, "cancelled": 1, "on_failure": "skip"}, True, "partial"),
    ],
)  # fmt: skip
def test_the_counters_say_how_a_group_is(fields: dict[str, Any], begun: bool, status: GroupStatus) -> None:
    assert status_of(group(**fields), begun=begun) == status


def test_progress_counts_the_members_of_this_group_and_forgives_where_failures_are_skipped() -> None:
    rows = [
        MemberCount(group_id="g", state="running", begun=True, jobs=1),
        MemberCount(group_id="g", state="queued", begun=False, jobs=9),
        MemberCount(group_id="other", state="running", begun=True, jobs=5),
    ]
    said: dict[str, Any] = {"total": 3, "succeeded": 0, "cancelled": 0, "running": 1, "waiting": 1}
    for on_failure, failed, skipped in (("stop", 1, 0), ("skip", 0, 1)):
        found = progress_of(group(remaining=2, failed=1, on_failure=on_failure), rows)
        assert found == Progress(status="running", failed=failed, skipped=skipped, **said)
    assert progress_of(group(remaining=3), rows[1:]).status == "pending", "others have begun"
    late = MemberCount(group_id="g", state="running", begun=True, jobs=7)
    assert progress_of(group(remaining=2, failed=1), [late]).waiting == 0, "rows are read later than counters"


def test_a_group_of_nobody_is_done() -> None:
    said: dict[str, Any] = {"status": "running", "succeeded": 0, "failed": 0, "skipped": 0, "cancelled": 0}
    assert Progress(total=4, running=1, waiting=2, **said).fraction == 0.25
    assert Progress(total=0, running=0, waiting=0, **said).fraction == 1.0


@pytest.mark.parametrize(
    ("fields", "back", "in_place"),
    [
        ({"state": "dead"}, True, True), ({"state": "dead", "retry_mode": "new_job"}, True, False),
        ({"state": "dead", "superseded_by": "job-2"}, False, True), ({"state": "cancelled"}, True, False),
        ({"state": "succeeded"}, False, False), ({"state": "queued"}, False, False),
    ],
)  # fmt: skip
def test_which_members_a_retry_of_their_group_runs_again(fields: dict[str, Any], back: bool, in_place: bool) -> None:
    job = queued(**fields)
    assert (comes_back(job), stays(job)) == (back, in_place)
