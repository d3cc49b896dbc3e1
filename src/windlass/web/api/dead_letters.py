"""`/api/dlq`: dead letters, by what killed them, run again or removed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.views import ErrorGroups, Filter, JobList, Swept
from windlass.clock import duration
from windlass.web.api.asking import Count, Limit, Words
from windlass.web.request import Request


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    queue: str | None = None
    type: str | None = None
    org_id: str | None = None
    error: Annotated[str | None, Meta(description="a fingerprint, or a part of the last error's text")] = None
    words: Words = None
    limit: Limit = 50
    cursor: Annotated[int, Meta(ge=0)] | None = None


class WhichDead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All dead letters, but for what is said here; the youngest first, at most `limit`."""

    queue: str | None = None
    type: str | None = None
    org_id: str | None = None
    error: Annotated[str | None, Meta(description="a fingerprint, or a part of the last error's text")] = None
    older_than: Annotated[str | float | None, Meta(description="finished at least so long ago: seconds, or 7d")] = None
    limit: Count = 1_000


async def listed(request: Request[DeadQuery, None]) -> JobList:
    """A page of dead letters, newest first."""
    asked = request.query
    wanted = Filter(queue=asked.queue, type=asked.type, org_id=asked.org_id, error=asked.error, system=asked.words)
    return await request.admin.dead_letters(wanted, limit=request.page(asked.limit), cursor=asked.cursor)


async def errors(request: Request[DeadQuery, None]) -> ErrorGroups:
    """Dead letters by what killed them, the most frequent first."""
    asked = request.query
    wanted = Filter(queue=asked.queue, type=asked.type, org_id=asked.org_id, error=asked.error)
    return await request.admin.errors(wanted)


async def replay(request: Request[None, WhichDead]) -> Swept:
    """Run them once more, with their whole allowance of attempts."""
    return await request.admin.replay(_filter(request.body), limit=min(request.body.limit, request.bounds.sweep))


async def purge(request: Request[None, WhichDead]) -> Swept:
    """Remove them for good, with their runs and chains."""
    return await request.admin.purge(_filter(request.body), limit=min(request.body.limit, request.bounds.sweep))


def _filter(said: WhichDead) -> Filter:
    age = None if said.older_than is None else duration(said.older_than, field="older_than")
    return Filter(queue=said.queue, type=said.type, org_id=said.org_id, error=said.error, older_than=age)
