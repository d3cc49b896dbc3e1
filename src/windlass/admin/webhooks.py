"""The part of `Admin` for webhooks: who is told of what, what was sent, and with which result. A secret is shown once,
when it is made; later only its last characters are.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from windlass.admin.views import Check
from windlass.client import Client
from windlass.clock import SECOND, duration, moment
from windlass.core.admission_of_changes import check_alteration
from windlass.core.alterations import (
    AlterAnswer,
    ChangeWebhook,
    DeleteWebhook,
    OfWebhooks,
    PingWebhook,
    PutWebhook,
    ReplayDelivery,
    RotateSecret,
)
from windlass.core.events import PING
from windlass.core.queries import AllWebhooks, DeliveriesOf, DeliveryOf
from windlass.core.webhooks import message_id, named_by, secret_of
from windlass.delivering import deliver, take
from windlass.errors import InvalidInput, UnknownDelivery, UnknownWebhook, WindlassError
from windlass.outgoing import Sender
from windlass.policies import Duration
from windlass.records import Delivery, DeliveryStatus, Webhook
from windlass.types import Micros
from windlass.words import did_you_mean

KEEP_OLD: Final = "24h"  # how long an old secret signs along
RESOLVES_WITHIN: Final = 5.0
MOST: Final = 1_000
LOOK_AGAIN: Final = 0.1
SINCE: Final = 100  # messages that may have come between a ping and the look for it


class WebhookView(Struct, frozen=True, kw_only=True):
    """`secret_ends` are the last four characters of the secret. Until `old_secret_until` messages are also signed with
    the secret before."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    org_id: str | None
    enabled: bool
    disabled_reason: str | None
    created_at: datetime
    secret_ends: str
    old_secret_until: datetime | None


class WebhookList(Struct, frozen=True, kw_only=True):
    at: datetime
    webhooks: tuple[WebhookView, ...]


class NewSecret(Struct, frozen=True, kw_only=True):
    """A webhook with its secret, which is shown only this time."""

    webhook: WebhookView
    secret: str


class TryView(Struct, frozen=True, kw_only=True):
    at: datetime
    took: float  # seconds
    status: int | None
    error: str | None


class DeliveryView(Struct, frozen=True, kw_only=True):
    """One message to one webhook. `id` is its `webhook-id`; `log` has its last attempts, oldest first."""

    id: str
    webhook_id: str
    event: str
    subject: str
    org_id: str | None
    data: dict[str, Any]
    created_at: datetime
    status: DeliveryStatus
    sending: bool
    attempts: int
    next_attempt_at: datetime | None
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None
    response: str | None
    log: tuple[TryView, ...]


class DeliveryList(Struct, frozen=True, kw_only=True):
    at: datetime
    deliveries: tuple[DeliveryView, ...]
    cursor: str | None


