"""How soon a job begins while there is much else to do: urgent jobs that overtake a backlog, and a steady stream that is
worked off as it comes, also beside a transaction that somebody leaves open and beside somebody who looks at the dashboard.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import bench_tasks
import psycopg
from bench_tasks import stamp
from beside import put
from grounds import Ground, Measured, Series
from parts import LONGEST_S, MARK, WARM_UPS, Options, rate, wait_for_marks, waits, warm_up
from processes import cpu_seconds, marked, percentile, rss_mb
from workers import FILLING, on_store, set_paused, worker

from windlass.app import Windlass

HERE: Final = Path(__file__).parent
URGENT: Final = 10  # a priority
URGENT_GAP_S: Final = 0.010
TICK_S: Final = 0.010
STEP_S: Final = 1.0
EDGE: Final = 10  # the first and the last tenth of a stretch are compared


def urgent(there: Ground, options: Options) -> Measured:
    """Only those count that were sent while something of the backlog still waited."""
    marks = there.directory / "marks"
    with on_store(bench_tasks.app, there.url) as app:
        put(there, "backlog", options.rows)
        last = there.last()
        set_paused(app, True)
        there.rest()
        quick = stamp.using(priority=URGENT)
        with worker(there.url, there.directory, marks=marks) as running:
            set_paused(app, False)
            sent = 0
            while not there.has_ended(last):
                quick.enqueue_sync(time.monotonic())
                sent += 1
                running.check()
                time.sleep(URGENT_GAP_S)
            wait_for_marks(marks, sent, running)
    taken = [(began - at) * 1_000 for at, began in marked(marks)][: max(sent - 1, 1)]
    return {"rows": options.rows, **waits(taken)}


# ---------------------------------------------------------------------------------------------------------- steady state


def steady(there: Ground, options: Options) -> Measured:
    """So many jobs a second are enqueued here and worked off by a process; then a burst, with everything still in place."""
    marks = there.directory / "marks"
    with ExitStack() as stack:
        app = stack.enter_context(on_store(bench_tasks.app, there.url))
        there.rest()
        running = stack.enter_context(worker(there.url, there.directory, marks=marks, keep=options.keep))
        warm_up(marks, running)
        if options.held:
            stack.enter_context(held(there.url))
        pages = stack.enter_context(watched(there.url, options.seconds)) if options.dashboard else None
        claims, sizes = ClaimTimes(there), Sizes(there)
        cpu = cpu_seconds(running.pid)
        there.begin()
        began = time.monotonic()
        sent = stream(app, options, [claims.look, sizes.look])
        wait_for_marks(marks, WARM_UPS + sent, running, LONGEST_S)
        seconds = time.monotonic() - began
        server, cpu = there.end(sent), cpu_seconds(running.pid) - cpu
        found = {
            **rate(sent, seconds),
            "asked": options.rate,
            "cpu_us": cpu * 1e6 / sent,
            "rss_mb": rss_mb(running.pid),
            **server,
        }
        burst = bursts(app, marks, options.jobs, WARM_UPS + sent) if options.jobs else {}
        shown = pages.asked() if pages is not None else {}
    taken = marked(marks)[WARM_UPS : WARM_UPS + sent]
    told = waits([(start - at) * 1_000 for at, start in taken])
    series = {**told.pop("series"), "per_second": by_second([start - began for _, start in taken]), **claims.series}
    series["store_mb"] = sizes.points
    return {**found, **told, **claims.edges(), **sizes.edges(), **edges(taken), **burst, **shown, "series": series}


def stream(app: Windlass, options: Options, looks: Sequence[Callable[[float], None]]) -> int:
    """In small calls; whoever falls behind catches up, so that the rate is what was asked for if it can be had at all."""
    began, sent, step = time.monotonic(), 0, 1
    while (passed := time.monotonic() - began) < options.seconds:
        wanted = min(int(passed * options.rate) + 1 - sent, FILLING)
        if wanted > 0:
            now = time.monotonic()
            app.enqueue_many_sync(stamp.job(now) for _ in range(wanted))
            sent += wanted
        if passed >= step * STEP_S:
            for look in looks:
                look(passed)
            step += 1
        time.sleep(TICK_S)
    return sent


def bursts(app: Windlass, marks: Path, jobs: int, before: int) -> Measured:
    """How fast what comes at once is worked off now, by the handlers' own clock."""
    for done in range(0, jobs, FILLING):
        now = time.monotonic()
        app.enqueue_many_sync(stamp.job(now) for _ in range(min(FILLING, jobs - done)))
    deadline = time.monotonic() + LONGEST_S
    while marks.stat().st_size // MARK < before + jobs and time.monotonic() < deadline:
        time.sleep(TICK_S)
    starts = [start for _, start in marked(marks)[before:]]
    assert len(starts) == jobs, f"{len(starts)} of {jobs} jobs of the burst began"
    return {"burst_per_second": (jobs - 1) / (max(starts) - min(starts))} if jobs > 1 else {}


