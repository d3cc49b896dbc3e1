"""Deliveries as values: ids, content, signatures, and what comes of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from windlass.clock import SECOND, wall
from windlass.core import webhooks as rules
from windlass.core.alterations import ChangeWebhook, PutWebhook
from windlass.core.events import DEAD, PING
from windlass.core.webhooks import SCHEDULE, Answer
from windlass.errors import InvalidInput
from windlass.principal import new_token
from windlass.records import Delivery, Event, Webhook

OLD, NEW = rules.secret_of(b"a" * 32), rules.secret_of(b"b" * 24)
NOW = 1_700_000_000 * SECOND
HOOK = Webhook(webhook_id="wh_1", url="https://x.org", events=(DEAD,), secret=NEW, created_at=NOW)
OK = Answer(took=1, status=200, body="fine")
BAD = Answer(took=1, status=500, body="oops")


def event(**fields: Any) -> Event:
    told = {
        "event": DEAD,
        "job_id": "j",
        "org_id": None,
        "body": '{"v":1,"error":"ü\\n"}',
        "created_at": NOW,
        "event_id": 7,
    }
    return Event(**{**told, "event_id": 7, **fields})


def delivery(**fields: Any) -> Delivery:
    return replace(rules.delivery_of("wh_1", event(), NOW), taken=True, **fields)


def verified(webhook: Webhook, secret: str, at: int) -> Any:
    content = rules.content_of(delivery())
    return Verifier(secret).verify(content, rules.signed_headers(webhook, delivery(), content, at))


@pytest.fixture
def now() -> int:
    """The verifier of others refuses what its own clock calls old, so a message is signed when the test runs."""
    return wall()


def test_a_message_is_verified_by_the_library_of_others(now: int) -> None:
    told = verified(HOOK, NEW, now)
    assert (told["type"], told["data"]) == (DEAD, {"v": 1, "error": "ü\n"})
    assert told["timestamp"].endswith("Z")


def test_another_secret_does_not_verify_it(now: int) -> None:
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        verified(HOOK, OLD, now)


def test_content_that_was_changed_does_not_verify(now: int) -> None:
    content = rules.content_of(delivery())
    headers = rules.signed_headers(HOOK, delivery(), content, now)
    for name, value in (("webhook-id", "wh_1_8"), ("webhook-timestamp", str(now // SECOND + 1))):
        with pytest.raises(WebhookVerificationError, match="No matching signature"):
            Verifier(NEW).verify(content, {**headers, name: value})
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Verifier(NEW).verify(content.replace(b"1", b"2"), headers)


def test_both_secrets_sign_until_the_old_one_s_time_is_over(now: int) -> None:
    both = replace(HOOK, old_secret=OLD, old_until=now + 1)
    assert verified(both, OLD, now) == verified(both, NEW, now)
    assert rules.secrets_at(both, now + 1) == [NEW]
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        verified(both, OLD, now + 1)


def test_the_same_id_and_content_for_every_attempt() -> None:
    first, later = delivery(), delivery(attempts=5, log=(), next_attempt_at=NOW + 9)
    assert rules.message_id(first) == rules.message_id(later) == rules.message_id(rules.replayed(later, NOW)) == "wh_1_7"
    assert rules.content_of(first) == rules.content_of(later)
    assert rules.named_by("wh_1_7") == ("wh_1", 7)
    assert [rules.named_by(text) for text in ("", "7", "_7", "wh_1_x", "wh_1_٧", "wh_1_" + "9" * 30)] == [None] * 6


def test_content_is_json_whatever_the_row_holds() -> None:
    assert json.loads(rules.content_of(replace(delivery(), event='a"b')))["type"] == 'a"b'


@pytest.mark.parametrize(
    "secret",
    ["", "plain", "whsec_", "whsec_!!!!", rules.secret_of(b"a" * 23), rules.secret_of(b"a" * 65), "b" * 40, 7, None],
)
def test_a_secret_is_twenty_four_to_sixty_four_bytes(secret: Any) -> None:
    with pytest.raises(InvalidInput, match="secret"):
        rules.key_of(secret)


# ------------------------------------------------------------------------------------------------------------- who


@pytest.mark.parametrize(
    ("hook", "happened", "gets"),
    [
        ({}, {}, True), ({"enabled": False}, {}, False), ({"events": ("job.retried",)}, {}, False),
        ({"org_id": "a"}, {"org_id": "a"}, True), ({"org_id": "a"}, {"org_id": "b"}, False), ({"org_id": "a"}, {}, False),
        ({}, {"org_id": "a"}, True), ({"created_at": NOW + 1}, {}, False),
    ],
)  # fmt: skip
def test_who_gets_what(hook: dict[str, Any], happened: dict[str, Any], gets: bool) -> None:
    assert rules.receives(replace(HOOK, **hook), event(**happened)) is gets


# ---------------------------------------------------------------------------------------------------------- answers


def test_a_success_is_the_end() -> None:
    end = rules.ending(delivery(), OK, NOW, 0.5)
    assert (end.status, end.next_attempt_at, end.disable, end.response) == ("sent", None, None, "fine")
    assert (end.attempt.status, end.attempt.error) == (200, None)


def test_the_schedule_has_ten_attempts_over_three_days_with_jitter() -> None:
    pauses = [rules.pause_after(n, BAD, 0.0) for n in range(1, 11)]
    assert pauses[-1] is None
    assert [pause for pause in pauses if pause is not None] == list(SCHEDULE[1:])
    assert 3 * 86_400 * SECOND < sum(SCHEDULE) < 4 * 86_400 * SECOND
    assert rules.pause_after(2, BAD, 1.0) == int(300 * SECOND * 1.2)


@pytest.mark.parametrize(
    ("status", "asked", "pause"),
    [(429, 60, 60), (503, 60, 60), (500, 60, 5), (429, 1, 5), (429, 10**9, 86_400), (429, None, 5), (200, None, 5)],
)
def test_a_receiver_may_ask_for_a_longer_pause(status: int, asked: int | None, pause: int) -> None:
    answer = Answer(took=1, status=status, retry_after=None if asked is None else asked * SECOND)
    assert rules.pause_after(1, answer, 0.0) == pause * SECOND


def test_a_failure_says_what_it_was_and_is_tried_again() -> None:
    end = rules.ending(delivery(attempts=1), BAD, NOW, 0.0)
    assert (end.status, end.next_attempt_at, end.attempt.error) == ("queued", NOW + 300 * SECOND, "answered 500")
    assert rules.ending(delivery(), Answer(took=1, error="no route"), NOW, 0.0).attempt.error == "no route"


def test_one_that_is_gone_is_switched_off_at_once() -> None:
    end = rules.ending(delivery(), Answer(took=1, status=410), NOW, 0.0)
    assert (end.status, end.unless_sent_since) == ("failed", None)
    assert "410" in (end.disable or "")


def test_the_end_of_the_schedule_switches_it_off_unless_it_took_something_else() -> None:
    end = rules.ending(delivery(attempts=9), BAD, NOW, 0.0)
    assert (end.status, end.unless_sent_since) == ("failed", NOW)
    assert "10 attempts failed" in (end.disable or "")


def test_a_ping_is_sent_once() -> None:
    end = rules.ending(delivery(event=PING), BAD, NOW, 0.0)
    assert (end.status, end.disable) == ("failed", None)


def test_what_a_receiver_says_is_cut_and_made_storable() -> None:
    answer = Answer(took=1, status=500, body="\x00\ud800" * 5_000, error="\x00" + "e" * 5_000)
    end = rules.ending(delivery(), answer, NOW, 0.0)
    assert end.response is not None
    assert "\x00" not in end.response
    end.response.encode()
    assert len(end.attempt.error or "") <= rules.ERROR_MOST + 3


def test_what_looks_like_a_secret_is_not_kept_of_an_answer() -> None:
    """Also where it would be cut in two."""
    token = new_token()
    for body in (f"you sent Bearer {token}", "x" * (rules.RESPONSE_MOST - 30) + token, f'{{"password": "{token}"}}'):
        told = rules.ending(delivery(), Answer(took=1, status=500, body=body), 0, 0.0)
        assert told.response is not None
        assert token[:20] not in told.response
    said = rules.ending(delivery(), Answer(took=1, error=f"ConnectError: https://ada:{token}@example.com"), 0, 0.0)
    assert said.attempt.error == "ConnectError: https://ada:***@example.com"


@pytest.mark.parametrize(
    ("answer", "success"),
    [
        (Answer(took=1, status=200), True), (Answer(took=1, status=299), True), (Answer(took=1, status=300), False),
        (Answer(took=1, status=199), False), (Answer(took=1), False), (Answer(took=1, status=200, error="cut off"), False),
    ],
)  # fmt: skip
def test_what_is_a_success(answer: Answer, success: bool) -> None:
    assert answer.is_success is success


def test_who_sends_says_until_when_it_took_it_and_an_empty_answer_is_none() -> None:
    end = rules.ending(delivery(), Answer(took=1, status=200), NOW, 0.5)
    assert (end.expected, end.response) == (NOW, None)


# ----------------------------------------------------------------------------------------------------------------- rows


def test_deliveries_are_made_for_those_who_asked() -> None:
    hooks = [HOOK, replace(HOOK, webhook_id="wh_2", enabled=False), replace(HOOK, webhook_id="wh_3")]
    assert [made.webhook_id for made in rules.made_for(hooks, event(), NOW)] == ["wh_1", "wh_3"]


def test_the_longest_number_of_an_event_has_eighteen_digits() -> None:
    assert rules.named_by("wh_1_" + "9" * 18) == ("wh_1", 10**18 - 1)
    assert rules.named_by("wh_1_" + "9" * 19) is None


@pytest.mark.parametrize("length", [24, 64])
def test_a_secret_may_be_as_short_and_as_long_as_that(length: int) -> None:
    assert rules.key_of(rules.secret_of(b"a" * length)) == b"a" * length


def test_a_subscription_that_is_put_again_keeps_its_age() -> None:
    change = PutWebhook(webhook_id="wh_1", url="https://y.org", events=(DEAD,), secret=OLD)
    assert rules.put(None, change, NOW + 5).created_at == NOW + 5
    assert rules.put(HOOK, change, NOW + 5) == replace(HOOK, url="https://y.org", secret=OLD)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, {}, {}), ({}, {"url": "https://y.org"}, {"url": "https://y.org"}),
        ({}, {"events": (PING,)}, {"events": (PING,)}),
        ({}, {"enabled": False}, {"enabled": False}),
        ({"enabled": False, "disabled_reason": "gone"}, {}, {"enabled": False, "disabled_reason": "gone"}),
        ({"enabled": False, "disabled_reason": "gone"}, {"enabled": True}, {}),
    ],
)  # fmt: skip
def test_what_is_not_said_of_a_subscription_stays(
    before: dict[str, Any], change: dict[str, Any], after: dict[str, Any]
) -> None:
    found = rules.changed(replace(HOOK, **before), ChangeWebhook(webhook_id="wh_1", **change))
    assert found == replace(HOOK, **after)


@pytest.mark.parametrize(
    ("fields", "takable", "takers", "being_sent"),
    [
        ({}, True, True, True), ({"taken": False}, True, False, False), ({"status": "sent"}, False, False, True),
        ({"next_attempt_at": NOW + 1}, False, False, True), ({"next_attempt_at": NOW - 1}, False, False, False),
        ({"next_attempt_at": None}, False, False, False),
    ],
)  # fmt: skip
def test_a_delivery_is_taken_by_one_at_a_time(
    fields: dict[str, Any], takable: bool, takers: bool, being_sent: bool
) -> None:
    one = replace(delivery(), **fields)
    assert (rules.is_takable(one, NOW), rules.is_takers(one, NOW)) == (takable, takers)
    assert rules.is_being_sent(one, NOW - 1) is being_sent
    assert not rules.is_being_sent(one, NOW + 1)
    assert not rules.is_being_sent(delivery(), NOW), "at that instant its time is over"


@pytest.mark.parametrize(
    ("answer", "status", "next_attempt_at", "finished_at"),
    [
        (OK, "sent", None, NOW + 9), (BAD, "queued", NOW + 5 * SECOND, None),
        (Answer(took=1, status=410), "failed", None, NOW + 9),
    ],
)  # fmt: skip
def test_an_attempt_ends_a_delivery_or_names_the_next(
    answer: Answer, status: str, next_attempt_at: int | None, finished_at: int | None
) -> None:
    change = rules.ending(delivery(), answer, NOW, 0.0)
    after = rules.ended(delivery(attempts=2), replace(change, next_attempt_at=change.next_attempt_at or 7), NOW + 9)
    assert (after.status, after.next_attempt_at, after.finished_at) == (status, next_attempt_at, finished_at)
    assert (after.attempts, after.taken, after.log) == (3, False, (change.attempt,))
