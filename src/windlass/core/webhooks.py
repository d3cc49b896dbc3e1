"""Deliveries: who gets what, what is sent, how it is signed, and what comes of an answer. Standard Webhooks, version 1.

At least once: a delivery that was sent, and whose sender died before it could say so, is sent again under the same id."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import SECOND, moment
from windlass.core.alterations import ChangeWebhook, EndDelivery, PutWebhook, RotateSecret
from windlass.core.changes import storable
from windlass.core.events import PING
from windlass.errors import InvalidInput
from windlass.records import AuditLine, Delivery, Event, Try, Webhook
from windlass.redaction import redact_text
from windlass.types import Micros

# Pauses before each attempt: the whole takes about three days. The first is made at once.
SCHEDULE: Final[tuple[Micros, ...]] = tuple(
    seconds * SECOND for seconds in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
JITTER: Final = 0.2  # a pause is up to so much longer
LONGEST_PAUSE: Final = 86_400 * SECOND  # whatever Retry-After says
RESPONSE_MOST: Final = 4_096  # characters of an answer that are kept
ERROR_MOST: Final = 500
LOG_MOST: Final = 20  # attempts that a delivery remembers
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how a secret begins, not one
SECRET_BYTES: Final = (24, 64)
GONE: Final = 410
BUSY: Final = (429, 503)


class Answer(Struct, frozen=True, kw_only=True):
    """What became of a request: the receiver's status and the beginning of what it said, or why there is none."""

    took: Micros
    status: int | None = None
    body: str = ""
    error: str | None = None
    retry_after: Micros | None = None

    @property
    def is_success(self) -> bool:
        return self.error is None and self.status is not None and 200 <= self.status < 300


# ----------------------------------------------------------------------------------------------------------- who, what


def receives(webhook: Webhook, event: Event) -> bool:
    """Whether an event becomes a delivery. One that subscribed later does not hear of it."""
    asked = webhook.enabled and event.event in webhook.events and webhook.created_at <= event.created_at
    return asked and webhook.org_id in (None, event.org_id)


def made_for(webhooks: Iterable[Webhook], event: Event, now: Micros) -> list[Delivery]:
    return [delivery_of(webhook.webhook_id, event, now) for webhook in webhooks if receives(webhook, event)]


def delivery_of(webhook_id: str, event: Event, now: Micros) -> Delivery:
    return Delivery(
        event_id=event.event_id, webhook_id=webhook_id, event=event.event, job_id=event.job_id, org_id=event.org_id,
        body=event.body, created_at=event.created_at, next_attempt_at=now,
    )  # fmt: skip


def message_id(delivery: Delivery) -> str:
    """The id of a message. It is the same for every attempt and every replay, so that a receiver knows what it has seen."""
    return f"{delivery.webhook_id}_{delivery.event_id}"


def named_by(message: str) -> tuple[str, int] | None:
    """The webhook and the event of a message's id; None when it is none."""
    webhook_id, _, number = message.rpartition("_")
    is_number = number.isascii() and number.isdecimal() and len(number) < 19
    return (webhook_id, int(number)) if webhook_id and is_number else None


def content_of(delivery: Delivery) -> bytes:
    """The body of the request, the same for every attempt."""
    at = moment(delivery.created_at).isoformat().replace("+00:00", "Z")
    return f'{{"type":{json.dumps(delivery.event)},"timestamp":"{at}","data":{delivery.body}}}'.encode()


# ------------------------------------------------------------------------------------------------------------- secrets


