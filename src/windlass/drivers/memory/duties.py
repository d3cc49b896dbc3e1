"""Maintenance: what a leader does for all, one bounded piece at a time."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core import rows
from windlass.core.admission_of_workers import check_duty
from windlass.core.duties import (
    AgeJobs,
    Done,
    Duty,
    FanOut,
    ForgetEvents,
    ForgetKeys,
    ForgetUsage,
    Mend,
    Prune,
    RecountLimits,
    RemoveDeadWorkers,
    ReturnSpace,
    RollUpUsage,
    SampleQueues,
    TellDependants,
    TidyPositions,
)
from windlass.core.eligibility import is_expired, label_of
from windlass.core.fields import check_now
from windlass.core.history import SAMPLED, unkept_run, usage_of
from windlass.core.leadership import is_silent, may_maintain
from windlass.core.retention import kept_for, prunable
from windlass.core.sampling import MINUTE, Ended, bucket, due_since, minute_before, samples
from windlass.core.uniqueness import is_taken
from windlass.core.usage import bite, bite_of, day_of, duration, key_of_row, latest, merged
from windlass.drivers.memory.deliveries import fan_out, forget_events
from windlass.drivers.memory.dependencies import chain_head, pay
from windlass.drivers.memory.events import announce_troubles
from windlass.drivers.memory.fairness import age_jobs
from windlass.drivers.memory.inspect import count
from windlass.drivers.memory.limits import recount
from windlass.drivers.memory.order import tidy
from windlass.drivers.memory.settlement import count_usage
from windlass.drivers.memory.tables import Tables
from windlass.types import Job, Micros, Run


def maintain(tables: Tables, duty: Duty, epoch: int | None, now: Micros) -> Done | None:
    check_duty(duty)
    check_now(now)
    if not may_maintain(epoch, current=tables.leader.epoch, until=tables.leader.until, now=now):
        return None
    match duty:
        case Prune():
            return prune(tables, duty, now)
        case ForgetKeys():
            return forget_keys(tables, duty, now)
        case RemoveDeadWorkers():
            return remove_dead_workers(tables, duty, now)
        case SampleQueues():
            return sample_queues(tables, duty, now)
        case RollUpUsage():
            return roll_up_usage(tables, duty, now)
        case ForgetUsage():
            return forget_usage(tables, duty, now)
        case TidyPositions():
            return tidy(tables, duty, now)
        case RecountLimits():
            return recount(tables, duty, now)
        case AgeJobs():
            return age_jobs(tables, duty, now)
        case Mend() | ReturnSpace():
            return Done(0)  # nobody else writes here, and there is no disk
        case FanOut():
            return fan_out(tables, duty, now)
        case ForgetEvents():
            return forget_events(tables, duty, now)
        case TellDependants():
            told = pay(tables, now, duty.limit)
            return Done(told, more=told >= duty.limit)


def prune(tables: Tables, duty: Prune, now: Micros) -> Done:
    open_groups = [group.group_id for group in tables.groups.values() if group.remaining > 0]
    watermark = tables.watermark
    uncounted = set[int]()
    if watermark is not None:
        uncounted = {seq for seq, run in (*ended_runs(tables), *unkept_runs(tables)) if ended_at(run) > watermark}
    needed = {parent_id for parent_id, seq in tables.edges if not has_ended(tables, tables.jobs[seq])}
    chains = prunable(list(tables.jobs.values()), kept_for(duty), now, duty.limit, open_groups, uncounted, needed)
    doomed = [job for chain in chains for job in chain]
    for job in doomed:
        tables.remove(job)
    forget_groups(tables, doomed)
    return Done(len(doomed), more=len(chains) == duty.limit)


def has_ended(tables: Tables, job: Job) -> bool:
    """With the last link of its chain."""
    last = tables.find(chain_head(tables, job.id))
    return last is None or last.finished_at is not None


def forget_groups(tables: Tables, gone: list[Job]) -> None:
    """The row of a group goes with its last member."""
    left = {job.group_id for job in tables.jobs.values()}
    for group_id in sorted({job.group_id for job in gone if job.group_id is not None} - left):
        if group_id in tables.groups:
            tables.drop_from(tables.groups, group_id)


def forget_keys(tables: Tables, duty: ForgetKeys, now: Micros) -> Done:
    over = sorted((expires_at or 0, key) for key, (_, expires_at) in tables.keys.items() if not is_taken(expires_at, now))
    for _, key in over[: duty.limit]:
        tables.drop_from(tables.keys, key)
    gone = min(len(over), duty.limit)
    return Done(gone, more=gone == duty.limit)


def remove_dead_workers(tables: Tables, duty: RemoveDeadWorkers, now: Micros) -> Done:
    dead = [row.id for row in tables.workers.values() if is_silent(row.last_heartbeat, duty.silent_for, now)]
    for worker_id in dead:
        tables.drop_from(tables.workers, worker_id)
    for job in [tables.jobs[seq] for seq in tables.leased]:
        if job.worker_id in dead and not is_expired(job, now):
            tables.put(rows.revoked(job, now))
    return Done(len(dead))


def sample_queues(tables: Tables, duty: SampleQueues, now: Micros) -> Done:
    minute = minute_before(now)
    sampled = any(taken == minute for taken, _ in tables.samples)
    for key in [key for key in tables.samples if key[0] < now - duty.keep]:
        tables.drop_from(tables.samples, key)
    if sampled:
        return Done(0)
    ended = [
        Ended(run.queue, run.status or "", bucket(run.wait_us or 0), bucket(duration(run)), 1)
        for _, run in (*ended_runs(tables), *unkept_runs(tables))
        if minute <= ended_at(run) < minute + MINUTE
    ]
    depth = [(row.queue, str(row.label), row.jobs) for row in count(tables, now)]
    found = samples(minute, tables.queues, depth, oldest(tables, now), ended)
    for row in found:
        tables.put_in(tables.samples, (minute, row.queue), row)
    announce_troubles(tables, found, duty.waits_over, now)
    return Done(len(found))


def oldest(tables: Tables, now: Micros) -> dict[str, Micros]:
    """For each queue, how long its longest due job has been due."""
    ages: dict[str, Micros] = {}
    for job in tables.jobs.values():
        if job.state == "queued" and label_of(job, now) == "queued":
            ages[job.queue] = max(ages.get(job.queue, 0), now - due_since(job))
    return ages


def roll_up_usage(tables: Tables, duty: RollUpUsage, now: Micros) -> Done:
    until, counted = latest(duty.until, now), tables.watermark
    if counted is not None and until <= counted:
        return Done(0)
    uncounted = [run for _, run in ended_runs(tables) if (counted is None or ended_at(run) > counted)]
    batches = [batch for batch in tables.batches.values() if counted is None or batch.at > counted]
    ends = [ended_at(run) for run in uncounted], [batch.at for batch in batches]
    part = bite_of(bite(sorted(end for end in some if end <= until), duty.limit, until) for some in ends)
    eaten = [run for run in uncounted if ended_at(run) <= part.edge]
    whole = [batch for batch in batches if batch.at <= part.edge]
    for run in eaten:
        count_usage(tables, run)
    for batch in whole:
        row = usage_of(batch)
        tables.put_in(tables.usage, key_of_row(row), merged(tables.usage.get(key_of_row(row)), row))
    for number in [number for number, batch in tables.batches.items() if batch.at <= part.edge - SAMPLED]:
        tables.drop_from(tables.batches, number)
    tables.set("watermark", part.edge)
    return Done(len(eaten) + sum(batch.runs for batch in whole), more=part.full)


def forget_usage(tables: Tables, duty: ForgetUsage, now: Micros) -> Done:
    if duty.keep is None:
        return Done(0)
    over = [key for key in sorted(tables.usage) if key[0] < day_of(now - duty.keep)]
    for key in over[: duty.limit]:
        tables.drop_from(tables.usage, key)
    gone = min(len(over), duty.limit)
    return Done(gone, more=gone == duty.limit)


def ended_runs(tables: Tables) -> Iterator[tuple[int, Run]]:
    """The runs that ended, each with the seq of its job."""
    return ((seq, run) for seq, history in tables.runs.items() for run in history if run.finished_at is not None)


def unkept_runs(tables: Tables) -> Iterator[tuple[int, Run]]:
    """The runs that succeeded and left no row, if their jobs still exist."""
    for job in tables.jobs.values():
        run = unkept_run(job, tables.runs.get(job.seq, ()))
        if run is not None:
            yield job.seq, run


def ended_at(run: Run) -> Micros:
    assert run.finished_at is not None, "the run has not ended"
    return run.finished_at
