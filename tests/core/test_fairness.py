"""Whose turn it is among the orgs of a queue, and what they are charged."""

from __future__ import annotations

import pytest

from windlass.core.fairness import Share, Turns, due_for_ageing, is_past, served, share_of

from .make import NOW


def test_jobs_without_an_org_are_one_org_and_no_name_is_theirs() -> None:
    assert (share_of(None), share_of("a"), share_of("")) == ("", "=a", "=")


@pytest.mark.parametrize(
    ("before", "count", "after"),
    [
        (None, 2, Share(5.5, 6.0)), (Share(1.0, 3.0), 2, Share(5.5, 6.0)), (Share(4.0, 9.0), 1, Share(9.0, 9.5)),
    ],
)  # fmt: skip
def test_who_was_idle_begins_at_the_clock_and_nobody_before_his_finish(
    before: Share | None, count: int, after: Share
) -> None:
    assert served(before, clock=5.0, count=count, weight=2.0) == after


def test_a_row_that_ends_at_the_clock_tells_no_more_than_its_absence() -> None:
    assert [is_past(Share(0.0, finish), 5.0) for finish in (4.0, 5.0, 5.5)] == [True, True, False]


def turns() -> Turns:
    """The clock is at 5: `idle` is behind it, `ahead` has had more, `new` has no row."""
    return Turns({"idle": Share(1.0, 2.0), "ahead": Share(5.0, 7.0)}, {"ahead": 2.0})


def test_an_org_starts_at_its_finish_or_at_the_clock_and_after_what_it_was_offered() -> None:
    one = turns()
    assert [one.start(name) for name in ("idle", "ahead", "new")] == [5.0, 7.0, 5.0]
    assert [one.start(name, 3) for name in ("idle", "ahead", "new")] == [8.0, 8.5, 8.0]
    one.offered["ahead"] += 1
    assert [one.start(name, 3) for name in ("idle", "ahead", "new")] == [8.0, 9.0, 8.0]


def test_many_are_looked_at_as_one_by_one() -> None:
    one, waiting = turns(), ["new", "ahead", "idle"]
    for _ in range(2):
        assert one.heads(waiting) == [(one.start(name), name) for name in waiting]
        one.offered.update(["new", "new", "ahead"])


def test_the_earliest_start_is_served_and_of_equals_the_first_name() -> None:
    one = turns()
    assert one.next([]) is None
    assert (one.next(["new", "ahead", "idle"]), one.next(["ahead", "idle"], {"idle": 3})) == ("idle", "ahead")


def test_who_was_granted_something_is_charged() -> None:
    one = turns()
    one.granted.update({"new": 2, "idle": 0, "ahead": 1})
    assert one.charges() == [("ahead", 1, 2.0), ("new", 2, 1.0)]


@pytest.mark.parametrize(
    ("waiting_since", "aged_at", "due"),
    [(NOW - 10, None, True), (NOW - 9, None, False), (NOW - 20, NOW - 9, False), (NOW - 20, NOW - 10, True)],
)
def test_a_job_ages_after_it_has_waited_or_since_it_aged_last(waiting_since: int, aged_at: int | None, due: bool) -> None:
    assert due_for_ageing(waiting_since, aged_at, 10, NOW) is due
