"""`/dead-letters`: what was given up, grouped by what killed it, waiting for a decision."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec.structs import asdict, replace

from windlass.admin.dead_letters import ErrorGroup
from windlass.admin.views import Filter, JobView, RunView
from windlass.clock import moment
from windlass.core.trends import SPANS
from windlass.errors import JobNotFound
from windlass.types import Micros
from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.formats import plural, query
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Told, ask, done, page
from windlass.web.problems import Trouble
from windlass.web.request import Request

NEWEST: Final = 6  # jobs of an open group
FEW: Final = 10  # to try first
SHOWN: Final = 60
REPLAYED: Final = "They return to their queues with a fresh set of attempts, in the order in which they came."
PURGED: Final = "Their runs, logs and payloads are deleted for good. What they used stays counted. This cannot be undone."
KINDS: Final = {"error": "By error", "type": "By type", "list": "List"}
NARROWING: Final = ("queue", "type", "error", "fingerprint")
SPAN_WORDS: Final = {"1h": "1\u00a0h", "24h": "24\u00a0h", "7d": "7\u00a0d", "": "All"}


class Letters(Told, frozen=True, kw_only=True):
    by: Literal["error", "type", "list"] = "error"
    span: Literal["1h", "24h", "7d", ""] = ""
    queue: str = ""
    type: str = ""
    error: str = ""
    fingerprint: str = ""
    open: str = ""  # the group whose jobs are shown
    cursor: str = ""


class Decision(Letters, frozen=True, kw_only=True):
    """A group (`fingerprint` or `type`), the jobs that are ticked, or every one: always of those that the filter shows."""

    ids: tuple[str, ...] = ()
    every: bool = False
    few: bool = False
    sure: bool = False


def filter_of(asked: Letters, now: Micros) -> Filter:
    since = moment(now - SPANS[asked.span]) if asked.span else None
    return Filter(
        state="dead", queue=asked.queue or None, type=asked.type or None, error=asked.error or None,
        fingerprint=asked.fingerprint or None, finished_from=since,
    )  # fmt: skip


def address(asked: Letters, path: str = "/dead-letters", **other: str) -> str:
    kept = {name: getattr(asked, name) for name in ("by", "span", *NARROWING)}
    return path + query({name: value for name, value in (kept | other).items() if (name, value) != ("by", "error")})


async def show(request: Request[Letters, None]) -> Page:
    asked = request.query
    now = request.app.client.now()
    shown = {
        "asked": asked,
        "few": FEW,
        "live": address(asked, "/live/dead-letters", open=asked.open),
        "kinds": [(by, word, address(asked, by=by)) for by, word in KINDS.items()],
        "spans": [(span, word, address(asked, span=span)) for span, word in SPAN_WORDS.items()],
        "narrowed": [
            (name, value, address(asked, **{name: ""}))
            for name, value in asdict(asked).items()
            if name in NARROWING and value
        ],
    }
    more: dict[str, Any]
    if asked.by == "list":
        listed = await request.admin.dead_letters(filter_of(asked, now), limit=50, cursor=asked.cursor or None)
        older = None if listed.cursor is None else address(asked, cursor=listed.cursor)
        more = {"listed": listed, "older": older, "total": None, "groups": (), "ended": True}
    else:
        found = await request.admin.errors(filter_of(asked, now), by=asked.by)
        groups = found.groups[:SHOWN]
        chosen = asked.open or (groups[0].fingerprint if groups else "")
        total = sum(group.jobs for group in found.groups)
        more = {
            "groups": groups, "complete": found.complete, "total": total, "hidden_count": len(found.groups) - len(groups),
            "chosen": chosen, "listed": None, "older": None,
            "inside": [await inside(request, group, asked) for group in groups if group.fingerprint == chosen],
            "opened": {group.fingerprint: address(asked, open=group.fingerprint) for group in groups},
        }  # fmt: skip
    return await page(request, "dead-letters.html", "dead-letters", {**shown, **more})


async def inside(
    request: Request[Letters, None], group: ErrorGroup, asked: Letters
) -> tuple[tuple[JobView, ...], RunView | None]:
    """The newest jobs of a group, and the run that killed the last of them."""
    by_type = asked.by == "type"
    own = replace(asked, type=group.fingerprint) if by_type else replace(asked, fingerprint=group.fingerprint)
    wanted = filter_of(own, request.app.client.now())
    jobs = (await request.admin.dead_letters(wanted, limit=NEWEST)).jobs
    try:
        runs = (await request.admin.job(group.example)).runs
    except JobNotFound:  # it was decided about meanwhile
        return jobs, None
    return jobs, next((run for run in reversed(runs) if run.traceback), None)


async def live(request: Request[Letters, None]) -> Page | Events:
    return Events(fragments(request, show, "letters-status"))


async def replay(request: Request[None, Decision]) -> Page | Redirect:
    return await _decided(request, replaying=True)


async def purge(request: Request[None, Decision]) -> Page | Redirect:
    return await _decided(request, replaying=False)


async def _decided(request: Request[None, Decision], *, replaying: bool) -> Page | Redirect:
    said = request.body
    if not (
        said.ids or said.error or said.fingerprint or said.type or said.every
    ):  # a selection of which nothing is ticked is not everything
        raise Trouble(422, "invalid-input", "no job is selected", field="ids")
    back = address(Letters(by=said.by, span=said.span, queue=said.queue))
    wanted = filter_of(said, request.app.client.now())
    if said.ids:
        wanted = Filter(state="dead", ids=said.ids)
    limit = FEW if said.few else request.bounds.sweep
    if not said.sure:
        found = await request.admin.matching(wanted)
        if not found.jobs:
            raise Trouble(404, "nothing-there", "none of these is dead any more: somebody else has decided")
        count = plural(min(found.jobs, limit), "job")
        of = f" of {found.jobs:,}{'' if found.exact else ' or more'}" if found.jobs > limit or not found.exact else ""
        word, text = ("Replay", REPLAYED) if replaying else ("Purge", PURGED)
        text = f"{text} At most {limit:,} are changed at once: the youngest." if of and not said.few else text
        question = f"{word} {count}{of}?"
        return await ask(request, "dead-letters", question, text, f"{word} {count}", back=back, danger=not replaying)
    act = request.admin.replay if replaying else request.admin.purge
    swept = await act(wanted, limit=limit)
    return done(back, "replayed" if replaying else "purged", len(swept.done), len(swept.left) or None)
