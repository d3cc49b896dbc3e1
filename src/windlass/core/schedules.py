"""What happens to the row of a schedule when its time has come, and which jobs it makes. Pure: the time is a parameter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import Fire, Missed, PutSchedule
from windlass.core.cron import due_times, next_after, times_after
from windlass.core.templates import made_of
from windlass.records import WorkerInfo
from windlass.types import Micros, NewJob, Schedule, Template

ON_TIME: Final = 60 * SECOND  # what is fired within a minute was not missed: one leader follows another in that time
MOST_ON_TIME: Final = 120
SLACK: Final = 600 * SECOND  # by which clocks of one fleet may differ and nobody straightens anything
BITE: Final = 100  # jobs of one firing; the rest goes on at once
LARGEST_CAP: Final = 1_000
BY_HAND: Final = "manual"  # a tag of jobs that were made outside the rhythm

# ---------------------------------------------------------------------------------------------------------- rows


def placed(before: Schedule | None, change: PutSchedule, template_id: str, now: Micros) -> Schedule:
    """The row after a put. Its next time is computed anew only when its rule, its zone or `enabled` has changed."""
    if before is not None and change.declared is not None and before.declared == change.declared:
        return replace(before, declared_at=now, updated_at=touched(before, now))
    enabled = change.enabled if change.enabled is not None else before is None or before.enabled
    after = Schedule(
        schedule_id=change.schedule_id if before is None else before.schedule_id, template_id=template_id,
        name=change.name, cron_expression=change.cron_expression, timezone=change.timezone, enabled=enabled,
        param_overrides=change.param_overrides, catch_up=change.catch_up, catch_up_cap=change.catch_up_cap,
        overlap=change.overlap, jitter=change.jitter, declared=change.declared,
        declared_at=None if change.declared is None else now, created_at=now, updated_at=now,
    )  # fmt: skip
    if before is None:
        return replace(after, next_trigger_at=next_time(after, now))
    if change.declared is None:  # a person's change of what code declares: the same code must not undo it
        after = replace(after, declared=before.declared, declared_at=before.declared_at)
    after = replace(
        after, created_at=before.created_at, updated_at=touched(before, now), last_triggered_at=before.last_triggered_at
    )  # fmt: skip
    rhythm = ("cron_expression", "timezone", "enabled")
    if all(getattr(before, field) == getattr(after, field) for field in rhythm):
        return replace(after, next_trigger_at=before.next_trigger_at)
    return replace(after, next_trigger_at=next_time(after, now))


def switched(before: Schedule, enabled: bool, now: Micros) -> Schedule:
    after = replace(before, enabled=enabled, updated_at=touched(before, now))
    return replace(after, next_trigger_at=next_time(after, now))


def same(before: Schedule | None, after: Schedule) -> bool:
    return before is not None and replace(after, updated_at=before.updated_at) == before


def next_time(schedule: Schedule, now: Micros) -> Micros | None:
    """The first time after now; None while it is paused."""
    if not schedule.enabled:
        return None
    return next_after(schedule.cron_expression, schedule.timezone, now, schedule.created_at)


def touched(before: Schedule, now: Micros) -> Micros:
    return max(now, before.updated_at + 1)


def may_join(schedule: Schedule, queued: bool, running: bool) -> bool:
    """Whether one more job of the schedule may be made beside those that have not ended."""
    match schedule.overlap:
        case "allow":
            return True
        case "skip":
            return not queued and not running
        case "queue-one":
            return not queued


# -------------------------------------------------------------------------------------------------------- firing


def firing(schedule: Schedule, template: Template | None, now: Micros, new_id: Callable[[], str]) -> Fire | None:
    """What to do about a schedule now; None when it is not due. A template that is archived or gone makes no jobs, and
    the time passes all the same."""
    first = schedule.next_trigger_at
    if first is None or first > now:
        return None
    times = wanted_times(schedule, first, now)
    active = template if template is not None and template.archived_at is None else None
    later = times[BITE] if len(times) > BITE and active is not None else next_time(schedule, now)
    jobs = () if active is None else tuple(job_at(schedule, active, at, new_id()) for at in times[:BITE])
    late = None if active is None else missed_by(schedule, first, now, later, times[:BITE])
    return Fire(
        schedule_id=schedule.schedule_id, expected=first, next_trigger_at=later, jobs=jobs, missed=late,
        as_of=schedule.updated_at,
    )  # fmt: skip


def missed_by(
    schedule: Schedule, first: Micros, now: Micros, later: Micros | None, made: Iterable[Micros]
) -> Missed | None:
    """Which times this firing comes too late for; None when it is on time. What a later one makes is that one's to tell."""
    edge = now - ON_TIME
    if first > edge:
        return None
    rule, most = (schedule.cron_expression, schedule.timezone), max(MOST_ON_TIME, schedule.catch_up_cap)
    due = due_times(*rule, first, now, most, schedule.created_at)
    late = [at for at in due if at <= edge and (later is None or at < later)]
    done = sum(at <= edge for at in made)
    return Missed(times=max(len(late), 1), first=first, last=max(late, default=first), made=done)


