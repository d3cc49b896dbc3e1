"""What the audit log says of a change: which action, on what, how many, and what was said beyond that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from windlass.core import alterations as wishes
from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.audit import NAMED, action_of, lines, subject_of
from windlass.records import AuditLine

from .make import NOW

ANN = By(actor="ann", org_id="a", selection="queue:q")


def noted(*changes: Alteration, answers: Sequence[AlterAnswer] | None = None) -> list[AuditLine]:
    return lines(ANN, changes, answers or ["applied"] * len(changes), NOW)


def told(change: Alteration) -> dict[str, Any] | None:
    [line] = noted(change)
    return None if line.detail is None else json.loads(line.detail)


@pytest.mark.parametrize(
    ("change", "action", "subject"),
    [
        (wishes.Cancel("j"), "job.cancel", "job:j"), (wishes.SetPaused("q", paused=True), "queue.pause", "queue:q"),
        (wishes.SetPaused("q", paused=False), "queue.resume", "queue:q"),
        (wishes.PauseLimit("key:x", paused=True), "limit.pause", "limit:key:x"),
        (wishes.PauseLimit("key:x", paused=False), "limit.resume", "limit:key:x"),
        (wishes.SetEnabled("nightly", enabled=True), "schedule.resume", "schedule:nightly"),
        (wishes.SetEnabled("nightly", enabled=False), "schedule.pause", "schedule:nightly"),
        (wishes.PutQueue("q"), "queue.put", "queue:q"),
        (wishes.DeleteTemplate("report"), "template.delete", "template:report"),
        (wishes.CreateToken(token_id="t", name="ci", digest=b"", scopes=()), "token.create", "token:t"),
        (wishes.PutGroup("g", 2), "group.put", "group:g"), (wishes.Note("jobs.sweep", "queue:q"), "jobs.sweep", "queue:q"),
        (wishes.Fire(schedule_id="s", expected=1, next_trigger_at=2), "schedule.fire", "Fire"),
        (wishes.Acquire("h", "q", "ann", 1), "hold.acquire", "hold:h"), (wishes.Revoke("w"), "worker.revoke", "worker:w"),
        (wishes.Swap("j", "k"), "job.swap", "job:j"), (wishes.Renormalise("q"), "queue.renormalise", "queue:q"),
        (wishes.PingWebhook("w"), "webhook.ping", "webhook:w"),
    ],
)  # fmt: skip
def test_each_change_has_a_word_and_a_subject(change: Alteration, action: str, subject: str) -> None:
    assert (action_of(change), subject_of(change)) == (action, subject)


def test_a_wish_without_words_of_its_own_is_called_by_its_name() -> None:
    assert action_of(wishes.TakeDelivery(event_id=1, webhook_id="w", expected=1, until=2)) == "take_delivery"


def test_one_line_for_each_action_of_what_was_really_changed() -> None:
    changes: list[Alteration] = [
        *(wishes.Cancel(name) for name in "abc"),
        wishes.RunNow("d"),
        wishes.Unchanged(wishes.RunNow("e"), 1),
    ]
    answers: list[AlterAnswer] = ["applied", "not_found", "requested", "wrong_state", "applied"]
    assert noted(*changes, answers=answers) == [
        AuditLine(at=NOW, actor="ann", action="job.cancel", subject="2 jobs", detail='{"subjects":["job:a","job:c"]}',
                  org_id="a", selection="queue:q", count=2),
        AuditLine(at=NOW, actor="ann", action="job.run_now", subject="job:e", org_id="a", selection="queue:q"),
    ]  # fmt: skip


def test_of_a_batch_the_first_are_named() -> None:
    [line] = noted(*(wishes.Cancel(f"j{n}") for n in range(NAMED + 1)))
    assert (line.count, line.subject) == (NAMED + 1, f"{NAMED + 1} jobs")
    assert json.loads(line.detail or "")["subjects"] == [f"job:j{n}" for n in range(NAMED)]


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (wishes.Cancel("j"), None), (wishes.Cancel("j", "not wanted"), {"reason": "not wanted"}),
        (wishes.PutLimit("key:x", max_used=3, per_second=0.5), {"max_used": 3, "per_second": 0.5}),
        (wishes.SetPriority("j", 7), {"priority": 7}),
        (wishes.PutWebhook(webhook_id="w", url="https://me:key@host/x", events=("job.dead",), secret="s"),
         {"url": "https://***@host/x", "events": ["job.dead"]}),
        (wishes.PutGroup("g", 2, "https://me:key@host/x"), {"total": 2, "name": "https://me:key@host/x"}),
        (wishes.RetryGroup("g", (("a", "b"),)), None),
        (wishes.PutTemplate(template_id="t", name="report", type="mail", params=b"secret"),
         {"template_id": "t", "type": "mail"}),
        (wishes.Fire(schedule_id="s", expected=1, next_trigger_at=None,
                     missed=wishes.Missed(times=1, first=1, last=1, made=0)), {"schedule_id": "s", "expected": 1}),
        (wishes.Note("jobs.sweep", "queue:q"), None), (wishes.Note("jobs.sweep", "q", detail="all"), {"note": "all"}),
    ],
)  # fmt: skip
def test_what_is_told_is_short_plain_not_as_usual_and_no_secret(change: Alteration, detail: dict[str, Any] | None) -> None:
    assert told(change) == detail


def test_a_note_counts_what_it_says() -> None:
    assert [line.count for line in noted(wishes.Note("jobs.sweep", "queue:q", count=12))] == [12]


def test_work_that_goes_on_leaves_no_line_and_a_hold_that_another_ends_has_its_own() -> None:
    assert noted(wishes.Renew("h", 1), wishes.Leave("w"), wishes.ReleaseHold("h", by="ann")) == []
    assert [line.action for line in noted(wishes.ReleaseHold("h"))] == ["hold.release"]


@pytest.mark.parametrize("change", [wishes.Cancel("a", "\ud800\x00"), wishes.CancelGroup("a", "\ud800\x00")])
def test_a_reason_is_noted_as_it_is_stored(change: Alteration) -> None:
    assert told(change) == {"reason": r"\ud800\x00"}
