"""When a queue is not well, and when that is news."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.health import EARLIER, Told, reasons_of, troubles
from windlass.records import QueueSample

LONG = 300 * SECOND
NOBODY = Told()


def sample(minute: int = 1, **fields: Any) -> QueueSample:
    told = {"queue": "q", "minute": minute, "depth": {}, "oldest": None, "finished": {}, "waits": {}, "runs": {}}
    return QueueSample(**{**told, **fields})


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({}, 0), ({"oldest": LONG - 1}, 0), ({"oldest": LONG}, 1), ({"finished": {"failed": 5, "completed": 5}}, 1),
        ({"finished": {"failed": 5, "completed": 6}}, 0), ({"finished": {"failed": 9}}, 0),
        ({"finished": {"failed": 10}}, 1),
        ({"oldest": LONG, "finished": {"failed": 10}}, 2),
    ],
)  # fmt: skip
def test_a_queue_is_not_well_when_jobs_wait_or_half_of_them_fail(fields: dict[str, Any], bad: int) -> None:
    assert len(reasons_of(sample(**fields), LONG)) == bad


def news(*samples: QueueSample, told: Told = NOBODY, resting: tuple[str, ...] = ()) -> tuple[list[str], Told]:
    found, after = troubles(samples, told, resting, LONG)
    return [trouble.queue for trouble in found], after


def test_only_the_change_is_news() -> None:
    ill = sample(2, oldest=LONG, depth={"queued": 3, "running": 9})
    [trouble], told = troubles([ill], NOBODY, [], LONG)
    assert (trouble.queue, trouble.minute, trouble.waiting, trouble.oldest) == ("q", 2, 3, LONG)
    assert told == Told(minute=2, queues=("q",))
    assert news(sample(3, oldest=LONG), told=told) == ([], Told(minute=3, queues=("q",)))
    assert news(sample(3), told=told) == ([], Told(minute=3))
    assert news(ill, sample(2, queue="r", oldest=LONG), told=Told(minute=1, queues=("r",)))[0] == ["q"]


def test_after_a_long_time_it_is_news_again() -> None:
    """Nobody knows what was in between; nor when a clock was far ahead."""
    told = Told(minute=0, queues=("q",))
    assert news(sample(EARLIER, oldest=LONG), told=told)[0] == []
    assert news(sample(EARLIER + 1, oldest=LONG), told=told)[0] == ["q"]
    assert news(sample(0, oldest=LONG), told=replace(told, minute=EARLIER + 1))[0] == ["q"]


def test_a_queue_that_rests_is_no_news_until_that_is_over() -> None:
    nobody, told = news(sample(oldest=LONG), resting=("q",))
    assert (nobody, told) == ([], Told(minute=1))
    assert news(sample(2, oldest=LONG), told=told)[0] == ["q"]


def test_a_queue_that_is_well_is_no_news() -> None:
    assert news(sample(2)) == ([], Told(minute=2))
