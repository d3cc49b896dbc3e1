"""`/api/jobs`: look at jobs and change one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.admin.views import Changed, JobDetail, JobList, Link, LogView, Runs, Why
from windlass.core.history import RUNS_LIMIT
from windlass.core.listing import Direction
from windlass.types import End, Side
from windlass.web.api.asking import Count, Limit, Spoken
from windlass.web.api.filtering import Which, filter_of
from windlass.web.problems import Trouble
from windlass.web.request import Request


class JobsQuery(Which, frozen=True, kw_only=True):
    first: Direction = "newest"
    limit: Limit = 50
    cursor: Annotated[str | None, Meta(description="of the page before, with the same filter")] = None


class RunQuery(Struct, frozen=True, forbid_unknown_fields=True):
    run: Annotated[int | None, Meta(description="the number of a run; else the last one that has a log")] = None


class RunsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    before: Annotated[Count | None, Meta(description="the number of a run of this job: only what was before it")] = None
    limit: Annotated[int, Meta(ge=1, description="at most so many; the server gives no more than 1,000")] = RUNS_LIMIT


class Chain(Struct, frozen=True):
    """The links of a retry chain, first to last; `head` is the one that it has reached."""

    at: datetime
    head: str
    links: tuple[Link, ...]


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=1_000)] = "cancelled"


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """`to` an end of its queue and priority; or before, after or in the place of (`swap`) `other`."""

    to: End | Side | Literal["swap"]
    other: str | None = None
    take_priority: Annotated[bool, Meta(description="before and after: also take the other's priority")] = False


class Priority(Struct, frozen=True, forbid_unknown_fields=True):
    priority: int


async def listed(request: Request[JobsQuery, None]) -> JobList:
    """A page of jobs, newest first. `cursor` leads to the next one."""
    asked = request.query
    return await request.admin.jobs(
        filter_of(asked), limit=request.page(asked.limit), cursor=asked.cursor, first=asked.first,
        reveal=request.reveal,
    )  # fmt: skip


async def show(request: Request[Spoken, None]) -> JobDetail:
    """One job and everything that is known of it, with all links of its chain."""
    return await request.admin.job(request.path["job_id"], system=request.query.words, reveal=request.reveal)


async def runs(request: Request[RunsQuery, None]) -> Runs:
    """The newest executions, of all links of the chain, first to last. `earlier` counts those before: to have them, ask for
    the runs of the first one's job `before` its number, until that is 0."""
    asked = request.query
    return await request.admin.runs(request.path["job_id"], before=asked.before, limit=min(asked.limit, RUNS_LIMIT))


async def logs(request: Request[RunQuery, None]) -> LogView:
    """What a run has logged. The text is on the machine of its worker: null where it cannot be found here."""
    return await request.admin.logs(request.path["job_id"], run=request.query.run)


async def why(request: Request[None, None]) -> Why:
    """Everything that keeps a job from running, the weightiest reason first."""
    return await request.admin.why(request.path["job_id"])


async def chain(request: Request[None, None]) -> Chain:
    """The links of its retry chain."""
    found = await request.admin.job(request.path["job_id"])
    return Chain(found.at, found.head.id, found.chain)


async def cancel(request: Request[None, Reason]) -> Changed:
    """A queued job is cancelled at once; a running one is asked to stop."""
    return await request.admin.cancel(request.path["job_id"], request.body.reason)


async def retry(request: Request[None, None]) -> Changed:
    """Run a dead job again, with its whole allowance of attempts."""
    return await request.admin.retry(request.path["job_id"])


async def run_now(request: Request[None, None]) -> Changed:
    """Make a job due that waits for its time."""
    return await request.admin.run_now(request.path["job_id"])


async def move(request: Request[None, Place]) -> Changed:
    """Give a queued job another place in its queue."""
    job_id, place = request.path["job_id"], request.body
    if place.to == "top" or place.to == "bottom":  # as the type checkers can follow it
        return await request.admin.move(job_id, place.to)
    if place.other is None:
        raise Trouble(422, "invalid-input", f"say which job `other` is: {place.to} which?", field="other")
    if place.to == "swap":
        return await request.admin.swap(job_id, place.other)
    return await request.admin.move_beside(job_id, place.other, place.to, take_priority=place.take_priority)


async def priority(request: Request[None, Priority]) -> Changed:
    """Another priority, and with it a place behind those that have it."""
    return await request.admin.set_priority(request.path["job_id"], request.body.priority)


async def delete(request: Request[None, None]) -> Changed:
    """Remove a job that has ended, with its runs."""
    return await request.admin.delete(request.path["job_id"])
