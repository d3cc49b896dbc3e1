"""Templates, schedules, and what a schedule makes when its time has come."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.core.alterations import (
    AlterAnswer,
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    OfSchedules,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.queries import AllTemplates, DueSchedules
from windlass.core.schedules import came_of, is_stale, may_join, placed, same, switched, touched
from windlass.core.templates import next_version
from windlass.drivers.memory.events import announce_missed
from windlass.drivers.memory.jobs import enqueue_one
from windlass.drivers.memory.tables import Tables
from windlass.types import Micros, Schedule, Template


def alter(tables: Tables, change: OfSchedules, now: Micros) -> AlterAnswer:
    match change:
        case PutTemplate():
            return put_template(tables, change, now)
        case ArchiveTemplate():
            return archive(tables, change, now)
        case DeleteTemplate():
            return delete_template(tables, change)
        case PutSchedule():
            return put_schedule(tables, change, now)
        case RenameSchedule():
            return rename(tables, change, now)
        case SetEnabled():
            return set_enabled(tables, change, now)
        case DeleteSchedule():
            schedule = named(tables, change.name)
            if schedule is None:
                return "not_found"
            tables.drop_from(tables.schedules, schedule.schedule_id)
            return "applied"
        case Fire():
            return fire(tables, change, now)


def newest(tables: Tables, name: str) -> Template | None:
    versions = [template for template in tables.templates.values() if template.name == name]
    return max(versions, key=lambda template: template.version, default=None)


def named(tables: Tables, name: str) -> Schedule | None:
    return next((schedule for schedule in tables.schedules.values() if schedule.name == name), None)


def put_template(tables: Tables, change: PutTemplate, now: Micros) -> AlterAnswer:
    before = newest(tables, change.name)
    if before is None and any(change.template_id == template_id for template_id, _ in tables.templates):
        return "duplicate"
    version = next_version(before, change, now)
    if version is None:
        return "unchanged"
    tables.put_in(tables.templates, (version.template_id, version.version), version)
    return "applied"


def archive(tables: Tables, change: ArchiveTemplate, now: Micros) -> AlterAnswer:
    template = newest(tables, change.name)
    if template is None:
        return "not_found"
    if template.archived_at is not None:
        return "unchanged"
    tables.put_in(tables.templates, (template.template_id, template.version), replace(template, archived_at=now))
    return "applied"


def delete_template(tables: Tables, change: DeleteTemplate) -> AlterAnswer:
    template = newest(tables, change.name)
    if template is None:
        return "not_found"
    if any(schedule.template_id == template.template_id for schedule in tables.schedules.values()):
        return "wrong_state"
    for key in [key for key in tables.templates if key[0] == template.template_id]:
        tables.drop_from(tables.templates, key)
    return "applied"


def put_schedule(tables: Tables, change: PutSchedule, now: Micros) -> AlterAnswer:
    template = newest(tables, change.template)
    if template is None:
        return "not_found"
    before = named(tables, change.name)
    if change.as_of is not None and (before is None or before.updated_at != change.as_of):
        return "not_found" if before is None else "wrong_state"
    if before is None and change.schedule_id in tables.schedules:
        return "duplicate"
    after = placed(before, change, template.template_id, now)
    if same(before, after):
        return "unchanged"
    tables.put_in(tables.schedules, after.schedule_id, after)
    return "applied"


def rename(tables: Tables, change: RenameSchedule, now: Micros) -> AlterAnswer:
    schedule = named(tables, change.name)
    if schedule is None:
        return "not_found"
    if change.to == change.name:
        return "unchanged"
    if named(tables, change.to) is not None:
        return "duplicate"
    after = replace(schedule, name=change.to, updated_at=touched(schedule, now))
    tables.put_in(tables.schedules, after.schedule_id, after)
    return "applied"


def set_enabled(tables: Tables, change: SetEnabled, now: Micros) -> AlterAnswer:
    schedule = named(tables, change.schedule)
    if schedule is None:
        return "not_found"
    if schedule.enabled == change.enabled:
        return "unchanged"
    tables.put_in(tables.schedules, schedule.schedule_id, switched(schedule, change.enabled, now))
    return "applied"


def fire(tables: Tables, change: Fire, now: Micros) -> AlterAnswer:
    schedule = tables.schedules.get(change.schedule_id)
    if schedule is None:
        return "not_found"
    if is_stale(change, schedule, {template.template_id: template for template in templates(tables, AllTemplates())}):
        return "wrong_state"
    last, made = schedule.last_triggered_at, list[Micros]()
    for job in change.jobs:
        if may_join(schedule, *unfinished(tables, schedule)) and not enqueue_one(tables, job, now).existed:
            made.append(job.fire_at or 0)
            last = max(job.fire_at or 0, last or 0)
    after = replace(
        schedule, last_triggered_at=last, next_trigger_at=change.next_trigger_at, updated_at=touched(schedule, now)
    )  # fmt: skip
    tables.put_in(tables.schedules, schedule.schedule_id, after)
    if change.missed is not None:
        announce_missed(tables, schedule, came_of(change.missed, made), now)
    return "applied"


def unfinished(tables: Tables, schedule: Schedule) -> tuple[bool, bool]:
    """Whether jobs of the schedule are queued, and whether one is running."""
    if schedule.overlap == "allow":
        return False, False
    states = {job.state for job in tables.jobs.values() if job.schedule_id == schedule.schedule_id}
    return "queued" in states, "running" in states


def templates(tables: Tables, query: AllTemplates) -> list[Template]:
    if query.name is not None:
        return sorted((t for t in tables.templates.values() if t.name == query.name), key=lambda t: t.version)
    names = sorted({template.name for template in tables.templates.values()})
    return [template for name in names if (template := newest(tables, name)) is not None]


def schedules(tables: Tables) -> list[Schedule]:
    return sorted(tables.schedules.values(), key=lambda schedule: schedule.name)


def due(tables: Tables, query: DueSchedules) -> list[Schedule]:
    found = [
        (schedule.next_trigger_at, schedule.schedule_id, schedule) for schedule in tables.schedules.values()
        if schedule.next_trigger_at is not None and schedule.next_trigger_at <= query.by
    ]  # fmt: skip
    return [schedule for _, _, schedule in sorted(found, key=lambda one: one[:2])[: query.limit]]
