"""What is compared under pressure, on either store; the short set; and which figures become pictures."""

from __future__ import annotations

from typing import Final

import msgspec
from grounds import Store
from plans import Command, Plan, at_least, below
from report import Target

FLEET: Final = "bench/fleet.py"
SERVER: Final = "SERVER"  # stands for the URL of the server that all samples share
PRESSURE: Final = "Under pressure"
SHORT: Final = "In short"
LIMITS: Final = {"sqlite": "bench/limits/sqlite_loop.py", "postgres": "bench/limits/postgres_loop.py"}
BATCHES: Final = (1, 10, 100, 1_000)


Curve = tuple[str, str, tuple[tuple[float, Command], ...]]  # name, quantity, command by x


class Pressure(msgspec.Struct, frozen=True):
    """How many of what."""

    drains: int = 50_000
    apart: int = 2_000  # by process handlers
    retries: int = 20_000
    rows: int = 1_000_000  # that wait, are for later, or have ended
    parked: int = 100_000
    queues: int = 1_000
    overtaken: int = 100_000  # by urgent jobs
    rate: int = 2_000
    steady_seconds: int = 20
    held_seconds: int = 600
    burst: int = 20_000
    batches: int = 20_000
    latencies: int = 200


FULL: Final = Pressure()


class Chart(msgspec.Struct, frozen=True):
    """One picture: each line is a series of one command, or one quantity of several."""

    file: str
    title: str
    x: str
    y: str
    series: tuple[tuple[str, Command, str], ...] = ()  # name, command, series
    curves: tuple[Curve, ...] = ()
    log: bool = False

    def commands(self) -> list[Command]:
        return [command for _, command, _ in self.series] + [
            command for _, _, points in self.curves for _, command in points
        ]


# ------------------------------------------------------------------------------------------------------------ commands


def fleet(store: Store, part: str, *words: object) -> Command:
    where = ("--store", "postgres", "--server", SERVER) if store == "postgres" else ()
    return (FLEET, part, *map(str, words), *where)


def drain(store: Store, jobs: int, *words: object) -> Command:
    return fleet(store, "drain", "--jobs", jobs, *words)


def beside(store: Store, n: Pressure, what: str, rows: int) -> Command:
    return drain(store, n.drains, "--beside", what, "--rows", rows)


def steady(store: Store, n: Pressure, seconds: int, *words: object) -> Command:
    return fleet(store, "steady", "--rate", n.rate, "--seconds", seconds, "--jobs", n.burst, *words)


def bare(store: Store, part: str, jobs: int, *words: object) -> Command:
    where = ("--server", SERVER) if store == "postgres" else ()
    return (LIMITS[store], part, "--jobs", str(jobs), *map(str, words), *where)


def many(store: Store, n: Pressure, batch: int) -> Command:
    """Calls with few jobs have fewer of them: a commit each takes its time."""
    return fleet(store, "many", "--jobs", max(min(n.batches, batch * 500), 1), "--batch", batch)


# --------------------------------------------------------------------------------------------------------------- plans


def pressure_plans(store: Store, n: Pressure) -> list[Plan]:
    return [*handler_plans(store, n), *crowd_plans(store, n), *waiting_plans(store, n), *stream_plans(store, n)]


def whole(n: Pressure, target: Target) -> Target | None:
    """With fewer rows it says nothing."""
    return target if n.rows >= FULL.rows else None


def handler_plans(store: Store, n: Pressure) -> list[Plan]:
    empty, burns = drain(store, n.drains), drain(store, n.retries, "--kind", "burn")
    threads, apart = drain(store, n.drains, "--kind", "sync"), drain(store, n.apart, "--kind", "process")
    scales = at_least(1.3) if store == "postgres" else None
    return [
        Plan(PRESSURE, "drain by thread handlers, against async", threads, empty, at_least(0.5)),
        Plan(PRESSURE, f"drain of {n.apart:,} jobs by process handlers (4 children)", apart),
        Plan(PRESSURE, "handlers that cost 50 µs of processor time, 2 processes, against 1",
             (*burns, "--processes", "2"), burns, scales),
        Plan(PRESSURE, f"retry storm: {n.retries:,} jobs that fail once, two runs each, against none",
             drain(store, n.retries, "--kind", "retry"), empty),
    ]  # fmt: skip


