"""`/api/overview` and what belongs to it: how things are, and were."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.counting import Counts
from windlass.admin.listing import Completions, Matching
from windlass.admin.overview import Dashboard, QueueTrends
from windlass.core.trends import Span
from windlass.web.api.filtering import Which, filter_of
from windlass.web.request import Request


class SpanQuery(Struct, frozen=True, forbid_unknown_fields=True):
    span: Span = "1h"


class CountsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    exact: Annotated[bool, Meta(description="as they are now, and not as the leader last counted them")] = False


class MatchingQuery(Which, frozen=True, kw_only=True):
    pass


async def show(request: Request[SpanQuery, None]) -> Dashboard:
    """Depth, age, throughput, failure rate, waits and durations over a span, and what is wrong."""
    return await request.admin.dashboard(request.query.span)


async def trends(request: Request[SpanQuery, None]) -> QueueTrends:
    """Every queue as it is, what is wrong with it, and its depth over the span."""
    return await request.admin.queue_trends(request.query.span)


async def counts(request: Request[CountsQuery, None]) -> Counts:
    """Jobs by label and queue, and how old these numbers are."""
    return await request.admin.counts(exact=request.query.exact)


async def matching(request: Request[MatchingQuery, None]) -> Matching:
    """How many jobs match, exactly or at least."""
    return await request.admin.matching(filter_of(request.query))


async def completions(request: Request[None, None]) -> Completions:
    """Names that a filter may ask for."""
    return await request.admin.completions()
