"""Arithmetic for rows that many jobs share: never below zero, never out of thin air."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import SECOND
from windlass.core.changes import Ending
from windlass.core.counters import count_member, give_back, refill, uncount_member, wait_for
from windlass.types import Group

from .make import NOW

ENDINGS: list[Ending] = ["succeeded", "failed", "cancelled"]


def test_a_permit_returned_twice_is_no_permit_out_of_thin_air() -> None:
    assert give_back(give_back(1)) == 0
    assert give_back(2, 5) == 0


@given(st.integers(0, 8), st.lists(st.sampled_from(ENDINGS)))
def test_every_member_is_counted_once_and_the_group_ends_with_the_last(total: int, endings: list[Ending]) -> None:
    group = Group(group_id="g", total=total, remaining=total)
    for turn, ending in enumerate(endings, start=1):
        group = count_member(group, ending, NOW + turn)
        assert group.remaining >= 0
        assert group.remaining + group.succeeded + group.failed + group.cancelled == total
        assert (group.finished_at is not None) is (group.remaining == 0 and total > 0)
    counted = endings[:total]
    assert [group.succeeded, group.failed, group.cancelled] == [counted.count(ending) for ending in ENDINGS]
    if 0 < total <= len(endings):
        assert group.finished_at == NOW + total


def test_an_ending_after_the_last_changes_nothing() -> None:
    group = count_member(Group(group_id="g", total=1, remaining=1), "failed", NOW)
    assert count_member(group, "succeeded", NOW + 1) is group


@pytest.mark.parametrize(
    ("tokens", "elapsed", "after"),
    [(0.0, SECOND, 2.0), (0.0, SECOND // 4, 0.5), (3.0, 60 * SECOND, 5.0), (1.5, 0, 1.5), (1.5, -SECOND, 1.5)],
)
def test_a_bucket_fills_with_time_up_to_its_burst(tokens: float, elapsed: int, after: float) -> None:
    assert refill(tokens, 5.0, 2.0, elapsed) == after


@pytest.mark.parametrize(
    ("tokens", "per_second", "wait"),
    [(0.0, 2.0, SECOND // 2), (0.0, 3.0, 333_334), (0.5, 1.0, SECOND // 2), (1.0, 1.0, 0), (4.0, 1.0, 0)],
)
def test_a_token_is_waited_for_until_it_is_there_and_no_microsecond_less(
    tokens: float, per_second: float, wait: int
) -> None:
    assert wait_for(tokens, per_second) == wait


@given(st.floats(0, 10), st.floats(0, 100), st.lists(st.integers(-SECOND, 10 * SECOND)))
def test_a_bucket_never_passes_its_burst_and_never_loses_by_waiting(tokens: float, rate: float, pauses: list[int]) -> None:
    for pause in pauses:
        after = refill(tokens, 10.0, rate, pause)
        assert tokens <= after <= 10.0
        tokens = after


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_member_that_is_brought_back_is_counted_back_once(ending: Ending) -> None:
    full = Group(group_id="g", total=2, remaining=1)
    ended = count_member(full, ending, NOW)
    assert uncount_member(ended, ending) == full
    assert uncount_member(full, ending) is full
