"""Windlass as its users meet it: an app, its tasks, and worker processes started from the command line.

Nothing here is nearer to the store than a user is. Jobs are enqueued by the tasks' own calls; workers are
`python -m windlass worker bench_tasks:app`; what they cost is read from outside. Every drain is counted afterwards.

    python bench/fleet.py drain --jobs 50000 --processes 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

import apsw
import bench_tasks
import msgspec
from bench_tasks import noop, noop_blocking, noop_mixed, stamp
from limits.sqlite_loop import QUEUE, check_drained, fill, fresh_file, number, opened
from processes import cpu_percent, cpu_seconds, latencies_ms, percentile, percentiles, rss_mb, wait_until

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.client import Client
from windlass.tasks import Task

Part = Literal["drain", "one", "many", "latency", "idle"]
Kind = Literal["async", "sync", "mixed"]

Noop = Task[[int, int, str], None]

# An app of bench_tasks, by name as the command line takes it, and the task of it that is drained.
APPS: Final[dict[Kind, tuple[str, Noop]]] = {
    "async": ("app", noop), "sync": ("blocking", noop_blocking), "mixed": ("mixed", noop_mixed),
}  # fmt: skip
HERE: Final = Path(__file__).parent
ARGUMENTS: Final = (1, 2, "hello")
FILLING: Final = 10_000  # jobs in a transaction while the queue is filled, before the clock runs
GAP_S: Final = 0.020
PATIENCE_S: Final = 60.0
LONGEST_S: Final = 300.0
WARM_UPS: Final = 3  # jobs
BREATH_S: Final = 0.5  # for a worker that has said that it serves to come to rest
LEFT: Final = f"""
select exists (select 1 from jobs indexed by jobs_ready where queue = '{QUEUE}' and state = 'queued' and ready = 1)
    or exists (select 1 from jobs indexed by jobs_leased where queue = '{QUEUE}' and state = 'running')
"""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    jobs: int
    kind: Kind
    processes: int
    history: int
    callers: int
    blocking: bool
    batch: int
    seconds: float
    parent: str | None  # the directory in which files are made; None = the system's


Measured = dict[str, float]  # by quantity: see report.QUANTITIES


def rate(jobs: int, seconds: float) -> Measured:
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}


# ------------------------------------------------------------------------------------------------------------ the worker


class Running:
    """A worker that was started, and the log that it writes."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self.pid: Final = popen.pid
        self._log = log

    def serving(self, processes: int) -> bool:
        self.check()
        return self._log.read_text().count(" serves ") >= processes

    def check(self) -> None:
        if self.popen.poll() is not None:
            raise SystemExit(self.words("the worker has ended"))

    def words(self, what: str) -> str:
        return f"{what}; the end of its log:\n{self._log.read_text()[-2_000:]}"


