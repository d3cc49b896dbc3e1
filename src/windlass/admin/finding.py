"""The part of `Admin` for many jobs at once: listings, counts, bulk changes, trends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.admin import bulk, counting, dead_letters, listing, overview
from windlass.admin.bulk import Action, Bulk, How, Report
from windlass.admin.counting import Counts
from windlass.admin.dead_letters import By, ErrorGroups, Swept
from windlass.admin.listing import Completions, Matching
from windlass.admin.overview import Dashboard, QueueTrends
from windlass.admin.views import Filter, JobList
from windlass.core.listing import Direction
from windlass.core.trends import SPANS, Span
from windlass.types import End

if TYPE_CHECKING:
    from windlass.client import Client


class Finding:
    client: Client

    async def jobs(
        self, wanted: Filter | None = None, *, limit: int = 50, cursor: str | None = None, first: Direction = "newest",
        reveal: bool = False,
    ) -> JobList:  # fmt: skip
        """A page of jobs, newest or oldest first: by the time of their end if only ended jobs are asked for, else by that
        of their creation. Links of a chain that others took over are left out. `reveal` shows values under telling names
        (`windlass.redaction`); what a task keeps secret is never shown."""
        return await listing.page(self.client, wanted or Filter(), limit, cursor, first, reveal)

    async def matching(self, wanted: Filter) -> Matching:
        """How many jobs match, exactly or at least."""
        return await listing.count(self.client, wanted)

    async def counts(self, *, exact: bool = False) -> Counts:
        """Jobs by label and queue, as the leader last counted them; with `exact` as they are now."""
        return await counting.counts(self.client, exact=exact)

    async def completions(self) -> Completions:
        """Names that a filter can ask for."""
        return await listing.completions(self.client)

    async def dashboard(self, span: Span = "1h", wanted: Filter | None = None) -> Dashboard:
        """The numbers and charts of the overview for a span of time. The failures may be filtered."""
        return await overview.dashboard(self.client, span, wanted or Filter())

    async def queue_trends(self, span: Span = "1h") -> QueueTrends:
        """Every queue: its present state, its problems, and its depth over the span."""
        return await overview.queue_trends(self.client, span)

    async def bulk(
        self, action: Action, wanted: Filter | Sequence[str], *, dry_run: bool = False, limit: int = 1_000,
        cursor: str | None = None, reason: str = "cancelled", priority: int | None = None, to: End | None = None,
        report: Report | None = None,
    ) -> Bulk:  # fmt: skip
        """Cancel, retry, run now, delete, reprioritise or move the named jobs, or the newest matching ones, at most
        `limit` in one call. `report` is called after each batch. With `dry_run` they are only counted."""
        chosen = wanted if isinstance(wanted, Filter) else bulk.those(wanted)
        how = How(reason=reason, priority=priority, to=to)
        done = await bulk.bulk(
            self.client, action, chosen, how=how, dry_run=dry_run, limit=limit, cursor=cursor, report=report
        )  # fmt: skip
        counting.forget(self.client)
        return done

    # ----------------------------------------------------------------------------------------------------- dead letters

    async def dead_letters(
        self, wanted: Filter | None = None, *, limit: int = 50, cursor: str | None = None, first: Direction = "newest",
        reveal: bool = False,
    ) -> JobList:  # fmt: skip
        only = dead_letters.only_dead(wanted or Filter())
        return await self.jobs(only, limit=limit, cursor=cursor, first=first, reveal=reveal)

    async def errors(self, wanted: Filter | None = None, *, by: By = "error") -> ErrorGroups:
        """Dead letters grouped by error or by type, the most frequent first."""
        return await dead_letters.grouped(self.client, wanted or Filter(), by)

    async def failures(self, span: Span = "1h", wanted: Filter | None = None) -> ErrorGroups:
        """Jobs that died in the span, or failed in it and wait for their next attempt, grouped by error."""
        overview.check_span(span)
        return await dead_letters.failures(self.client, self.client.now() - SPANS[span], wanted or Filter())

    async def replay(self, wanted: Filter, *, limit: int, cursor: str | None = None) -> Swept:
        """Run the newest matching dead letters again, at most `limit`, in the order of their creation. A small limit
        tries a few first."""
        counting.forget(self.client)
        return await dead_letters.replay(self.client, wanted, limit, cursor)

    async def purge(self, wanted: Filter, *, limit: int, cursor: str | None = None) -> Swept:
        """Delete matching dead letters with their runs and retry chains."""
        counting.forget(self.client)
        return await dead_letters.purge(self.client, wanted, limit, cursor)
