"""`GET /api/events`: what changes, as it changes. All readers share one look at the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from msgspec import Meta, Struct

from windlass.web.answers import Events
from windlass.web.identity import is_narrow
from windlass.web.problems import Trouble
from windlass.web.request import Request
from windlass.web.site import site_of


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    job: Annotated[str | None, Meta(description="follow this job instead of all queues, until it has ended")] = None
    log: Annotated[str | None, Meta(description="follow what this job logs, until it has ended")] = None


async def stream(request: Request[EventsQuery, None]) -> Events:
    """Server-sent events. `queues`: every queue with its jobs by label, when that has changed. With `job`: `job`, each time
    it has changed. With `log`: `log`, piece by piece. `end`: nothing more will come."""
    asked = request.query
    if asked.job is not None:
        await request.admin.why(asked.job)  # an id that there is not is told before the stream begins
        return Events(_job(request, asked.job))
    if asked.log is not None:
        await request.admin.why(asked.log)
        return Events(_log(request, asked.log))
    if is_narrow(request.principal):
        raise Trouble(403, "forbidden", "your token is for an organisation or some queues: follow a job of it with `job`")
    return Events(_queues(request))


async def _queues(request: Request[Any, Any]) -> AsyncIterator[tuple[str, Any]]:
    pulse, seen = site_of(request.http).pulse, 0
    while True:
        seen, overview = await pulse.next(seen)
        yield "queues", overview


async def _job(request: Request[Any, Any], job_id: str) -> AsyncIterator[tuple[str, Any]]:
    async for view in request.admin.follow(job_id):
        yield "job", view


async def _log(request: Request[Any, Any], job_id: str) -> AsyncIterator[tuple[str, Any]]:
    async for piece in request.admin.follow_logs(job_id):
        yield "log", piece
        await asyncio.sleep(0)