def secret_of(key: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """What a secret signs with. `InvalidInput` when it is none."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True) if _begins_well(secret) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not SECRET_BYTES[0] <= len(key) <= SECRET_BYTES[1]:
        least, most = SECRET_BYTES
        raise InvalidInput("secret", f"must be {SECRET_PREFIX} and {least} to {most} random bytes in base64")
    return key


def _begins_well(secret: object) -> bool:
    return isinstance(secret, str) and secret.startswith(SECRET_PREFIX)


def secrets_at(webhook: Webhook, now: Micros) -> list[str]:
    """The secrets that sign now: after a change, for a while, the old one too."""
    old = webhook.old_secret if webhook.old_until is not None and now < webhook.old_until else None
    return [webhook.secret] if old is None else [webhook.secret, old]


def signed_headers(webhook: Webhook, delivery: Delivery, content: bytes, now: Micros) -> dict[str, str]:
    """`webhook-id`, `webhook-timestamp` in seconds, and a signature by each secret, with spaces between."""
    message, timestamp = message_id(delivery), str(now // SECOND)
    signed = f"{message}.{timestamp}.".encode() + content
    made = (hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in secrets_at(webhook, now))
    signatures = " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in made)
    return {"webhook-id": message, "webhook-timestamp": timestamp, "webhook-signature": signatures}


# ------------------------------------------------------------------------------------------------------------- answers


def ending(
    delivery: Delivery, answer: Answer, now: Micros, roll: float, scrub: Callable[[str], str] = redact_text
) -> EndDelivery:
    """What is written about an attempt, without what is or looks like a secret: receivers say all kinds of things. One
    that is gone (410) is not asked again; one that fails to the end of the schedule is switched off, unless it took
    something else meanwhile: then the fault is in this one message."""
    error = None if answer.is_success else answer.error or f"answered {answer.status}"
    tried = Try(now, answer.took, answer.status, None if error is None else storable(scrub(error)[:ERROR_MOST]))
    about = EndDelivery(
        event_id=delivery.event_id, webhook_id=delivery.webhook_id, expected=delivery.next_attempt_at or 0, status="sent",
        attempt=tried, response=storable(scrub(answer.body)[:RESPONSE_MOST]) or None,
    )  # fmt: skip
    if answer.is_success:
        return about
    if answer.status == GONE:
        return replace(about, status="failed", disable="the receiver answered 410 Gone")
    if delivery.event == PING:  # somebody waits for the answer: that is all it is for
        return replace(about, status="failed")
    pause = pause_after(delivery.attempts + 1, answer, roll)
    if pause is not None:
        return replace(about, status="queued", next_attempt_at=now + pause)
    reason = f"{delivery.attempts + 1} attempts failed, the last one: {tried.error}"
    return replace(about, status="failed", disable=reason, unless_sent_since=delivery.created_at)


def pause_after(attempts: int, answer: Answer, roll: float) -> Micros | None:
    """How long to wait after so many failed attempts; None when that was the last."""
    if attempts >= len(SCHEDULE):
        return None
    pause = int(SCHEDULE[attempts] * (1 + JITTER * roll))
    asked = answer.retry_after if answer.status in BUSY and answer.retry_after is not None else 0
    return max(pause, min(asked, LONGEST_PAUSE))


# ---------------------------------------------------------------------------------------------------------------- rows


def put(before: Webhook | None, change: PutWebhook, now: Micros) -> Webhook:
    return Webhook(
        webhook_id=change.webhook_id, url=change.url, events=tuple(change.events), secret=change.secret,
        org_id=change.org_id, enabled=change.enabled, created_at=now if before is None else before.created_at,
    )  # fmt: skip


def changed(webhook: Webhook, change: ChangeWebhook) -> Webhook:
    enabled = webhook.enabled if change.enabled is None else change.enabled
    return replace(
        webhook, url=webhook.url if change.url is None else change.url,
        events=webhook.events if change.events is None else tuple(change.events), enabled=enabled,
        disabled_reason=None if enabled else webhook.disabled_reason,
    )  # fmt: skip


def rotated(webhook: Webhook, change: RotateSecret) -> Webhook:
    return replace(webhook, secret=change.secret, old_secret=webhook.secret, old_until=change.keep_until)


def is_takable(delivery: Delivery, expected: Micros) -> bool:
    return delivery.status == "queued" and delivery.next_attempt_at == expected


def taken(delivery: Delivery, until: Micros) -> Delivery:
    return replace(delivery, taken=True, next_attempt_at=until)


def is_takers(delivery: Delivery, expected: Micros) -> bool:
    """Whether it is still theirs who took it until then."""
    return delivery.taken and is_takable(delivery, expected)


def ended(delivery: Delivery, change: EndDelivery, now: Micros) -> Delivery:
    return replace(
        delivery, status=change.status, attempts=delivery.attempts + 1, taken=False,
        next_attempt_at=change.next_attempt_at if change.status == "queued" else None,
        finished_at=None if change.status == "queued" else now, response=change.response,
        log=(*delivery.log, change.attempt)[-LOG_MOST:],
    )  # fmt: skip


def replayed(delivery: Delivery, now: Micros) -> Delivery:
    """Due at once, with its whole schedule before it. What it remembers stays."""
    return replace(delivery, status="queued", attempts=0, taken=False, next_attempt_at=now, finished_at=None)


def is_being_sent(delivery: Delivery, now: Micros) -> bool:
    return delivery.taken and (delivery.next_attempt_at or 0) > now


def disabled(change: EndDelivery, now: Micros) -> AuditLine:
    """The line of the audit log for a webhook that nobody switched off by hand."""
    return AuditLine(
        at=now, actor="windlass", action="webhook.disabled", subject=f"webhook:{change.webhook_id}",
        detail=json.dumps({"reason": change.disable}),
    )  # fmt: skip
