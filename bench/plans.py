"""What is compared with what, by which quantity, and what we ask of it."""

from __future__ import annotations

from typing import Final

import msgspec
from report import Target

LIMIT: Final = "bench/limits/sqlite_loop.py"
DRIVER: Final = "bench/store.py"
FLEET: Final = "bench/fleet.py"
BOUNDS: Final = "bench/bounds.py"
HUEY: Final = "bench/huey_fleet.py"
PEERS: Final = "PEERS"  # these two words stand for directories, and are replaced when a command is run
PEER_ENV: Final = "PEER_ENV"

SWEEP_S: Final = 10  # in which each periodic part of an idle worker has had its turn

STORE: Final = "The store"
RUNTIME: Final = "The app and its workers"
BESIDE_HUEY: Final = "Beside Huey"

Command = tuple[str, ...]  # the script and its arguments


class Plan(msgspec.Struct, frozen=True):
    section: str
    title: str
    ours: Command
    base: Command | None = None
    target: Target | None = None
    quantity: str = "per_second"


class Numbers(msgspec.Struct, frozen=True):
    """How many jobs each part has."""

    drains: dict[int, int]  # by batch
    bulk: int
    singles: int
    history: int
    asynchronous: int
    blocking: int
    huey: int
    latencies: int = 200
    idle_seconds: int = 10
    bounds: int = 50_000


FULL: Final = Numbers(
    {10: 20_000, 100: 50_000, 500: 100_000}, bulk=100_000, singles=5_000, history=1_000_000, asynchronous=50_000,
    blocking=50_000, huey=10_000,
)  # fmt: skip


def plans(numbers: Numbers, *, huey: bool) -> list[Plan]:
    chosen = [*store_plans(numbers), *runtime_plans(numbers)]
    return [*chosen, *huey_plans(numbers)] if huey else chosen


def at_least(ratio: float) -> Target:
    return Target(ratio)


at_most = at_least  # which of them it is follows from the quantity; the name is for the reader


def below(figure: float) -> Target:
    return Target(figure, absolute=True)


def with_history(numbers: Numbers) -> Target | None:
    """With less than a million it says nothing."""
    return at_least(0.90) if numbers.history >= 1_000_000 else None


# ------------------------------------------------------------------------------------------------------------ commands


def loop(script: str, numbers: Numbers, batch: int, *more: str) -> Command:
    return (script, "claim", "--batch", str(batch), "--jobs", str(numbers.drains[batch]), *more)


def bare(jobs: int) -> Command:
    return (LIMIT, "claim", "--batch", "500", "--jobs", str(jobs))


def bulk(script: str, numbers: Numbers, *more: str) -> Command:
    return (script, "bulk", "--batch", "1000", "--jobs", str(numbers.bulk), *more)


def one(script: str, numbers: Numbers, *more: str) -> Command:
    return (script, "one", "--jobs", str(numbers.singles), *more)


def drain(jobs: int, *more: str) -> Command:
    return (FLEET, "drain", "--jobs", str(jobs), *more)


def latency(script: str, numbers: Numbers) -> Command:
    return (script, "latency", "--jobs", str(numbers.latencies), *outside(script))


def idle(script: str, numbers: Numbers) -> Command:
    return (script, "idle", "--seconds", str(numbers.idle_seconds), *outside(script))


def outside(script: str) -> Command:
    return ("--peers", PEERS, "--peer-env", PEER_ENV) if script == HUEY else ()


# --------------------------------------------------------------------------------------------------------------- plans


def store_plans(n: Numbers) -> list[Plan]:
    full, ten, blocking = ("--history", str(n.history)), ("--callers", "10"), ("--blocking",)
    rows: list[tuple[str, Command, Command, Target | None]] = [
        ("claim + settle, batch 10", loop(DRIVER, n, 10), loop(LIMIT, n, 10), None),
        ("claim + settle, batch 100", loop(DRIVER, n, 100), loop(LIMIT, n, 100), None),
        ("claim + settle, batch 500", loop(DRIVER, n, 500), loop(LIMIT, n, 500), at_least(0.80)),
        (f"the same with {n.history:,} finished jobs in the file, against without",
         loop(DRIVER, n, 500, *full), loop(DRIVER, n, 500), with_history(n)),
        ("bare loop with that history, against without", loop(LIMIT, n, 500, *full), loop(LIMIT, n, 500), None),
        ("enqueue 1,000 at a time, against `executemany`", bulk(DRIVER, n), bulk(LIMIT, n), at_least(0.40)),
        ("the same, against 20 rows in an INSERT", bulk(DRIVER, n), bulk(LIMIT, n, "--width", "20"), None),
        ("enqueue one, against inline INSERT + COMMIT", one(DRIVER, n), one(LIMIT, n), at_least(0.65)),
        ("enqueue one, 10 callers, against inline", one(DRIVER, n, *ten), one(LIMIT, n), None),
        ("enqueue one, 10 callers, against 1 caller", one(DRIVER, n, *ten), one(DRIVER, n), at_least(3.0)),
        ("blocking enqueue of one, against inline", one(DRIVER, n, *blocking), one(LIMIT, n), None),
        ("the same, 10 threads, against 1", one(DRIVER, n, *ten, *blocking), one(DRIVER, n, *blocking), None),
    ]  # fmt: skip
    return [*(Plan(STORE, title, ours, base, target) for title, ours, base, target in rows), *bound_plans(n.bounds)]


