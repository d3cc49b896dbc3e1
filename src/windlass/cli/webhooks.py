"""`windlass webhooks …`: who is told of what happens here, what was sent, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin.webhooks import DeliveryView, NewSecret, WebhookView
from windlass.cli.output import FAILED, Part, one_line
from windlass.cli.session import Common, Flag, epilogue, opened
from windlass.core.events import EVENTS
from windlass.errors import InvalidInput
from windlass.records import DeliveryStatus
from windlass.wording import plural, relative

app = App(name="webhooks", help="Signed messages to other programs about what happens here.")
KNOWN = ", ".join(EVENTS)
Events = Annotated[list[str] | None, Parameter(help=f"One or more of {KNOWN}.", consume_multiple=True)]
COLOURS = {"queued": "cyan", "sent": "green", "failed": "bold red"}


@app.command(name="list", help_epilogue=epilogue("windlass webhooks list", "windlass webhooks list --json"))
async def list_webhooks(*, common: Common = Common()) -> None:
    """Every webhook: where it leads, which events it gets, whether it is on."""
    async with opened(common) as admin:
        found = await admin.webhooks()
    if common.json:
        common.out.emit(found)
    elif not found.webhooks:
        common.out.note("nobody is told of anything; windlass webhooks create https://example.com/hook --events job.dead")
    else:
        rows = [(one.webhook_id, _state(one), one.org_id or "-", " ".join(one.events), one.url) for one in found.webhooks]
        common.out.table(("ID", "STATE", "ORG", "EVENTS", "URL"), rows)


def _state(one: WebhookView) -> Part:
    return ("on", "green") if one.enabled else ("off", "yellow" if one.disabled_reason is None else "bold red")


@app.command(help_epilogue=epilogue("windlass webhooks show wh_2f6c1c0d9a3b4e5f6071"))
async def show(webhook: str, /, *, common: Common = Common()) -> None:
    """One webhook and its latest messages."""
    async with opened(common) as admin:
        one = await admin.webhook(webhook)
        sent = await admin.deliveries(webhook, limit=10)
    if common.json:
        common.out.emit(one, deliveries=sent.deliveries)
        return
    old = "" if one.old_secret_until is None else f", and the one before it until {one.old_secret_until.isoformat(sep=' ')}"
    for name, text in (
        ("id", one.webhook_id), ("url", one.url), ("events", " ".join(one.events)), ("org", one.org_id or "all"),
        ("state", "on" if one.enabled else f"off: {one.disabled_reason or 'by hand'}"),
        ("secret", f"ends in {one.secret_ends}{old}"),
    ):  # fmt: skip
        common.out.line((f"{name:<8}", "dim"), text)
    if sent.deliveries:
        _table(sent.deliveries, sent.at, common)


@app.command(
    help_epilogue=epilogue(
        "windlass webhooks create https://example.com/hook --events job.dead queue.unhealthy",
        "windlass webhooks create https://example.com/acme --events job.succeeded --org acme",
    )
)
async def create(
    url: str, /, *, events: Events = None, org: Annotated[str | None, Parameter(help="only of this organisation")] = None,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Subscribe to events. The secret that signs the messages is shown this once: give it to the receiver.

    The URL is https:// and leads to the public internet; other networks are listed in WINDLASS_WEBHOOK_NETWORKS."""
    if not events:
        raise InvalidInput("events", f"say what it is told of, such as --events job.dead; known: {KNOWN}")
    async with opened(common) as admin:
        made = await admin.create_webhook(url, events, org_id=org)
    _tell_secret(made, "made", common)


@app.command(
    help_epilogue=epilogue(
        "windlass webhooks update wh_2f6c1c0d9a3b4e5f6071 --url https://example.com/other",
        "windlass webhooks update wh_2f6c1c0d9a3b4e5f6071 --events job.dead job.recovered",
    )
)
async def update(webhook: str, /, *, url: str | None = None, events: Events = None, common: Common = Common()) -> None:
    """Change where a webhook leads, or what it gets. What is not said stays."""
    if url is None and not events:
        raise InvalidInput("webhook", "say what changes: --url, --events, or both")
    async with opened(common) as admin:
        one = await admin.update_webhook(webhook, url=url, events=events or None)
    _told(one, "changed", common)


@app.command(help_epilogue=epilogue("windlass webhooks enable wh_2f6c1c0d9a3b4e5f6071"))
async def enable(webhook: str, /, *, common: Common = Common()) -> None:
    """Switch a webhook on. It gets what still waits for it."""
    async with opened(common) as admin:
        _told(await admin.update_webhook(webhook, enabled=True), "on", common)


@app.command(help_epilogue=epilogue("windlass webhooks disable wh_2f6c1c0d9a3b4e5f6071"))
async def disable(webhook: str, /, *, common: Common = Common()) -> None:
    """Switch a webhook off. What happens meanwhile is not kept for it."""
    async with opened(common) as admin:
        _told(await admin.update_webhook(webhook, enabled=False), "off", common)


