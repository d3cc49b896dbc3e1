"""What is announced of a settlement, and what of it comes true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from core.make import claimed, queued
from windlass.clock import LAST_INSTANT
from windlass.core.changes import (
    Ack,
    AddEvent,
    Cancelled,
    CountMember,
    Expire,
    Fail,
    Release,
    Retry,
    effect_of,
)
from windlass.core.events import (
    CANCELLED,
    DEAD,
    ERROR_MOST,
    EVENTS,
    RECOVERED,
    RETRIED,
    SUCCEEDED,
    Lost,
    announced,
    cancelled,
    event_of,
    finished,
    is_asked_for,
    recovered,
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
from windlass.types import Group

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


def bodies(change: Any) -> dict[str, Any]:
    return {rider.event: json.loads(rider.body) for rider in change.riders if isinstance(rider, AddEvent)}


SAID: dict[str, Any] = {"handle": "h", "token": "t", "at": 1_000}


def test_each_event_says_what_its_reader_asks_next() -> None:
    job = claimed(retry_mode="new_job", executions=3, lost=1)
    base = {"v": 1, "job_id": job.id, "org_id": None, "type": job.type, "queue": job.queue, "execution": 3}
    child = bodies(announced([HOOK], job, settle(job, Failed("e", retry_in=5), RUN)))[RETRIED]
    assert (child["next_id"], child["attempts"], child["error"]) == ("next", job.attempts + 1, "e")
    again = bodies(announced([HOOK], job, Retry(**SAID, run_at=None, attempts=2, error="e")))
    assert again == {
        RETRIED: {**base, "attempts": 2, "error": "e", "retry_at": None}, CANCELLED: {**base, "reason": None},
    }  # fmt: skip
    dead = Fail(**SAID, lapsed=True, kind="lost", reason="gone", attempts=2)
    assert bodies(announced([HOOK], job, dead)) == {
        DEAD: {**base, "attempts": 2, "kind": "lost", "error": "gone"},
        RECOVERED: {**base, "lost": 2, "error": effect_of(dead).error},
    }
    ended = bodies(announced([HOOK], job, Cancelled(**SAID, reason="by hand")))
    assert ended == {CANCELLED: {**base, "reason": "by hand"}}
    assert bodies(announced([HOOK], job, Ack(**SAID))) == {SUCCEEDED: base}


def test_a_job_that_is_taken_back_before_its_lease_lapsed_was_recovered_too() -> None:
    job, change = claimed(), Release(**SAID)
    assert [name for name in bodies(announced([HOOK], job, change, recovers=True)) if name != CANCELLED] == [RECOVERED]
    assert RECOVERED not in bodies(announced([HOOK], job, change))


@pytest.mark.parametrize("length", [ERROR_MOST, ERROR_MOST + 1])
def test_an_error_is_cut_where_it_is_too_long(length: int) -> None:
    job = claimed()
    [told] = bodies(announced([HOOK], job, Fail(**SAID, kind="exhausted", reason="e" * length))).values()
    assert told["error"] == ("e" * length if length == ERROR_MOST else "e" * (ERROR_MOST - 1) + "…")


def test_the_last_instant_of_the_calendar_can_be_told() -> None:
    for at, known in ((LAST_INSTANT, True), (LAST_INSTANT + 1, False)):
        told = bodies(announced([HOOK], claimed(), Retry(**SAID, run_at=at, attempts=2, error="e")))[RETRIED]
        assert (told["retry_at"] is not None) is known


# --------------------------------------------------------------------------------------------- what only a driver sees


def test_somebody_asks_when_any_subscription_that_is_switched_on_has_the_event() -> None:
    some = replace(HOOK, events=(DEAD,), org_id="acme")
    assert is_asked_for([some], DEAD)
    assert not is_asked_for([some], RETRIED)
    assert not is_asked_for([replace(some, enabled=False)], DEAD)
    assert not is_asked_for([], DEAD)


def test_what_a_claim_takes_back_or_somebody_cancels_is_told_to_its_org() -> None:
    acme = replace(HOOK, org_id="acme")
    lost = [Lost(name, org, "mail", "q", 2, 1) for name, org in (("a", "acme"), ("b", None))]
    assert [told.job_id for told in recovered([acme], lost, "gone")] == ["a"]
    assert [told.job_id for told in recovered([HOOK], lost, "gone")] == ["a", "b"]
    jobs = [queued(id="a", org_id="acme", group_id="g", last_error="by hand"), queued(id="b")]
    assert [told.job_id for told in cancelled([acme], jobs)] == ["a"]
    first, second = (json.loads(told.body) for told in cancelled([HOOK], jobs))
    assert (first["group_id"], first["reason"]) == ("g", "by hand")
    assert "group_id" not in second


@pytest.mark.parametrize(
    ("orgs", "org_id"), [(["acme"], "acme"), (["acme", "acme"], "acme"), (["acme", None], None), ([None], None), ([], None)]
)
def test_a_group_is_of_an_org_when_all_its_members_are(orgs: list[str | None], org_id: str | None) -> None:
    group = Group(group_id="g", total=1, succeeded=1)
    [told] = finished([HOOK], group, orgs)
    assert (told.org_id, json.loads(told.body)["status"]) == (org_id, "completed")
    assert len(finished([replace(HOOK, org_id="acme")], group, orgs)) == (org_id == "acme")
