"""`/api/queues`."""

from __future__ import annotations

from windlass.admin.views import JobList, Overview
from windlass.web.api.asking import Limit, Spoken, Switched
from windlass.web.request import Request


class OrderQuery(Spoken, frozen=True):
    limit: Limit = 50


async def listed(request: Request[None, None]) -> Overview:
    """Every queue with the number of its jobs by label, and whether it is paused."""
    return await request.admin.overview()


async def order(request: Request[OrderQuery, None]) -> JobList:
    """The queued jobs of a queue as they will be dispatched."""
    limit = request.page(request.query.limit)
    return await request.admin.order(request.path["queue"], limit=limit, system=request.query.words)


async def pause(request: Request[None, None]) -> Switched:
    """Stop claims from a queue; what runs goes on."""
    queue = request.path["queue"]
    return Switched(queue, True, await request.admin.pause(queue))


async def resume(request: Request[None, None]) -> Switched:
    """Let claims begin again."""
    queue = request.path["queue"]
    return Switched(queue, False, await request.admin.resume(queue))
