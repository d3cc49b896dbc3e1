"""When a queue is not well, and when that is news."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.health import reasons_of, troubles
from windlass.records import QueueSample

LONG = 300 * SECOND


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


def test_only_the_change_is_news() -> None:
    well, ill = sample(1), sample(2, oldest=LONG, depth={"queued": 3, "running": 9})
    [news] = troubles([ill], [well], [], LONG)
    assert (news.queue, news.minute, news.waiting, news.oldest) == ("q", 2, 3, LONG)
    assert troubles([ill], [], [], LONG)
    assert troubles([ill], [well, sample(1, oldest=LONG)], [], LONG) == []
    assert troubles([ill], [sample(0, oldest=LONG), well], [], LONG)
    assert troubles([well], [ill], [], LONG) == []


def test_a_queue_that_somebody_paused_rests() -> None:
    assert troubles([sample(oldest=LONG)], [], ["q"], LONG) == []


def test_a_queue_that_stays_well_is_no_news() -> None:
    assert troubles([sample(2)], [sample(1)], [], LONG) == []
