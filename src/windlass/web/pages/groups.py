"""`/groups` and `/groups/{id}`: jobs that belong together, and how far they are."""

from __future__ import annotations

from windlass.admin.groups import GroupView
from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.formats import part, plural
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.pages.trees import tree
from windlass.web.request import Request

SHOWN = 50
MEMBERS = 500


async def show(request: Request[Told, None]) -> Page:
    shown = {"listed": await request.admin.groups(SHOWN), "live": "/live/groups"}
    return await page(request, "groups.html", "groups", shown)


async def live(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, show, "group-rows"))


async def one(request: Request[Told, None]) -> Page:
    detail = await request.admin.group(request.path["id"], limit=MEMBERS)
    shown = {
        "detail": detail, "group": detail.group, "branches": tree(detail.members, detail.others, detail.edges),
        "cancelling": cancelling(detail.group), "here_path": f"/groups/{part(detail.group.id)}",
        "retrying": retrying(detail.group), "again": detail.group.failed + detail.group.skipped + detail.group.cancelled,
        "hidden_count": max(detail.group.total - len(detail.members), 1) if detail.more else 0,
        "live": f"/live/groups/{part(detail.group.id)}" if detail.group.finished_at is None else None,
    }  # fmt: skip
    return await page(request, "group.html", "groups", shown)


def cancelling(group: GroupView) -> str:
    """What follows when it is cancelled, counted."""
    runs = (
        f"{plural(group.running, 'member')} that run{'s' if group.running == 1 else ''} {_is(group.running)} asked to stop"
    )
    waits = f"{plural(group.waiting, 'member')} that wait{'s' if group.waiting == 1 else ''} {_is(group.waiting)} cancelled"
    parts = [text for text, count in ((runs, group.running), (waits, group.waiting)) if count]
    return f"{', '.join(parts) or 'Every member has ended'}. Finished work stays."


def retrying(group: GroupView) -> str:
    """What follows when it is retried, counted."""
    died, cancelled = group.failed + group.skipped, group.cancelled
    parts = [f"{count:,} that {word}" for count, word in ((died, "died"), (cancelled, "were cancelled")) if count]
    return f"Of {plural(group.total, 'member')}, {' and '.join(parts) or 'none'} start again with fresh attempts, in order."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


async def live_one(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, one, "group-head", "group-members"))


async def cancel(request: Request[None, Sure]) -> Page | Redirect:
    group_id = request.path["id"]
    if not request.body.sure:
        text = cancelling((await request.admin.group(group_id, limit=1)).group)
        return await ask(request, "groups", "Cancel the whole group?", text, "Cancel group",
                         back=f"/groups/{part(group_id)}", danger=True)  # fmt: skip
    answer = await request.admin.cancel_group(group_id, f"cancelled by {request.principal.actor}")
    return done(f"/groups/{part(group_id)}", "cancelled" if answer == "cancelled" else "cancel-requested")


async def retry(request: Request[None, Sure]) -> Page | Redirect:
    group_id = request.path["id"]
    if not request.body.sure:
        text = retrying((await request.admin.group(group_id, limit=1)).group)
        return await ask(request, "groups", "Retry what failed?", text, "Retry failed", back=f"/groups/{part(group_id)}")
    return done(f"/groups/{part(group_id)}", "retried", await request.admin.retry_group(group_id))
