"""`POST /api/jobs/bulk`: one change to many jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.bulk import Action, Bulk
from windlass.errors import InvalidInput
from windlass.types import End
from windlass.web.api.asking import Count
from windlass.web.api.filtering import Which, filter_of
from windlass.web.request import Request


class BulkWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ids`, or all that match a `filter`; an empty filter is all jobs, and has to be written."""

    action: Action
    ids: tuple[str, ...] | None = None
    filter: Which | None = None
    dry_run: Annotated[bool, Meta(description="only count")] = False
    limit: Annotated[Count, Meta(description="the server changes no more than 10,000 at once")] = 1_000
    cursor: Annotated[str | None, Meta(description="of the answer before: go on")] = None
    reason: Annotated[str, Meta(max_length=1_000)] = "cancelled"
    priority: int | None = None
    to: End | None = None


async def bulk(request: Request[None, BulkWish]) -> Bulk:
    """Cancel, retry, run now, delete, reprioritise or move jobs: those named, or the newest that match. With `dry_run` they
    are only counted."""
    wish = request.body
    if (wish.ids is None) == (wish.filter is None):
        raise InvalidInput("ids", "give ids or a filter, and not both")
    if wish.ids is not None and len(wish.ids) > request.bounds.batch:
        raise InvalidInput("ids", f"name at most {request.bounds.batch:,} jobs at once")
    return await request.admin.bulk(
        wish.action, wish.ids if wish.ids is not None else filter_of(wish.filter or Which()), dry_run=wish.dry_run,
        limit=min(wish.limit, request.bounds.sweep), cursor=wish.cursor, reason=wish.reason, priority=wish.priority,
        to=wish.to,
    )  # fmt: skip
