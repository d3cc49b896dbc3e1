"""What every measurement of fleet.py shares: its options, and jobs that leave a mark when they begin."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
from bench_tasks import stamp
from beside import Beside
from grounds import Measured, Store
from processes import cdf, percentiles, wait_until
from workers import BREATH_S, PATIENCE_S, Kind, Running

Part = Literal["drain", "one", "many", "latency", "idle", "urgent", "steady"]

LONGEST_S: Final = 900.0
WARM_UPS: Final = 3  # jobs
MARK: Final = 16  # bytes


class Options(msgspec.Struct, frozen=True, kw_only=True):
    part: Part
    jobs: int
    kind: Kind
    processes: int
    beside: Beside
    rows: int
    callers: int
    blocking: bool
    batch: int
    seconds: float
    rate: int
    held: bool
    dashboard: bool
    keep: str | None  # how long workers keep what has succeeded; None = as by default
    store: Store
    server: str | None
    parent: str | None  # the directory in which files are made; None = the system's


def rate(jobs: int, seconds: float) -> Measured:
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Windlass through its public face: an app, tasks and worker processes.")
    parser.add_argument("part", choices=get_args(Part))
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument(
        "--kind", choices=get_args(Kind), default="async",
        help="of the handlers (drain); burn: each costs 50 µs of processor time; retry: each fails the first time",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, default=1, help="worker processes (drain)")
    parser.add_argument("--beside", choices=get_args(Beside), default="nothing", help="what else is in the store (drain)")
    parser.add_argument("--rows", type=int, default=0, help="how many of that, or of what urgent jobs overtake")
    parser.add_argument("--callers", type=int, default=1, help="callers at once, in one event loop (one)")
    parser.add_argument("--blocking", action="store_true", help="the caller has no event loop (one)")
    parser.add_argument("--batch", type=int, default=1_000, help="jobs in a call (many)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long (idle, steady)")
    parser.add_argument("--rate", type=int, default=2_000, help="jobs a second that are enqueued (steady)")
    parser.add_argument("--held", action="store_true", help="beside an open transaction of another session (steady)")
    parser.add_argument("--dashboard", action="store_true", help="beside somebody who looks at the dashboard (steady)")
    parser.add_argument("--keep", metavar="DURATION", help="how long finished jobs are kept: 60s (steady)")
    parser.add_argument("--store", choices=get_args(Store), default="sqlite")
    parser.add_argument("--server", metavar="URL", help="of a PostgreSQL to use (default: one is started)")
    parser.add_argument("--dir", dest="parent", help="where files are made, and removed again")
    return parser


def options_of(argv: list[str] | None = None) -> Options:
    options = msgspec.convert(vars(parser().parse_args(argv)), Options)
    if options.held and options.store != "postgres":
        raise SystemExit("--held: a reader holds nothing up on SQLite; name --store postgres")
    if options.beside != "nothing" and options.kind != "async":
        raise SystemExit("--beside goes with async handlers, which are those of what is beside")
    if options.keep is not None and options.part != "steady":
        raise SystemExit("--keep goes with steady: everything else is over before something is removed")
    if options.beside in ("queues", "parked") and not options.rows:
        raise SystemExit(f"--beside {options.beside}: say how many with --rows")
    return options


# ---------------------------------------------------------------------------------------------------------------- marks


def wait_for_marks(marks: Path, jobs: int, running: Running, seconds: float = PATIENCE_S) -> None:
    """By the size of the file: reading it again and again would take time from what is measured."""

    def marked() -> int:
        running.check()
        return marks.stat().st_size // MARK if marks.exists() else 0

    wait_until(lambda: marked() >= jobs, seconds, lambda: running.words(f"{marked()} of {jobs} jobs were picked up"))


def waits(taken: list[float]) -> Measured:
    return {"jobs": len(taken), **percentiles(taken), "series": {"waits": cdf(taken)}}


def warm_up(marks: Path, running: Running) -> None:
    for _ in range(WARM_UPS):
        stamp.enqueue_sync(time.monotonic())
    wait_for_marks(marks, WARM_UPS, running)
    time.sleep(BREATH_S)
