"""`windlass schedules …`: which rules make jobs, when they will, and by whom they were made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from windlass.admin.schedules import ScheduleView
from windlass.cli.output import Part
from windlass.cli.session import Common, Flag, epilogue, opened
from windlass.cli.typed import admin_of, arguments_of
from windlass.clock import SECOND, wall
from windlass.core.fields import check_name
from windlass.definitions import Preview, ScheduleOptions
from windlass.definitions import preview as previewed
from windlass.errors import InvalidInput
from windlass.types import CatchUp, Overlap
from windlass.wording import in_words, relative

app = App(name="schedules", help="Rules that make jobs: by a cron expression or an interval, in a time zone.")


@Parameter(name="*")
@dataclass(frozen=True)
class Rhythm:
    """When it makes jobs, and which."""

    cron: Annotated[str | None, Parameter(help="'0 9 * * MON-FRI'; six fields begin with the second; or @daily")] = None
    every: Annotated[str | None, Parameter(help="an interval such as 15m, instead of --cron")] = None
    tz: Annotated[str | None, Parameter(help="the zone whose clocks are meant, such as Europe/Berlin; else UTC")] = None
    params: Annotated[str | None, Parameter(help="arguments over the template's, as a JSON object, @file or -")] = None
    catch_up: Annotated[CatchUp | None, Parameter(help="of times that nobody could fire: none, the last, all")] = None
    cap: Annotated[int | None, Parameter(help="of --catch-up all: at most so many, the latest")] = None
    overlap: Annotated[Overlap | None, Parameter(help="while a job of it has not ended")] = None
    jitter: Annotated[str | None, Parameter(help="each job starts up to so much later, such as 30s")] = None
    app: Annotated[str | None, Parameter(help="module:attribute; its task checks the arguments")] = None

    def said(self) -> ScheduleOptions:
        given: dict[str, Any] = {
            "tz": self.tz, "params": None if self.params is None else arguments_of(self.params, ()),
            "catch_up": self.catch_up, "cap": self.cap, "overlap": self.overlap, "jitter": self.jitter,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value is not None}  # type: ignore[return-value]


@app.command(name="list", help_epilogue=epilogue("windlass schedules list", "windlass schedules list --json"))
async def list_schedules(*, common: Common = Common()) -> None:
    """Every schedule: its rule in words, when it fires next, when it last did, and whether code still declares it."""
    async with opened(common) as admin:
        found = await admin.scheduled()
    if common.json:
        common.out.emit(found)
    elif not found.schedules:
        common.out.note(f"there is no schedule; make one: {common.again('schedules create NAME --template T --cron RULE')}")
    else:
        rows = [_row(one, found.at) for one in found.schedules]
        common.out.table(("NAME", "STATE", "NEXT", "LAST", "RULE", "TEMPLATE", "ORIGIN", "IN WORDS"), rows)


def _row(one: ScheduleView, now: datetime) -> tuple[Part, ...]:
    state = _state(one)
    upcoming = "" if one.next_trigger_at is None else relative(one.next_trigger_at, now)
    last = "never" if one.last_triggered_at is None else relative(one.last_triggered_at, now)
    origin: Part = (one.origin, "bold red") if one.origin == "gone from code" else one.origin
    return (one.name, state, upcoming, last, one.cron_expression, one.template, origin, one.words)


def _state(one: ScheduleView) -> Part:
    if one.problem:
        return "broken", "bold red"
    return ("on", "green") if one.makes_jobs else ("archived" if one.enabled else "paused", "yellow")


@app.command(help_epilogue=epilogue("windlass schedules show nightly"))
async def show(schedule: str, /, *, common: Common = Common()) -> None:
    """One schedule with all that is known of it, and its next times."""
    async with opened(common) as admin:
        await admin.schedules.get(schedule)
        one = next(view for view in (await admin.scheduled()).schedules if view.name == schedule)
        found = None if one.problem or not one.enabled else await admin.schedules.preview(schedule)
    if common.json:
        common.out.emit(one, upcoming=[] if found is None else [at.isoformat() for at in found.times])
        return
    overrides = "" if one.param_overrides is None else f", with {one.param_overrides}"
    for name, text in (
        ("name", one.name), ("id", one.schedule_id), ("template", f"{one.template} (task {one.type}){overrides}"),
        ("rule", f"{one.cron_expression} ({one.timezone})"), ("in words", one.words), ("origin", one.origin),
        ("state", one.problem or ("on" if one.makes_jobs else "paused" if not one.enabled else "its template is archived")),
        ("catch-up", one.catch_up if one.catch_up != "all" else f"all, at most {one.catch_up_cap}"),
        ("overlap", one.overlap), ("jitter", in_words(round(one.jitter * SECOND)) if one.jitter else "none"),
        ("last", "never" if one.last_triggered_at is None else one.last_triggered_at.isoformat(sep=" ")),
    ):  # fmt: skip
        common.out.line((f"{name:<10}", "dim"), text)
    if found is not None:
        _times(found, common)


@app.command(
    help_epilogue=epilogue(
        "windlass schedules create nightly --template report --cron '30 2 * * *' --tz Europe/Berlin",
        "windlass schedules create poll --template fetch --every 15m --overlap skip --jitter 30s",
    )
)
async def create(
    name: str, /, *arguments: str, template: str, rhythm: Rhythm = Rhythm(), paused: Flag = False,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Make a schedule of a template. A name that is taken is refused: change that one with update.

    Args:
        name: what it is called
        arguments: name=value, over the template's
        template: what its jobs are made of; see: windlass templates list
        paused: it makes nothing until it is resumed
    """
    async with admin_of(rhythm.app, common) as admin:
        if any(row.name == name for row in await admin.schedules.list()):
            raise InvalidInput("name", f"there is a schedule {name!r} already; change it: windlass schedules update {name}")
        said = _with(rhythm.said(), arguments)
        if paused:
            said["enabled"] = False
        row = await admin.schedules.put(name, template, rhythm.cron, every=rhythm.every, **said)
        found = await admin.schedules.preview(name)
    _told(row.name, "made", found, common)
    if rhythm.app is None and not common.json:
        common.out.note("without --app nobody could look whether a task of that name exists and takes these arguments")


