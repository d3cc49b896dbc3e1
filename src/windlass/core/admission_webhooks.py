"""Checks of webhooks and deliveries, before anything is written."""

from __future__ import annotations

import re
from typing import Final, get_args
from urllib.parse import urlsplit

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
from windlass.core.events import EVENTS
from windlass.core.fields import check_flag, check_instant, check_name, check_number, check_one_of, check_text
from windlass.core.webhooks import key_of
from windlass.errors import InvalidInput, shown
from windlass.records import DeliveryStatus, Try
from windlass.types import Micros
from windlass.words import did_you_mean

STATUSES: Final = frozenset(get_args(DeliveryStatus))
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_of_webhooks(change: OfWebhooks) -> None:
    check_webhook_id(change.webhook_id)
    match change:
        case PutWebhook():
            check_url(change.url)
            check_events(change.events)
            key_of(change.secret)
            if change.org_id is not None:
                check_name("org_id", change.org_id)
            check_flag("enabled", change.enabled)
        case ChangeWebhook():
            if change.url is not None:
                check_url(change.url)
            if change.events is not None:
                check_events(change.events)
            if change.enabled is not None:
                check_flag("enabled", change.enabled)
        case RotateSecret():
            key_of(change.secret)
            check_instant("keep_until", change.keep_until)
        case TakeDelivery():
            check_times(change.event_id, change.expected, change.until)
        case EndDelivery():
            check_ending(change)
        case ReplayDelivery():
            check_number("event_id", change.event_id)
        case DeleteWebhook() | PingWebhook():
            pass


def check_webhook_id(value: object) -> None:
    """It is part of a header of every message, so it is plain."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidInput("webhook_id", f"must be 1 to 64 letters, digits, _ and -, got {shown(value)}")


def check_url(url: object) -> None:
    """Whether it can be a receiver's address at all. Where it leads is looked at when it is called."""
    check_text("url", url)
    assert isinstance(url, str), "checked above"
    told = f"{url!r:.120}"
    if any(character <= " " or character in "\\\x7f" for character in url):
        raise InvalidInput("url", f"must be without spaces and backslashes, got {told}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput("url", f"cannot be read: {told}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidInput("url", f"must be such as https://example.com/hook, got {told}")
    if "@" in parts.netloc:
        raise InvalidInput("url", "must not hold a user or a password; messages are signed instead")
    if parts.fragment:
        raise InvalidInput("url", "must not hold a fragment (#…), which is never sent")


def check_events(events: object) -> None:
    if not isinstance(events, tuple | list) or not events:
        raise InvalidInput("events", f"give a non-empty sequence of event names, got {shown(events)}")
    for event in events:
        if event not in EVENTS:
            hint = did_you_mean(event, EVENTS) if isinstance(event, str) else ""
            raise InvalidInput("events", f"{shown(event)} is none{hint}; known: {', '.join(EVENTS)}")


def check_times(event_id: int, expected: Micros, until: Micros) -> None:
    check_number("event_id", event_id)
    check_number("expected", expected)
    check_instant("until", until)
    if until <= expected:
        raise InvalidInput("until", "must be later than what was expected: by it the one who took it is known")


def check_ending(change: EndDelivery) -> None:
    check_number("event_id", change.event_id)
    check_number("expected", change.expected)
    check_one_of("status", change.status, STATUSES)
    if (change.status == "queued") != (change.next_attempt_at is not None):
        raise InvalidInput("next_attempt_at", "is given for a delivery that is tried again, and only for that")
    if change.next_attempt_at is not None:
        check_instant("next_attempt_at", change.next_attempt_at)
    if change.unless_sent_since is not None:
        check_instant("unless_sent_since", change.unless_sent_since)
    for field in ("response", "disable"):
        if getattr(change, field) is not None:
            check_text(field, getattr(change, field), most=ERROR_LIMIT)
    _check_try(change.attempt)


def _check_try(attempt: object) -> None:
    if not isinstance(attempt, Try):
        raise InvalidInput("attempt", f"must be a Try, got {shown(attempt)}")
    check_instant("at", attempt.at)
    check_number("took", attempt.took)
    if attempt.status is not None:
        check_number("status", attempt.status)
    if attempt.error is not None:
        check_text("error", attempt.error, most=ERROR_LIMIT)
