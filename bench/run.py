"""All measurements in one command: what is compared runs in turn, then medians, ratios, targets.

python bench/run.py [--store sqlite|postgres] [--quick] [--json FILE] [--write] [--peers DIR [--peer-env DIR]] [--dir DIR]
                    [--repeats N]
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw
import msgspec
import notes
import plans as sqlite_plans
import postgres_plans
import psycopg
from notes import Notes
from peer_env import prepare
from peers import PeerFigure, run_peers
from plans import PEER_ENV, PEERS, Command, Plan
from report import QUANTITIES, Comparison, Figure, filesystem_of, report, this_machine
from server import private_server

HERE: Final = Path(__file__).parent
BUSY: Final = 0.15  # the share of the machine that others may use when a sample begins
PATIENCE_S: Final = 5.0
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
LONGEST_S: Final = 600.0

Sample = dict[str, float]  # by quantity: one run of a command measures several
Places = dict[str, str]  # what the words of a command stand for that name directories and servers


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
    words = [places.get(word, word) for word in command]
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
    parser = argparse.ArgumentParser(description="Measure Windlass beside the bare loop and other queues.")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--quick", action="store_true", help="fewer jobs, a tenth of the history: is it all still there?")
    parser.add_argument("--repeats", type=int, help="rounds, at least 3 (default 5; 3 when quick)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--write", action="store_true", help="write the store's page of results beside this file")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="also run other queues, by the peer scripts of DIR")
    parser.add_argument(
        "--peer-env",
        type=Path,
        metavar="DIR",
        help="an environment for Huey, or a directory of one for each queue; kept (default: made, removed)",
    )
    parser.add_argument(
        "--peer-seconds", type=float, default=300.0, help="the most that each script of raw limits may take"
    )
    parser.add_argument("--dir", type=Path, help="a directory on a disk (default: the system's temporary one)")
    return parser.parse_args(argv)


class Run(msgspec.Struct, frozen=True):
    """What one store brings to the table."""

    notes: Notes
    page: str
    software: str
    versions: str  # of the other queues
    plans: Sequence[Plan]
    places: Places
    peers: Callable[[], list[PeerFigure]] = list


@contextmanager
def on_sqlite(options: argparse.Namespace, directory: Path) -> Iterator[Run]:
    places: Places = {}
    versions = ""
    if options.peers is not None:
        environment = (options.peer_env or directory / "huey").resolve()
        places = {PEERS: str(options.peers.resolve()), PEER_ENV: str(environment)}
        versions = prepare(environment, "huey")
    numbers = sqlite_plans.QUICK if options.quick else sqlite_plans.FULL

    def raw_limits() -> list[PeerFigure]:
        if options.peers is None:
            return []
        return run_peers(options.peers.resolve(), directory, seconds=options.peer_seconds, quick=options.quick)

    software = f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}"
    wanted = sqlite_plans.plans(numbers, huey=bool(places))
    yield Run(notes.SQLITE, "RESULTS.md", software, versions, wanted, places, raw_limits)


@contextmanager
def on_postgres(options: argparse.Namespace, directory: Path) -> Iterator[Run]:
    places: Places = {}
    versions = ""
    if options.peers is not None:
        environments = (options.peer_env or directory / "peers").resolve()
        places = {PEERS: str(options.peers.resolve()), PEER_ENV: str(environments)}
        versions = ", ".join(prepare(environments / name, name) for name in postgres_plans.RIVALS)
    numbers = postgres_plans.QUICK if options.quick else postgres_plans.FULL
    wanted = postgres_plans.plans(numbers, rivals=bool(places))
    with private_server(str(directory)) as url, psycopg.connect(url) as connection:
        [(said,)] = connection.execute("show server_version").fetchall()
        software = f"psycopg {psycopg.__version__}, PostgreSQL {said}"
        places[postgres_plans.SERVER] = url
        yield Run(notes.POSTGRES, "RESULTS-postgres.md", software, versions, wanted, places)


STORES: Final = {"sqlite": on_sqlite, "postgres": on_postgres}


def main() -> None:
    options = options_of()
    repeats = max(3, options.repeats or (3 if options.quick else 5))
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.dir) as name:
        directory = Path(name)
        directory.chmod(0o755)  # a server that root starts belongs to somebody else
        if filesystem_of(directory) in IN_MEMORY:
            sys.exit(f"{directory.parent} is in memory, where a commit costs nothing: name a disk with --dir")
        with STORES[options.store](options, directory) as run:
            machine = this_machine(directory, run.software, run.versions)
            comparisons = compare(run.plans, directory, run.places, repeats)
            peers = run.peers()
    text = report(machine, comparisons, peers, repeats=repeats, command=shown(options), notes=run.notes)
    print(text)
    if options.write:
        (HERE / run.page).write_text(text, "utf-8")
    if options.json is not None:
        everything = {"machine": machine, "comparisons": comparisons, "peers": peers}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)) + os.linesep.encode())


def shown(options: argparse.Namespace) -> str:
    """The command, without directories of this machine."""
    words = ["python bench/run.py"]
    if options.store != "sqlite":
        words.append(f"--store {options.store}")
    if options.quick:
        words.append("--quick")
    if options.peers is not None:
        words.append(f"--peers {PEERS}")
    return " ".join(words)


if __name__ == "__main__":
    main()
