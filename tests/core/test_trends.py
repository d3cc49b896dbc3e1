"""Sixty points, percentiles, and which queues need somebody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import SECOND
from windlass.core.sampling import EDGES, MINUTE, bucket
from windlass.core.trends import (
    POINTS,
    ROWS,
    SPANS,
    Percentiles,
    Span,
    edges,
    levels,
    minutes_of,
    percentile,
    percentiles,
    point,
    points,
)
from windlass.core.trouble import ENOUGH, FAILING, LATE, troubles
from windlass.records import QueueSample, WorkerInfo
from windlass.types import Hold, Queue

NOW = 1_000_000 * MINUTE + 17 * SECOND


def sample(minute: int, queue: str = "q", **fields: Any) -> QueueSample:
    told: dict[str, Any] = {"depth": {}, "oldest": None, "finished": {}, "waits": {}, "runs": {}, **fields}
    return QueueSample(queue=queue, minute=minute, **told)


@pytest.mark.parametrize("span", SPANS)
def test_a_span_has_sixty_points_and_ends_with_the_last_whole_minute(span: Span) -> None:
    begins = edges(span, NOW)
    assert len(begins) == POINTS + 1
    assert begins[-1] == NOW - 17 * SECOND
    assert begins[-1] - begins[0] == SPANS[span]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("queues", [0, 1, 8, 83, 84, 5_000])
def test_the_minutes_that_are_read_are_bounded_and_lie_evenly_in_every_point(span: Span, queues: int) -> None:
    begins, minutes = edges(span, NOW), minutes_of(span, NOW, queues)
    size = begins[1] - begins[0]
    each = len(minutes) // POINTS
    assert len(set(minutes)) == len(minutes) == each * POINTS
    assert len(minutes) * max(queues, 1) <= ROWS or each == 1
    for number, begin in enumerate(begins[:-1]):
        inside = minutes[number * each : (number + 1) * each]
        assert inside[-1] == begin + size - MINUTE, "the level at its end"
        assert all(begin <= minute < begin + size and minute % MINUTE == 0 for minute in inside)


def test_a_point_adds_up_what_ended_and_shows_the_level_at_its_end() -> None:
    begins = [0, 2 * MINUTE, 4 * MINUTE]
    found, _ = points(
        [
            sample(0, "a", depth={"queued": 9}, finished={"completed": 60}, oldest=5, waits={3: 1}, runs={4: 2}),
            sample(MINUTE, "a", depth={"queued": 2, "dead": 1}, finished={"completed": 30, "failed": 30}, oldest=3),
            sample(MINUTE, "b", depth={"queued": 5}, finished={"skipped": 12}),
            sample(9 * MINUTE, "a"),
        ],
        begins,
    )
    first, second = found
    assert first.depth == {"queued": 7, "dead": 1}
    assert first.rates == {"completed": 0.75, "failed": 0.25, "skipped": 0.1}
    assert first.failed == 0.25
    assert first.oldest == 5
    assert first.wait is not None
    assert first.run is not None
    assert (second.at, second.depth, second.rates, second.failed, second.oldest) == (2 * MINUTE, None, None, None, None)
    assert levels([sample(0, depth={"queued": 9}), sample(MINUTE, depth={"dead": 1})], begins) == [0, None]


def test_all_points_as_one_say_what_all_their_samples_say() -> None:
    samples = [
        sample(minute * MINUTE, queue, depth={"queued": minute}, finished={"completed": minute, "failed": 1},
               oldest=40 - minute, waits={minute % 5: 2}, runs={3: minute})
        for minute in (0, 1, 3, 6, 7) for queue in ("a", "b")
    ]  # fmt: skip
    _, whole = points(samples, [0, 2 * MINUTE, 4 * MINUTE, 6 * MINUTE, 8 * MINUTE])
    assert whole == point(0, samples)
    assert points([], [0, MINUTE])[1] == point(0, [])


def test_nothing_that_ended_is_no_share_of_failures_and_no_percentile() -> None:
    quiet = point(0, [sample(0, finished={"skipped": 4})])
    assert (quiet.failed, quiet.wait, quiet.run) == (None, None, None)
    assert percentiles({3: 0}) is None


@given(st.lists(st.integers(0, 2 * EDGES[-1]), min_size=1, max_size=50), st.sampled_from((0.5, 0.95, 0.99)))
def test_a_percentile_lies_in_the_bucket_of_the_true_one(durations: list[int], share: float) -> None:
    histogram: dict[int, int] = {}
    for duration in durations:
        histogram[bucket(duration)] = histogram.get(bucket(duration), 0) + 1
    rank = share * len(durations)
    true = next(value for place, value in enumerate(sorted(durations), 1) if place >= rank)
    low = EDGES[bucket(true) - 1] if bucket(true) else 0
    high = EDGES[min(bucket(true), len(EDGES) - 1)]
    assert low <= percentile(histogram, share) <= high


def test_percentiles_are_told_within_a_bucket() -> None:
    assert percentiles({bucket(1_500): 100}) == Percentiles(1_500, 1_950, 1_990)


def worker(*queues: str) -> WorkerInfo:
    return WorkerInfo(
        id="w",
        hostname="h",
        pid=1,
        pool_size=1,
        version="1",
        queues=queues,
        types=(),
        wakeups="poll",
        running=0,
        started_at=0,
    )


def test_a_queue_in_order_has_no_trouble() -> None:
    fine = sample(0, depth={"queued": 5}, oldest=LATE, finished={"completed": 90, "failed": 10})
    assert FAILING == 0.1
    assert troubles([fine], Queue(name="q"), None, [worker("q")]) == []
    assert troubles([], None, None, []) == []
    few = sample(0, finished={"failed": ENOUGH - 1})
    assert troubles([few], None, None, []) == []


def test_every_trouble_has_its_name_and_its_number() -> None:
    bad = sample(0, depth={"queued": 5, "parked": 2}, oldest=LATE + 1, finished={"completed": 5, "failed": 5})
    hold = Hold(
        hold_id="h", queue="q", by="ada", status="ACTIVE", reserved_at=3, granted_at=None, expires_at=9,
    )  # fmt: skip
    found = troubles([bad], Queue(name="q", paused_at=7), hold, [worker("other")])
    assert [(one.kind, one.since, one.by, one.number) for one in found] == [
        ("paused", 7, None, 5), ("held", 3, "ada", 5), ("nobody", None, None, 5), ("late", None, None, LATE + 1),
        ("failing", None, None, 0.5), ("full", None, None, 2),
    ]  # fmt: skip


def test_a_level_is_that_of_the_last_sample_of_its_point_the_first_point_included() -> None:
    begins = [sample(minute).minute for minute in (0, 2, 4)]
    samples = [sample(minute, depth={"queued": minute + 5}) for minute in (1, 0, 3, 4)]
    assert levels(samples, begins) == [6, 8]
    assert levels([], begins) == [None, None]