@contextmanager
def worker(
    store: str, directory: Path, app: str = "app", *, processes: int = 1, marks: Path | None = None
) -> Iterator[Running]:
    """Started as a user starts it, ready when this is entered, stopped by SIGTERM. Its log is written to `directory`."""
    log = directory / "worker.log"
    command = [sys.executable, "-m", "windlass", "worker", f"bench_tasks:{app}", "--store", store]
    if processes > 1:
        command += ["--processes", str(processes)]
    env = {**os.environ, "BENCH_MARKS": str(marks or os.devnull)}
    with log.open("wb") as output:
        popen = subprocess.Popen(
            command, cwd=HERE, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    running = Running(popen, log)
    try:
        wait_until(lambda: running.serving(processes), PATIENCE_S, lambda: running.words("the worker does not start"))
        time.sleep(BREATH_S)
        yield running
        popen.send_signal(signal.SIGTERM)
        if popen.wait(PATIENCE_S) != 0:
            raise SystemExit(running.words(f"the worker ended with {popen.returncode}"))
    finally:
        if popen.poll() is None:
            os.killpg(popen.pid, signal.SIGKILL)  # the group of the session that we started, and nobody else
            popen.wait()


def url(path: Path) -> str:
    return f"sqlite:///{path}"


@contextmanager
def on_store(app: Windlass, store: str) -> Iterator[Windlass]:
    app.client = Client(store, app.client.settings)
    try:
        yield app
    finally:
        asyncio.run(app.close())


# -------------------------------------------------------------------------------------------------------------- drain


def drain(path: Path, options: Options) -> Measured:
    """The clock runs from the moment a paused queue is opened, every process ready and waiting, until a look at the store
    finds nothing queued and nothing running: the last settlement is committed by then."""
    fill(path, jobs=0, history=options.history)
    name, task = APPS[options.kind]
    app: Windlass = getattr(bench_tasks, name)
    with on_store(app, url(path)), opened(path) as db:
        enqueue_all(app, task, options.jobs)
        set_paused(app, True)
        db.execute("pragma wal_checkpoint(truncate)")
        with worker(url(path), path.parent, name, processes=options.processes) as running:
            cpu = cpu_seconds(running.pid)
            began = time.monotonic()
            set_paused(app, False)
            wait_until(lambda: is_drained(db, running), LONGEST_S, lambda: running.words("the queue is not drained"))
            seconds = time.monotonic() - began
            cpu, memory = cpu_seconds(running.pid) - cpu, rss_mb(running.pid)
        check_drained(path, options.history + options.jobs)
        check_runs(db, options)
    return {**rate(options.jobs, seconds), "cpu_us": cpu * 1e6 / options.jobs, "rss_mb": memory}


def enqueue_all(app: Windlass, task: Noop, jobs: int) -> None:
    for done in range(0, jobs, FILLING):
        app.enqueue_many_sync(task.job(*ARGUMENTS) for _ in range(min(FILLING, jobs - done)))


def set_paused(app: Windlass, paused: bool) -> None:
    admin = Admin(app.client)
    asyncio.run(admin.pause(QUEUE) if paused else admin.resume(QUEUE))


def is_drained(db: apsw.Connection, running: Running) -> bool:
    running.check()
    return not number(db, LEFT)


def check_runs(db: apsw.Connection, options: Options) -> None:
    """One completed run for each job that was enqueued, and no other."""
    new = f"from runs where job_seq > {options.history}"
    runs, jobs = number(db, f"select count(*) {new}"), number(db, f"select count(distinct job_seq) {new}")
    assert (runs, jobs) == (options.jobs, options.jobs), f"{runs=} of {jobs=}, expected {options.jobs}"


# ------------------------------------------------------------------------------------------------------------ enqueue


async def enqueue_each(jobs: int, callers: int) -> float:
    async def call(first: int) -> None:
        for _ in range(first, jobs, callers):
            await noop.enqueue(*ARGUMENTS)

    began = time.perf_counter()
    await asyncio.gather(*(call(first) for first in range(callers)))
    return time.perf_counter() - began


def enqueue_blocking(jobs: int) -> float:
    began = time.perf_counter()
    for _ in range(jobs):
        noop.enqueue_sync(*ARGUMENTS)
    return time.perf_counter() - began


async def enqueue_many(app: Windlass, jobs: int, batch: int) -> float:
    began = time.perf_counter()
    for done in range(0, jobs, batch):
        await app.enqueue_many(noop.job(*ARGUMENTS) for _ in range(min(batch, jobs - done)))
    return time.perf_counter() - began


def enqueue_seconds(store: str, options: Options) -> float:
    async def work(app: Windlass) -> float:
        async with app:
            if options.part == "many":
                return await enqueue_many(app, options.jobs, options.batch)
            return await enqueue_each(options.jobs, options.callers)

    with on_store(bench_tasks.app, store) as app:
        app.client.now()  # opens the store: no part of an enqueue
        return enqueue_blocking(options.jobs) if options.blocking else asyncio.run(work(app))


def enqueue(path: Path, options: Options) -> Measured:
    seconds = enqueue_seconds(url(path), options)
    with opened(path) as db:
        stored = number(db, "select count(*) from jobs")
    assert stored == options.jobs, f"{stored} jobs are stored, {options.jobs} were enqueued"
    return rate(options.jobs, seconds)


# -------------------------------------------------------------------------------------------------- an idle worker


def wait_for_marks(marks: Path, jobs: int, running: Running) -> None:
    def words() -> str:
        return running.words(f"{len(latencies_ms(marks))} of {jobs} jobs were picked up")

    wait_until(lambda: len(latencies_ms(marks)) >= jobs, PATIENCE_S, words)


def latency(store: str, directory: Path, options: Options) -> Measured:
    """One job at a time from this process into an idle worker process, the durable commit included. A few jobs go before,
    so that whatever is made on first use has been made."""
    marks, calls = directory / "marks", []
    with on_store(bench_tasks.app, store), worker(store, directory, marks=marks) as running:
        warm_up(marks, running)
        for _ in range(options.jobs):
            sent = time.monotonic()
            stamp.enqueue_sync(sent)
            calls.append((time.monotonic() - sent) * 1_000)
            time.sleep(GAP_S)
            running.check()
        wait_for_marks(marks, WARM_UPS + options.jobs, running)
    taken = latencies_ms(marks)[WARM_UPS:]
    assert len(taken) == options.jobs, f"{len(taken)} handlers ran for {options.jobs} jobs"
    return {"jobs": len(taken), **percentiles(taken), "call_ms": percentile(calls, 50)}


def warm_up(marks: Path, running: Running) -> None:
    for _ in range(WARM_UPS):
        stamp.enqueue_sync(time.monotonic())
    wait_for_marks(marks, WARM_UPS, running)
    time.sleep(BREATH_S)


def idle(store: str, directory: Path, options: Options) -> Measured:
    marks = directory / "marks"
    with on_store(bench_tasks.app, store), worker(store, directory, marks=marks) as running:
        warm_up(marks, running)
        share = cpu_percent(running.pid, options.seconds)
        return {"seconds": options.seconds, "cpu_percent": share, "rss_mb": rss_mb(running.pid)}


# ----------------------------------------------------------------------------------------------------------- measuring


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Windlass through its public face: an app, tasks and worker processes.")
    parser.add_argument("part", choices=get_args(Part))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--kind", choices=get_args(Kind), default="async", help="of the app's handlers (drain)")
    parser.add_argument("--processes", type=int, default=1, help="worker processes (drain)")
    parser.add_argument("--history", type=int, default=0, help="finished jobs that are already in the file (drain)")
    parser.add_argument("--callers", type=int, default=1, help="callers at once, in one event loop (one)")
    parser.add_argument("--blocking", action="store_true", help="the caller has no event loop (one)")
    parser.add_argument("--batch", type=int, default=1_000, help="jobs in a call (many)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long it is watched (idle)")
    parser.add_argument("--dir", dest="parent", help="where the file is made, and removed again")
    return parser


def options_of(argv: list[str] | None = None) -> Options:
    return msgspec.convert(vars(parser().parse_args(argv)), Options)


def measure(options: Options) -> Measured:
    with fresh_file(options.parent) as path:
        match options.part:
            case "drain":
                return drain(path, options)
            case "one" | "many":
                return enqueue(path, options)
            case "latency":
                return latency(url(path), path.parent, options)
            case "idle":
                return idle(url(path), path.parent, options)


if __name__ == "__main__":
    print(json.dumps(measure(options_of())))
