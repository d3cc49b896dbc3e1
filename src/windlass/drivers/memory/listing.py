"""Listings: every job is looked at, and sorted along the way that the wish names."""

from __future__ import annotations

from typing import Any

from windlass.core.failures import LINE, error_of
from windlass.core.listing import (
    Glimpse,
    Glimpsed,
    GlimpseJobs,
    Listed,
    ListJobs,
    Place,
    Search,
    Tally,
    TallyJobs,
    is_wished,
    order_of,
    path_of,
    place_of,
)
from windlass.drivers.memory.tables import Tables
from windlass.types import Job


def look(tables: Tables, query: ListJobs | GlimpseJobs | TallyJobs) -> list[Any]:
    match query:
        case TallyJobs():
            found = sum(is_wished(job, query.wish) for job in tables.jobs.values())
            return [Tally(jobs=found, complete=True, looked_at=len(tables.jobs))]
        case ListJobs():
            jobs, after = walk(tables, query)
            return [Listed(jobs=tuple(jobs), after=after, looked_at=len(tables.jobs))]
        case GlimpseJobs():
            jobs, after = walk(tables, query)
            return [Glimpsed(jobs=tuple(map(glimpse, jobs)), after=after, looked_at=len(tables.jobs))]


def walk(tables: Tables, query: Search) -> tuple[list[Job], Place | None]:
    path, back = path_of(query.wish), query.first == "newest"
    found = sorted((order_of(place_of(job, path)), job) for job in tables.jobs.values() if is_wished(job, query.wish))
    if back:
        found.reverse()
    if query.after is not None:
        here = order_of(query.after)
        found = [(order, job) for order, job in found if (order < here if back else order > here)]
    page = [job for _, job in found[: query.limit]]
    return page, place_of(page[-1], path) if len(found) > query.limit else None


def glimpse(job: Job) -> Glimpse:
    return Glimpse(
        id=job.id, type=job.type, queue=job.queue, state=job.state, at=job.finished_at or job.failed_at or job.created_at,
        updated_at=job.updated_at, error=error_of(job)[:LINE],
    )  # fmt: skip