class WebhookAdmin:
    """What `Admin` can do with webhooks. With `org_id`, only the webhooks of that organisation exist."""

    if TYPE_CHECKING:

        @property
        def client(self) -> Client: ...

    async def webhooks(self, *, org_id: str | None = None) -> WebhookList:
        """All webhooks, sorted by id."""
        found = await self.client.driver.read(AllWebhooks())
        rows = [row for row in found if org_id in (None, row.org_id)]
        now = self.client.now()
        return WebhookList(at=moment(now), webhooks=tuple(view(row, now) for row in rows))

    async def webhook(self, webhook_id: str, *, org_id: str | None = None) -> WebhookView:
        return view(await self._webhook(webhook_id, org_id), self.client.now())

    async def create_webhook(
        self, url: str, events: Sequence[str], *, org_id: str | None = None, secret: str | None = None
    ) -> NewSecret:
        """Subscribe to events. The secret is made here unless one is given; it is returned only this time."""
        made = secret_of(secrets.token_bytes(32)) if secret is None else secret
        change = PutWebhook(
            webhook_id=f"wh_{self.client.ids.token()[:20]}", url=url, events=tuple(events), secret=made, org_id=org_id
        )
        check_alteration(change)
        await check_address(self.client, url)
        await self._change(change)
        return NewSecret(webhook=await self.webhook(change.webhook_id), secret=made)

    async def update_webhook(
        self, webhook_id: str, *, url: str | None = None, events: Sequence[str] | None = None,
        enabled: bool | None = None, org_id: str | None = None,
    ) -> WebhookView:  # fmt: skip
        """Change a webhook; what is left out stays. After it is switched on again it gets the messages that wait for it."""
        await self._webhook(webhook_id, org_id)
        change = ChangeWebhook(
            webhook_id=webhook_id, url=url, events=None if events is None else tuple(events), enabled=enabled
        )
        check_alteration(change)
        if url is not None:
            await check_address(self.client, url)
        await self._change(change)
        return await self.webhook(webhook_id)

    async def rotate_webhook(
        self, webhook_id: str, *, keep: Duration = KEEP_OLD, secret: str | None = None, org_id: str | None = None
    ) -> NewSecret:
        """Make a new secret. Messages are signed with both secrets for as long as `keep`, so that the receiver can change
        over."""
        await self._webhook(webhook_id, org_id)
        made = secret_of(secrets.token_bytes(32)) if secret is None else secret
        until = self.client.now() + duration(keep, field="keep")
        await self._change(RotateSecret(webhook_id=webhook_id, secret=made, keep_until=until))
        return NewSecret(webhook=await self.webhook(webhook_id), secret=made)

    async def delete_webhook(self, webhook_id: str, *, org_id: str | None = None) -> None:
        """Remove a webhook with all its deliveries."""
        await self._webhook(webhook_id, org_id)
        await self._change(DeleteWebhook(webhook_id))

    async def ping_webhook(self, webhook_id: str, *, org_id: str | None = None) -> DeliveryView:
        """Send a test message now, once, and return what came of it. Also works for a webhook that is switched off."""
        hook = await self._webhook(webhook_id, org_id)
        await self._change(PingWebhook(webhook_id))
        newest = await self.client.driver.read(DeliveriesOf(webhook_id=webhook_id, limit=SINCE))
        ping = next((row for row in newest if row.event == PING), None)
        if ping is None:  # removed since
            raise UnknownWebhook(webhook_id)
        for ours in await take(self.client, [ping] if ping.status == "queued" and not ping.taken else []):
            await deliver(self.client, hook, ours)
        return await self._ended(message_id(ping))

    async def deliveries(
        self, webhook_id: str, *, status: DeliveryStatus | None = None, limit: int = 50, cursor: str | None = None,
        org_id: str | None = None,
    ) -> DeliveryList:  # fmt: skip
        """What was, is and will be sent to a webhook, newest first."""
        await self._webhook(webhook_id, org_id)
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
            raise InvalidInput("cursor", f"must be that of a page before, got {cursor!r:.40}")
        before = None if cursor is None else int(cursor)
        query = DeliveriesOf(webhook_id=webhook_id, status=status, before=before, limit=limit)
        rows, now = await self.client.driver.read(query), self.client.now()
        after = str(rows[-1].event_id) if len(rows) == limit else None
        return DeliveryList(at=moment(now), deliveries=tuple(delivery_view(row, now) for row in rows), cursor=after)

    async def delivery(self, message: str, *, org_id: str | None = None) -> DeliveryView:
        return delivery_view(await self._delivery(message, org_id), self.client.now())

    async def replay_delivery(self, message: str, *, org_id: str | None = None) -> DeliveryView:
        """Send a message again, under the same id and with all its attempts."""
        row = await self._delivery(message, org_id)
        if await self._change(ReplayDelivery(event_id=row.event_id, webhook_id=row.webhook_id)) == "busy":
            raise InvalidInput("delivery", f"{message!r} is being sent at this moment; look again in a minute")
        return await self.delivery(message)

    async def replay_failed(self, webhook_id: str, *, limit: int = MOST, org_id: str | None = None) -> int:
        """Send the newest messages again that have failed for good. Returns how many."""
        await self._webhook(webhook_id, org_id)
        rows = await self.client.driver.read(DeliveriesOf(webhook_id=webhook_id, status="failed", limit=limit))
        wishes = [ReplayDelivery(event_id=row.event_id, webhook_id=row.webhook_id) for row in reversed(rows)]
        answers = await self.client.driver.alter(wishes, now=self.client.now()) if wishes else []
        return answers.count("applied")

    # ---------------------------------------------------------------------------------------------------------- inside

    async def _webhook(self, webhook_id: str, org_id: str | None) -> Webhook:
        """The webhook; that of another organisation does not exist."""
        rows = [row for row in await self.client.driver.read(AllWebhooks()) if org_id in (None, row.org_id)]
        for row in rows:
            if row.webhook_id == webhook_id:
                return row
        raise UnknownWebhook(webhook_id, did_you_mean(webhook_id, [row.webhook_id for row in rows]))

    async def _delivery(self, message: str, org_id: str | None = None) -> Delivery:
        named = named_by(message)
        if named is not None:
            if org_id is not None:
                await self._webhook(named[0], org_id)
            rows = await self.client.driver.read(DeliveryOf(webhook_id=named[0], event_id=named[1]))
            if rows:
                return rows[0]
        raise UnknownDelivery(message)

    async def _ended(self, message: str) -> DeliveryView:
        """The delivery after its first attempt, whoever makes it, or as it stands if nobody comes to it in time."""
        for _ in range(int(self.client.settings.webhook_timeout / SECOND / LOOK_AGAIN) + 1):
            row = await self._delivery(message)
            if row.attempts:
                break
            await asyncio.sleep(LOOK_AGAIN)
        return delivery_view(row, self.client.now())

    async def _change(self, change: OfWebhooks) -> AlterAnswer:
        [answer] = await self.client.driver.alter([change], now=self.client.now())
        self.client.subscriptions.forget()
        if answer == "not_found":  # since it was read
            raise UnknownWebhook(change.webhook_id)
        return answer


