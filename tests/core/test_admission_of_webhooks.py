"""What is refused of webhooks and deliveries, before anything is written."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT
from windlass.core.admission_of_changes import check_alteration
from windlass.core.alterations import (
    ChangeWebhook,
    DeleteWebhook,
    EndDelivery,
    OfWebhooks,
    PingWebhook,
    PutWebhook,
    ReplayDelivery,
    RotateSecret,
    TakeDelivery,
)
from windlass.core.changes import ERROR_LIMIT
from windlass.core.events import DEAD, EVENTS
from windlass.core.fields import KEY_LIMIT
from windlass.core.webhooks import secret_of
from windlass.errors import InvalidInput
from windlass.records import Try

URL = "https://example.com/hook"
SECRET = secret_of(b"a" * 32)
HOOK = PutWebhook(webhook_id="wh_1", url=URL, events=(DEAD,), secret=SECRET)
CHANGE = ChangeWebhook(webhook_id="wh_1")
ROTATE = RotateSecret(webhook_id="wh_1", secret=SECRET, keep_until=0)
TAKE = TakeDelivery(event_id=0, webhook_id="wh_1", expected=0, until=1)
END = EndDelivery(event_id=0, webhook_id="wh_1", expected=0, status="sent", attempt=Try(0, 0))
REPLAY = ReplayDelivery(event_id=0, webhook_id="wh_1")


@pytest.mark.parametrize(
    "change",
    [
        HOOK,
        replace(HOOK, webhook_id="x" * 64, events=EVENTS, org_id="acme", enabled=False),
        CHANGE,
        replace(CHANGE, url=URL, events=(DEAD,), enabled=True),
        ROTATE,
        replace(ROTATE, keep_until=LAST_INSTANT),
        DeleteWebhook("wh-1"),
        PingWebhook("0"),
        TAKE,
        replace(TAKE, expected=LAST_INSTANT - 1, until=LAST_INSTANT),
        END,
        replace(END, status="failed"),
        replace(END, status="queued", next_attempt_at=0),
        replace(END, response="x" * ERROR_LIMIT, disable="", unless_sent_since=0, attempt=Try(0, 0, 500, "ünï")),
        REPLAY,
    ],
)
def test_a_sound_change_of_webhooks_is_let_in(change: OfWebhooks) -> None:
    check_alteration(change)


@pytest.mark.parametrize(
    ("sound", "bad", "field"),
    [
        *((sound, {"webhook_id": "a b"}, "webhook_id") for sound in (HOOK, CHANGE, ROTATE, TAKE, END, REPLAY)),
        *((PingWebhook("x"), {"webhook_id": bad}, "webhook_id") for bad in ("", "x" * 65, "a.b", "ü", "a\n", 5, None)),
        (DeleteWebhook("x"), {"webhook_id": ""}, "webhook_id"),
        (HOOK, {"url": "nowhere"}, "url"),
        (HOOK, {"events": ()}, "events"),
        (HOOK, {"secret": "whsec_"}, "secret"),
        (HOOK, {"org_id": ""}, "org_id"),
        (HOOK, {"enabled": None}, "enabled"),
        (CHANGE, {"url": "nowhere"}, "url"),
        (CHANGE, {"events": ()}, "events"),
        (CHANGE, {"enabled": 1}, "enabled"),
        (ROTATE, {"secret": "whsec_"}, "secret"),
        (ROTATE, {"keep_until": -1}, "keep_until"),
        (ROTATE, {"keep_until": LAST_INSTANT + 1}, "keep_until"),
        (TAKE, {"event_id": -1}, "event_id"),
        (TAKE, {"expected": -1}, "expected"),
        (TAKE, {"expected": None}, "expected"),
        (TAKE, {"until": LAST_INSTANT + 1}, "until"),
        (TAKE, {"until": None}, "until"),
        (TAKE, {"until": 0}, "until"),
        (TAKE, {"expected": 2}, "until"),
        (END, {"event_id": -1}, "event_id"),
        (END, {"expected": -1}, "expected"),
        (END, {"status": "lost"}, "status"),
        (END, {"status": "queued"}, "next_attempt_at"),
        (END, {"next_attempt_at": 0}, "next_attempt_at"),
        *((END, {"status": "queued", "next_attempt_at": bad}, "next_attempt_at") for bad in (-1, "x", LAST_INSTANT + 1)),
        *((END, {"unless_sent_since": bad}, "unless_sent_since") for bad in (-1, "x", LAST_INSTANT + 1)),
        *(
            (END, {field: bad}, field)
            for field in ("response", "disable")
            for bad in (5, "\x00", "\ud800", "x" * (ERROR_LIMIT + 1))
        ),
        (END, {"attempt": None}, "attempt"),
        (END, {"attempt": Try(-1, 0)}, "at"),
        (END, {"attempt": Try(0, 1.5)}, "took"),  # type: ignore[arg-type]
        (END, {"attempt": Try(0, 0, "200")}, "status"),  # type: ignore[arg-type]
        (END, {"attempt": Try(0, 0, None, "\x00")}, "error"),
        (REPLAY, {"event_id": 1.0}, "event_id"),
    ],
)
def test_a_bad_change_of_webhooks_is_refused_by_the_name_of_its_field(
    sound: OfWebhooks, bad: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_alteration(replace(sound, **bad))
    assert refused.value.field == field


@pytest.mark.parametrize(
    "url",
    ["http://a", "HTTPS://[::1]:1/x?y=z", "https://example.com:65535", "https://a/" + "x" * (KEY_LIMIT - 10)],
    ids=count(),
)
def test_a_url_that_can_be_called_is_let_in(url: str) -> None:
    check_alteration(replace(HOOK, url=url))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "text"),
        ("https://a/" + "x" * (KEY_LIMIT - 9), "at most 1,000 characters$"),
        ("https://a/b c", "spaces"), ("https://a/b\tc", "spaces"), ("https://a/\x1f", "spaces"),
        ("https://a/\x7f", "spaces"), ("https://a\\b", "spaces"),
        ("https://[a", "cannot be read"), ("https://a:65536", "cannot be read"),
        ("ftp://a", "such as"), ("https://", "such as"), ("https://a:0", "such as"), ("example.com", "such as"),
        ("https://me@a", "password"), ("https://a/#b", "fragment"),
    ],
    ids=count(),  # tests with a scheme in their name are taken for slow ones by the mutation run
)  # fmt: skip
def test_a_url_that_cannot_be_called_is_refused_with_the_reason(url: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"url: .*{why}"):
        check_alteration(replace(HOOK, url=url))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((), "non-empty"), ([], "non-empty"), ({DEAD}, "non-empty"), (DEAD, "non-empty"), (None, "non-empty"),
        ((DEAD, "job.ded"), r"'job.ded' is none \(did you mean 'job.dead'\?\); known: "),
        ((5,), "5 is none; known: "), (([],), r"\[\] is none; known: "),
    ],
)  # fmt: skip
def test_events_are_a_non_empty_sequence_of_known_names(events: Any, why: str) -> None:
    check_alteration(replace(HOOK, events=[DEAD]))
    with pytest.raises(InvalidInput, match=f"events: .*{why}"):
        check_alteration(replace(HOOK, events=events))
