"""What is announced of a settlement, and what of it comes true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from core.make import claimed
from windlass.core.changes import AddEvent, CountMember, Expire, Fail
from windlass.core.events import (
    CANCELLED,
    DEAD,
    ERROR_MOST,
    EVENTS,
    RECOVERED,
    RETRIED,
    SUCCEEDED,
    announced,
    event_of,
    wanted,
)
from windlass.core.settle import (
    Execution,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    WasCancelled,
    honour_cancel,
    settle,
)
from windlass.records import Webhook

SECRET = "whsec_" + "A" * 32
HOOK = Webhook(webhook_id="h", url="https://x", events=EVENTS, secret=SECRET)
RUN = Execution(1_000, child_id="next")


def told(change: Any) -> list[str]:
    return [rider.event for rider in change.riders if isinstance(rider, AddEvent)]


@pytest.mark.parametrize(
    ("mode", "outcome", "event"),
    [
        ("same_job", Succeeded(), SUCCEEDED), ("same_job", Failed("x"), RETRIED), ("same_job", Rejected("x"), DEAD),
        ("same_job", WasCancelled(), CANCELLED), ("same_job", Snoozed(5), None), ("same_job", Released(), None),
        ("new_job", Failed("x"), RETRIED), ("new_job", Snoozed(5), None), ("new_job", Released(), RETRIED),
    ],
)  # fmt: skip
def test_what_a_settlement_means_outside(mode: Any, outcome: Outcome, event: str | None) -> None:
    job = claimed(retry_mode=mode)
    change = settle(job, outcome, RUN)
    assert event_of(change) == event
    carried = announced([HOOK], job, change)
    assert told(honour_cancel(carried, cancel_requested=False, group_id=None)) == ([] if event is None else [event])


@pytest.mark.parametrize("mode", ["same_job", "new_job"])
@pytest.mark.parametrize("outcome", [Failed("x"), Snoozed(5), Released()])
def test_a_change_that_is_turned_tells_of_the_cancellation(mode: Any, outcome: Outcome) -> None:
    job = claimed(retry_mode=mode, group_id="g")
    carried = announced([HOOK], job, settle(job, outcome, RUN))
    turned = honour_cancel(carried, cancel_requested=True, group_id="g")
    assert told(turned) == [CANCELLED]
    assert CountMember("g", "cancelled") in turned.riders


def test_a_loss_is_told_beside_what_becomes_of_the_job() -> None:
    job = claimed(lost=1)
    lost = Fail(handle="h", token="t", at=1, lapsed=True, kind="lost", reason="gone", attempts=2)
    assert told(announced([HOOK], job, lost)) == [DEAD, RECOVERED]
    back = Expire(handle="h", token="t", at=1, lapsed=True)
    assert told(honour_cancel(announced([HOOK], job, back), cancel_requested=False, group_id=None)) == [RECOVERED]


def test_nobody_asks_and_nothing_is_changed() -> None:
    job = claimed(org_id="acme")
    change = settle(job, Succeeded(), RUN)
    assert announced([], job, change) is change
    for hook in (
        replace(HOOK, enabled=False), replace(HOOK, org_id="other"), replace(HOOK, events=(DEAD,)),
    ):  # fmt: skip
        assert announced([hook], job, change) is change
    assert wanted([replace(HOOK, org_id="acme")], SUCCEEDED, "acme")


def test_an_event_is_thin_and_says_nothing_of_the_payload() -> None:
    job = claimed(payload=b'{"password":"hunter2"}', org_id="acme", group_id="g")
    change = announced([HOOK], job, settle(job, Failed("e" * 100_000), RUN))
    [retried, _] = [rider for rider in change.riders if isinstance(rider, AddEvent)]
    data = json.loads(retried.body)
    assert "hunter2" not in retried.body
    assert len(data["error"]) == ERROR_MOST
    assert (data["job_id"], data["org_id"], data["group_id"], data["v"]) == (job.id, "acme", "g", 1)
    assert data["retry_at"].startswith("1970-01-01T")


def test_a_delay_of_centuries_is_no_reason_to_fail() -> None:
    job = claimed()
    change = announced([HOOK], job, settle(job, Failed("x", retry_in=2**62), RUN))
    [retried, _] = [rider for rider in change.riders if isinstance(rider, AddEvent)]
    assert json.loads(retried.body)["retry_at"] is None