def by_second(ends: list[float]) -> Series:
    counts: dict[int, int] = {}
    for end in ends:
        counts[int(end // STEP_S)] = counts.get(int(end // STEP_S), 0) + 1
    return [(step * STEP_S, counts.get(step, 0) / STEP_S) for step in range(max(counts))]  # the last one is not whole


def edges(taken: list[tuple[float, float]]) -> Measured:
    """Does it wear off? The median wait in the first tenth and in the last."""
    part = max(len(taken) // EDGE, 1)
    first, last = ([(start - at) * 1_000 for at, start in some] for some in (taken[:part], taken[-part:]))
    return {"first_ms": percentile(first, 50), "last_ms": percentile(last, 50)}


class Sizes:
    """How large the store is, from second to second: flat once as much is removed as comes."""

    def __init__(self, there: Ground) -> None:
        self._there = there
        self.points: Series = []

    def look(self, at: float) -> None:
        self.points.append((round(at, 1), self._there.size_mb()))

    def edges(self) -> Measured:
        """In the middle, and in the last tenth."""
        part, middle = max(len(self.points) // EDGE, 1), len(self.points) // 2
        values = [value for _, value in self.points]
        if not values:
            return {}
        return {"store_middle_mb": percentile(values[middle:][:part], 50), "store_end_mb": percentile(values[-part:], 50)}


class ClaimTimes:
    """How long the server takes for a claim, from second to second. Where it does not say, there is nothing."""

    CLAIMS: Final = """
select coalesce(sum(calls), 0)::bigint, coalesce(sum(total_exec_time), 0)::float8 from pg_stat_statements
 where dbid = (select oid from pg_database where datname = current_database()) and query like '%skip locked%'
   and query like '%insert into windlass.runs%'
"""

    def __init__(self, there: Ground) -> None:
        self._there = there
        self._told = there.store == "postgres" and bool(
            there.one("select count(*) from pg_extension where extname = 'pg_stat_statements'")
        )
        self._before = self._ask()
        self.points: Series = []

    def _ask(self) -> tuple[int, float]:
        if not self._told:
            return 0, 0.0
        [(calls, ms)] = self._there.rows(self.CLAIMS)
        return calls, ms

    def look(self, at: float) -> None:
        calls, ms = self._ask()
        if calls > self._before[0]:
            self.points.append((round(at, 1), (ms - self._before[1]) / (calls - self._before[0])))
        self._before = calls, ms

    @property
    def series(self) -> dict[str, Series]:
        return {"claim_ms": self.points} if self.points else {}

    def edges(self) -> Measured:
        part = max(len(self.points) // EDGE, 1)
        values = [value for _, value in self.points]
        if not values:
            return {}
        return {"claim_first_ms": percentile(values[:part], 50), "claim_last_ms": percentile(values[-part:], 50)}


@contextmanager
def held(url: str) -> Iterator[None]:
    """Somebody began a transaction, looked, and went for lunch: nothing that dies meanwhile can be cleared away."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from windlass.jobs")
        yield
        connection.rollback()


class Pages:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def asked(self) -> Measured:
        said, _ = self._process.communicate(timeout=LONGEST_S)
        if self._process.returncode:
            raise SystemExit("whoever looked at the dashboard has failed")
        found: Measured = json.loads(said)
        return found


@contextmanager
def watched(url: str, seconds: float) -> Iterator[Pages]:
    command = [sys.executable, str(HERE / "onlooker.py"), url, "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Pages(process)
        finally:
            process.kill()