def bound_plans(jobs: int, *more: str) -> list[Plan]:
    """Each against the same loop without what it measures."""

    def bounds(part: str, count: int, *words: str) -> Command:
        return (BOUNDS, part, "--batch", "500", "--jobs", str(count), *words, *more)

    plain, few = bounds("plain", jobs), jobs // 20
    rows: list[tuple[str, Command, Command, Target]] = [
        ("claim + settle at 500 with 100 limits and 1,000 keys, against none",
         bounds("limits", jobs), plain, at_least(0.50)),
        ("10 keys of limit 2 under 10,000 waiting jobs, against 100",
         bounds("waiting", few, "--backlog", "10000"), bounds("waiting", few, "--backlog", "100"), at_least(0.95)),
        ("turns of 1,000 orgs, against none", bounds("fair", jobs), plain, at_least(0.50)),
    ]  # fmt: skip
    return [Plan(STORE, title, ours, base, target) for title, ours, base, target in rows]


def runtime_plans(n: Numbers) -> list[Plan]:
    quick, slow = drain(n.asynchronous), drain(n.blocking, "--kind", "sync")
    two, ten = ("--processes", "2"), ("--callers", "10")
    rows: list[tuple[str, Command, Command, Target | None]] = [
        (f"drain of {n.asynchronous:,} async jobs, 1 process, against the bare loop at 500",
         quick, bare(n.asynchronous), at_least(0.55)),
        ("the same, 2 processes, against 1", (*quick, *two), quick, at_least(1.0)),
        ("async, 1 process, by an app that has a blocking task too, against one that has none",
         (*quick, "--kind", "mixed"), quick, None),
        (f"drain of {n.blocking:,} blocking jobs (threads), 1 process, against the bare loop at 500",
         slow, bare(n.blocking), None),
        ("the same, 2 processes, against 1", (*slow, *two), slow, None),
        (f"async, 1 process, with {n.history:,} finished jobs in the file, against without",
         (*quick, "--beside", "finished", "--rows", str(n.history)), quick, with_history(n)),
        ("`await task.enqueue()`, against inline INSERT + COMMIT", one(FLEET, n), one(LIMIT, n), at_least(0.65)),
        ("the same, 10 callers, against 1", one(FLEET, n, *ten), one(FLEET, n), at_least(3.0)),
        ("`task.enqueue_sync()`, against inline", one(FLEET, n, "--blocking"), one(LIMIT, n), None),
        ("`app.enqueue_many()` of 1,000, against `executemany`",
         (FLEET, "many", "--batch", "1000", "--jobs", str(n.bulk)), bulk(LIMIT, n), None),
    ]  # fmt: skip
    alone: list[tuple[str, Command, str, Target | None]] = [
        ("worker's processor time, async", quick, "cpu_us", None),
        ("worker's processor time, blocking", slow, "cpu_us", None),
        ("pick-up by an idle worker process, median", latency(FLEET, n), "p50_ms", below(2)),
        ("the same, 99 of 100", latency(FLEET, n), "p99_ms", None),
        ("idle worker", idle(FLEET, n), "cpu_percent", below(0.5) if n.idle_seconds >= SWEEP_S else None),
        ("memory of an idle worker", idle(FLEET, n), "rss_mb", below(45)),
        ("memory after the async drain", quick, "rss_mb", None),
    ]
    return [
        *(Plan(RUNTIME, title, ours, base, target) for title, ours, base, target in rows),
        *(Plan(RUNTIME, title, ours, None, target, quantity) for title, ours, quantity, target in alone),
    ]


def huey_plans(n: Numbers) -> list[Plan]:
    """Huey drains fewer jobs, because it takes longer; rates are compared."""
    ours, theirs = drain(n.asynchronous), (HUEY, "drain", "--jobs", str(n.huey), *outside(HUEY))
    slow = drain(n.blocking, "--kind", "sync")
    waking, resting = (latency(FLEET, n), latency(HUEY, n)), (idle(FLEET, n), idle(HUEY, n))
    rows: list[tuple[str, Command, Command, str, Target | None]] = [
        ("drain, async, 1 process", ours, theirs, "per_second", at_least(12.0)),
        ("drain, blocking (8 threads; Huey has 4), 1 process", slow, theirs, "per_second", None),
        ("worker's processor time, async", ours, theirs, "cpu_us", None),
        ("worker's processor time, blocking", slow, theirs, "cpu_us", None),
        ("enqueue one, blocking", one(FLEET, n, "--blocking"), (*one(HUEY, n), *outside(HUEY)), "per_second", None),
        ("pick-up by an idle worker process, median", *waking, "p50_ms", at_most(0.25)),
        ("the same, 99 of 100", *waking, "p99_ms", None),
        ("idle worker", *resting, "cpu_percent", None),
        ("memory of an idle worker", *resting, "rss_mb", None),
        ("memory after the drain", ours, theirs, "rss_mb", None),
    ]
    return [Plan(BESIDE_HUEY, title, mine, base, target, quantity) for title, mine, base, quantity, target in rows]
