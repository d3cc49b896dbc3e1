"""`/schedules`: what makes jobs by a clock, in plain words, with its next runs and what changed clocks do to it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.schedules import ScheduleView
from windlass.admin.views import Filter, JobView
from windlass.definitions import Preview
from windlass.errors import InvalidInput, WindlassError
from windlass.types import CatchUp, Overlap
from windlass.web.answers import Events, Page, Redirect
from windlass.web.arguments import decoded, differs, whole
from windlass.web.pages.formats import part, query
from windlass.web.pages.live import fragments
from windlass.web.pages.payloads import pretty
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.problems import Trouble
from windlass.web.request import Request

BARS: Final = 16
NOTED: Final = timedelta(days=14)
CHANGED: Final = (
    "somebody has changed this schedule since you opened it. Open it again to see how it is now, or save once more to put "
    "yours in its place"
)
MOST: Final = 50  # schedules whose last runs are drawn
ZONES: Final = tuple(
    sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
)


class Shown(Told, frozen=True, kw_only=True):
    edit: str = ""
    new: bool = False
    only: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    cron: str = ""
    tz: str = "UTC"


class Form(Struct, frozen=True, kw_only=True):
    """As it is typed. `was`: the schedule that is edited, and `seen` how it was then; `preview`: only look."""

    name: str = ""
    template: str = ""
    cron: str = ""
    tz: str = "UTC"
    catch_up: CatchUp = "last"
    overlap: Overlap = "allow"
    jitter: str = ""
    params: str = ""
    was: str = ""
    seen: str = ""
    preview: bool = False


class Next(Struct, frozen=True):
    at: datetime  # by the schedule's own clock
    offset: str
    note: str


class Previewed(Struct, frozen=True):
    words: str
    clock_changes: str
    times: tuple[Next, ...]
    error: str = ""


async def show(request: Request[Shown, None]) -> Page:
    return await _page(request, request.query.edit, None, "", new=request.query.new)


async def live(request: Request[Shown, None]) -> Page | Events:
    return Events(fragments(request, show, "schedule-rows"))


async def _page(request: Request[Any, Any], edit: str, form: Form | None, error: str, *, new: bool = False) -> Page:
    listed = await request.admin.scheduled()
    only = request.query.only if isinstance(request.query, Shown) else ""
    rows = sorted(
        listed.schedules, key=lambda one: (one.next_trigger_at is None, one.next_trigger_at or one.created_at, one.name)
    )
    rows = [one for one in rows if only != "paused" or not one.enabled]
    edited = next((one for one in listed.schedules if one.name == edit), None)
    if form is None and edited is not None:
        form = form_of(edited)
    if form is not None and form.was and edited is None:  # it was deleted meanwhile, and may be made again
        form = replace(form, name=form.was, was="", seen="")
    if form is None and (new or (not edit and rows and not new)):
        form = Form(cron="0 9 * * MON-FRI") if new or not rows else form_of(rows[0])
        edited = None if new else rows[0] if rows else None
    shown = {
        "listed": listed, "schedules": rows, "last": {one.name: await last_runs(request, one) for one in rows[:MOST]},
        "edited": edited, "form": form, "error": error, "seen": seen_in(form, edited), "zones": ("UTC", *ZONES),
        "templates": [one.name for one in await request.admin.templates.list() if one.archived_at is None],
        "preview": None if form is None else await previewed(request, form.cron, form.tz),
        "changes": clock_changes(rows, listed.at), "only": only, "changed_params": form is not None and bool(form.params),
        "filters": [("", "All", "/schedules"), ("paused", "Paused", "/schedules?only=paused")],
        "live": "/live/schedules" + query({"only": only, "edit": edited.name if edited else ""}),
    }  # fmt: skip
    return await page(request, "schedules.html", "schedules", shown, 422 if error else 200)


def form_of(one: ScheduleView) -> Form:
    return Form(
        name=one.name, template=one.template, cron=one.cron_expression, tz=one.timezone, catch_up=one.catch_up,
        overlap=one.overlap, jitter=f"{one.jitter:g}s" if one.jitter else "", was=one.name,
        params=pretty(one.param_overrides) if one.param_overrides else "",
    )  # fmt: skip


def seen_in(form: Form | None, edited: ScheduleView | None) -> str:
    """What tells later whether somebody else has changed it. A form that comes back says what it said."""
    return form.seen if form is not None and form.seen else "" if edited is None else digest_of(edited)


def digest_of(one: ScheduleView) -> str:
    return hashlib.sha256(msgspec.json.encode(form_of(one))).hexdigest()[:16]


async def last_runs(request: Request[Any, Any], one: ScheduleView) -> tuple[JobView, ...]:
    """The jobs that it made last, oldest first."""
    found = await request.admin.jobs(Filter(schedule=one.schedule_id), limit=BARS)
    return tuple(reversed(found.jobs))


async def previewed(request: Request[Any, Any], cron: str, tz: str) -> Previewed:
    try:
        found: Preview = await request.admin.schedules.preview(cron, tz=tz or "UTC")
    except WindlassError as error:
        return Previewed("", "", (), str(error))
    return Previewed(found.words, found.clock_changes, tuple(_next(found, place) for place in range(len(found.times))))


def _next(found: Preview, place: int) -> Next:
    at = found.times[place]
    before = found.times[place - 1] if place else None
    changed = before is not None and before.utcoffset() != at.utcoffset()
    note = (
        f"Clocks have changed: {_offset(before)} before, {_offset(at)} from here." if changed and before is not None else ""
    )
    return Next(at, _offset(at), note)


def _offset(at: datetime | None) -> str:
    text = "" if at is None else f"{at:%z}"
    return f"{text[:3]}:{text[3:]}" if text else ""


def clock_changes(rows: list[ScheduleView], now: datetime) -> list[tuple[str, datetime, list[str]]]:
    """Zones of enabled schedules whose clocks change soon: the day, and the schedules."""
    found: dict[str, tuple[datetime, list[str]]] = {}
    for one in rows:
        if not one.enabled or one.timezone == "UTC" or one.cron_expression.startswith("every"):
            continue
        zone = ZoneInfo(one.timezone)
        days = [now.astimezone(zone) + timedelta(days=day) for day in range(NOTED.days + 1)]
        change = next((later for earlier, later in pairwise(days) if _moved(earlier, later, zone)), None)
        if change is not None:
            found.setdefault(one.timezone, (change, []))[1].append(one.name)
    return [(zone, day, names) for zone, (day, names) in found.items()]


def _moved(earlier: datetime, later: datetime, zone: Any) -> bool:
    return (
        datetime.fromtimestamp(earlier.timestamp(), zone).utcoffset()
        != datetime.fromtimestamp(later.timestamp(), zone).utcoffset()
    )


async def preview(request: Request[Rule, None]) -> Page:
    """The fragment that the script puts in as one types."""
    shown = {"preview": await previewed(request, request.query.cron, request.query.tz)}
    return await page(request, "fragments/schedule-preview.html", "schedules", shown)


async def save(request: Request[None, Form]) -> Page | Redirect:
    form = request.body
    try:
        if form.preview:
            return await _page(request, form.was, form, "")
        name = form.was or form.name.strip()
        if not name:
            raise InvalidInput("name", "give it a name")
        stored = next((one for one in (await request.admin.scheduled()).schedules if one.name == form.was), None)
        if form.seen and stored is not None and form.seen != digest_of(stored):
            form = replace(form, seen="")  # whoever saves it again knows
            raise Trouble(409, "changed", CHANGED)
        shown = stored.param_overrides if stored is not None else None
        rule, options = rule_in(form.cron), options_in(request, form, shown or {})
        if form.was:
            await request.admin.schedules.update(name, template=form.template or None, **rule, **options)
        else:
            if any(row.name == name for row in await request.admin.schedules.list()):
                raise InvalidInput("name", f"there is a schedule {name!r} already; open that one to change it")
            await request.admin.schedules.put(name, form.template, **rule, **options)
    except WindlassError as error:
        return await _page(request, form.was, form, str(error), new=not form.was)
    return done(f"/schedules?edit={part(name)}", "saved")


def rule_in(text: str) -> Mapping[str, Any]:
    """`every 15m`, or a cron expression."""
    words = text.strip()
    return {"every": words[5:].strip()} if words.startswith("every ") else {"cron": words}


def options_in(request: Request[Any, Any], form: Form, shown: Any) -> Mapping[str, Any]:
    """Arguments that were left as they were shown stay as they are: something of them may be hidden."""
    said: dict[str, Any] = {"tz": form.tz or "UTC", "catch_up": form.catch_up, "overlap": form.overlap}
    said["jitter"] = form.jitter.strip() or 0
    params = decoded(form.params, request.bounds)
    if differs(params, shown):
        said["params"] = whole(params)
    return said


async def run(request: Request[None, Sure]) -> Page | Redirect:
    name = request.path["name"]
    if not request.body.sure:
        text = "One extra job starts at once. The schedule itself does not move."
        return await ask(request, "schedules", f"Run {name} now?", text, "Run now", back="/schedules")
    await request.admin.schedules.run(name)
    return done(f"/schedules?edit={part(name)}", "ran")


async def pause(request: Request[None, None]) -> Redirect:
    await request.admin.schedules.pause(request.path["name"])
    return done("/schedules", "paused")


async def resume(request: Request[None, None]) -> Redirect:
    await request.admin.schedules.resume(request.path["name"])
    return done("/schedules", "resumed")


async def delete(request: Request[None, Sure]) -> Page | Redirect:
    name = request.path["name"]
    if not request.body.sure:
        text = "The jobs that it made stay. A schedule that code declares comes back when that code starts again."
        return await ask(request, "schedules", f"Delete {name}?", text, "Delete", back="/schedules", danger=True)
    await request.admin.schedules.delete(name)
    return done("/schedules", "deleted")
