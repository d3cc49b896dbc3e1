"""Real processes on SQLite and PostgreSQL under a storm, and what the store and the handlers' own log say of it."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from faults import tasks
from faults.chaos import recoveries
from faults.fleet import Fleet
from faults.history import History, Line, RunRow
from faults.stores import PostgresStore
from faults.summary import TAKEN_BACK
from postgres.proxy import Proxy
from postgres.server import Server

from .evidence import SECOND, Killed
from .storm import LEASE, SETTINGS, Reached, Storm

StoreName = Literal["sqlite", "postgres"]
BOUND: Final = round((LEASE + 2) * SECOND)
WHY: Final = {
    "taken back": "its lease had lapsed before its worker could say how it ended, and somebody took the job over",
    "failed": "its handler had raised, and its policy says to try again",
    "handed back": "its worker was told to stop, and gave it back before it had ended",
}
UNEXPLAINED: Final = "unexplained"
DAZED: Final = "handler begun at the waking of a stopped worker, before it looked at the clock"
LOOKS_WITHIN: Final = SECOND  # of its waking


def run(store: StoreName, seconds: float, seed: int) -> Killed:
    began = time.monotonic()
    with fleet_on(store) as (fleet, reached):
        storm = Storm(fleet, random.Random(seed), reached)
        storm.rage(seconds)
        stuck = storm.calm()
        found = looked_at(fleet, storm.deaths, storm.outages, storm.naps)
    found.seed, found.hits, found.seconds = seed, found.hits + storm.hits, time.monotonic() - began
    found.server = reached.server.version if reached is not None else ""
    found.least = {blow.name: blow.least for blow in storm.blows}
    found.problems += [stuck] if stuck else []
    return found


def looked_at(
    fleet: Fleet, deaths: Mapping[int, int], outages: Sequence[int] = (), naps: Mapping[int, tuple[int, int]] | None = None
) -> Killed:  # fmt: skip
    """What the store of that fleet tells, held against what its handlers wrote down."""
    history, accepted = fleet.history(), fleet.acknowledged()
    executions = sum(line.what == "start" for line in history.lines)
    history, dazed = but_for_the_dazed(history, naps or {})
    again, repeated = beyond_the_first(history)
    return Killed(
        store=fleet.on.name, bound=BOUND, accepted=len(accepted), jobs=len(history.jobs), again=again, repeated=repeated,
        ended=Counter(job.dead_kind or job.state for job in history.jobs.values()),
        executions=executions, hits=+Counter({DAZED: dazed}),
        took_over=sum(job.retry_of is not None for job in history.jobs.values()),
        recoveries=sorted(took for _, took in recoveries(history, deaths, outages)),
        lost=[job for job in accepted if job not in history.jobs],
        problems=[*history.problems(accepted), *effects_amiss(fleet, history)],
    )  # fmt: skip


@contextmanager
def fleet_on(store: StoreName) -> Iterator[tuple[Fleet, Reached | None]]:
    with tempfile.TemporaryDirectory(prefix="windlass-proof-") as place:
        if store == "sqlite":
            with Fleet(Path(place), **SETTINGS) as fleet:
                yield fleet, None
        else:
            with Server(durable=True) as server, Proxy(server.port) as network:
                by_network = PostgresStore(server, by_port=network.port)  # processes; what is read here goes straight
                with Fleet(Path(place), by_network, **SETTINGS) as fleet:
                    yield fleet, Reached(server, network)


def beyond_the_first(history: History) -> tuple[Counter[str], int]:
    """Executions of a job after its first, by what the store says of the one before; and how many of those before had come
    to the end of their work."""
    starts: dict[str, list[str]] = defaultdict(list)
    for line in history.lines:
        if line.what == "start":
            starts[line.job].append(line.run)
    done = {line.run for line in history.lines if line.what == "done"}
    again: Counter[str] = Counter()
    repeated = 0
    for job, begun in starts.items():
        runs = {run.id: run for run in history.runs.get(job, [])}
        for before in begun[:-1]:
            again[why_again(runs.get(before))] += 1
            repeated += before in done
    return again, repeated


def but_for_the_dazed(history: History, naps: Mapping[int, tuple[int, int]]) -> tuple[History, int]:
    """Without the starts of workers that were stopped between their last look at the clock and a handler's first step, and
    took that step when they went on: what *Self-fencing* does not cover. The run was taken back meanwhile, so it was
    closed as that, and in that time."""
    closed = {
        run.id: run.finished_at for runs in history.runs.values() for run in runs
        if run.finished_at is not None and run.error in TAKEN_BACK
    }  # fmt: skip

    def is_dazed(line: Line) -> bool:
        slept, woke = naps.get(line.pid, (0, 0))
        return line.what == "start" and slept < closed.get(line.run, 0) < line.at and woke <= line.at <= woke + LOOKS_WITHIN

    lines = [line for line in history.lines if not is_dazed(line)]
    return replace(history, lines=lines), len(history.lines) - len(lines)


def why_again(before: RunRow | None) -> str:
    if before is None:
        return UNEXPLAINED
    if before.status == "failed":
        return "taken back" if before.error in TAKEN_BACK else "failed"
    return "handed back" if before.status == "skipped" else UNEXPLAINED


def effects_amiss(fleet: Fleet, history: History) -> Iterator[str]:
    """Rows that handlers wrote in one transaction with their success."""
    if not fleet.on.transactional:
        return
    written = Counter(str(job) for (job,) in fleet.rows("select job_id from effects"))
    jobs = (job for job in history.jobs.values() if job.type == tasks.written.name)
    succeeded = Counter(job.id for job in jobs if job.state == "succeeded")
    for job in (written - succeeded) + (succeeded - written):
        yield f"{job}: its effect happened {written[job]} times, and it succeeded {succeeded[job]} times"
