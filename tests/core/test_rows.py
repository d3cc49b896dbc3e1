"""What a row is when nothing is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core import rows
from windlass.core.changes import Ack, Cancelled, Fail, Release, Retry, Settlement, effect_of
from windlass.core.rows import OVERTAKEN_BY

from .make import FENCE, LEASE, NOW, new, queued, running


def test_a_job_without_headers_has_none_also_when_it_is_replaced() -> None:
    assert rows.enqueued(new(headers=None), seq=1, position=100, now=NOW).headers == {}
    assert rows.replaced(queued(headers={"a": "b"}), new(headers=None), NOW).headers == {}
    assert rows.enqueued(new(headers={"a": "b"}), seq=1, position=100, now=NOW).headers == {"a": "b"}
    assert rows.replaced(queued(), new(headers={"a": "b"}), NOW).headers == {"a": "b"}


@pytest.mark.parametrize(
    ("run_at", "waiting_on", "parked_on", "replaced", "brought"),
    [
        (None, 0, None, True, True), (NOW + 1, 0, None, False, True), (None, 1, None, False, False),
        (None, 0, "key:gpu", True, False),
    ],
)  # fmt: skip
def test_a_job_with_another_time_is_ready_when_nothing_else_keeps_it(
    run_at: int | None, waiting_on: int, parked_on: str | None, replaced: bool, brought: bool
) -> None:
    job = queued(ready=False, waiting_on=waiting_on, parked_on=parked_on)
    assert rows.replaced(job, new(run_at=run_at), NOW).ready is replaced
    assert rows.brought_forward(job, NOW).ready is brought


def test_a_run_has_waited_since_it_was_queued_or_its_time_came() -> None:
    for run_at, waited in ((None, 9), (NOW - 4, 4), (NOW - 20, 9)):
        job = running(claimed_at=NOW, queued_at=NOW - 9, run_at=run_at)
        assert rows.run_of(job, "run-1").wait_us == waited


def test_who_goes_back_is_ready_when_his_time_has_come_and_who_has_ended_stays_as_he_was() -> None:
    back = Retry(handle="job-1", token=FENCE, at=NOW, run_at=NOW + 9, attempts=1, error="no")
    end = Ack(handle="job-1", token=FENCE, at=NOW)
    for ready in (True, False):
        job = running(ready=ready, run_at=NOW + 5)
        assert rows.settled(job, back, effect_of(back), NOW).ready is False
        assert rows.settled(job, back, effect_of(back), NOW + 9).ready is True
        assert rows.settled(job, end, effect_of(end), NOW).ready is ready


def test_a_run_that_was_cancelled_says_so_when_nobody_said_why() -> None:
    told = Cancelled(handle="job-1", token=FENCE, at=NOW)
    assert (effect_of(told).error, effect_of(told).last_error) == ("cancelled", None)
    assert rows.settled(running(last_error="by hand"), told, effect_of(told), NOW).last_error == "by hand"


@pytest.mark.parametrize(
    ("late", "expires_at", "progress", "note"),
    [(0, NOW + 50, 0.5, "new"), (OVERTAKEN_BY, NOW + 50, 0.5, "new"), (OVERTAKEN_BY + 1, NOW + LEASE, 0.9, "old")],
)
def test_an_extension_that_was_overtaken_on_its_way_takes_nothing_back(
    late: int, expires_at: int, progress: float, note: str
) -> None:
    job = running(updated_at=NOW + late, progress=0.9, progress_note="old")
    said: dict[str, Any] = {"expires_at": NOW + 50, "started_at": None, "progress": 0.5, "note": "new"}
    after = rows.extended(job, **said, now=NOW)
    assert (after.lease_expires_at, after.progress, after.progress_note) == (expires_at, progress, note)
    silent = rows.extended(job, **{**said, "progress": None, "note": None}, now=NOW)
    assert (silent.progress, silent.progress_note) == (0.9, "old"), "what is not said stays"
    later = rows.extended(job, **{**said, "expires_at": NOW + 2 * LEASE}, now=NOW)
    assert later.lease_expires_at == NOW + 2 * LEASE
    fresh = running(updated_at=NOW + late)
    assert rows.extended(fresh, **said, now=NOW).progress == 0.5


@pytest.mark.parametrize(("begun", "said", "started_at"), [(7, 9, 7), (None, 9, 9), (7, None, 7), (None, None, None)])
def test_the_first_word_on_when_it_began_holds(begun: int | None, said: int | None, started_at: int | None) -> None:
    change = Ack(handle="job-1", token=FENCE, at=NOW, started_at=said)
    assert rows.settled(running(started_at=begun), change, effect_of(change), NOW).started_at == started_at


TOLD: dict[str, Any] = {"handle": "job-1", "token": FENCE, "at": NOW}


@pytest.mark.parametrize(
    ("change", "worker_id", "failed_at", "dead_at"),
    [
        (Ack(**TOLD), "w1", 5, None), (Cancelled(**TOLD), "w1", 5, None), (Release(**TOLD), None, 5, None),
        (Retry(**TOLD, run_at=None, attempts=1, error="no"), None, NOW, None),
        (Fail(**TOLD, kind="exhausted", reason="no"), "w1", NOW, NOW),
    ],
)  # fmt: skip
def test_who_ended_it_stays_and_when_it_failed_or_died(
    change: Settlement, worker_id: str | None, failed_at: int, dead_at: int | None
) -> None:
    after = rows.settled(running(failed_at=5), change, effect_of(change), NOW)
    assert (after.worker_id, after.failed_at, after.dead_at) == (worker_id, failed_at, dead_at)
