"""`/jobs`: tabs by state, filters in the address, and what can be done with a selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.views import Filter, JobView
from windlass.errors import InvalidInput, JobNotFound
from windlass.web.answers import Events, Page, Redirect
from windlass.web.identity import is_narrow
from windlass.web.pages.filters import ENDED, FIELDS, TABS, Wanted, address, chips, filter_of, in_words, offered, typed
from windlass.web.pages.formats import part, slug
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import page
from windlass.web.problems import Trouble
from windlass.web.request import Request

ROWS = 50
WRITTEN_AS: Final = {
    "label": "state",
    "org_id": "org",
    "group_id": "group",
    "worker_id": "worker",
}  # of a filter, in the address


async def show(request: Request[Wanted, None]) -> Page | Redirect:
    wanted = request.query
    if wanted.q.strip():
        return Redirect(await found(request, wanted.q.strip()))
    refused = Refused()
    try:
        if (narrowed := typed(wanted)) is not None:
            return Redirect(address(narrowed))
    except Trouble as error:
        refused = Refused(typed=wanted.f.strip(), why=error.detail)
    try:
        listed = await listing(request, wanted)
    except InvalidInput as error:
        wrong = WRITTEN_AS.get(error.field, error.field)
        if not getattr(wanted, wrong, "") or wrong not in (*FIELDS, "state"):
            raise
        refused = Refused(typed=f"{wrong}:{getattr(wanted, wrong)}", why=str(error))
        wanted = replace(wanted, **{wrong: ""})
        listed = await listing(request, wanted)
    narrow = is_narrow(request.principal)
    shown = {
        "wanted": wanted, "listed": listed, "chips": chips(wanted), "in_words": in_words(wanted), "own_search": True,
        "refused": refused,
        "tabs": [(state, word, address(wanted, state=state)) for state, word in TABS], "ended": wanted.state in ENDED,
        "older": None if listed.cursor is None else address(wanted, cursor=listed.cursor),
        "newer_page": None if listed.back is None else address(wanted, cursor=listed.back),
        "newest": address(wanted) if wanted.cursor else None, "here_again": address(wanted, cursor=wanted.cursor),
        "completions": [] if narrow else offered(await request.admin.completions()), "fields": FIELDS,
        "counts": None if narrow else await request.admin.counts(), "newer": newer_than(wanted.top, listed.jobs),
        "live": address(
            wanted, path="/live/jobs", cursor=wanted.cursor, top=listed.jobs[0].id if listed.jobs else "",
            ids=tuple(job.id for job in listed.jobs),
        ),
    }  # fmt: skip
    return await page(request, "jobs.html", "jobs", shown, 422 if refused.why else 200)


class Refused(Struct, frozen=True, kw_only=True):
    """What somebody typed that is no filter. It stays in its field, with the list below it, so that it can be mended."""

    typed: str = ""
    why: str = ""


async def listing(request: Request[Wanted, None], wanted: Wanted) -> Any:
    chosen = filter_of(wanted, request.app.client.now())
    try:
        return await request.admin.jobs(chosen, limit=ROWS, cursor=wanted.cursor or None)
    except InvalidInput as error:
        if error.field != "queue" or not chosen.queue:
            raise
        return await request.admin.jobs(Filter(ids=("none",)), limit=1)  # a queue that has had no job yet has none


async def live(request: Request[Wanted, None]) -> Page | Events:
    """Rows change where they are. Those that would come in above are only counted: the reader decides when to load."""
    ids = request.query.ids[:ROWS]

    async def show_with_rows(asked: Request[Wanted, None]) -> Page | Redirect:
        made = await show(asked)
        if not isinstance(made, Page) or not ids:
            return made
        present = (await asked.admin.jobs(Filter(ids=ids), limit=ROWS)).jobs
        return Page(made.template, {**made.shown, "present": present})

    return Events(fragments(request, show_with_rows, "job-tabs", "newer", rows=rows))


def rows(shown: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for job in shown.get("present", ()):
        yield f"job-{slug(job.id)}", "job-row", {"job": job}


def newer_than(top: str, jobs: Sequence[JobView]) -> str:
    """How many came in above the row that was the first when the page was made."""
    place = next((place for place, job in enumerate(jobs) if job.id == top), None)
    return "" if not top or place == 0 else f"{len(jobs)} or more" if place is None else str(place)


async def found(request: Request[Wanted, None], text: str) -> str:
    """Where a search leads: to a job by its id, to a queue by its name, else to the jobs of a type."""
    try:
        return f"/jobs/{part((await request.admin.job(text)).job.id)}"
    except (JobNotFound, InvalidInput):
        pass
    if not is_narrow(request.principal) and text in (await request.admin.completions()).queues:
        return f"/queues/{part(text)}"
    return address(Wanted(type=text))
