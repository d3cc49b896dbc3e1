"""Why a job is not running, from facts that somebody has read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.why import Facts, Reason, expected_at, reasons
from windlass.records import QueueSample, WorkerInfo
from windlass.types import Dependency, Hold, Job, Limit, LimitUse, Queue

from .make import LEASE, NOW, queued, running

MINUTE = 60 * SECOND


def worker(name: str, *queues: str, types: tuple[str, ...] = ("mail",), busy: int = 0) -> WorkerInfo:
    return WorkerInfo(
        id=name, hostname="h", pid=1, pool_size=2, version="1", queues=queues, types=types, wakeups="push", running=busy,
        started_at=0,
    )  # fmt: skip


def sample(minute: int, ended: int) -> QueueSample:
    return QueueSample(
        queue="default", minute=minute * MINUTE, depth={}, oldest=None, finished={"completed": ended}, waits={}, runs={}
    )


FREE = (worker("w1", "default"),)


def why(job: Job, **facts: Any) -> list[Reason]:
    return reasons(job, Facts(**{"workers": FREE, **facts}), NOW)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (queued(state="dead", dead_kind="superseded", superseded_by="job-2"), Reason(kind="superseded", subject="job-2")),
        (queued(state="dead", dead_kind="superseded"), Reason(kind="superseded")),
        (queued(state="dead", dead_reason="no", last_error="e", finished_at=7),
         Reason(kind="ended", subject="dead", detail="no", until=7)),
        (queued(state="dead", last_error="e"), Reason(kind="ended", subject="dead")),
        (queued(state="cancelled", dead_reason="no", last_error="by hand"),
         Reason(kind="ended", subject="cancelled", detail="by hand")),
        (queued(state="succeeded", dead_reason="no", last_error="e"), Reason(kind="ended", subject="succeeded")),
        (running(), Reason(kind="running", subject="w1", until=NOW + LEASE)),
        (running(started_at=None), Reason(kind="claimed", subject="w1", until=NOW + LEASE)),
        (running(worker_id=None), Reason(kind="running", until=NOW + LEASE)),
        (running(lease_expires_at=NOW, cancel_requested_at=1), Reason(kind="lapsed", subject="w1", until=NOW)),
        (running(cancel_requested_at=1, last_error="by hand"), Reason(kind="cancelling", subject="w1", detail="by hand")),
    ],
)  # fmt: skip
def test_a_job_that_does_not_wait_says_what_it_is(job: Job, reason: Reason) -> None:
    assert why(job) == [reason]


HOLD = Hold(
    hold_id="h", queue="default", by="ann", status="ACTIVE", reserved_at=0, granted_at=None, expires_at=NOW + 9
)  # fmt: skip
SHUT = Limit(key="type:mail", max_used=2, used=2)
RATED = Limit(key="type:mail", per_second=1.0, burst=1.0, tokens=0.0, refilled_at=NOW)


@pytest.mark.parametrize(
    ("fields", "facts", "reason"),
    [
        ({"waiting_on": 2}, {"parents": [
            Dependency(job_id="job-1", parent_id=name, rule="cancel", done=done) for name, done in (("a", True),
            ("b", False))
        ]}, Reason(kind="predecessor", number=2, names=("b",))),
        ({"run_at": NOW + 1}, {}, Reason(kind="time", until=NOW + 1)),
        ({"run_at": NOW + 1, "attempts": 3, "last_error": "e"}, {},
         Reason(kind="backoff", detail="e", until=NOW + 1, number=3)),
        ({}, {"queue": Queue(name="default", paused_at=1)}, Reason(kind="paused", subject="queue:default")),
        ({}, {"hold": HOLD}, Reason(kind="held", subject="ann", detail="h", until=NOW + 9)),
        ({}, {"limits": [replace(SHUT, paused_at=1)]}, Reason(kind="paused", subject="type:mail")),
        ({}, {"limits": [SHUT], "uses": [
            LimitUse(key="type:other", waiting=1, holders=("z",)), LimitUse(key="type:mail", waiting=1, holders=("a", "b")),
        ]}, Reason(kind="limit", subject="type:mail", number=2, most=2, names=("a", "b"))),
        ({}, {"limits": [SHUT]}, Reason(kind="limit", subject="type:mail", number=2, most=2)),
        ({}, {"limits": [RATED]}, Reason(kind="rate", subject="type:mail", until=NOW + SECOND)),
        ({}, {"limits": [replace(RATED, wake_at=NOW + 7)]}, Reason(kind="rate", subject="type:mail", until=NOW + 7)),
        ({}, {"limits": [replace(RATED, max_used=1, used=1)]}, Reason(kind="limit", subject="type:mail", number=1, most=1)),
        ({"parked_on": "type:mail"}, {}, Reason(kind="limit", subject="type:mail")),
        ({"parked_on": "type:mail"}, {"limits": [replace(SHUT, used=1)]},
         Reason(kind="limit", subject="type:mail", number=1, most=2)),
    ],
)  # fmt: skip
def test_what_no_worker_could_change_comes_alone(fields: dict[str, Any], facts: dict[str, Any], reason: Reason) -> None:
    assert why(queued(**fields), **facts) == [reason]
    assert why(queued(**fields), **{**facts, "workers": ()}) == [reason, Reason(kind="no worker")], "and what would be next"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"workers": ()}, Reason(kind="no worker")),
        ({"workers": (worker("a", "other"), worker("b", "r"))},
         Reason(kind="not served", subject="default", names=("a", "b"))),
        ({"workers": (worker("a", "other"), worker("b", "default", types=("x",)))},
         Reason(kind="unknown type", subject="mail", names=("b",))),
        ({"ahead": 12, "samples": [sample(0, 3), sample(1, 3)]}, Reason(kind="backlog", number=12, until=NOW + 4 * MINUTE)),
        ({"ahead": 12}, Reason(kind="backlog", number=12)),
        ({"workers": (worker("a", "default", busy=2), worker("b", busy=3))}, Reason(kind="busy", names=("a", "b"))),
        ({"workers": (worker("a", "default", busy=2), worker("b", busy=1))}, Reason(kind="next", names=("a", "b"))),
        ({"ahead": 0, "queue": Queue(name="default"), "hold": replace(HOLD, expires_at=NOW),
         "limits": [replace(SHUT, used=1)]},
         Reason(kind="next", names=("w1",))),
    ],
)  # fmt: skip
def test_who_would_have_to_take_it(facts: dict[str, Any], reason: Reason) -> None:
    assert why(queued(), **facts) == [reason]


def test_a_turn_is_expected_as_the_queue_went_on_and_not_where_nothing_ended() -> None:
    assert expected_at(6, [sample(0, 1), sample(0, 2)], NOW) == NOW + 2 * MINUTE
    assert expected_at(6, [sample(0, 0)], NOW) is None
