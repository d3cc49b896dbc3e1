"""`/holds`: queues that somebody has taken for direct execution."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.errors import WindlassError
from windlass.web.answers import Page, Redirect
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.request import Request


class Form(Struct, frozen=True, kw_only=True):
    queue: str = ""
    by: str = ""
    expires_in: str = "15m"


class Renewal(Struct, frozen=True, kw_only=True):
    expires_in: str = "15m"


async def show(request: Request[Told, None]) -> Page:
    return await _page(request, Form(), "")


async def _page(request: Request[Any, Any], form: Form, error: str) -> Page:
    holds = (await request.admin.holds(ended=True)).holds
    overview = await request.admin.overview()
    waiting = {queue.name: queue.counts.get("queued", 0) for queue in overview.queues}
    ended = [one for one in holds if one.status != "ACTIVE"]
    shown = {
        "active": [hold for hold in holds if hold.status == "ACTIVE"],
        "waiting": waiting,
        "form": form,
        "error": error,
        "ended": sorted(ended, key=lambda one: one.reserved_at, reverse=True)[:50],
        "queues": sorted(waiting),
    }
    return await page(request, "holds.html", "holds", shown, 422 if error else 200)


async def acquire(request: Request[None, Form]) -> Page | Redirect:
    form = request.body
    by = form.by.strip() or request.principal.actor
    try:
        await request.admin.acquire(form.queue.strip(), by, expires_in=form.expires_in.strip(), wait=0)
    except WindlassError as error:
        return await _page(request, form, str(error))
    return done("/holds", "held")


async def renew(request: Request[None, Renewal]) -> Redirect:
    await request.admin.renew(request.path["id"], request.body.expires_in.strip())
    return done("/holds", "renewed")


async def release(request: Request[None, Sure]) -> Page | Redirect:
    if not request.body.sure:
        text = "Workers take its jobs again at once, also if whoever holds it is not done."
        return await ask(request, "holds", "Release this queue?", text, "Release", back="/holds")
    await request.admin.release(request.path["id"], request.principal.actor)
    return done("/holds", "released")