@app.command(help_epilogue=epilogue("windlass webhooks rotate wh_2f6c1c0d9a3b4e5f6071 --keep 24h"))
async def rotate(
    webhook: str, /, *, keep: Annotated[str, Parameter(help="how long the old secret signs along")] = "24h",
    common: Common = Common(),
) -> None:  # fmt: skip
    """Give a webhook another secret, shown this once. Both sign until the old one's time is over."""
    async with opened(common) as admin:
        made = await admin.rotate_webhook(webhook, keep=keep)
    _tell_secret(made, "has another secret", common)


@app.command(help_epilogue=epilogue("windlass webhooks delete wh_2f6c1c0d9a3b4e5f6071"))
async def delete(webhook: str, /, *, common: Common = Common()) -> None:
    """Remove a webhook with all its messages."""
    async with opened(common) as admin:
        await admin.delete_webhook(webhook)
    if common.json:
        common.out.emit(webhook_id=webhook, deleted=True)
    else:
        common.out.line(f"{webhook} is deleted")


@app.command(name="test", help_epilogue=epilogue("windlass webhooks test wh_2f6c1c0d9a3b4e5f6071"))
async def ping(webhook: str, /, *, common: Common = Common()) -> int | None:
    """Send a message that says nothing, from this machine, and show what came of it."""
    async with opened(common) as admin:
        done = await admin.ping_webhook(webhook)
    if common.json:
        common.out.emit(done)
    else:
        took = f" in {done.log[-1].took:.3f} s" if done.log else ""
        common.out.line((done.status, COLOURS[done.status]), f"{took}: {done.last_error or done.last_status}")
        if done.response:
            common.out.line(("  ", "dim"), one_line(done.response))
    return None if done.status == "sent" else FAILED


@app.command(
    help_epilogue=epilogue(
        "windlass webhooks deliveries wh_2f6c1c0d9a3b4e5f6071",
        "windlass webhooks deliveries wh_2f6c1c0d9a3b4e5f6071 --status failed --json",
    )
)
async def deliveries(
    webhook: str, /, *, status: DeliveryStatus | None = None, limit: int = 50, cursor: str | None = None,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Messages to a webhook, newest first: how often they were tried, and what the receiver said."""
    async with opened(common) as admin:
        found = await admin.deliveries(webhook, status=status, limit=limit, cursor=cursor)
    if common.json:
        common.out.emit(found)
        return
    if not found.deliveries:
        common.out.note(f"nothing was sent to it yet; try: {common.again(f'webhooks test {webhook}')}")
        return
    _table(found.deliveries, found.at, common)
    if found.cursor is not None:
        common.out.note(f"more: {common.again(f'webhooks deliveries {webhook} --cursor {found.cursor}')}")


@app.command(
    help_epilogue=epilogue(
        "windlass webhooks replay wh_2f6c1c0d9a3b4e5f6071_42", "windlass webhooks replay wh_2f6c1c0d9a3b4e5f6071 --failed"
    )
)
async def replay(message: str, /, *, failed: Flag = False, limit: int = 1_000, common: Common = Common()) -> None:
    """Send a message once more, under the same id; with --failed every one to a webhook that failed for good.

    A worker sends it. A receiver that remembers ids knows that it has seen it."""
    async with opened(common) as admin:
        if failed:
            count = await admin.replay_failed(message, limit=limit)
        else:
            await admin.replay_delivery(message)
            count = 1
    if common.json:
        common.out.emit(replayed=count)
    else:
        common.out.line(f"{plural(count, 'message')} will be sent once more")


def _table(rows: tuple[DeliveryView, ...], at: datetime, common: Common) -> None:
    shown: list[tuple[Part, ...]] = []
    for one in rows:
        upcoming = "sending" if one.sending else "" if one.next_attempt_at is None else relative(one.next_attempt_at, at)
        said = one_line(one.last_error or ("" if one.last_status is None else str(one.last_status)), 80)
        state = (one.status, COLOURS[one.status])
        shown.append(
            (one.id, state, one.event, one.subject, str(one.attempts), relative(one.created_at, at), upcoming, said)
        )
    common.out.table(("MESSAGE", "STATUS", "EVENT", "ABOUT", "TRIES", "AGE", "NEXT", "ANSWER"), shown)


def _told(one: WebhookView, what: str, common: Common) -> None:
    if common.json:
        common.out.emit(one)
    else:
        common.out.line(f"{one.webhook_id} is {what}")


def _tell_secret(made: NewSecret, what: str, common: Common) -> None:
    if common.json:
        common.out.emit(made)
        return
    verb = "is" if what == "made" else ""
    common.out.line(" ".join(filter(None, (made.webhook.webhook_id, verb, what))))
    common.out.line(f"secret: {made.secret}")
    common.out.note("it is not shown again; whoever has it can forge messages")
