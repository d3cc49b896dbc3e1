"""Where a job stands in its queue."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.positions import (
    FRONT,
    FURTHEST,
    GAP,
    REAR,
    Place,
    between,
    dense,
    is_crowded,
    renormalised,
    stands,
    tail,
)

POSITIONS = st.integers(-(10**6), 10**6)


def test_the_gap_is_the_one_of_spec_003() -> None:
    assert GAP == 100


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_the_tail_is_the_tail_without_a_read(one: int, other: int) -> None:
    assert (tail(one) < tail(other)) is (one < other)
    assert tail(one + 1) - tail(one) == GAP


def test_a_dense_queue_starts_at_the_gap_and_appends_after_the_last() -> None:
    assert dense(None) == GAP
    assert dense(100) == 200
    assert dense(150) == 250


@given(POSITIONS, st.integers(-3, 3) | POSITIONS)
def test_a_place_between_two_neighbours_is_strictly_between_or_there_is_none(before: int, distance: int) -> None:
    after = before + distance
    found = between(before, after)
    if after - before >= 2:
        assert found is not None
        assert before < found < after
    else:
        assert found is None


@given(POSITIONS)
def test_a_place_at_either_end_is_a_gap_away(position: int) -> None:
    assert between(position, None) == position + GAP
    assert between(None, position) == position - GAP


def test_an_empty_queue_has_a_place() -> None:
    assert between(None, None) == GAP


def test_a_gap_takes_several_insertions_before_it_is_used_up() -> None:
    before, after, inserted = tail(1), tail(2), 0
    while inserted < GAP and (middle := between(before, after)) is not None:
        after, inserted = middle, inserted + 1
    assert 6 <= inserted < GAP


@given(st.integers(0, 200))
def test_renormalised_positions_rise_by_the_gap_from_the_first_gap_on(count: int) -> None:
    fresh = renormalised(count)
    assert len(fresh) == count
    assert fresh == sorted(set(fresh))
    assert all(between(a, b) is not None for a, b in pairwise(fresh))
    assert fresh[:1] == [GAP][:count]


@given(st.integers(1, 200), POSITIONS)
def test_renormalised_positions_may_end_at_the_last_one_instead(count: int, last: int) -> None:
    fresh = renormalised(count, last)
    assert (len(fresh), fresh[-1]) == (count, last)
    assert all(b - a == GAP for a, b in pairwise(fresh))


@given(st.lists(POSITIONS, max_size=6))
def test_a_queue_is_crowded_when_nobody_fits_between_two(positions: list[int]) -> None:
    ordered = sorted(positions)
    assert is_crowded(ordered) == any(b - a < 2 for a, b in pairwise(ordered))


PLACES = st.tuples(st.integers(-3, 3), st.integers(0, 2))


@given(st.lists(PLACES, min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_a_job_stands_where_a_sort_would_leave_it(rows: list[tuple[int, int]], pick: int, at: int) -> None:
    places: list[Place] = [(position, created, seq) for seq, (position, created) in enumerate(rows)]
    own = places.pop(pick % len(places))
    others = sorted(places)
    index = at % (len(others) + 1)
    before = others[index - 1] if index else None
    after = others[index] if index < len(others) else None
    assert stands(own, before, after) == (sorted([*others, own]).index(own) == index)
    assert all(FRONT < place < REAR for place in (*places, own))


def test_nobody_stands_beyond_what_can_be_counted() -> None:
    assert (between(FURTHEST - GAP, None), between(FURTHEST - GAP + 1, None)) == (FURTHEST, None)
    assert (between(None, GAP - FURTHEST), between(None, GAP - FURTHEST - 1)) == (-FURTHEST, None)


def test_nobody_stands_beside_itself() -> None:
    own = (100, 1, 1)
    assert (stands(own, own, None), stands(own, None, own), stands(own, None, None)) == (False, False, True)
