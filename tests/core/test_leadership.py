"""Who leads."""

from __future__ import annotations

import pytest

from windlass.core.leadership import Bid, is_silent, judge_bid, leads, may_maintain

from .make import NOW


@pytest.mark.parametrize(("until", "expected"), [(None, False), (NOW - 1, False), (NOW, False), (NOW + 1, True)])
def test_a_term_runs_until_the_instant_of_its_expiry(until: int | None, expected: bool) -> None:
    assert leads(until, NOW) is expected


@pytest.mark.parametrize(
    ("leader", "until", "expected"),
    [
        (None, None, "elected"),
        ("me", NOW, "elected"),
        ("me", NOW + 1, "renewed"),
        ("other", NOW, "elected"),
        ("other", NOW + 1, "refused"),
    ],
)
def test_leadership_goes_to_who_asks_when_nobody_leads_and_stays_with_who_does(
    leader: str | None, until: int | None, expected: Bid
) -> None:
    assert judge_bid("me", leader=leader, until=until, registered=True, now=NOW) == expected
    assert judge_bid("me", leader=leader, until=until, registered=False, now=NOW) == "refused"


@pytest.mark.parametrize(
    ("epoch", "until", "expected"),
    [(7, NOW + 1, True), (7, NOW, False), (6, NOW + 1, False), (8, NOW + 1, False), (7, None, False), (None, None, True)],
)
def test_maintenance_needs_the_epoch_of_a_term_that_runs_or_a_person(
    epoch: int | None, until: int | None, expected: bool
) -> None:
    assert may_maintain(epoch, current=7, until=until, now=NOW) is expected


def test_a_worker_is_silent_from_the_instant_on() -> None:
    assert [is_silent(NOW - ago, 10, NOW) for ago in (9, 10, 11)] == [False, True, True]