def crowd_plans(store: Store, n: Pressure) -> list[Plan]:
    """Each against the same drain of a store that holds nothing else."""
    flat = whole(n, at_least(0.90))
    rows: list[tuple[str, str, int, Target | None]] = [
        (f"drain while {n.rows:,} jobs wait behind them, against none", "backlog", n.rows, None),
        (f"drain while {n.rows:,} jobs are for later, against none", "future", n.rows, flat),
        (f"drain while {n.rows:,} jobs have ended, against none", "finished", n.rows, flat),
        (f"drain while {n.parked:,} jobs are parked, against none", "parked", n.parked, flat),
        (f"drain of {n.queues:,} queues, against one", "queues", n.queues, flat),
    ]
    empty = drain(store, n.drains)
    return [Plan(PRESSURE, title, beside(store, n, what, count), empty, target) for title, what, count, target in rows]


def waiting_plans(store: Store, n: Pressure) -> list[Plan]:
    over, title = fleet(store, "urgent", "--rows", n.overtaken), f"urgent job over {n.overtaken:,} others"
    return [
        Plan(PRESSURE, f"{title}, median", over, quantity="p50_ms"),
        Plan(PRESSURE, "the same, 99 of 100", over, None, whole(n, below(50.0)), "p99_ms"),
    ]


def stream_plans(store: Store, n: Pressure) -> list[Plan]:
    clean = steady(store, n, n.steady_seconds)
    seen = (*clean, "--dashboard")
    every: list[tuple[str, Command, Command | None, str]] = [
        (f"steady {n.rate:,} jobs/s for {n.steady_seconds} s: what was worked off", clean, None, "per_second"),
        ("the same, wait until begun, median", clean, None, "p50_ms"),
        ("the same, 99 of 100", clean, None, "p99_ms"),
        ("the same, worker's processor time", clean, None, "cpu_us"),
        ("the same, worker's memory", clean, None, "rss_mb"),
        ("beside somebody who looks at the dashboard: wait, 99 of 100", seen, clean, "p99_ms"),
        ("a page of the dashboard meanwhile, median", seen, None, "page_p50_ms"),
        ("the same, 99 of 100", seen, None, "page_p99_ms"),
    ]
    if store == "postgres":
        every += [
            ("the same stream: server's processor time", clean, None, "server_us"),
            ("the same, statements", clean, None, "statements"),
            ("the same, WAL", clean, None, "wal_bytes"),
        ]
    plans = [Plan(PRESSURE, title, ours, base, None, quantity) for title, ours, base, quantity in every]
    return [*plans, *held_plans(n)] if store == "postgres" else plans


def held_plans(n: Pressure) -> list[Plan]:
    """Both for as long: the stream alone leaves rows behind, too."""
    clean = steady("postgres", n, n.held_seconds)
    held, minutes = (*clean, "--held"), f"{n.held_seconds / 60:g} min of an open transaction at {n.rate:,} jobs/s"
    flat = at_least(0.90) if n.held_seconds >= FULL.held_seconds else None
    return [
        Plan(PRESSURE, f"{minutes}: a burst at its end, against none", held, clean, flat, "burst_per_second"),
        Plan(PRESSURE, "the same, what was worked off", held, clean, flat),
        Plan(PRESSURE, "the same, wait until begun, 99 of 100", held, clean, None, "p99_ms"),
        Plan(PRESSURE, "the same, time of a claim in the first tenth", held, clean, None, "claim_first_ms"),
        Plan(PRESSURE, "the same, time of a claim in the last tenth", held, clean, None, "claim_last_ms"),
        Plan(PRESSURE, "the same, server's processor time for a job", held, clean, None, "server_us"),
    ]


