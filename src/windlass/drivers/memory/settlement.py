"""Ending executions: guarded moves first, then the riders of those that held."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core import rows
from windlass.core.admission_of_settlements import check_settlements
from windlass.core.changes import (
    OUTCOME_OF,
    AddEvent,
    Answer,
    CountMember,
    Ending,
    RetryChild,
    Settlement,
    effect_of,
)
from windlass.core.counters import uncount_member
from windlass.core.dependencies import ends_for_others
from windlass.core.guards import judge, rounds
from windlass.core.history import batches, keeps_run
from windlass.core.settle import honour_cancel
from windlass.core.usage import added, key_of, late_until
from windlass.drivers.memory.dependencies import advance, count_in_group, hand_over, stop
from windlass.drivers.memory.events import add
from windlass.drivers.memory.jobs import insert_child
from windlass.drivers.memory.limits import free_permits
from windlass.drivers.memory.tables import Tables
from windlass.types import Job, Micros, Run


def settle(tables: Tables, changes: Sequence[Settlement], now: Micros) -> list[Answer]:
    check_settlements(changes, now)
    answers: dict[int, Answer] = {}
    unkept: list[Run] = []
    units = [(tables.seq_of(change.handle), (index, change)) for index, change in enumerate(changes)]
    for turn in rounds(units):
        applied: list[tuple[Job, Settlement]] = []
        for seq, (index, change) in turn:
            job, outcome = tables.jobs.get(seq), OUTCOME_OF[type(change)]
            answers[index] = judge(job, token=change.token, outcome=outcome, lapsed=change.lapsed, now=now)
            if job is not None and answers[index] == "applied":
                applied.append((job, apply(tables, job, change, now, unkept)))
        ended: list[str] = []
        for job, change in applied:
            ended += ride(tables, job, change, now)
        add(tables, (rider for _, change in applied for rider in change.riders if isinstance(rider, AddEvent)), now)
        free_permits(tables, [key for job, _ in applied for key in job.permits], now)
        advance(tables, ended, now)
    for batch in batches(unkept):
        tables.add_batch(batch)
    return [answers[index] for index in range(len(changes))]


def apply(tables: Tables, job: Job, change: Settlement, now: Micros, unkept: list[Run]) -> Settlement:
    """Move the job and close its run, or add it to those that are counted and not kept. Answers the change that was made:
    a wish to cancel may have turned it."""
    change = honour_cancel(change, cancel_requested=job.cancel_requested_at is not None, group_id=job.group_id)
    effect = effect_of(change)
    run = rows.closed(tables.run_of(job), change, effect)
    if job.history == "full" or keeps_run(change, now):
        tables.put_run(job.seq, run)
    else:
        unkept.append(run)
    if tables.watermark is not None and change.at <= min(tables.watermark, late_until(now)):
        count_usage(tables, run)
    tables.put(rows.settled(job, change, effect, now))
    return change


def count_usage(tables: Tables, run: Run) -> None:
    key = key_of(run)
    tables.put_in(tables.usage, key, added(tables.usage.get(key), run))


def ride(tables: Tables, job: Job, change: Settlement, now: Micros) -> list[str]:
    """Answers the jobs that have ended by it and that others wait for."""
    ended = [job.id] if job.awaited and ends_for_others(change) else []
    for rider in change.riders:
        match rider:
            case RetryChild():
                insert_child(tables, job, rider, now)
                if job.awaited:
                    hand_over(tables, job, rider.id, now)
            case CountMember():
                count(tables, rider.group_id, rider.ending, now)
                ended += stop(tables, rider.group_id, rider.ending, now)
            case AddEvent():
                pass  # all events of a round are written together
    return ended


def count(tables: Tables, group_id: str, ending: Ending, now: Micros, members: int = 1) -> None:
    count_in_group(tables, group_id, ending, now, members)


def uncount(tables: Tables, group_id: str, ending: Ending) -> None:
    group = tables.groups.get(group_id)
    if group is not None:
        tables.put_in(tables.groups, group_id, uncount_member(group, ending))
