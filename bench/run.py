"""All measurements in one command: what is compared runs in turn, then medians, ratios, targets.

python bench/run.py [--quick] [--json FILE] [--write] [--peers DIR [--peer-env DIR]] [--dir DIR] [--repeats N]
"""

from __future__ import annotations

import argparse
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
from peer_env import prepare
from peers import run_peers
from plans import FULL, PEER_ENV, PEERS, QUICK, Command, Plan, plans
from report import QUANTITIES, Comparison, Figure, filesystem_of, report, this_machine

HERE: Final = Path(__file__).parent
BUSY: Final = 0.15  # the share of the machine that others may use when a sample begins
PATIENCE_S: Final = 5.0
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
LONGEST_S: Final = 600.0

Sample = dict[str, float]  # by quantity: one run of a command measures several
Places = dict[str, Path]  # what the words of a command that name directories stand for


class Samples(msgspec.Struct, frozen=True):
    """Of one command, one for each round."""

    command: str
    taken: list[Sample]
    disturbed: list[bool]  # whether it began while other work kept the machine busy

    def figure(self, quantity: str) -> Figure:
        return Figure(self.command, tuple(one[quantity] for one in self.taken), sum(self.disturbed))


def measure(wanted: Sequence[Command], directory: Path, places: Places, repeats: int) -> dict[Command, Samples]:
    """Round after round over all commands, so that what is compared runs next to each other in time."""
    seen = {command: Samples(f"python {shlex.join(command)}", [], []) for command in wanted}
    for turn in range(repeats):
        for command, samples in seen.items():
            busy = quiet()
            samples.disturbed.append(busy > BUSY)
            samples.taken.append(sample(command, directory, places))
            told = "  ".join(f"{name} {value:,.6g}" for name, value in samples.taken[-1].items() if name in QUANTITIES)
            print(f"round {turn + 1}/{repeats}  others {busy:4.0%}  {shlex.join(command)}\n    {told}", file=sys.stderr)
    return seen


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


def sample(command: Command, directory: Path, places: Places) -> Sample:
    words = [str(places.get(word, word)) for word in command]
    defaults = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    done = subprocess.run(
        [sys.executable, *words, "--dir", str(directory)],
        cwd=HERE.parent, env=defaults, stdout=subprocess.PIPE, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"stopped, because this failed: python {shlex.join(words)}")
    return msgspec.json.decode(done.stdout, type=Sample)


def compare(wanted: Sequence[Plan], directory: Path, places: Places, repeats: int) -> list[Comparison]:
    seen = measure(in_turn(wanted), directory, places, repeats)
    return [
        Comparison(
            plan.section, plan.title, plan.quantity, seen[plan.ours].figure(plan.quantity),
            None if plan.base is None else seen[plan.base].figure(plan.quantity), plan.target,
        )
        for plan in wanted
    ]  # fmt: skip


def in_turn(wanted: Sequence[Plan]) -> list[Command]:
    """Every command once; what is compared, directly or by way of a third, stays together whatever section it is of."""
    order: dict[Command, None] = {}

    def visit(command: Command | None) -> None:
        if command is not None and command not in order:
            order[command] = None
            for plan in wanted:
                if command in (plan.base, plan.ours):
                    visit(plan.base)
                    visit(plan.ours)

    for plan in wanted:
        visit(plan.base or plan.ours)
    return list(order)


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Windlass on SQLite beside the bare loop and Huey.")
    parser.add_argument("--quick", action="store_true", help="fewer jobs, a tenth of the history: is it all still there?")
    parser.add_argument("--repeats", type=int, help="rounds, at least 3 (default 5; 3 when quick)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--write", action="store_true", help="write bench/RESULTS.md")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="also run peer_huey.py, raw_sqlite.py, ideal_sqlite.py of DIR"
    )
    parser.add_argument(
        "--peer-env", type=Path, metavar="DIR", help="an environment for Huey, kept (default: made, removed)"
    )
    parser.add_argument("--peer-seconds", type=float, default=300.0, help="the most that each of the last two may take")
    parser.add_argument("--dir", type=Path, help="a directory on a disk (default: the system's temporary one)")
    return parser.parse_args(argv)


def main() -> None:
    options = options_of()
    repeats = max(3, options.repeats or (3 if options.quick else 5))
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.dir) as name:
        directory = Path(name)
        if filesystem_of(directory) in IN_MEMORY:
            sys.exit(f"{directory.parent} is in memory, where a commit costs nothing: name a disk with --dir")
        peers, places, versions = [], {}, ""
        if options.peers is not None:
            places = {PEERS: options.peers.resolve(), PEER_ENV: (options.peer_env or directory / "huey").resolve()}
            versions = prepare(places[PEER_ENV])
        machine = this_machine(directory, versions)
        wanted = plans(QUICK if options.quick else FULL, huey=bool(places))
        comparisons = compare(wanted, directory, places, repeats)
        if options.peers is not None:
            peers = run_peers(options.peers.resolve(), directory, seconds=options.peer_seconds, quick=options.quick)
    command = " ".join(
        ["python bench/run.py", *(["--quick"] if options.quick else []), *([f"--peers {PEERS}"] if places else [])]
    )
    text = report(machine, comparisons, peers, repeats=repeats, command=command)
    print(text)
    if options.write:
        (HERE / "RESULTS.md").write_text(text, "utf-8")
    if options.json is not None:
        everything = {"machine": machine, "comparisons": comparisons, "peers": peers}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)) + os.linesep.encode())


if __name__ == "__main__":
    main()
