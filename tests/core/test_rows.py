"""What a row is when nothing is said of it."""

from __future__ import annotations

from windlass.core import rows
from windlass.core.changes import Cancelled, effect_of

from .make import FENCE, NOW, new, queued, running


def test_a_job_without_headers_has_none_also_when_it_is_replaced() -> None:
    assert rows.enqueued(new(headers=None), seq=1, position=100, now=NOW).headers == {}
    assert rows.replaced(queued(headers={"a": "b"}), new(headers=None), NOW).headers == {}


def test_a_run_that_was_cancelled_says_so_when_nobody_said_why() -> None:
    told = Cancelled(handle="job-1", token=FENCE, at=NOW)
    assert (effect_of(told).error, effect_of(told).last_error) == ("cancelled", None)
    assert rows.settled(running(last_error="by hand"), told, effect_of(told), NOW).last_error == "by hand"
