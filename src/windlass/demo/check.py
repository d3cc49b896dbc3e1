"""Does the store say what really happened? The handlers' own log is the witness.

* nothing is lost: every accepted job, or the link that took it over, has ended;
* nothing is repeated after success: the completed run of a job is the last one that started;
* nothing is invented: every start in the log is a run in the store, every success has its `done` in the log;
* a never-twice job started at most once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from windlass.client import Client
from windlass.core.changes import EXPIRED
from windlass.core.recovery import CRASH_ERROR
from windlass.drivers.paging import every_run
from windlass.drivers.values import JobQuery
from windlass.types import TERMINAL, Job, Run

NEVER_TWICE = "ledger"
CUT_OFF = (CRASH_ERROR, EXPIRED)


@dataclass
class Evidence:
    """The log, by job and by run."""

    starts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # job -> runs, in order
    done: set[str] = field(default_factory=set)  # runs whose effect happened
    effects: Counter[str] = field(default_factory=Counter)  # job -> how often its effect happened


@dataclass
class Verdict:
    problems: list[str]
    ended: Counter[tuple[str, str]]  # (queue, ending) -> jobs
    runs: int
    cut_off: int  # runs that a dead worker had begun
    repeated: int  # effects that happened twice because their worker was killed before it could say so


def read_log(path: Path) -> Evidence:
    evidence = Evidence()
    for line in path.read_text().splitlines():
        what, _, job_id, run_id, _ = line.split()
        if what == "start":
            evidence.starts[job_id].append(run_id)
        else:
            evidence.done.add(run_id)
            evidence.effects[job_id] += 1
    return evidence


async def compare(client: Client, accepted: list[str], log: Path) -> Verdict:
    evidence, jobs = read_log(log), await all_jobs(client)
    verdict = Verdict([], Counter(), 0, 0, sum(count - 1 for count in evidence.effects.values()))
    for job_id in accepted:
        if job_id not in jobs:
            verdict.problems.append(f"{job_id} was accepted and is gone")
    for job in jobs.values():
        runs = await every_run(client.driver, job.id)
        verdict.runs += len(runs)
        verdict.cut_off += sum(run.error in CUT_OFF for run in runs)
        verdict.problems += problems_of(job, runs, evidence)
        if job.superseded_by is None:
            verdict.ended[job.queue, job.state] += 1
    return verdict


def problems_of(job: Job, runs: list[Run], evidence: Evidence) -> list[str]:
    started, known = evidence.starts.get(job.id, []), [run.run_id for run in runs]
    problems = []
    if job.state not in TERMINAL:
        problems.append(f"{job.id} is still {job.state}")
    if not set(started) <= set(known):
        problems.append(f"{job.id} started in a run that the store does not know")
    completed = [run.run_id for run in runs if run.status == "completed"]
    if job.state == "succeeded" and (
        len(completed) != 1 or completed[0] not in evidence.done or started[-1] != completed[0]
    ):
        problems.append(f"{job.id} succeeded, but its log says otherwise")
    if job.queue == NEVER_TWICE and len(started) > 1:
        problems.append(f"{job.id} must never start twice and started {len(started)} times")
    return problems


async def all_jobs(client: Client) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    before: int | None = None
    while True:
        page = await client.driver.find(JobQuery(superseded=True, before=before, limit=1_000))
        jobs |= {job.id: job for job in page.jobs}
        if page.cursor is None:
            return jobs
        before = page.cursor
