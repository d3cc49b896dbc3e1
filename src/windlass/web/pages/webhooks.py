"""`/webhooks`: who is told of what, and what came of each message. A secret is shown once, in the answer to the form that
made it. Who may only read sees nothing of this: an address can be as good as a password, and so can an answer."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from windlass.admin.webhooks import KEEP_OLD, DeliveryView, WebhookView
from windlass.core.events import EVENTS
from windlass.errors import WindlassError
from windlass.records import DeliveryStatus
from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.formats import part, query
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.request import Request

MOST: Final = 100  # webhooks whose last message is looked up
MESSAGES: Final = 50  # on a page
STATUSES: Final = ((None, "All"), ("queued", "Waiting"), ("sent", "Sent"), ("failed", "Failed"))


class Shown(Told, frozen=True, kw_only=True):
    status: DeliveryStatus | None = None
    cursor: str | None = None


class Form(Struct, frozen=True, kw_only=True):
    url: str = ""
    events: tuple[str, ...] = ()
    org: str = ""


class Rotation(Sure, frozen=True, kw_only=True):
    keep: str = KEEP_OLD


class Listed(Struct, frozen=True):
    """`failing`: the last message did not arrive, or not yet."""

    hook: WebhookView
    last: DeliveryView | None

    @property
    def failing(self) -> bool:
        return self.last is not None and self.last.status != "sent" and self.last.attempts > 0


async def show(request: Request[Told, None]) -> Page:
    return await _list(request, Form(events=("job.dead",)))


async def live(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, show, "webhook-rows"))


async def _list(request: Request[Any, Any], form: Form, error: str = "") -> Page:
    hooks = (await request.admin.webhooks()).webhooks
    rows = []
    for place, hook in enumerate(sorted(hooks, key=lambda one: one.created_at, reverse=True)):
        sent = (await request.admin.deliveries(hook.webhook_id, limit=1)).deliveries if place < MOST else ()
        rows.append(Listed(hook, sent[0] if sent else None))
    live = "/live/webhooks" if rows else None
    shown = {"rows": rows, "form": form, "error": error, "events": EVENTS, "live": live}
    return await page(request, "webhooks.html", "webhooks", shown, 422 if error else 200)


async def one(request: Request[Shown, None]) -> Page:
    return await _one(request, request.path["id"])


async def live_one(request: Request[Shown, None]) -> Page | Events:
    return Events(fragments(request, one, "webhook-head", "webhook-messages"))


async def _one(
    request: Request[Any, Any], webhook_id: str, form: Form | None = None, error: str = "", secret: str = ""
) -> Page:
    hook = await request.admin.webhook(webhook_id)
    asked = request.query if isinstance(request.query, Shown) else Shown()
    sent = await request.admin.deliveries(webhook_id, status=asked.status, limit=MESSAGES, cursor=asked.cursor)
    path = path_of(webhook_id)
    shown = {
        "hook": hook, "sent": sent.deliveries, "path": path, "secret": secret,
        "form": form or Form(url=hook.url, events=hook.events), "error": error, "events": EVENTS, "asked": asked,
        "keep": KEEP_OLD, "statuses": [(value, word, path + query({"status": value})) for value, word in STATUSES],
        "older": path + query({"status": asked.status, "cursor": sent.cursor}) if sent.cursor else "",
        "live": None if asked.cursor else f"/live{path}" + query({"status": asked.status}),  # what is old stands still
    }  # fmt: skip
    return await page(request, "webhook.html", "webhooks", shown, 422 if error else 200)


def path_of(webhook_id: str) -> str:
    return f"/webhooks/{part(webhook_id)}"


async def create(request: Request[None, Form]) -> Page:
    form = request.body
    try:
        made = await request.admin.create_webhook(form.url.strip(), form.events, org_id=form.org.strip() or None)
    except WindlassError as error:
        return await _list(request, form, str(error))
    return await _one(request, made.webhook.webhook_id, secret=made.secret)


async def update(request: Request[None, Form]) -> Page | Redirect:
    form, webhook_id = request.body, request.path["id"]
    before = await request.admin.webhook(webhook_id)
    url = form.url.strip()
    try:
        await request.admin.update_webhook(webhook_id, url=None if url == before.url else url, events=form.events)
    except WindlassError as error:
        return await _one(request, webhook_id, form, str(error))
    return done(path_of(webhook_id), "saved")


async def enable(request: Request[None, None]) -> Redirect:
    await request.admin.update_webhook(request.path["id"], enabled=True)
    return done(path_of(request.path["id"]), "enabled")


async def disable(request: Request[None, Sure]) -> Page | Redirect:
    back = path_of(request.path["id"])
    if not request.body.sure:
        text = "What happens meanwhile is not kept for it. What already waits is sent when it is switched on again."
        return await ask(request, "webhooks", "Disable this webhook?", text, "Disable", back=back)
    await request.admin.update_webhook(request.path["id"], enabled=False)
    return done(back, "disabled")


async def rotate(request: Request[None, Rotation]) -> Page:
    webhook_id, keep = request.path["id"], request.body.keep.strip()
    if not request.body.sure:
        text = f"A new one is shown once. The old one signs along for {keep}, so that the receiver can change over."
        return await ask(request, "webhooks", "Rotate the secret?", text, "Rotate secret", back=path_of(webhook_id))
    try:
        made = await request.admin.rotate_webhook(webhook_id, keep=keep)
    except WindlassError as error:
        return await _one(request, webhook_id, error=str(error))
    return await _one(request, webhook_id, secret=made.secret)


async def ping(request: Request[None, None]) -> Redirect:
    sent = await request.admin.ping_webhook(request.path["id"])
    return done(path_of(request.path["id"]), "pinged" if sent.status == "sent" else "ping-failed")


async def replay(request: Request[None, None]) -> Redirect:
    sent = await request.admin.replay_delivery(request.path["message"])
    return done(path_of(sent.webhook_id), "resent")


async def delete(request: Request[None, Sure]) -> Page | Redirect:
    webhook_id = request.path["id"]
    if not request.body.sure:
        text = "It goes with all its messages, also those that wait. This cannot be undone."
        return await ask(request, "webhooks", "Delete this webhook?", text, "Delete", back=path_of(webhook_id), danger=True)
    await request.admin.delete_webhook(webhook_id)
    return done("/webhooks", "deleted")