async def check_address(client: Client, url: str) -> None:
    """Raise what calling the address would raise. An unknown host name is let pass, because it may be known later."""
    if isinstance(client.sender, Sender):
        try:
            async with asyncio.timeout(RESOLVES_WITHIN):
                await client.sender.check(url)
        except (OSError, UnicodeError):
            return


async def checks(client: Client) -> list[Check]:
    """Webhooks that were switched off because their receivers failed, and those that hear of nothing. Nothing of a store
    that cannot be opened."""
    try:
        rows = await client.driver.read(AllWebhooks())
    except WindlassError:
        return []
    off = [row for row in rows if not row.enabled and row.disabled_reason is not None]
    return [
        Check(
            "webhooks", "warning", f"{row.webhook_id} ({row.url}) was switched off: {row.disabled_reason}",
            f"windlass webhooks enable {row.webhook_id}",
        )
        for row in off
    ] + [
        Check(
            "webhooks", "warning", f"{row.webhook_id} ({row.url}) hears of nothing: its events cannot be read",
            f"windlass webhooks update {row.webhook_id} --events job.dead",
        )
        for row in rows if row.enabled and not row.events
    ]  # fmt: skip


def view(row: Webhook, now: Micros) -> WebhookView:
    old = row.old_until if row.old_until is not None and now < row.old_until else None
    return WebhookView(
        webhook_id=row.webhook_id, url=row.url, events=row.events, org_id=row.org_id, enabled=row.enabled,
        disabled_reason=row.disabled_reason, created_at=moment(row.created_at), secret_ends=row.secret[-4:],
        old_secret_until=None if old is None else moment(old),
    )  # fmt: skip


def delivery_view(row: Delivery, now: Micros) -> DeliveryView:
    tries = tuple(TryView(at=moment(t.at), took=t.took / SECOND, status=t.status, error=t.error) for t in row.log)
    last = row.log[-1] if row.log else None
    return DeliveryView(
        id=message_id(row), webhook_id=row.webhook_id, event=row.event, subject=row.job_id, org_id=row.org_id,
        data=msgspec.json.decode(row.body), created_at=moment(row.created_at), status=row.status,
        sending=row.taken and (row.next_attempt_at or 0) > now, attempts=row.attempts,
        next_attempt_at=None if row.next_attempt_at is None or row.taken else moment(row.next_attempt_at),
        finished_at=None if row.finished_at is None else moment(row.finished_at), response=row.response,
        last_status=None if last is None else last.status, last_error=None if last is None else last.error, log=tries,
    )  # fmt: skip