@app.command(
    help_epilogue=epilogue(
        "windlass schedules update nightly --cron '0 3 * * *'", "windlass schedules update nightly --rename early"
    )
)
async def update(
    schedule: str, /, *arguments: str, template: str | None = None, rhythm: Rhythm = Rhythm(), rename: str | None = None,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Change what is given, and nothing else. Jobs that exist stay as they are; a new rule or zone counts from now.

    Args:
        schedule: its name
        arguments: name=value, instead of those that it has over the template's
        template: another template
        rename: another name; id and history stay
    """
    async with admin_of(rhythm.app, common) as admin:
        said = _with(rhythm.said(), arguments)
        if rename is not None:  # first, since it is what may be refused for reasons of others
            check_name("rename", rename)
            await admin.schedules.check_rename(schedule, rename)
        await admin.schedules.update(schedule, template=template, cron=rhythm.cron, every=rhythm.every, **said)
        if rename is not None:
            await admin.schedules.rename(schedule, rename)
        found = await admin.schedules.preview(rename or schedule)
    _told(rename or schedule, "changed", found, common)


@app.command(help_epilogue=epilogue("windlass schedules pause nightly"))
async def pause(schedule: str, /, *, common: Common = Common()) -> None:
    """Make no more jobs by this rule until it is resumed, also when the program is started anew."""
    async with opened(common) as admin:
        changed = await admin.schedules.pause(schedule)
    _switched(schedule, False, changed, common)


@app.command(help_epilogue=epilogue("windlass schedules resume nightly"))
async def resume(schedule: str, /, *, common: Common = Common()) -> None:
    """Go on with a schedule from now. What passed meanwhile is not made up for."""
    async with opened(common) as admin:
        changed = await admin.schedules.resume(schedule)
    _switched(schedule, True, changed, common)


@app.command(help_epilogue=epilogue("windlass schedules run nightly"))
async def run(schedule: str, /, *, common: Common = Common()) -> None:
    """Make one job now, outside the rhythm. It carries the tag manual; the next time stays what it was."""
    async with opened(common) as admin:
        job = await admin.schedules.run(schedule)
    if common.json:
        common.out.emit(job_id=job.id)
    else:
        common.out.line(job.id)
        common.out.note(f"see: {common.again(f'jobs show {job.id}')}")


@app.command(help_epilogue=epilogue("windlass schedules delete nightly"))
async def delete(schedule: str, /, *, common: Common = Common()) -> None:
    """Remove a schedule. The jobs that it made stay. What code declares comes back with the next worker: pause that."""
    async with opened(common) as admin:
        await admin.schedules.delete(schedule)
    if common.json:
        common.out.emit(schedule=schedule, deleted=True)
    else:
        common.out.line(f"{schedule} is deleted")


@app.command(
    help_epilogue=epilogue(
        "windlass schedules preview '30 2 * * *' --tz America/New_York",
        "windlass schedules preview nightly --count 10", "windlass schedules preview 'every 15m'",
        "windlass schedules preview '30 2 * * *' --tz America/New_York --after 2027-03-12",
    )
)  # fmt: skip
async def preview(
    rule: str, /, *, tz: str | None = None, count: int = 5, after: str | None = None, common: Common = Common()
) -> None:
    """The next times of a rule or of a schedule, with their offsets from UTC, and the rule in plain words.

    Args:
        rule: a cron expression, an interval such as 'every 15m', or a schedule's name
        tz: the zone whose clocks are meant; else UTC, or the schedule's own
        count: how many times to show
        after: begin at this day or instant instead of now
    """
    if len(rule.split()) > 1 or rule.startswith("@"):
        zone = tz or "UTC"
        found = previewed(rule, zone, wall() if after is None else _start(after, zone), count)
    else:
        async with opened(common) as admin:
            stored = await admin.schedules.get(rule)
            zone = tz or stored.timezone
            start = admin.client.now() if after is None else _start(after, zone)
            found = previewed(stored.cron_expression, zone, start, count, stored.created_at)
    if common.json:
        common.out.emit(found)
        return
    common.out.line((found.words, "bold"))
    _times(found, common)
    common.out.note(f"when clocks are changed: {found.clock_changes}")


def _start(text: str, zone: str) -> int:
    from zoneinfo import ZoneInfo

    from windlass.clock import LAST_INSTANT, instant
    from windlass.core.cron import check_zone

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("after", f"{text!r} is no day or instant; write 2027-03-12 or 2027-03-12T09:00+01:00") from None
    start = instant(at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(check_zone(zone))), field="after")
    if not 0 <= start <= LAST_INSTANT:
        raise InvalidInput("after", f"must be from 1970 to 9998, got {text!r}")
    return start


def _times(found: Preview, common: Common) -> None:
    """A change of the offset is what people look for."""
    before = None
    for at in found.times:
        offset = at.strftime("%z")
        changed = before is not None and offset != before
        before = offset
        note: Part = (f"  the clocks have changed to {at.tzname()}", "yellow") if changed else ""
        shown = at.isoformat(sep=" ", timespec="seconds")
        common.out.line(f"  {at.strftime('%a')} {shown}", note)


def _switched(schedule: str, enabled: bool, changed: bool, common: Common) -> None:
    if common.json:
        common.out.emit(schedule=schedule, enabled=enabled, changed=changed)
    elif enabled:
        common.out.line(f"{schedule} goes on" if changed else f"{schedule} was not paused")
    else:
        common.out.line(f"{schedule} is paused" if changed else f"{schedule} was paused already")


def _told(name: str, what: str, found: Preview, common: Common) -> None:
    if common.json:
        common.out.emit(schedule=name, **{what: True}, next=[at.isoformat() for at in found.times])
    else:
        common.out.line(f"{name} is {what}: {found.words}")
        _times(found, common)


def _with(said: ScheduleOptions, arguments: tuple[str, ...]) -> ScheduleOptions:
    if arguments:
        said["params"] = {**said.get("params", {}), **arguments_of(None, arguments)}
    return said
