"""What is compared with what on PostgreSQL, by which quantity, and what we ask of it."""

from __future__ import annotations

from typing import Final

import msgspec
from plans import PEER_ENV, PEERS, Command, Plan, at_least, at_most, below, bound_plans
from report import Target
from scenario_plans import SERVER, fleet

LIMIT: Final = "bench/limits/postgres_loop.py"
PEER: Final = "bench/postgres_peer.py"

RUNTIME: Final = "The app and its workers"
RIVALS: Final = {"pgqueuer": "PgQueuer", "procrastinate": "Procrastinate", "graphile": "Graphile Worker"}


class PostgresNumbers(msgspec.Struct, frozen=True):
    """How many jobs each part has."""

    drains: int
    bulk: int
    singles: int
    latencies: int
    idle_seconds: int
    rivals: dict[str, int]  # jobs of a drain, in thousands as they are loaded: who takes longer drains fewer


FULL: Final = PostgresNumbers(
    50_000, bulk=100_000, singles=5_000, latencies=200, idle_seconds=10,
    rivals={"pgqueuer": 50_000, "procrastinate": 3_000, "graphile": 50_000},
)  # fmt: skip


def plans(numbers: PostgresNumbers, *, rivals: bool) -> list[Plan]:
    chosen = [*runtime_plans(numbers), *bound_plans(numbers.drains, "--store", "postgres", "--server", SERVER)]
    if rivals:
        for name in RIVALS:
            chosen += rival_plans(numbers, name)
    return chosen


# ------------------------------------------------------------------------------------------------------------ commands


def shared(*words: str) -> Command:
    return (*words, "--server", SERVER)


def ours(part: str, jobs: int, *more: str) -> Command:
    return fleet("postgres", part, "--jobs", jobs, *more)


def bare(part: str, jobs: int, *more: str) -> Command:
    return shared(LIMIT, part, "--jobs", str(jobs), *more)


def theirs(name: str, part: str, jobs: int, *more: str) -> Command:
    return shared(PEER, name, part, "--jobs", str(jobs), *more, "--peers", PEERS, "--peer-env", PEER_ENV)


def idle(seconds: int) -> Command:
    return fleet("postgres", "idle", "--seconds", seconds)


# --------------------------------------------------------------------------------------------------------------- plans


def runtime_plans(n: PostgresNumbers) -> list[Plan]:
    drain, limit = ours("drain", n.drains), bare("claim", n.drains, "--batch", "500")
    two, ten = ours("drain", n.drains, "--processes", "2"), ours("one", n.singles, "--callers", "10")
    single, inline, together = ours("one", n.singles), bare("one", n.singles), bare("one", n.singles, "--callers", "10")
    waking, resting = ours("latency", n.latencies), idle(n.idle_seconds)
    rows: list[tuple[str, Command, Command | None, str, Target | None]] = [
        (f"drain of {n.drains:,} async jobs, 1 process, against the bare loop at 500", drain, limit, "per_second",
         at_least(0.65)),
        ("the same, 2 processes, against 1", two, drain, "per_second", at_least(1.0)),
        ("the same with `history=\"failures\"`, against the bare loop without run rows", lean(n),
         (*limit, "--lean"), "per_second", at_least(0.65)),
        ("bare loop by asyncpg, against psycopg in threads", (*limit, "--client", "asyncpg"), limit, "per_second", None),
        ("server's processor time for a drained job, against the bare loop", drain, limit, "server_us", None),
        ("WAL of a drained job, against the bare loop", drain, limit, "wal_bytes", None),
        ("statements for a drained job, against the bare loop", drain, limit, "statements", None),
        ("worker's processor time, against the bare loop's own", drain, limit, "cpu_us", below(18)),
        ("worker's processor time, 2 processes", two, None, "cpu_us", None),
        ("memory after the drain", drain, None, "rss_mb", None),
        ("`await task.enqueue()`, against one INSERT by psycopg", single, inline, "per_second", at_least(0.9)),
        ("the same, 10 callers, against 1", ten, single, "per_second", None),
        ("the same, 10 callers, against 10 that INSERT by psycopg", ten, together, "per_second", at_least(0.9)),
        ("`task.enqueue_sync()`, against one INSERT by psycopg", (*single, "--blocking"), inline, "per_second", None),
        ("`app.enqueue_many()` of 1,000, against the same INSERT by psycopg",
         ours("many", n.bulk, "--batch", "1000"), bare("bulk", n.bulk, "--batch", "1000"), "per_second", at_least(0.6)),
        ("pick-up by an idle worker process, median", waking, None, "p50_ms", below(1.5)),
        ("the same, 95 of 100", waking, None, "p95_ms", None),
        ("the same, 99 of 100", waking, None, "p99_ms", None),
        ("of which the call that enqueues, median", waking, None, "call_ms", None),
        ("idle worker", resting, None, "cpu_percent", below(0.5)),
        ("memory of an idle worker", resting, None, "rss_mb", below(45)),
    ]  # fmt: skip
    return [Plan(RUNTIME, title, mine, base, target, quantity) for title, mine, base, quantity, target in rows]


def lean(n: PostgresNumbers) -> Command:
    return ours("drain", n.drains, "--kind", "lean")


TARGETS: Final[dict[tuple[str, str], Target]] = {
    ("pgqueuer", "drain"): at_least(1.8),
    ("pgqueuer", "lean"): at_least(2.0),
    ("pgqueuer", "many"): at_least(2.0),
    ("pgqueuer", "p50_ms"): at_most(1.0),
    ("procrastinate", "drain"): at_least(20.0),
    ("graphile", "drain"): at_least(1.0),
}


def rival_plans(n: PostgresNumbers, name: str) -> list[Plan]:
    jobs = n.rivals[name]
    drain, base = ours("drain", n.drains), theirs(name, "drain", jobs)
    two, base_two = ours("drain", n.drains, "--processes", "2"), theirs(name, "drain", jobs, "--processes", "2")
    waking, base_waking = ours("latency", n.latencies), theirs(name, "latency", n.latencies)
    rows: list[tuple[str, Command, Command, str, str]] = [
        ("drain, acked, 1 process", drain, base, "per_second", "drain"),
        ("the same, ours with `history=\"failures\"`", lean(n), base, "per_second", "lean"),
        ("drain, acked, 2 processes", two, base_two, "per_second", ""),
        ("enqueue one, 1 caller", ours("one", n.singles), theirs(name, "one", n.singles), "per_second", ""),
        ("enqueue 1,000 at a time", ours("many", n.bulk, "--batch", "1000"), theirs(name, "many", n.bulk), "per_second",
         "many"),
        ("pick-up by an idle worker process, median", waking, base_waking, "p50_ms", "p50_ms"),
        ("the same, 95 of 100", waking, base_waking, "p95_ms", ""),
        ("the same, 99 of 100", waking, base_waking, "p99_ms", ""),
        ("worker's processor time for a drained job", drain, base, "cpu_us", ""),
        ("server's processor time for a drained job", drain, base, "server_us", ""),
        ("WAL of a drained job", drain, base, "wal_bytes", ""),
        ("memory after the drain", drain, base, "rss_mb", ""),
    ]  # fmt: skip
    section = f"Beside {RIVALS[name]}"
    return [Plan(section, title, mine, other, TARGETS.get((name, aim)), unit) for title, mine, other, unit, aim in rows]
