"""Jobs that wait for other jobs: who waits for whom, and what the end of one means for the others.

A job is *blocked* while `waiting_on` counts parents that have not ended. Each of its edges is told once that its parent
has ended (`done`); the counter goes down by a delta with it. A job that others wait for is `awaited`, so that its worker
need not know of them: they may be enqueued while it runs. One that has ended and is still awaited *owes*: what did not fit
into the transaction of its end is done by the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.changes import Fail, Settlement, effect_of
from windlass.core.eligibility import is_due
from windlass.core.groups import sequence_rule
from windlass.core.rows import cancelled, run_prefix, touched
from windlass.errors import DuplicateJob, InvalidInput
from windlass.types import TERMINAL, AfterRule, Job, Micros, NewGroup, NewJob, Run, State

INLINE: Final = 500  # edges that are told in the transaction of an end; the rest is left to the sweep
SWEPT: Final = 5_000  # edges that a sweep tells in one transaction
BITES: Final = 10  # such transactions of one sweep, while there is more
FAILED_BEFORE: Final = "predecessor failed"

Verdict = Literal["waits", "done", "cancel"]


class Edge(Struct, frozen=True, gc=False):
    """A job of a batch waits for `parent_id`."""

    job_id: str
    parent_id: str
    rule: AfterRule


def is_linked(jobs: Iterable[NewJob]) -> bool:
    """Whether a batch holds jobs that wait for others, or that come with their group."""
    return any(job.after or job.opens is not None for job in jobs)


def groups_of(jobs: Sequence[NewJob]) -> dict[str, tuple[NewGroup, list[NewJob]]]:
    """The groups that a batch brings, each with its members in their order."""
    opened: dict[str, NewGroup] = {}
    for job in jobs:
        if job.opens is not None and opened.setdefault(job.opens.group_id, job.opens) != job.opens:
            raise InvalidInput("group_id", f"the group {job.opens.group_id!r} is described in two ways in one batch")
    found: dict[str, tuple[NewGroup, list[NewJob]]] = {}
    for group_id, group in opened.items():
        members = [job for job in jobs if job.group_id == group_id]
        places = [job.group_seq for job in members]
        if group.mode == "sequential" and (None in places or len(set(places)) < len(places)):
            raise InvalidInput("group_seq", f"each member of the sequential group {group_id!r} needs a place of its own")
        found[group_id] = group, sorted(members, key=lambda job: job.group_seq or 0)
    return found


def check_links(jobs: Sequence[NewJob]) -> None:
    """What can be told of a batch without a store: its groups are sound, and nobody waits for itself, not by way of others
    either."""
    waits: dict[str, set[str]] = {}
    for edge in edges_of(jobs):
        waits.setdefault(edge.job_id, set()).add(edge.parent_id)
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        ring = " → ".join(reversed(error.args[1]))
        raise InvalidInput("after", f"these jobs would wait for each other for ever: {ring}") from None


def edges_of(jobs: Sequence[NewJob]) -> list[Edge]:
    """The dependencies of new jobs: that of each member of a sequential group on the one before it, by the rule of the
    group; then those that each job names itself. If a pair is named twice, the first rule holds."""
    rules: dict[tuple[str, str], AfterRule] = {}
    for group, members in groups_of(jobs).values():
        if group.mode == "sequential":
            for before, after in pairwise(members):
                rules[after.id, before.id] = sequence_rule(group.on_failure)
    for job in jobs:
        for parent_id in job.after:
            rules.setdefault((job.id, parent_id), job.after_rule)
    place = {job.id: n for n, job in enumerate(jobs)}
    edges = [Edge(job_id, parent_id, rule) for (job_id, parent_id), rule in rules.items()]
    return sorted(edges, key=lambda edge: place[edge.job_id])


def check_fresh_members(jobs: Sequence[NewJob], existing: Mapping[str, str]) -> None:
    """`existing`: jobs of the batch that were duplicates, with the job that answers for each. A group cannot count on a
    job that is not in it."""
    for _, members in groups_of(jobs).values():
        for job in members:
            if job.id in existing:
                raise DuplicateJob(existing[job.id], job.idempotency_key or job.dedupe_key or "")


def unknown_parent(parent_id: str) -> InvalidInput:
    return InvalidInput(
        "after", f"there is no job {parent_id!r} to wait for; it was never enqueued, or it has ended and was pruned"
    )


def verdict(rule: AfterRule, parent: State) -> Verdict:
    """What the state of a parent means for who waits for it."""
    if parent not in TERMINAL:
        return "waits"
    return "done" if parent == "succeeded" or rule == "continue" else "cancel"


def ends_for_others(change: Settlement) -> bool:
    """Whether a settlement is the end that dependants wait for: a superseded link is not, its successor's is."""
    return effect_of(change).finished_at is not None and not (isinstance(change, Fail) and change.kind == "superseded")


# --------------------------------------------------------------------------------------------------------------- rows


def linked(job: Job, waiting_on: int, rule: AfterRule, now: Micros) -> Job:
    """A job that was just stored, with what it waits for."""
    return replace(
        job, waiting_on=waiting_on, after_rule=rule, ready=job.ready and waiting_on == 0, updated_at=touched(job, now)
    )


def blocked(job: Job, waiting_on: int, now: Micros) -> Job:
    """A job that was brought back, with what it waits for again."""
    return replace(job, waiting_on=waiting_on, ready=job.ready and waiting_on == 0, updated_at=touched(job, now))


def awaited(job: Job, now: Micros, *, yes: bool = True) -> Job:
    return replace(job, awaited=yes, updated_at=touched(job, now))


def released(job: Job, parents: int, now: Micros) -> Job:
    """So many of its parents have ended."""
    left = job.waiting_on - parents
    ready = left == 0 and job.parked_on is None and is_due(job.run_at, now)
    return replace(job, waiting_on=left, ready=ready, updated_at=touched(job, now))


def skipped(job: Job, now: Micros) -> Job:
    """A queued job that will never run, because of how another ended."""
    ended = cancelled(job, FAILED_BEFORE, now)
    return replace(ended, executions=job.executions + 1, skipped=job.skipped + 1)


def skipped_run(job: Job, now: Micros) -> Run:
    """The run of a job that was skipped: no execution, so it starts when it ends. `job` as it was before."""
    return Run(
        run_id=skipped_run_id(job.seq, job.executions + 1, now), job_id=job.id, attempt_no=job.executions + 1,
        worker_id=None, org_id=job.org_id, queue=job.queue, type=job.type, template_id=job.template_id,
        template_version=job.template_version, claimed_at=now, started_at=now, finished_at=now, status="skipped",
        wait_us=None, cpu_us=None, peak_rss=None, exit_code=None, log_path=None, artifacts=(), params=job.payload,
        error=FAILED_BEFORE, traceback=None,
    )  # fmt: skip


def skipped_run_id(seq: int, attempt_no: int, now: Micros) -> str:
    return f"{run_prefix(f'skipped {attempt_no}', now)}{seq:012x}"
