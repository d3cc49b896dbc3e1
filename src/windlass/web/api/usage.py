"""`/api/usage`: what ran, and what it cost."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.usage import Dimension, Step, UsageList, as_csv
from windlass.web.answers import Text
from windlass.web.api.asking import Count, Instant
from windlass.web.request import Request


class UsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since: Annotated[Instant | None, Meta(description="else 30 days ago")] = None
    until: Annotated[Instant | None, Meta(description="else now")] = None
    step: Annotated[Step, Meta(description="a row per hour or day (UTC), or one for all")] = "day"
    by: Annotated[tuple[Dimension, ...], Meta(description="a row for each; what is not named is added up")] = ()
    org: Annotated[str | None, Meta(description="only of this organisation; empty: of none")] = None
    queue: str | None = None
    type: str | None = None
    limit: Annotated[Count, Meta(description="the server gives no more than 10,000 rows")] = 1_000


async def listed(request: Request[UsageQuery, None]) -> UsageList:
    """Runs, their waits, durations, CPU and memory, by time, organisation, queue, type and outcome."""
    asked = request.query
    return await request.admin.usage(
        since=asked.since, until=asked.until, step=asked.step, by=asked.by, org=asked.org, queue=asked.queue,
        type=asked.type, limit=min(asked.limit, request.bounds.sweep),
    )  # fmt: skip


async def csv(request: Request[UsageQuery, None]) -> Text:
    """The same for a spreadsheet."""
    return Text(as_csv(await listed(request)), "text/csv; charset=utf-8", "usage.csv")
