"""A job's story, told from its row and its runs: nothing is stored for it, so it can never disagree with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from windlass.admin.showing import scrub_of
from windlass.admin.views import Entry, EntryKind
from windlass.clock import moment
from windlass.core.history import unkept_run
from windlass.types import Job, Micros, Run
from windlass.wording import in_words

LAPSED: Final = "lease expired"  # core/changes.py: Expire
REPLAYED: Final = (
    "by this time somebody had it run again, with its whole allowance; who and when: windlass audit --action job.retry"
)


class _Make(Protocol):
    def __call__(self, at: Micros, what: EntryKind, text: str, run: Run | None = None) -> Entry: ...


def timeline(chain: Sequence[tuple[Job, Sequence[Run]]], now: Micros) -> tuple[Entry, ...]:
    """The links of a chain, first to last, each with its runs."""
    told: list[Entry] = []
    for place, (job, runs) in enumerate(chain):
        after = chain[place + 1][0] if place + 1 < len(chain) else None
        unkept = unkept_run(job, runs)
        told += _link(job, runs if unkept is None else (*runs, unkept), now, first=place == 0, after=after)
    return tuple(sorted(told, key=lambda entry: entry.at))  # stable: what happened at once stays in this order


def timeline_of_runs(chain: Sequence[tuple[Job, Sequence[Run]]]) -> tuple[Entry, ...]:
    """Of runs that have newer ones behind them: nothing of what the job is now."""
    told: list[Entry] = []
    for job, runs in chain:
        entry, free_at = _maker(job), _free_at(job, runs)
        for run in runs:
            told += _run(run, free_at, entry, told_below=False)
            free_at = run.finished_at or run.claimed_at
    return tuple(sorted(told, key=lambda one: one.at))


def _maker(job: Job) -> _Make:
    scrub = scrub_of(job)

    def entry(at: Micros, what: EntryKind, text: str, run: Run | None = None) -> Entry:
        return Entry(moment(at), what, scrub(text), job.id, None if run is None else run.attempt_no)

    return entry


def _free_at(job: Job, runs: Sequence[Run]) -> Micros:
    """Since when the first of them could have been due: nothing is told of what was before it."""
    return runs[0].claimed_at if runs and runs[0].attempt_no > 1 else job.created_at


def _link(job: Job, runs: Sequence[Run], now: Micros, *, first: bool, after: Job | None) -> Iterator[Entry]:
    entry, free_at = _maker(job), _free_at(job, runs)
    if first:
        yield entry(job.created_at, "enqueued", f"in queue {job.queue}")
    replay = _replay(job, runs)
    for run in runs:
        if replay is not None and run is replay.then:
            yield entry(run.claimed_at, "replayed", REPLAYED)
        stopped = job.last_outcome == "cancelled" and job.finished_at is not None and run is runs[-1]
        yield from _run(run, free_at, entry, told_below=stopped)
        free_at = run.finished_at or run.claimed_at
        if replay is not None and run is replay.died:
            yield entry(free_at, "dead", "no further execution was allowed")
    if replay is not None and replay.then is None:
        yield entry(job.finished_at or job.updated_at, "replayed", REPLAYED)
    if job.state == "running":
        yield from _running(job, runs[-1:], now, entry)
    elif job.state == "queued" and job.run_at is not None and job.run_at > free_at:
        kind: EntryKind = "waits" if job.run_at > now else "due"
        yield entry(job.run_at, kind, "until it is due" if kind == "waits" else "")
    if job.cancel_requested_at is not None:
        yield entry(job.cancel_requested_at, "cancel requested", "the worker that runs it is told at its next heartbeat")
    yield from _end(job, runs, entry, after)


class _Replay(NamedTuple):
    """The last time that a job was brought back from the dead. Its row says only that executions were forgiven which
    nobody handed back, so it was after the last of those. Who did it, and when, the audit log knows, which not everybody
    who sees the job may read."""

    died: Run | None  # the run after which it was dead
    then: Run | None  # the first that surely came later


def _replay(job: Job, runs: Sequence[Run]) -> _Replay | None:
    last = _last_before_replay(job, runs)
    if last is None:
        return None
    after = last + 1
    while after < len(runs) and runs[after].status == "skipped":  # nobody knows on which side of it these were
        after += 1
    return _Replay(runs[last] if after == last + 1 else None, runs[after] if after < len(runs) else None)


def _last_before_replay(job: Job, runs: Sequence[Run]) -> int | None:
    if not runs:
        return None
    counted = job.executions - job.skipped - max(job.executions - runs[-1].attempt_no, 0)  # one under way may have no row
    for place in range(len(runs) - 1, -1, -1):
        if runs[place].status == "skipped":
            continue
        if counted <= 0:
            return place
        counted -= 1
    return None


def _run(run: Run, free_at: Micros, entry: _Make, *, told_below: bool) -> Iterator[Entry]:
    """From due to its end; but the end of a run that was cancelled is the job's own end, and told as that."""
    due_at = run.claimed_at - (run.wait_us or 0)
    if due_at > free_at + 1_000:  # a moment that is not worth a line: it was due when it was enqueued or came back
        yield entry(due_at, "due", f"after {in_words(due_at - free_at)}", run)
    worker = f"by {run.worker_id}" if run.worker_id else ""
    if run.started_at is not None and run.started_at - run.claimed_at < 1_000:
        yield entry(run.started_at, "started", worker, run)
    else:
        yield entry(run.claimed_at, "claimed", worker, run)
        if run.started_at is not None and run.status != "skipped":
            yield entry(run.started_at, "started", "", run)
    if run.finished_at is None or told_below:
        return
    took = f"after {in_words(max(run.finished_at - (run.started_at or run.claimed_at), 0))}"
    if run.status == "completed":
        yield entry(run.finished_at, "succeeded", took, run)
    elif run.status == "skipped":
        yield entry(run.finished_at, "skipped", f"{run.error or 'handed back'}, no attempt was spent", run)
    elif run.error == LAPSED:
        yield entry(run.finished_at, "lost", "its worker was not heard of any more, and its lease expired", run)
    else:
        yield entry(run.finished_at, "failed", f"{took}: {run.error or 'no reason given'}", run)


def _running(job: Job, runs: Iterable[Run], now: Micros, entry: _Make) -> Iterator[Entry]:
    if job.progress is not None:
        note = f", {job.progress_note}" if job.progress_note else ""
        for run in runs:
            yield entry(min(job.updated_at, now), "progress", f"{job.progress:.0%}{note}", run)


def _end(job: Job, runs: Sequence[Run], entry: _Make, after: Job | None) -> Iterator[Entry]:
    if job.superseded_by is not None:
        at = job.finished_at if after is None else max(after.created_at, job.finished_at or 0)
        by = " (run again by a person)" if after is not None and after.manual else ""
        yield entry(at or job.updated_at, "superseded", f"by {job.superseded_by}{by}")
    elif job.state == "dead":
        yield entry(job.dead_at or job.updated_at, "dead", f"{job.dead_kind}: {job.dead_reason or job.last_error}")
    elif job.state == "cancelled":
        yield entry(job.finished_at or job.updated_at, "cancelled", job.last_error if job.last_error != "cancelled" else "")
    elif job.state == "succeeded" and not (runs and runs[-1].status == "completed"):
        yield entry(job.finished_at or job.updated_at, "succeeded", "")