def came_of(late: Missed, made: Iterable[Micros]) -> Missed:
    """What is announced, once it is known for which times jobs were made: some are there already, some are held back by the
    overlap rule."""
    return replace(late, made=sum(at <= late.last for at in made))


def templates_of(change: Fire) -> set[str]:
    return {job.template_id for job in change.jobs if job.template_id is not None}


def is_stale(change: Fire, schedule: Schedule, newest: Mapping[str, Template]) -> bool:
    """Whether somebody changed what its jobs are made of since it was computed. `newest`: of `templates_of(change)`."""
    if schedule.next_trigger_at != change.expected or change.as_of not in (None, schedule.updated_at):
        return True
    for job in change.jobs:
        template = None if job.template_id is None else newest.get(job.template_id)
        if template is not None and (template.version != job.template_version or template.archived_at is not None):
            return True
    return False


def wanted_times(schedule: Schedule, first: Micros, now: Micros) -> list[Micros]:
    """The times, of those that have come, that are to be fired: those that are on time, and of the others what `catch_up`
    says."""
    most = max(MOST_ON_TIME, schedule.catch_up_cap)
    due = due_times(schedule.cron_expression, schedule.timezone, first, now, most, schedule.created_at)
    on_time = [at for at in due if at > now - ON_TIME]
    match schedule.catch_up:
        case "skip":
            return on_time
        case "last":
            return on_time or due[-1:]
        case "all":
            return due[-max(len(on_time), schedule.catch_up_cap) :]


def straightened(schedule: Schedule, now: Micros) -> Fire | None:
    """Back to the next time by the rule, where the stored one is none of its times, or lies behind one that is to come:
    the rules of a zone have changed, or somebody's clock was far ahead. A clock that lags a little is no reason. Times that
    were fired already are not fired again: their jobs exist."""
    there = schedule.next_trigger_at
    if there is None or there <= now:
        return None
    rule, anchor = (schedule.cron_expression, schedule.timezone), schedule.created_at
    soon = next_after(*rule, now + SLACK, anchor)
    if next_after(*rule, there - 1, anchor) == there and (soon is None or there <= soon):
        return None
    return moved_on(schedule, now)


def moved_on(schedule: Schedule, now: Micros) -> Fire:
    """To its next time, without a job; not where somebody has changed it meanwhile."""
    return Fire(
        schedule_id=schedule.schedule_id, expected=schedule.next_trigger_at or 0, next_trigger_at=next_time(schedule, now),
        as_of=schedule.updated_at,
    )  # fmt: skip


def job_at(schedule: Schedule, template: Template, at: Micros, job_id: str) -> NewJob:
    job = made_of(template, job_id, schedule.param_overrides)
    run_at = at + jitter_of(schedule.schedule_id, at, schedule.jitter)
    return replace(job, schedule_id=schedule.schedule_id, fire_at=at, run_at=run_at)


def job_by_hand(schedule: Schedule, template: Template, job_id: str) -> NewJob:
    """One job more, whatever the rule says: it has no fire time, and a tag says so."""
    job = made_of(template, job_id, schedule.param_overrides)
    tags = job.tags if BY_HAND in job.tags else (*job.tags, BY_HAND)
    return replace(job, schedule_id=schedule.schedule_id, tags=tags)


def jitter_of(schedule_id: str, at: Micros, most: Micros) -> Micros:
    """Up to `most`, the same whoever computes it."""
    drawn = hashlib.blake2b(f"{schedule_id}/{at}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") % (max(most, 0) + 1)


# --------------------------------------------------------------------------------------------------- declarations


def fingerprint(*parts: object) -> str:
    """A fingerprint of a declaration in code, which is equal as long as the code says the same."""
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


def gone_from_code(schedule: Schedule, task: str | None, workers: Iterable[WorkerInfo]) -> bool:
    """Whether code declared it once, and no worker of those given (the living ones) does any more: all that know its task
    have started since, without a word of it."""
    knowing = [worker.started_at for worker in workers if task in worker.types]
    return schedule.declared_at is not None and bool(knowing) and schedule.declared_at < min(knowing)


def upcoming(schedule: Schedule, now: Micros, count: int) -> list[Micros]:
    """The next times, should it go on as it is."""
    rule = (schedule.cron_expression, schedule.timezone, now, schedule.created_at)
    return list(islice(times_after(*rule), count)) if schedule.enabled else []
