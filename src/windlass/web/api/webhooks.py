"""`/api/webhooks`: who is told of what, what was sent, and what came of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.webhooks import KEEP_OLD, DeliveryList, DeliveryView, NewSecret, WebhookList, WebhookView
from windlass.records import DeliveryStatus
from windlass.web.api.asking import Gone, Limit, Time
from windlass.web.request import Request


class WebhookWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    events: Annotated[tuple[str, ...], Meta(description="such as job.dead or group.finished")]
    org_id: Annotated[str | None, Meta(description="only of what belongs to this organisation; else of everything")] = None


class WebhookChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    url: str | None = None
    events: tuple[str, ...] | None = None
    enabled: Annotated[bool | None, Meta(description="switched on again, it gets what still waits for it")] = None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    keep: Annotated[Time, Meta(description="so long messages are signed with the old secret, too")] = KEEP_OLD


class DeliveriesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: DeliveryStatus | None = None
    limit: Limit = 50
    cursor: str | None = None


class Replayed(Struct, frozen=True):
    messages: int


async def listed(request: Request[None, None]) -> WebhookList:
    """Every subscription. Of a secret only the last four characters are shown."""
    return await request.admin.webhooks()


async def show(request: Request[None, None]) -> WebhookView:
    """One subscription."""
    return await request.admin.webhook(request.path["webhook_id"])


async def create(request: Request[None, WebhookWish]) -> NewSecret:
    """Subscribe. The secret that signs the messages is told here and never again."""
    wish = request.body
    return await request.admin.create_webhook(wish.url, wish.events, org_id=wish.org_id)


async def update(request: Request[None, WebhookChange]) -> WebhookView:
    """Change only what is given."""
    said = request.body
    return await request.admin.update_webhook(
        request.path["webhook_id"], url=said.url, events=said.events, enabled=said.enabled
    )


async def rotate(request: Request[None, Rotation]) -> NewSecret:
    """Another secret; for a while messages are signed with both."""
    return await request.admin.rotate_webhook(request.path["webhook_id"], keep=request.body.keep)


async def delete(request: Request[None, None]) -> Gone:
    """Remove a subscription with all its deliveries."""
    await request.admin.delete_webhook(request.path["webhook_id"])
    return Gone(request.path["webhook_id"])


async def ping(request: Request[None, None]) -> DeliveryView:
    """Send a message that says nothing, now and once, and answer what came of it."""
    return await request.admin.ping_webhook(request.path["webhook_id"])


async def deliveries(request: Request[DeliveriesQuery, None]) -> DeliveryList:
    """What was, is and will be sent to it, newest first."""
    asked = request.query
    return await request.admin.deliveries(
        request.path["webhook_id"], status=asked.status, limit=request.page(asked.limit), cursor=asked.cursor
    )


async def replay_failed(request: Request[None, None]) -> Replayed:
    """Send everything once more that failed for good."""
    return Replayed(await request.admin.replay_failed(request.path["webhook_id"]))


async def delivery(request: Request[None, None]) -> DeliveryView:
    """One message, with its last attempts."""
    return await request.admin.delivery(request.path["message_id"])


async def replay(request: Request[None, None]) -> DeliveryView:
    """Send a message once more, under the same id."""
    return await request.admin.replay_delivery(request.path["message_id"])
