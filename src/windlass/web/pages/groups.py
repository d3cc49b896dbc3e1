"""`/groups` and `/groups/{id}`: jobs that belong together, and how far they are."""

from __future__ import annotations

from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.formats import part
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Sure, Told, ask, done, page
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
        "detail": detail, "group": detail.group, "members": detail.members,
        "hidden_count": max(detail.group.total - len(detail.members), 1) if detail.more else 0,
        "here_path": f"/groups/{part(detail.group.id)}",
        "live": f"/live/groups/{part(detail.group.id)}" if detail.group.finished_at is None else None,
    }  # fmt: skip
    return await page(request, "group.html", "groups", shown)


async def live_one(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, one, "group-head", "group-members"))


async def cancel(request: Request[None, Sure]) -> Page | Redirect:
    group_id = request.path["id"]
    if not request.body.sure:
        text = "Members that run are asked to stop, those that wait are cancelled. Finished work stays."
        return await ask(request, "groups", "Cancel the whole group?", text, "Cancel group",
                         back=f"/groups/{part(group_id)}", danger=True)  # fmt: skip
    answer = await request.admin.cancel_group(group_id, f"cancelled by {request.principal.actor}")
    return done(f"/groups/{part(group_id)}", "cancelled" if answer == "cancelled" else "cancel-requested")


async def retry(request: Request[None, Sure]) -> Page | Redirect:
    group_id = request.path["id"]
    if not request.body.sure:
        text = "Members that failed start again with fresh attempts."
        return await ask(request, "groups", "Retry what failed?", text, "Retry failed", back=f"/groups/{part(group_id)}")
    return done(f"/groups/{part(group_id)}", "retried", await request.admin.retry_group(group_id))
