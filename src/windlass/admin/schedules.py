"""Schedules and templates as people see them, and what the doctor says of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from windlass.admin.showing import plain_data
from windlass.admin.views import Check
from windlass.client import Client
from windlass.clock import SECOND, moment
from windlass.core.cronwords import in_plain_words
from windlass.core.queries import AllSchedules, AllTemplates, AllWorkers
from windlass.core.schedules import gone_from_code
from windlass.core.templates import decode_policies
from windlass.errors import InvalidInput, WindlassError
from windlass.records import WorkerInfo
from windlass.redaction import marks_of, redact
from windlass.types import CatchUp, Micros, Overlap, Schedule, Template
from windlass.urls import HIDDEN
from windlass.wording import are, in_words, plural

LATE = 120 * SECOND
Origin = Literal["code", "by hand", "gone from code"]


class ScheduleView(Struct, frozen=True, kw_only=True):
    schedule_id: str
    name: str
    template: str
    template_id: str
    type: str | None
    cron_expression: str
    timezone: str
    words: str
    enabled: bool
    origin: Origin
    makes_jobs: bool  # enabled, and its template is in use
    param_overrides: Any
    catch_up: CatchUp
    catch_up_cap: int
    overlap: Overlap
    jitter: float  # seconds
    last_triggered_at: datetime | None
    next_trigger_at: datetime | None
    created_at: datetime
    problem: str | None = None  # why its times cannot be told on this machine


class ScheduleList(Struct, frozen=True, kw_only=True):
    at: datetime
    schedules: tuple[ScheduleView, ...]


class TemplateView(Struct, frozen=True, kw_only=True):
    template_id: str
    version: int
    name: str
    type: str
    queue: str
    params: Any
    settings: Any
    archived_at: datetime | None
    created_at: datetime


async def listed(client: Client) -> ScheduleList:
    driver, now = client.driver, client.now()
    rows, templates = await driver.read(AllSchedules()), await driver.read(AllTemplates())
    living = alive(await driver.read(AllWorkers()), now, client.settings.worker_timeout)
    by_id = {template.template_id: template for template in templates}
    views = tuple(schedule_view(row, by_id.get(row.template_id), living) for row in rows)
    return ScheduleList(at=moment(now), schedules=views)


def alive(workers: Sequence[WorkerInfo], now: Micros, timeout: Micros) -> list[WorkerInfo]:
    return [worker for worker in workers if now - worker.last_heartbeat < timeout]


def schedule_view(row: Schedule, template: Template | None, living: Sequence[WorkerInfo] = ()) -> ScheduleView:
    task = None if template is None else template.type
    origin: Origin = "by hand" if row.declared is None else "code"
    problem = None
    try:
        words = in_plain_words(row.cron_expression, row.timezone)
    except InvalidInput as error:
        words, problem = f"{row.cron_expression} in {row.timezone}", str(error)
    return ScheduleView(
        schedule_id=row.schedule_id, name=row.name, template=row.template_id if template is None else template.name,
        template_id=row.template_id, type=task, cron_expression=row.cron_expression, timezone=row.timezone,
        words=words, enabled=row.enabled, problem=problem,
        origin="gone from code" if gone_from_code(row, task, living) else origin,
        makes_jobs=row.enabled and template is not None and template.archived_at is None,
        param_overrides=None if row.param_overrides is None else _shown(row.param_overrides, template),
        catch_up=row.catch_up, catch_up_cap=row.catch_up_cap, overlap=row.overlap, jitter=row.jitter / SECOND,
        last_triggered_at=_at(row.last_triggered_at), next_trigger_at=_at(row.next_trigger_at),
        created_at=moment(row.created_at),
    )  # fmt: skip


def template_view(row: Template) -> TemplateView:
    return TemplateView(
        template_id=row.template_id, version=row.version, name=row.name, type=row.type, queue=row.queue,
        params=_shown(row.params, row),
        settings=None if row.settings is None else redact(plain_data(row.settings.encode())),
        archived_at=_at(row.archived_at), created_at=moment(row.created_at),
    )  # fmt: skip


async def checks(client: Client) -> list[Check]:
    """Schedules that nobody fires, that make nothing, or that no code declares any more; nothing where there is none."""
    try:
        found, now = (await listed(client)).schedules, client.now()
        workers = alive(await client.driver.read(AllWorkers()), now, client.settings.worker_timeout)
    except WindlassError:
        return []
    if not found:
        return []
    said = [
        Check("schedules", "warning", f"schedule {one.name} is in no code any more, and goes on",
              f"windlass schedules delete {one.name}")
        for one in found if one.origin == "gone from code"
    ]  # fmt: skip
    said += [
        Check("schedules", "problem", f"schedule {one.name} cannot be fired by this machine: {one.problem}",
              f"windlass schedules update {one.name}, with --cron RULE or --tz ZONE; or bring tzdata up to date")
        for one in found if one.problem is not None
    ]  # fmt: skip
    late = [one for one in found if one.next_trigger_at is not None and one.next_trigger_at < moment(now - LATE)]
    if late:
        longest = max(now - round(one.next_trigger_at.timestamp() * SECOND) for one in late if one.next_trigger_at)
        text = f"{are(len(late), 'schedule')} due and fired by nobody, {late[0].name} for {in_words(longest)}"
        said.append(Check("schedules", "warning", text, "windlass worker APP"))
    known = {name for worker in workers for name in worker.types}
    said += [
        Check("schedules", "warning", f"schedule {one.name}: no worker that is alive knows its task {one.type}",
              "windlass workers")
        for one in found if workers and one.makes_jobs and one.type not in known
    ]  # fmt: skip
    said += [
        Check("schedules", "warning", f"schedule {one.name} makes nothing: its template {one.template} is archived or gone",
              f"windlass schedules pause {one.name}")
        for one in found if one.enabled and not one.makes_jobs
    ]  # fmt: skip
    return said or [Check("schedules", "ok", f"{plural(len(found), 'schedule')}, none late")]


def _shown(params: bytes, template: Template | None) -> Any:
    """Without what the task of the template keeps secret; where this version cannot read what that is, nothing."""
    try:
        marks = () if template is None else marks_of(decode_policies(template).headers)
    except InvalidInput:
        return HIDDEN
    return redact(plain_data(params), marks)


def _at(value: Micros | None) -> datetime | None:
    return None if value is None else moment(value)
