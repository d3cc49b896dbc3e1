"""`/api/queues`."""

from __future__ import annotations

from msgspec import Struct

from windlass.admin.capacity import WITHIN, Capacities
from windlass.admin.views import JobList, Overview
from windlass.web.api.asking import Limit, Spoken, Switched, Time, time_of
from windlass.web.request import Request


class OrderQuery(Spoken, frozen=True):
    limit: Limit = 50


class CapacityQuery(Struct, frozen=True, forbid_unknown_fields=True):
    within: Time = WITHIN


async def listed(request: Request[None, None]) -> Overview:
    """Every queue with the number of its jobs by label, and whether it is paused."""
    return await request.admin.overview()


async def capacity(request: Request[CapacityQuery, None]) -> Capacities:
    """Whether each queue drains, when, and how many workers it takes to keep up with it, and to drain it in a time."""
    return await request.admin.capacity(time_of(request.query.within))


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
