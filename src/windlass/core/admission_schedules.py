"""What may be said of templates and schedules. Bad input is refused before anything is written, by the field's name."""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from windlass.clock import LONGEST
from windlass.core.admission import (
    PAYLOAD_LIMIT,
    check_id,
    check_instant,
    check_job,
    check_name,
    check_number,
    check_one_of,
)
from windlass.core.alterations import (
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
from windlass.core.cron import check_rule, check_zone
from windlass.core.schedules import LARGEST_CAP
from windlass.core.templates import made_of, params_in
from windlass.errors import InvalidInput
from windlass.types import CatchUp, Overlap, Template

CATCH_UP: Final = frozenset(get_args(CatchUp))
OVERLAP: Final = frozenset(get_args(Overlap))


def check_of_schedules(change: OfSchedules) -> None:
    match change:
        case PutTemplate():
            _check_template(change)
        case PutSchedule():
            _check_schedule(change)
        case ArchiveTemplate() | DeleteTemplate():
            check_name("template", change.name)
        case DeleteSchedule():
            check_name("schedule", change.name)
        case RenameSchedule():
            check_name("schedule", change.name)
            check_name("name", change.to)
        case SetEnabled():
            check_name("schedule", change.schedule)
            if not isinstance(change.enabled, bool):
                raise InvalidInput("enabled", f"must be True or False, got {change.enabled!r}")
        case Fire():
            _check_fire(change)


def _check_template(change: PutTemplate) -> None:
    check_id(change.template_id)
    check_name("name", change.name)
    params_in("params", change.params)
    try:
        job = made_of(
            Template(
                template_id=change.template_id, version=1, name=change.name, type=change.type, queue=change.queue,
                params=change.params, settings=change.settings,
            ),
            "check",
        )  # fmt: skip
    except (msgspec.MsgspecError, TypeError) as error:
        raise InvalidInput("settings", f"are not the policies of a template ({error})") from None
    check_job(job)


def _check_schedule(change: PutSchedule) -> None:
    check_id(change.schedule_id)
    check_name("name", change.name)
    check_name("template", change.template)
    if check_rule(change.cron_expression) != change.cron_expression:
        raise InvalidInput("cron", "has spaces that are not needed; give what check_rule answers")
    check_zone(change.timezone)
    if change.enabled is not None and not isinstance(change.enabled, bool):
        raise InvalidInput("enabled", f"must be True or False, got {change.enabled!r}")
    check_one_of("catch_up", change.catch_up, CATCH_UP)
    check_one_of("overlap", change.overlap, OVERLAP)
    check_number("catch_up_cap", change.catch_up_cap)
    if not 1 <= change.catch_up_cap <= LARGEST_CAP:
        raise InvalidInput("catch_up_cap", f"must be between 1 and {LARGEST_CAP:,}, got {change.catch_up_cap}")
    check_number("jitter", change.jitter)
    if change.jitter > LONGEST:
        raise InvalidInput("jitter", "is longer than a thousand years")
    if change.declared is not None:
        check_name("declared", change.declared)
    if change.param_overrides is not None:
        params_in("param_overrides", change.param_overrides)
        if len(change.param_overrides) > PAYLOAD_LIMIT:
            raise InvalidInput("param_overrides", f"are longer than {PAYLOAD_LIMIT:,} bytes; store a reference instead")


def _check_fire(change: Fire) -> None:
    check_id(change.schedule_id)
    check_number("expected", change.expected)
    if change.next_trigger_at is not None:
        check_instant("next_trigger_at", change.next_trigger_at)
    if len(change.jobs) > LARGEST_CAP:
        raise InvalidInput("jobs", f"a firing makes at most {LARGEST_CAP:,}")
    for job in change.jobs:
        check_job(job)
        if job.schedule_id != change.schedule_id or job.fire_at is None:
            raise InvalidInput("jobs", "belong to the schedule that fires, and have a fire time")
