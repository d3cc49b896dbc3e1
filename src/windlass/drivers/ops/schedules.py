"""Templates, schedules, and what a schedule makes when its time has come: values → statements."""

from __future__ import annotations

from msgspec.structs import asdict, replace

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
from windlass.core.schedules import came_of, is_stale, may_join, placed, same, switched, templates_of, touched
from windlass.core.templates import next_version
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import announce_missed
from windlass.drivers.rows import schedule_in
from windlass.drivers.statement import Op, Row
from windlass.types import Micros, Schedule, Template


def alter(db: Dialect, change: OfSchedules, now: Micros) -> Op[AlterAnswer]:
    match change:
        case PutTemplate():
            return (yield from put_template(db, change, now))
        case ArchiveTemplate():
            return (yield from archive(db, change, now))
        case DeleteTemplate():
            return (yield from delete_template(db, change))
        case PutSchedule():
            return (yield from put_schedule(db, change, now))
        case RenameSchedule():
            return (yield from rename(db, change, now))
        case SetEnabled():
            return (yield from set_enabled(db, change, now))
        case DeleteSchedule():
            return "applied" if (yield db.sql.delete_schedule(name=change.name)) else "not_found"
        case Fire():
            return (yield from fire(db, change, now))


def template_in(row: Row) -> Template:
    return Template(**dict(zip(Template.__struct_fields__, row, strict=True)))


def newest(db: Dialect, name: str) -> Op[Template | None]:
    rows = yield db.sql.newest_template(name=name)
    return template_in(rows[0]) if rows else None


def named(db: Dialect, name: str) -> Op[Schedule | None]:
    """Nobody else changes it before this transaction ends."""
    yield from db.lock("lock_schedule_named", name=name)
    rows = yield db.sql.schedule_named(name=name)
    return schedule_in(rows[0]) if rows else None


def write(db: Dialect, schedule: Schedule) -> Op[None]:
    yield db.sql.put_schedule(**asdict(schedule))


def put_template(db: Dialect, change: PutTemplate, now: Micros) -> Op[AlterAnswer]:
    before = yield from newest(db, change.name)
    if before is None and (yield db.sql.template_versions(template_id=change.template_id)):
        return "duplicate"
    version = next_version(before, change, now)
    if version is None:
        return "unchanged"
    yield db.sql.insert_template(**asdict(version))
    return "applied"


def archive(db: Dialect, change: ArchiveTemplate, now: Micros) -> Op[AlterAnswer]:
    template = yield from newest(db, change.name)
    if template is None:
        return "not_found"
    if template.archived_at is not None:
        return "unchanged"
    yield db.sql.archive_template(template_id=template.template_id, version=template.version, now=now)
    return "applied"


def delete_template(db: Dialect, change: DeleteTemplate) -> Op[AlterAnswer]:
    template = yield from newest(db, change.name)
    if template is None:
        return "not_found"
    if (yield db.sql.schedules_of(template_id=template.template_id)):
        return "wrong_state"
    yield db.sql.delete_template(template_id=template.template_id)
    return "applied"


def put_schedule(db: Dialect, change: PutSchedule, now: Micros) -> Op[AlterAnswer]:
    template = yield from newest(db, change.template)
    if template is None:
        return "not_found"
    before = yield from named(db, change.name)
    if change.as_of is not None and (before is None or before.updated_at != change.as_of):
        return "not_found" if before is None else "wrong_state"
    if before is None and (yield db.sql.get_schedule(schedule_id=change.schedule_id)):
        return "duplicate"
    after = placed(before, change, template.template_id, now)
    if same(before, after):
        return "unchanged"
    yield from write(db, after)
    return "applied"


def rename(db: Dialect, change: RenameSchedule, now: Micros) -> Op[AlterAnswer]:
    schedule = yield from named(db, change.name)
    if schedule is None:
        return "not_found"
    if change.to == change.name:
        return "unchanged"
    if (yield db.sql.schedule_named(name=change.to)):
        return "duplicate"
    yield from write(db, replace(schedule, name=change.to, updated_at=touched(schedule, now)))
    return "applied"


def set_enabled(db: Dialect, change: SetEnabled, now: Micros) -> Op[AlterAnswer]:
    schedule = yield from named(db, change.schedule)
    if schedule is None:
        return "not_found"
    if schedule.enabled == change.enabled:
        return "unchanged"
    yield from write(db, switched(schedule, change.enabled, now))
    return "applied"


def fire(db: Dialect, change: Fire, now: Micros) -> Op[AlterAnswer]:
    """Compare and set: two who fire the same time wait for each other at the schedule's row, and the second is told."""
    rows = yield db.sql.get_schedule(schedule_id=change.schedule_id)
    if not rows:
        return "not_found"
    schedule = schedule_in(rows[0])
    newest: dict[str, Template] = {}
    for template_id in templates_of(change):
        for row in (yield db.sql.newest_version(template_id=template_id)):
            newest[template_id] = template_in(row)
    if is_stale(change, schedule, newest):
        return "wrong_state"
    last, made = schedule.last_triggered_at, list[Micros]()
    for job in change.jobs:
        if may_join(schedule, *(yield from unfinished(db, schedule))):
            [answer] = yield from db.enqueue([job], now)
            if not answer.existed:
                made.append(job.fire_at or 0)
                last = max(job.fire_at or 0, last or 0)
    yield db.sql.move_on(
        schedule_id=schedule.schedule_id, last_triggered_at=last, next_trigger_at=change.next_trigger_at,
        updated_at=touched(schedule, now),
    )  # fmt: skip
    if change.missed is not None:
        yield from announce_missed(db, schedule, came_of(change.missed, made), now)
    return "applied"


def unfinished(db: Dialect, schedule: Schedule) -> Op[tuple[bool, bool]]:
    """Whether jobs of the schedule are queued, and whether one is running."""
    if schedule.overlap == "allow":
        return False, False
    states = {row[0] for row in (yield db.sql.unfinished_of(schedule_id=schedule.schedule_id))}
    return "queued" in states, "running" in states
