"""Arrivals that nobody counted, what a busy minute proves, and how long a run takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import SECOND
from windlass.core.pace import (
    ENOUGH_MINUTES,
    ENOUGH_RUNS,
    PROOF,
    STALE,
    Pace,
    Step,
    bounds,
    mean_run,
    occupancy,
    pace_of,
    step,
    waiting_of,
)
from windlass.core.sampling import EDGES, MINUTE, bucket
from windlass.records import QueueSample

START = 1_000_000 * MINUTE


def held(
    number: int, depth: dict[str, int], ended: int = 0, runs: dict[int, int] | None = None, waited: int = 30 * SECOND
) -> QueueSample:
    """The minute of that number: what was there at its end, how many ended in it, and for how long they had waited."""
    return QueueSample(
        queue="q", minute=START + number * MINUTE, depth=depth, oldest=waited, finished={"completed": ended},
        waits={bucket(waited): ended} if ended else {}, runs=runs or {},
    )  # fmt: skip


def sample(number: int, waiting: int = 0, ended: int = 0, runs: dict[int, int] | None = None) -> QueueSample:
    return held(number, {"queued": waiting}, ended, runs)


def paced(*samples: QueueSample, of: int | None = None, late: int = 0, older: tuple[QueueSample, ...] = ()) -> Pace:
    minutes = [START + n * MINUTE for n in range(of)] if of else [one.minute for one in samples]
    found = pace_of(samples, minutes, minutes[-1] + MINUTE + late, older)
    assert found is not None
    return found


def test_what_came_is_what_ended_and_what_more_is_there() -> None:
    found = paced(sample(0, 100), sample(1, 160, 60), sample(2, 160, 120))
    assert (found.arrivals, found.finished) == (2.0, 1.5)
    assert (found.minutes, found.sampled_at) == (3, START + 3 * MINUTE)


def test_what_runs_is_there_too_and_what_is_to_come_later_is_not() -> None:
    before, after = {"running": 2, "scheduled": 90, "blocked": 9, "dead": 4}, {"running": 62, "parked": 60, "scheduled": 10}
    found = paced(held(0, before), held(1, after), held(2, after))
    assert found.arrivals == 1.0, "120 more are due after two minutes"
    assert waiting_of(after) == 60


def test_jobs_that_somebody_took_away_are_no_negative_arrivals() -> None:
    assert paced(sample(0, 900), sample(1, 0), sample(2, 0)).arrivals == 0


def test_a_minute_without_a_row_was_empty_because_other_queues_were_sampled() -> None:
    found = paced(sample(2, 120), of=3)
    assert (found.arrivals, found.steady) == (1.0, 1.0)


def test_minutes_that_nobody_sampled_are_taken_to_be_like_those_that_were() -> None:
    found = paced(sample(0, 50), sample(5, 50, 60), sample(6, 50, 60))
    assert (found.finished, found.arrivals) == (1.0, 1.0)


def test_a_bulk_that_came_at_once_is_an_arrival_but_not_a_habit() -> None:
    found = paced(*(sample(n, 0 if n < 3 else 6_000, 60) for n in range(12)))
    assert found.arrivals == pytest.approx(11.0)
    assert found.steady == 1.0


@pytest.mark.parametrize("minutes", [0, 1, ENOUGH_MINUTES - 1])
def test_with_too_few_samples_there_is_no_pace(minutes: int) -> None:
    rows = [sample(n, 5, 5) for n in range(minutes)]
    assert pace_of(rows, [row.minute for row in rows], START + minutes * MINUTE) is None


def test_old_samples_are_no_pace() -> None:
    rows = [sample(n, 5, 5) for n in range(5)]
    minutes = [row.minute for row in rows]
    assert pace_of(rows, minutes, START + 5 * MINUTE + STALE) is not None
    assert pace_of(rows, minutes, START + 5 * MINUTE + STALE + 1) is None


# ------------------------------------------------------------------------------------------------------------------ proof


def test_minutes_in_which_jobs_waited_throughout_prove_what_is_possible() -> None:
    assert paced(*(sample(n, 10_000, 600) for n in range(5))).proven == 10.0


def test_a_job_that_happened_to_wait_when_somebody_looked_proves_nothing() -> None:
    """A hundred a second come and go; that two of them are seen waiting does not mean that a hundred is all there is."""
    assert paced(*(sample(n, 2, 6_000) for n in range(5))).proven is None
    assert paced(*(sample(n, 200, 6_000) for n in range(5))).proven == 100.0


def test_jobs_that_came_just_when_somebody_looked_prove_nothing() -> None:
    """A calm queue of half a job a second: five are seen waiting each time, and all of them had begun at once."""
    for waited, proven in ((20_000, None), (1_900_000, None), (2_000_000, 0.5)):
        calm = [held(n, {"queued": 5}, ended=30, waited=waited) for n in range(5)]
        assert paced(*calm).proven == proven
    none_ended = [held(n, {"queued": 5, "running": 1}, ended=n == 4, waited=20_000) for n in range(5)]
    assert paced(*none_ended).proven is None


def test_a_minute_at_whose_beginning_nothing_waited_proves_nothing() -> None:
    assert paced(sample(0), sample(1, 5_000, 60), sample(2, 0, 60)).proven is None


def test_minutes_in_which_nobody_worked_prove_nothing() -> None:
    """The workers were away: what they do when they are there is another matter."""
    away = [sample(n, 5_000) for n in range(6)]
    assert paced(*away).proven is None
    assert paced(*away, sample(6, 4_400, 600), sample(7, 3_800, 600)).proven == 10.0


def test_slow_runs_are_work_although_none_ended_in_the_minute() -> None:
    slow = {"queued": 9, "running": 1}
    assert paced(*(held(n, slow, ended=n % 2) for n in range(6))).proven == pytest.approx(2 / 240)


def test_the_last_busy_minutes_count_because_fleets_change() -> None:
    old, young = [sample(n, 99_000, 60) for n in range(6)], [sample(6 + n, 99_000, 6_000) for n in range(PROOF)]
    assert paced(*old, *young).proven == 100.0


# -------------------------------------------------------------------------------------------------------------- durations


def test_a_run_takes_what_its_distribution_says() -> None:
    quick, slow = bucket(1_500), bucket(3_000_000)
    rows = [sample(n, ended=4, runs={quick: 3, slow: 1}) for n in range(4)]
    found = paced(*rows)
    assert found.run == pytest.approx((3 * 0.0015 + 3.5) / 4)
    assert found.runs == 16
    assert found.load == pytest.approx(4 / 60 * (3 * 0.0015 + 3.5) / 4), "slots that it kept busy"


def test_where_too_few_ran_lately_older_runs_are_asked() -> None:
    recent, older = {bucket(1_500): ENOUGH_RUNS - 1}, [sample(-9, runs={bucket(15_000): ENOUGH_RUNS})]
    assert mean_run(recent, older) == (0.015, ENOUGH_RUNS)
    assert mean_run({bucket(1_500): ENOUGH_RUNS}, older) == (0.0015, ENOUGH_RUNS)
    assert mean_run(recent, [sample(-9, runs={bucket(15_000): 1})]) == (0.0015, ENOUGH_RUNS - 1)
    assert mean_run({}, []) == (None, 0)


def test_what_was_seen_of_slots_is_believed_as_far_as_the_distribution_allows() -> None:
    """Half a second is at the edge of a bucket that goes up to a whole one; four slots end eight a second."""
    full = {"queued": 5_000, "running": 4}
    rows = [held(n, full, ended=480, runs={bucket(500_000): 480}) for n in range(5)]
    assert paced(*rows).run == 0.5
    calm = [held(n, {"running": 4}, ended=480, runs={bucket(500_000): 480}) for n in range(5)]
    assert paced(*calm).run == 0.75, "of slots that were not all busy it says nothing"
    assert mean_run({bucket(500_000): 99}, [], 0.001)[0] == 0.5
    assert mean_run({bucket(500_000): 99}, [], 9.0)[0] == 1.0


@given(st.integers(0, 2 * EDGES[-1]))
def test_the_bounds_of_a_bucket_are_those_of_what_is_in_it(duration: int) -> None:
    low, high = bounds(bucket(duration))
    assert low <= duration
    assert duration < high or low == high == EDGES[-1]


def test_the_first_sample_of_a_leader_is_not_taken_for_the_end_of_a_minute() -> None:
    """It is taken when the leader begins: most of the minute after it had passed already."""
    begun = [sample(0, 2_490), sample(1, 2_460, 30)]
    rows = [*begun, *(sample(n, 2_460 - (n - 1) * 360, 480) for n in range(2, 5))]
    found = paced(*rows)
    assert (found.proven, found.arrivals, found.minutes) == (8.0, 2.0, 5)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5_000)), min_size=3, max_size=12))
def test_what_came_and_what_was_there_is_what_ended_and_what_is_left(minutes: list[tuple[int, int]]) -> None:
    """Of histories that can be: each minute so many come, and of what is there some end."""
    there, came, rows = 0, 0, [sample(-1), sample(0)]
    for number, (tenths, new) in enumerate(minutes, 1):
        ended = min(there + new, (there + new) * tenths // 50)
        there += new - ended
        came += new
        rows.append(sample(number, there, ended))
    found = paced(*rows)
    assert found.arrivals * 60 * len(minutes) == pytest.approx(came)
    assert found.finished * 60 * len(minutes) == pytest.approx(came - there)


def test_a_late_look_still_names_the_end_of_the_last_minute() -> None:
    assert paced(*(sample(n) for n in range(3)), late=30 * SECOND).sampled_at == START + 3 * MINUTE


@pytest.mark.parametrize(
    ("before", "after", "busy"), [(1, 0, True), (0, 1, True), (0, 0, False)]
)  # fmt: skip
def test_a_minute_is_busy_when_somebody_worked_at_one_of_its_ends(before: int, after: int, busy: bool) -> None:
    first, last = (held(n, {"queued": 9, "running": working}) for n, working in enumerate((before, after)))
    assert step(first, last, MINUTE).busy is busy


def test_where_no_slot_was_seen_busy_nothing_is_seen_of_what_a_run_costs() -> None:
    said: dict[str, Any] = {"seconds": 60.0, "came": 5.0, "busy": True}
    assert occupancy([Step(ended=5.0, working=0.0, **said)]) is None
    assert occupancy([Step(ended=0.0, working=5.0, **said)]) is None
    assert occupancy([Step(ended=5.0, working=1.0, **said)]) == 12.0


def test_older_runs_are_asked_only_where_there_are_more_of_them_and_too_few_new_ones() -> None:
    many, few = {5: ENOUGH_RUNS}, {5: ENOUGH_RUNS - 1}
    older = [sample(0, runs={9: ENOUGH_RUNS - 1})]
    assert mean_run(many, [sample(0, runs={9: 99})]) == mean_run(many, [])
    assert mean_run(few, older) == mean_run(few, [])
    assert mean_run(few, [*older, *older]) == mean_run({9: 2 * (ENOUGH_RUNS - 1)}, [])