def short_plans(store: Store, n: Pressure) -> list[Plan]:
    """A look at everything that matters, in three minutes."""
    empty, one = drain(store, n.drains), fleet(store, "one", "--jobs", n.latencies * 5)
    waking, over = fleet(store, "latency", "--jobs", n.latencies), fleet(store, "urgent", "--rows", n.overtaken)
    rows: list[tuple[str, Command, Command | None, str]] = [
        (f"drain of {n.drains:,} async jobs, against the bare loop at 500", empty,
         bare(store, "claim", n.drains, "--batch", 500), "per_second"),
        ("drain by 2 processes, against 1", (*empty, "--processes", "2"), empty, "per_second"),
        ("drain by thread handlers, against async", drain(store, n.drains, "--kind", "sync"), empty, "per_second"),
        (f"drain with {n.rows:,} finished jobs, against none", beside(store, n, "finished", n.rows), empty,
         "per_second"),
        ("worker's processor time for a drained job", empty, None, "cpu_us"),
        ("worker's memory after the drain", empty, None, "rss_mb"),
        ("enqueue one, against a bare INSERT", one, bare(store, "one", n.latencies * 5), "per_second"),
        ("enqueue one, 10 callers, against 1", (*one, "--callers", "10"), one, "per_second"),
        ("enqueue 1,000 at a time", many(store, n, 1_000), None, "per_second"),
        ("pick-up by an idle worker, median", waking, None, "p50_ms"),
        ("pick-up by an idle worker, 99 of 100", waking, None, "p99_ms"),
        (f"urgent job over {n.overtaken:,} others, 99 of 100", over, None, "p99_ms"),
    ]  # fmt: skip
    if store == "postgres":
        rows += [(f"of a drained job: {what}", empty, None, quantity) for what, quantity in (
            ("server's processor time", "server_us"), ("statements", "statements"), ("WAL", "wal_bytes"),
        )]  # fmt: skip
    return [Plan(SHORT, title, ours, base, None, quantity) for title, ours, base, quantity in rows]


# -------------------------------------------------------------------------------------------------------------- charts


def chart_plans(store: Store, n: Pressure, *, short: bool) -> list[Chart]:
    where = {"sqlite": "SQLite", "postgres": "PostgreSQL"}[store]
    found = [throughput(store, n, where, short=short), waits(store, n, where), by_batch(store, n, where)]
    found.append(by_size(store, n, where, (n.rows,) if short else (n.rows // 100, n.rows // 10, n.rows)))
    if store == "postgres" and not short:
        found.append(claims(n))
    return found


def throughput(store: Store, n: Pressure, where: str, *, short: bool) -> Chart:
    shown = [("empty store", drain(store, n.drains)), (f"{n.rows:,} ended", beside(store, n, "finished", n.rows))]
    if not short:
        shown += [(f"{n.rows:,} wait", beside(store, n, "backlog", n.rows)),
                  (f"{n.rows:,} for later", beside(store, n, "future", n.rows))]  # fmt: skip
    return Chart(
        f"{store}-throughput", f"{where}: drain of {n.drains:,} jobs, 1 process", "seconds", "jobs/s",
        tuple((name, command, "per_second") for name, command in shown),
    )  # fmt: skip


def waits(store: Store, n: Pressure, where: str) -> Chart:
    shown = [
        ("into an idle worker", fleet(store, "latency", "--jobs", n.latencies)),
        (f"urgent, over {n.overtaken:,} others", fleet(store, "urgent", "--rows", n.overtaken)),
    ]
    return Chart(
        f"{store}-latency", f"{where}: from the call that enqueues to the handler", "milliseconds", "share of jobs",
        tuple((name, command, "waits") for name, command in shown), log=True,
    )  # fmt: skip


def _costs(store: Store, points: list[tuple[float, Command]], us: str) -> tuple[Curve, ...]:
    ours = (us, "cpu_us", tuple(points))
    return (ours, ("server", "server_us", tuple(points))) if store == "postgres" else (ours,)


def by_size(store: Store, n: Pressure, where: str, sizes: tuple[int, ...]) -> Chart:
    points: list[tuple[float, Command]] = [(1, drain(store, n.drains))]
    points += [(rows, beside(store, n, "finished", rows)) for rows in sizes]
    return Chart(
        f"{store}-cost-by-size", f"{where}: processor time of a drained job", "finished jobs in the store (1: none)",
        "µs a job", curves=_costs(store, points, "worker"), log=True,
    )  # fmt: skip


def by_batch(store: Store, n: Pressure, where: str) -> Chart:
    points: list[tuple[float, Command]] = [(batch, many(store, n, batch)) for batch in BATCHES]
    return Chart(
        f"{store}-cost-by-batch", f"{where}: processor time of an enqueued job", "jobs in a call", "µs a job",
        curves=_costs(store, points, "caller"), log=True,
    )  # fmt: skip


def claims(n: Pressure) -> Chart:
    clean = steady("postgres", n, n.held_seconds)
    return Chart(
        "postgres-held", f"PostgreSQL: time of a claim at {n.rate:,} jobs/s", "seconds", "ms a claim",
        (("nobody holds anything", clean, "claim_ms"), ("beside an open transaction", (*clean, "--held"), "claim_ms")),
    )  # fmt: skip
