"""What is asked of subscriptions and their deliveries, as values: part of `core/alterations.py`."""

from __future__ import annotations

from typing import TypeAlias

from windlass.core.named import Named
from windlass.records import DeliveryStatus, Try
from windlass.types import Micros


class PutWebhook(Named, frozen=True, kw_only=True):
    """Subscribe to events, or change a subscription as a whole. From now on each of them leaves a row in the outbox."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    secret: str
    org_id: str | None = None
    enabled: bool = True


class ChangeWebhook(Named, frozen=True, kw_only=True):
    """Change parts of a subscription; None = as it is. Switched on again, it goes on with what it still has to send."""

    webhook_id: str
    url: str | None = None
    events: tuple[str, ...] | None = None
    enabled: bool | None = None


class RotateSecret(Named, frozen=True, kw_only=True):
    """Give a webhook another secret. Until `keep_until` messages are signed with both."""

    webhook_id: str
    secret: str
    keep_until: Micros


class DeleteWebhook(Named, frozen=True):
    """Remove a subscription with all its deliveries."""

    webhook_id: str


class PingWebhook(Named, frozen=True):
    """Send a webhook a message that says nothing, whatever it subscribes to: a row of the outbox, and its delivery."""

    webhook_id: str


class TakeDelivery(Named, frozen=True, kw_only=True):
    """Take a delivery that is due upon oneself, until then: nobody else sends it before. `expected` is its
    `next_attempt_at` as it was read; `until` becomes it."""

    event_id: int
    webhook_id: str
    expected: Micros
    until: Micros


class EndDelivery(Named, frozen=True, kw_only=True):
    """What came of an attempt, by who took the delivery: `expected` is the `until` of the taking. Again at
    `next_attempt_at`, or sent, or failed for good. `disable`: the webhook is switched off for this reason, unless something
    was sent to it at `unless_sent_since` or later."""

    event_id: int
    webhook_id: str
    expected: Micros
    status: DeliveryStatus
    attempt: Try
    next_attempt_at: Micros | None = None
    response: str | None = None
    disable: str | None = None
    unless_sent_since: Micros | None = None


class ReplayDelivery(Named, frozen=True, kw_only=True):
    """Send a message once more, at once and with its whole schedule: the same id, the same content. `busy` while somebody
    is sending it."""

    event_id: int
    webhook_id: str


OfWebhooks: TypeAlias = (
    PutWebhook | ChangeWebhook | RotateSecret | DeleteWebhook | PingWebhook | TakeDelivery | EndDelivery | ReplayDelivery
)
