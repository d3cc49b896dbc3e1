"""Templates and schedules as changes that are checked before they reach a store.

Arguments are checked against the signature of the task if the program is known, and else (a command without `--app`) as
far as the store can tell."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypedDict
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from windlass.client import Client
from windlass.clock import duration, moment
from windlass.core.alterations import PutSchedule, PutTemplate
from windlass.core.cron import check_rule, check_zone
from windlass.core.cronwords import in_plain_words, on_the_wall
from windlass.core.schedules import upcoming
from windlass.core.templates import merged, params_in, policies_of
from windlass.core.uniqueness import stable_json
from windlass.errors import InvalidInput, Undecodable, UnknownTask, shown
from windlass.options import check_options, plan
from windlass.policies import Duration, Retry
from windlass.presets import HARMONYK
from windlass.tasks import Task
from windlass.types import CatchUp, CrashPolicy, History, Micros, NewJob, OnUnknown, Overlap, RetryMode, Schedule, Template
from windlass.words import did_you_mean

MOST_SHOWN: Final = 1_000


class TemplateOptions(TypedDict, total=False):
    """Options of a template. They override those of its task."""

    queue: str
    priority: int
    timeout: Duration
    retry: Retry
    max_lost: int
    retry_mode: RetryMode
    crash_policy: CrashPolicy
    on_unknown: OnUnknown
    history: History
    limits: tuple[str, ...]
    tags: tuple[str, ...]
    org_id: str
    headers: dict[str, str]


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule, besides its rule."""

    tz: str
    params: Mapping[str, Any]  # arguments that override those of the template
    catch_up: CatchUp
    cap: int  # of catch_up="all"
    overlap: Overlap
    jitter: Duration
    enabled: bool


OF_TEMPLATE: Final = frozenset(TemplateOptions.__annotations__)
OF_SCHEDULE: Final = frozenset(ScheduleOptions.__annotations__)


class Home(Protocol):
    """What templates and schedules need of an app. `tasks` is None if the program is not known."""

    @property
    def client(self) -> Client: ...
    @property
    def tasks(self) -> Mapping[str, Task[..., Any]] | None: ...


class Preview(Struct, frozen=True, kw_only=True):
    """A rule in words, and its next times in the local time of its zone."""

    cron: str
    timezone: str
    words: str
    clock_changes: str
    times: tuple[datetime, ...]


def prototype(home: Home, task: str | Task[..., Any], params: Mapping[str, Any], options: TemplateOptions) -> NewJob:
    """The job that a template makes. Its arguments are checked against the task, if that is known."""
    check_options(options, OF_TEMPLATE, "a template")
    check_params("params", params)
    name = task.name if isinstance(task, Task) else task
    if home.tasks is None:
        made = plan(name, options, HARMONYK, home.client.settings)
        return made.make("prototype", stable_json(dict(params)).encode(), 0)
    if name not in home.tasks:
        raise UnknownTask(name, did_you_mean(str(name), home.tasks))
    return home.tasks[name].using(**options).prototype(**params)


def of_template(name: str, job: NewJob, template_id: str) -> PutTemplate:
    return PutTemplate(
        template_id=template_id, name=name, type=job.type, queue=job.queue, params=job.payload,
        settings=policies_of(job).encode(),
    )  # fmt: skip


def of_schedule(
    name: str, template: str, rule: str, options: ScheduleOptions, schedule_id: str, declared: str | None = None
) -> PutSchedule:  # fmt: skip
    check_options(options, OF_SCHEDULE, "a schedule")
    params = options.get("params")
    if params is not None:
        check_params("params", params)
    return PutSchedule(
        schedule_id=schedule_id, name=name, template=template, cron_expression=rule, timezone=options.get("tz", "UTC"),
        enabled=options.get("enabled"), param_overrides=encoded(params) if params else None,
        catch_up=options.get("catch_up", "last"), catch_up_cap=options.get("cap", 100),
        overlap=options.get("overlap", "allow"), jitter=duration(options.get("jitter", 0), field="jitter"),
        declared=declared,
    )  # fmt: skip


def rule_of(cron: str | None, every: Duration | None) -> str:
    """The stored form of a cron expression or an interval."""
    if (cron is None) == (every is None):
        raise InvalidInput("cron", "give a cron expression such as '0 9 * * *', or every='15m', and not both")
    if every is None:
        return check_rule(cron)
    micros = duration(every, field="every")
    whole, text = micros % 1_000_000 == 0, every if isinstance(every, str) else None
    return check_rule(f"every {text or (f'{micros // 1_000_000}s' if whole else f'{micros}us')}")


def check_params(field: str, params: object) -> None:
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise InvalidInput(field, f"must be arguments by name such as {{'day': 3}}, got {shown(params)}")


def encoded(params: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(params))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput("params", f"cannot be written as JSON: {error}") from None


def check_overrides(home: Home, template: Template, overrides: bytes) -> None:
    """Raise `InvalidInput` for arguments that the task, or if it is not known the template, does not have."""
    given, known = params_in("params", overrides), params_in("params", template.params)
    task = (home.tasks or {}).get(template.type)
    takes = known if task is None else task.arguments.names
    for name in given:
        if name not in takes:
            whose = f"the template {template.name!r} gives" if task is None else f"the task {task.name!r} takes"
            raise InvalidInput(name, f"is no parameter{did_you_mean(name, takes)}; {whose}: {', '.join(takes) or 'none'}")
    if task is not None:
        try:
            task.arguments.decode(merged(template.params, overrides), "json")
        except Undecodable as error:
            raise InvalidInput("params", f"do not fit the task {task.name!r}: {error}") from None


def preview(rule: str, tz: str, after: Micros, count: int = 5, anchor: Micros | None = None) -> Preview:
    """The next times of a rule, each with the offset of the zone at that time."""
    if type(count) is not int or not 1 <= count <= MOST_SHOWN:
        raise InvalidInput("count", f"must be between 1 and {MOST_SHOWN:,}, got {shown(count)}")
    text, zone = check_rule(rule), ZoneInfo(check_zone(tz))
    row = Schedule(
        schedule_id="", template_id="", name="", cron_expression=text, timezone=tz,
        created_at=after if anchor is None else anchor,
    )  # fmt: skip
    times = tuple(moment(at).astimezone(zone) for at in upcoming(row, after, count))
    return Preview(cron=text, timezone=tz, words=in_plain_words(text, tz), clock_changes=on_the_wall(text), times=times)


class Declared(Struct, frozen=True, kw_only=True):
    """A schedule that code declares, and its template of the same name. They are stored when a worker starts."""

    template: PutTemplate
    schedule: PutSchedule
