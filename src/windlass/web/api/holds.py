"""`/api/holds`: a queue for oneself, for direct execution."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.views import Holds, HoldView
from windlass.clock import SECOND, duration
from windlass.web.api.asking import Time
from windlass.web.request import Request


class HoldsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    ended: Annotated[bool, Meta(description="also those that have ended within the last days")] = False


class HoldWish(Struct, frozen=True, forbid_unknown_fields=True):
    queue: str
    by: Annotated[str | None, Meta(description="who holds it, for others to read; else the name of the token")] = None
    expires_in: Time = "5m"
    wait: Annotated[str | float, Meta(description="until it is free and idle; no longer than 30 s")] = 0


class Renewal(Struct, frozen=True, forbid_unknown_fields=True):
    expires_in: Time = "5m"


async def listed(request: Request[HoldsQuery, None]) -> Holds:
    """Who holds which queue."""
    return await request.admin.holds(ended=request.query.ended)


async def acquire(request: Request[None, HoldWish]) -> HoldView:
    """Take a queue: nothing of it starts any more, and the answer comes when what runs has ended. Renew it, or it ends by
    itself."""
    wish = request.body
    wait = min(duration(wish.wait, field="wait"), round(request.bounds.wait * SECOND))
    by = wish.by or request.principal.actor
    return await request.admin.acquire(wish.queue, by, expires_in=wish.expires_in, wait=wait / SECOND)


async def renew(request: Request[None, Renewal]) -> HoldView:
    """Fresh time, never less than it has: to end it sooner, release it. A hold that was lost cannot be renewed."""
    return await request.admin.renew(request.path["hold_id"], request.body.expires_in)


async def release(request: Request[None, None]) -> HoldView:
    """End a hold, whosoever it is; the audit log says by whom."""
    return await request.admin.release(request.path["hold_id"], request.principal.actor)
