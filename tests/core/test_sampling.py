"""What a minute of a queue looks like as one row."""

from __future__ import annotations

from windlass.core.sampling import EDGES, MINUTE, Ended, bucket, due_since, minute_before, samples
from windlass.records import QueueSample

from .make import NOW, queued


def test_buckets_grow_by_one_two_five() -> None:
    assert EDGES[:6] == (100, 200, 500, 1_000, 2_000, 5_000)
    assert EDGES[-1] == 10**11
    assert [bucket(span) for span in (0, 99, 100, 199, 200, 10**11 - 1, 10**11, 10**15)] == [0, 0, 1, 1, 2, 27, 28, 28]
    assert all(bucket(edge - 1) + 1 == bucket(edge) for edge in EDGES)


def test_the_minute_that_has_just_ended() -> None:
    start = NOW - NOW % MINUTE
    assert [minute_before(now) for now in (start, start + MINUTE - 1, start + MINUTE)] == [
        start - MINUTE, start - MINUTE, start,
    ]  # fmt: skip


def test_a_job_is_due_since_it_was_enqueued_or_since_its_time_came() -> None:
    assert due_since(queued()) == NOW
    assert due_since(queued(run_at=NOW - 5)) == NOW
    assert due_since(queued(run_at=NOW + 5)) == NOW + 5


def test_every_queue_that_is_declared_deep_or_busy_has_a_row() -> None:
    rows = samples(
        0, ["declared"], [("deep", "queued", 2), ("deep", "dead", 1)], {"deep": 7},
        [Ended("busy", "completed", 1, 2, 3), Ended("busy", "completed", 1, 4, 1), Ended("busy", "failed", 5, 2, 1)],
    )  # fmt: skip
    nothing: dict[int, int] = {}
    assert rows == [
        QueueSample(
            queue="busy", minute=0, depth={}, oldest=None, finished={"completed": 4, "failed": 1}, waits={1: 4, 5: 1},
            runs={2: 4, 4: 1},
        ),
        QueueSample(queue="declared", minute=0, depth={}, oldest=None, finished={}, waits=nothing, runs=nothing),
        QueueSample(
            queue="deep", minute=0, depth={"queued": 2, "dead": 1}, oldest=7, finished={}, waits=nothing, runs=nothing
        ),
    ]  # fmt: skip
