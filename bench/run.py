"""All measurements in one command: limit and driver in turn, medians, ratios, targets.

python bench/run.py [--quick] [--json FILE] [--write] [--peers DIR] [--dir DIR] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from peers import run_peers
from report import Comparison, Figure, filesystem_of, report, this_machine

HERE: Final = Path(__file__).parent
LIMIT: Final = "bench/limits/sqlite_loop.py"
DRIVER: Final = "bench/store.py"
BUSY: Final = 0.15  # the share of the machine that others may use when a sample begins
PATIENCE_S: Final = 5.0
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
LONGEST_S: Final = 600.0

Command = tuple[str, ...]  # the script and its arguments


class Plan(msgspec.Struct, frozen=True):
    """What is compared with what, and the least ratio that we ask for."""

    title: str
    ours: Command
    base: Command
    target: float | None = None


def plans(*, quick: bool) -> list[Plan]:
    drains = {10: 5_000, 100: 15_000, 500: 25_000} if quick else {10: 20_000, 100: 50_000, 500: 100_000}
    inserts, singles = ("20000", "1000") if quick else ("100000", "5000")
    history = 100_000 if quick else 1_000_000

    def drain(script: str, batch: int, *more: str) -> Command:
        return (script, "claim", "--batch", str(batch), "--jobs", str(drains[batch]), *more)

    def bulk(script: str, *more: str) -> Command:
        return (script, "bulk", "--batch", "1000", "--jobs", inserts, *more)

    def one(script: str, *more: str) -> Command:
        return (script, "one", "--jobs", singles, *more)

    full, blocking = ("--history", str(history)), ("--blocking",)
    return [
        Plan("claim + settle, batch 10", drain(DRIVER, 10), drain(LIMIT, 10)),
        Plan("claim + settle, batch 100", drain(DRIVER, 100), drain(LIMIT, 100)),
        Plan("claim + settle, batch 500", drain(DRIVER, 500), drain(LIMIT, 500), 0.80),
        Plan(f"the same with {history:,} finished jobs in the file, against without",
             drain(DRIVER, 500, *full), drain(DRIVER, 500), None if quick else 0.90),
        Plan("bare loop with that history, against without", drain(LIMIT, 500, *full), drain(LIMIT, 500)),
        Plan("enqueue 1,000 at a time, against `executemany`", bulk(DRIVER), bulk(LIMIT), 0.40),
        Plan("the same, against 20 rows in an INSERT", bulk(DRIVER), bulk(LIMIT, "--width", "20")),
        Plan("enqueue one, against inline INSERT + COMMIT", one(DRIVER), one(LIMIT), 0.65),
        Plan("enqueue one, 10 callers, against inline", one(DRIVER, "--callers", "10"), one(LIMIT)),
        Plan("enqueue one, 10 callers, against 1 caller", one(DRIVER, "--callers", "10"), one(DRIVER), 3.0),
        Plan("blocking enqueue of one, against inline", one(DRIVER, *blocking), one(LIMIT)),
        Plan("the same, 10 threads, against 1", one(DRIVER, "--callers", "10", *blocking), one(DRIVER, *blocking)),
    ]  # fmt: skip


def measure(wanted: Sequence[Command], directory: Path, repeats: int) -> dict[Command, Figure]:
    """Round after round over all commands, so that what is compared runs next to each other in time."""
    samples: dict[Command, list[float]] = {command: [] for command in wanted}
    disturbed: dict[Command, int] = dict.fromkeys(wanted, 0)
    for turn in range(repeats):
        for command, seen in samples.items():
            busy = quiet()
            disturbed[command] += busy > BUSY
            seen.append(per_second(command, directory))
            told = f"{seen[-1]:>10,.0f}/s  others {busy:4.0%}  {shlex.join(command)}"
            print(f"round {turn + 1}/{repeats}  {told}", file=sys.stderr)
    return {
        command: Figure(f"python {shlex.join(command)}", tuple(seen), disturbed[command])
        for command, seen in samples.items()
    }


def quiet() -> float:
    """Wait a little for other work on this machine to end; answer the share of it that is still busy."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        total, idle = processor_time()
        time.sleep(0.25)
        later, later_idle = processor_time()
        busy = 1 - (later_idle - idle) / max(1, later - total)
        if busy <= BUSY or time.monotonic() > deadline:
            return busy


def processor_time() -> tuple[int, int]:
    """Ticks of all cores since boot: all of them, and those spent idle or waiting for a disk."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    ticks = [int(field) for field in stat.read_text().splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def per_second(command: Command, directory: Path) -> float:
    done = subprocess.run(
        [sys.executable, *command, "--dir", str(directory)],
        cwd=HERE.parent, check=True, stdout=subprocess.PIPE, timeout=LONGEST_S,
    )  # fmt: skip
    said = json.loads(done.stdout)
    return float(said["jobs"] / said["seconds"])


def compare(wanted: Sequence[Plan], directory: Path, repeats: int) -> list[Comparison]:
    commands = list(dict.fromkeys(command for plan in wanted for command in (plan.base, plan.ours)))
    figures = measure(commands, directory, repeats)
    return [Comparison(plan.title, figures[plan.ours], figures[plan.base], plan.target) for plan in wanted]


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the SQLite driver against the bare loop.")
    parser.add_argument("--quick", action="store_true", help="fewer jobs, a tenth of the history: is it all still there?")
    parser.add_argument("--repeats", type=int, help="rounds, at least 3 (default 5; 3 when quick)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="also run raw_sqlite.py and ideal_sqlite.py of DIR")
    parser.add_argument("--peer-seconds", type=float, default=300.0, help="the most that each of them may take")
    parser.add_argument("--dir", type=Path, help="a directory on a disk (default: the system's temporary one)")
    return parser.parse_args(argv)


def main() -> None:
    options = options_of()
    repeats = max(3, options.repeats or (3 if options.quick else 5))
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.dir) as name:
        directory = Path(name)
        if filesystem_of(directory) in IN_MEMORY:
            sys.exit(f"{directory.parent} is in memory, where a commit costs nothing: name a disk with --dir")
        machine = this_machine(directory)
        comparisons = compare(plans(quick=options.quick), directory, repeats)
        peers = []
        if options.peers is not None:
            peers = run_peers(options.peers.resolve(), directory, seconds=options.peer_seconds, quick=options.quick)
    command = "python bench/run.py --quick" if options.quick else "python bench/run.py"
    text = report(machine, comparisons, peers, repeats=repeats, command=command)
    print(text)
    if options.write:
        (HERE / "RESULTS.md").write_text(text, "utf-8")
    if options.json is not None:
        everything = {"machine": machine, "comparisons": comparisons, "peers": peers}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)) + os.linesep.encode())


if __name__ == "__main__":
    main()
