"""Checks of templates and schedules. Bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

from typing import Final, get_args

from windlass.clock import LONGEST
from windlass.core.admission import PAYLOAD_LIMIT, check_job
from windlass.core.alterations import (
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    Missed,
    OfSchedules,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.cron import check_rule, check_zone
from windlass.core.fields import (
    LARGEST,
    check_flag,
    check_id,
    check_instant,
    check_name,
    check_number,
    check_one_of,
    check_text,
)
from windlass.core.schedules import LARGEST_CAP
from windlass.core.templates import made_of, params_in
from windlass.errors import InvalidInput, shown
from windlass.types import CatchUp, NewJob, Overlap, Template

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
            check_flag("enabled", change.enabled)
        case Fire():
            _check_fire(change)


def _check_template(change: PutTemplate) -> None:
    check_id(change.template_id)
    check_name("name", change.name)
    if change.settings is not None:
        check_text("settings", change.settings, most=PAYLOAD_LIMIT)
    params_in("params", change.params)
    job = made_of(
        Template(
            template_id=change.template_id, version=1, name=change.name, type=change.type, queue=change.queue,
            params=change.params, settings=change.settings,
        ),
        "check",
    )  # fmt: skip
    check_job(job)


def _check_schedule(change: PutSchedule) -> None:
    check_id(change.schedule_id)
    check_name("name", change.name)
    check_name("template", change.template)
    if check_rule(change.cron_expression) != change.cron_expression:
        raise InvalidInput("cron", "has spaces that are not needed; give what check_rule answers")
    check_zone(change.timezone)
    if change.enabled is not None:
        check_flag("enabled", change.enabled)
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
    _check_as_of(change.as_of)
    if change.param_overrides is not None:
        params_in("param_overrides", change.param_overrides)
        if len(change.param_overrides) > PAYLOAD_LIMIT:
            raise InvalidInput("param_overrides", f"are longer than {PAYLOAD_LIMIT:,} bytes; store a reference instead")


def _check_as_of(as_of: object) -> None:
    """An `updated_at` as it was read: later than any instant that people give, or earlier, where a hand wrote it."""
    if as_of is not None and (type(as_of) is not int or abs(as_of) > LARGEST):
        raise InvalidInput("as_of", f"must be the schedule's updated_at as it was read, got {shown(as_of)}")


def _check_fire(change: Fire) -> None:
    check_id(change.schedule_id)
    check_number("expected", change.expected)
    if change.next_trigger_at is not None:
        check_instant("next_trigger_at", change.next_trigger_at)
    _check_as_of(change.as_of)
    if change.missed is not None:
        _check_missed(change.missed)
    jobs: object = change.jobs
    if not isinstance(jobs, tuple | list) or not all(isinstance(job, NewJob) for job in jobs):
        raise InvalidInput("jobs", f"must be a tuple of jobs, got {shown(jobs)}")
    if len(change.jobs) > LARGEST_CAP:
        raise InvalidInput("jobs", f"a firing makes at most {LARGEST_CAP:,}")
    for job in change.jobs:
        check_job(job)
        if job.schedule_id != change.schedule_id or job.fire_at is None:
            raise InvalidInput("jobs", "belong to the schedule that fires, and have a fire time")
        if job.after != () or job.opens is not None:
            raise InvalidInput("jobs", "of a schedule wait for no others and open no group")


def _check_missed(missed: object) -> None:
    if not isinstance(missed, Missed):
        raise InvalidInput("missed", f"must say how many times, from when to when, got {shown(missed)}")
    check_number("times", missed.times)
    check_number("made", missed.made)
    check_instant("first", missed.first)
    check_instant("last", missed.last)
