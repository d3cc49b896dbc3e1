"""`/api/dlq`: dead letters, by what killed them, run again or removed. `/api/failures`: what fails at present."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.dead_letters import By, ErrorGroups, Swept
from windlass.admin.views import JobList
from windlass.core.trends import Span
from windlass.web.api.asking import Count
from windlass.web.api.filtering import Which, filter_of
from windlass.web.api.jobs import JobsQuery
from windlass.web.request import Request


class ErrorsQuery(Which, frozen=True, kw_only=True):
    by: Annotated[By, Meta(description="what makes a group")] = "error"


class FailuresQuery(Which, frozen=True, kw_only=True):
    span: Span = "1h"


class Sweep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The youngest dead letters that match, at most `limit`; `cursor` of the answer goes on."""

    filter: Which = Which()
    limit: Count = 1_000
    cursor: str | None = None


async def listed(request: Request[JobsQuery, None]) -> JobList:
    """A page of dead letters, newest first."""
    asked = request.query
    return await request.admin.dead_letters(
        filter_of(asked), limit=request.page(asked.limit), cursor=asked.cursor, first=asked.first,
        reveal=request.reveal,
    )  # fmt: skip


async def errors(request: Request[ErrorsQuery, None]) -> ErrorGroups:
    """Dead letters by what killed them, or by type, the most frequent first."""
    return await request.admin.errors(filter_of(request.query), by=request.query.by)


async def failures(request: Request[FailuresQuery, None]) -> ErrorGroups:
    """What died in the span, and what failed in it and waits to be tried again, by error."""
    return await request.admin.failures(request.query.span, filter_of(request.query))


async def replay(request: Request[None, Sweep]) -> Swept:
    """Run them once more, with their whole allowance of attempts."""
    said = request.body
    limit = min(said.limit, request.bounds.sweep)
    return await request.admin.replay(filter_of(said.filter), limit=limit, cursor=said.cursor)


async def purge(request: Request[None, Sweep]) -> Swept:
    """Remove them for good, with their runs and chains."""
    said = request.body
    limit = min(said.limit, request.bounds.sweep)
    return await request.admin.purge(filter_of(said.filter), limit=limit, cursor=said.cursor)
