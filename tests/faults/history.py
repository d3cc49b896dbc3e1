"""Does the store tell what really happened? Its rows and the handlers' own log, held side by side.

Read with plain SQL, so that a fault in the driver's reading cannot hide one in its writing:

* nothing lost: every accepted job is there, and has ended or is waiting;
* one owner at a time: the runs of a job never overlap, and a new one begins only when the one before it is closed;
* nothing invented: every start in the log is a run of the store, inside that run's time; every success has its `done`;
* nothing repeated after success: the completed run is the last of its job, in the store and in the log;
* no stale settlement: a run that was closed without its handler is not what the job's success rests on;
* a never-twice job starts at most once; no job starts more often than it may;
* counters, permits and chains add up; the file is sound.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .stores import SqliteStore, Store

TERMINAL = ("succeeded", "dead", "cancelled")
# A claim carries the time at which it was asked for, and may then wait this long for the file's write lock. The time at
# which a handler really began is in the log; only for a run whose handler never did is claimed_at all there is.
LOCK_WAIT = 5_000_000


class Line(NamedTuple):
    """Of the log: start, done, stopped of a handler; born, died of a process."""

    what: str
    job: str
    run: str
    pid: int
    at: int


class JobRow(NamedTuple):
    id: str
    type: str
    state: str
    attempts: int
    executions: int
    skipped: int
    lost: int
    max_attempts: int
    retry_mode: str
    dead_kind: str | None
    superseded_by: str | None
    retry_of: str | None
    finished_at: int | None
    permits: str | None


class RunRow(NamedTuple):
    job: str
    number: int
    id: str
    worker: str | None
    claimed_at: int
    started_at: int | None
    finished_at: int | None
    status: str | None
    error: str | None


def read_log(path: Path) -> list[Line]:
    """Whole lines only: the last one may be in the middle of being written."""
    words = [line.split(" ") for line in path.read_text().split("\n")[:-1]]
    return [Line(what, job, run, int(pid), int(at)) for what, job, run, pid, at in words]


@dataclass
class History:
    jobs: dict[str, JobRow]
    runs: dict[str, list[RunRow]]  # of each job, in order
    lines: list[Line]
    permits: dict[str, tuple[int, int | None]]  # key -> used, most
    faults: list[str]  # what the file's own checks say

    @classmethod
    def read(cls, store: Path | Store, log: Path) -> History:
        jobs, rows, limits, faults = (SqliteStore(store) if isinstance(store, Path) else store).snapshot()
        runs: dict[str, list[RunRow]] = defaultdict(list)
        for row in rows:
            runs[str(row[0])].append(RunRow(*row))
        permits = {str(key): (used, most) for key, used, most in limits}
        return cls({row[0]: JobRow(*row) for row in jobs}, runs, read_log(log), permits, faults)

    # ---------------------------------------------------------------------------------------------------------- the check

    def problems(self, accepted: Collection[str], *, ended: bool = True) -> list[str]:
        """Everything that is wrong; `ended`: by now every job should have come to its end."""
        starts: dict[str, list[Line]] = defaultdict(list)
        done: dict[str, Line] = {}
        for line in self.lines:
            if line.what == "start":
                starts[line.job].append(line)
            elif line.what == "done":
                done[line.run] = line
        found = [f"the file is damaged: {fault}" for fault in self.faults]
        found += [f"{job_id} was accepted and is gone" for job_id in accepted if job_id not in self.jobs]
        found += [f"{job_id} started and is not in the store" for job_id in starts if job_id not in self.jobs]
        for job in self.jobs.values():
            runs = self.runs.get(job.id, [])
            for problem in (
                *self._ending(job, ended), *_counters(job, runs), *_order(job, runs, starts.get(job.id, [])),
                *_starts(job, runs, starts.get(job.id, [])), *_success(job, runs, starts.get(job.id, []), done),
            ):  # fmt: skip
                found.append(f"{job.id} ({job.type}, {job.state}): {problem}")
        return [*found, *self._permits()]

    def _ending(self, job: JobRow, ended: bool) -> Iterator[str]:
        if ended and job.state not in TERMINAL:
            yield "has not ended"
        if job.superseded_by is not None and job.superseded_by not in self.jobs:
            yield "names a successor that is not there"
        if (job.dead_kind == "superseded") != (job.superseded_by is not None):
            yield "is superseded and has no successor, or the other way round"
        if job.retry_of is not None and self.jobs[job.retry_of].superseded_by != job.id:
            yield "follows a job that names another successor"

    def _permits(self) -> Iterator[str]:
        held: dict[str, int] = defaultdict(int)
        for job in self.jobs.values():
            if job.state == "running":
                for key in json.loads(job.permits or "[]"):
                    held[key] += 1
        for key, (used, most) in self.permits.items():
            if used != held[key] or (most is not None and used > most):
                yield f"{key}: {used} permits are counted, {held[key]} are held, {most} are allowed"

    # ------------------------------------------------------------------------------------------------------ for bounds

    def next_run(self, run: RunRow) -> RunRow | None:
        """The execution that took the work over: the next of the job, or the first of the job that followed it."""
        later = [other for other in self.runs[run.job] if other.number > run.number]
        if later:
            return later[0]
        successor = self.jobs[run.job].superseded_by
        return self.runs[successor][0] if successor is not None and self.runs.get(successor) else None


def _counters(job: JobRow, runs: list[RunRow]) -> Iterator[str]:
    if [run.number for run in runs] != list(range(1, job.executions + 1)):
        yield f"counts {job.executions} executions and has the runs {[run.number for run in runs]}"
    if sum(run.status == "skipped" for run in runs) != job.skipped:
        yield f"counts {job.skipped} skipped runs, and its runs tell otherwise"
    if job.max_attempts and max(job.executions - job.skipped, job.attempts) > job.max_attempts:
        yield f"was executed {job.executions - job.skipped} times of {job.max_attempts}"
    if job.retry_mode == "new_job" and job.executions > 1:
        yield "ran twice under one id"


def _order(job: JobRow, runs: list[RunRow], starts: list[Line]) -> Iterator[str]:
    for run in runs[:-1]:
        if run.status is None:
            yield f"run {run.number} is still open and another has begun"
    if runs and (runs[-1].status is None) != (job.state == "running"):
        yield "its last run and its state disagree"
    began = {line.run: line.at for line in starts}
    for before, after in pairwise(runs):
        began_at = began.get(after.id, after.claimed_at + LOCK_WAIT)
        if before.finished_at is not None and began_at < before.finished_at:
            yield f"runs {before.number} and {after.number} overlap by {before.finished_at - began_at} µs"


def _starts(job: JobRow, runs: list[RunRow], starts: list[Line]) -> Iterator[str]:
    known = {run.id: run for run in runs}
    for line in starts:
        run = known.get(line.run)
        if run is None:
            yield f"started in run {line.run}, which the store does not know"
        elif line.at < run.claimed_at:
            yield f"started {run.claimed_at - line.at} µs before it was claimed"
        elif run.finished_at is not None and line.at > run.finished_at:
            yield f"run {run.number} started {line.at - run.finished_at} µs after it had been closed ({run.status})"
    if len({line.run for line in starts}) < len(starts):
        yield "a handler was called twice in one run"
    if job.retry_mode == "new_job" and len(starts) > 1:
        yield f"must never start twice and started {len(starts)} times"


def _success(job: JobRow, runs: list[RunRow], starts: list[Line], done: dict[str, Line]) -> Iterator[str]:
    completed = [run for run in runs if run.status == "completed"]
    if len(completed) != (1 if job.state == "succeeded" else 0):
        yield f"has {len(completed)} completed runs"
        return
    for run in completed:
        if run is not runs[-1]:
            yield f"run {run.number} is completed and another was begun after it"
        if job.finished_at != run.finished_at:
            yield "ended at another time than its completed run"
        if starts and starts[-1].run != run.id:
            yield "a handler was started after the one that succeeded"
        line = done.get(run.id)
        if line is None:
            yield "succeeded, and its handler never said that it was done"
        elif run.finished_at is None or not run.claimed_at <= line.at <= run.finished_at:
            yield "was done outside of the run that is said to have done it"
