"""`/jobs`: tabs by state, filters in the address, and what can be done with a selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.admin.views import JobView
from windlass.errors import JobNotFound
from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.filters import ENDED, FIELDS, TABS, Wanted, address, chips, filter_of, in_words, typed
from windlass.web.pages.formats import part, slug
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import page
from windlass.web.request import Request

ROWS = 50


async def show(request: Request[Wanted, None]) -> Page | Redirect:
    wanted = request.query
    if wanted.q.strip():
        return Redirect(await found(request, wanted.q.strip()))
    if (narrowed := typed(wanted)) is not None:
        return Redirect(address(narrowed))
    cursor = int(wanted.cursor) if wanted.cursor.isdigit() else None
    listed = await request.admin.jobs(filter_of(wanted), limit=ROWS, cursor=cursor)
    overview = await request.admin.overview()
    known = {"queue": [queue.name for queue in overview.queues], "type": list(await request.admin.types())}
    shown = {
        "wanted": wanted, "listed": listed, "chips": chips(wanted), "in_words": in_words(wanted), "own_search": True,
        "tabs": [(state, word, address(wanted, state=state)) for state, word in TABS], "ended": wanted.state in ENDED,
        "older": None if listed.cursor is None else address(wanted, cursor=str(listed.cursor)),
        "newest": address(wanted) if wanted.cursor else None, "here_again": address(wanted, cursor=wanted.cursor),
        "completions": [f"{name}:{value}" for name, values in known.items() for value in values],
        "counts": {label: sum(queue.counts.get(label, 0) for queue in overview.queues) for label, _ in TABS if label},  # type: ignore[call-overload]
        "live": address(wanted, path="/live/jobs", cursor=wanted.cursor, top=listed.jobs[0].id if listed.jobs else ""),
        "fields": FIELDS, "newer": newer_than(wanted.top, listed.jobs),
    }  # fmt: skip
    return await page(request, "jobs.html", "jobs", shown)


async def live(request: Request[Wanted, None]) -> Page | Events:
    """Rows change where they are. Those that would come in above are only counted: the reader decides when to load."""
    return Events(fragments(request, show, "job-tabs", "newer", rows=rows))


def rows(shown: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for job in shown["listed"].jobs:
        yield f"job-{slug(job.id)}", "job-row", {"job": job}


def newer_than(top: str, jobs: Sequence[JobView]) -> str:
    """How many came in above the row that was the first when the page was made."""
    place = next((place for place, job in enumerate(jobs) if job.id == top), None)
    return "" if not top or place == 0 else f"{len(jobs)} or more" if place is None else str(place)


async def found(request: Request[Wanted, None], text: str) -> str:
    """Where a search leads: to a job by its id, to a queue by its name, else to the jobs of a type."""
    try:
        return f"/jobs/{part((await request.admin.job(text)).job.id)}"
    except JobNotFound:
        pass
    names = [queue.name for queue in (await request.admin.overview()).queues]
    return f"/queues/{part(text)}" if text in names else address(Wanted(type=text))
