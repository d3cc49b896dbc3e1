"""All measurements in one command: what is compared runs in turn, then medians, ratios, targets.

python bench/run.py [--store sqlite|postgres] [--short] [--scale F] [--only TEXT] [--repeats N]
                    [--held-minutes M] [--dir DIR]
                    [--json FILE] [--charts DIR] [--write] [--peers DIR [--peer-env DIR]]
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
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec
import notes
import plans as sqlite_plans
import postgres_plans
import psycopg
import scenario_plans
from charts import Line, chart
from grounds import Store
from notes import Notes
from peer_env import prepare
from peers import PeerFigure, run_peers
from plans import PEER_ENV, PEERS, Command, Plan
from report import QUANTITIES, Comparison, Figure, Picture, filesystem_of, report, this_machine
from scaling import scaled
from scenario_plans import SERVER, Chart
from server import private_server

HERE: Final = Path(__file__).parent
BUSY: Final = 0.15  # the share of the machine that others may use when a sample begins
PATIENCE_S: Final = 5.0
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
LONGEST_S: Final = 3_600.0

SHORT_SCALE: Final = 0.2
LEAST_ROUNDS: Final = 3
Series = dict[str, list[tuple[float, float]]]
Places = dict[str, str]  # what the words of a command stand for that name directories and servers


class Sample(msgspec.Struct, frozen=True):
    """What one run of a command has measured."""

    figures: dict[str, float]  # by quantity: one run measures several
    series: Series  # what pictures are made of


class Samples(msgspec.Struct, frozen=True):
    """Of one command, one for each round."""

    command: str
    taken: list[Sample]
    disturbed: list[bool]  # whether it began while other work kept the machine busy

    def has(self, quantity: str) -> bool:
        return all(quantity in one.figures for one in self.taken)

    def figure(self, quantity: str) -> Figure:
        return Figure(self.command, tuple(one.figures[quantity] for one in self.taken), sum(self.disturbed))


def measure(wanted: Sequence[Command], directory: Path, places: Places, repeats: int) -> dict[Command, Samples]:
    """Round after round over all commands, so that what is compared runs next to each other in time."""
    seen = {command: Samples(f"python {shlex.join(command)}", [], []) for command in wanted}
    for turn in range(repeats):
        for command, samples in seen.items():
            busy = quiet()
            samples.disturbed.append(busy > BUSY)
            samples.taken.append(sample(command, directory, places))
            told = "  ".join(
                f"{name} {value:,.6g}" for name, value in samples.taken[-1].figures.items() if name in QUANTITIES
            )
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
    said = msgspec.json.decode(done.stdout)
    return Sample(series=said.pop("series", {}), figures=msgspec.convert(said, dict[str, float]))


def compare(wanted: Sequence[Plan], seen: dict[Command, Samples]) -> list[Comparison]:
    """What a store does not tell (statements, where its server counts none) is left out."""
    told = [plan for plan in wanted if all(seen[one].has(plan.quantity) for one in (plan.ours, plan.base) if one)]
    return [
        Comparison(
            plan.section, plan.title, plan.quantity, seen[plan.ours].figure(plan.quantity),
            None if plan.base is None else seen[plan.base].figure(plan.quantity), plan.target,
        )
        for plan in told
    ]  # fmt: skip


def drawn(wanted: Sequence[Chart], seen: dict[Command, Samples], folder: str) -> list[Picture]:
    """Those for which everything was measured."""
    pictures = []
    for one in wanted:
        if all(command in seen for command in one.commands()):
            lines = lines_of(one, seen)
            if any(line.points for line in lines):
                svg = chart(one.title, one.x, one.y, lines, log=one.log)
                pictures.append(Picture(one.title, f"{folder}/{one.file}.svg", svg))
    return pictures


def lines_of(wanted: Chart, seen: dict[Command, Samples]) -> list[Line]:
    by_time = [Line(name, seen[command].taken[-1].series.get(what, [])) for name, command, what in wanted.series]
    by_x = [
        Line(name, [(x, seen[command].figure(quantity).median) for x, command in points if seen[command].has(quantity)])
        for name, quantity, points in wanted.curves
    ]
    return [*by_time, *by_x]


def in_turn(wanted: Sequence[Plan], charts: Sequence[Chart] = ()) -> list[Command]:
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
    return list(dict.fromkeys([*order, *(command for one in charts for command in one.commands())]))


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Windlass beside the bare loop and other queues.")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--short", action="store_true", help="a look at what matters, at a fifth of the size: 3 minutes")
    parser.add_argument("--scale", type=float, help="of all numbers of jobs, rows and seconds (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="what has it in the name of its section or in its title")
    parser.add_argument("--without", default="", metavar="TEXT", help="but what has this in them: --without pressure")
    parser.add_argument("--held-minutes", type=float, help="of an open transaction beside the stream (default 10, scaled)")
    parser.add_argument("--repeats", type=int, help="rounds, at least 3 (default 5; 3 when short)")
    parser.add_argument("--charts", type=Path, metavar="DIR", help="write pictures there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--write", action="store_true", help="write the store's page of results, with pictures")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="also run other queues, by the peer scripts of DIR")
    parser.add_argument(
        "--peer-env",
        type=Path,
        metavar="DIR",
        help="a directory with an environment for each queue, as peer_env.py makes it; kept (default: made, removed)",
    )
    parser.add_argument(
        "--peer-seconds", type=float, default=300.0, help="the most that each script of raw limits may take"
    )
    parser.add_argument("--dir", type=Path, help="a directory on a disk (default: the system's temporary one)")
    options = parser.parse_args(argv)
    options.scale = options.scale or (SHORT_SCALE if options.short else 1.0)
    return options


class Run(msgspec.Struct, frozen=True):
    """What one store brings to the table."""

    notes: Notes
    page: str
    software: str
    versions: str  # of the other queues
    plans: Sequence[Plan]
    charts: Sequence[Chart]
    places: Places
    peers: Callable[[], list[PeerFigure]] = list


@contextmanager
def on_sqlite(options: argparse.Namespace, directory: Path) -> Iterator[Run]:
    places: Places = {}
    versions = ""
    if options.peers is not None:
        environment = ((options.peer_env or directory / "peers") / "huey").resolve()
        places = {PEERS: str(options.peers.resolve()), PEER_ENV: str(environment)}
        versions = prepare(environment, "huey")

    def raw_limits() -> list[PeerFigure]:
        if options.peers is None:
            return []
        return run_peers(options.peers.resolve(), directory, seconds=options.peer_seconds, quick=options.scale < 1)

    software = f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}"
    every = sqlite_plans.plans(scaled(sqlite_plans.FULL, options.scale), huey=bool(places))
    yield Run(notes.SQLITE, "RESULTS.md", software, versions, *asked("sqlite", every, options), places, raw_limits)


@contextmanager
def on_postgres(options: argparse.Namespace, directory: Path) -> Iterator[Run]:
    places: Places = {}
    versions = ""
    if options.peers is not None:
        environments = (options.peer_env or directory / "peers").resolve()
        places = {PEERS: str(options.peers.resolve()), PEER_ENV: str(environments)}
        versions = ", ".join(prepare(environments / name, name) for name in postgres_plans.RIVALS)
    every = postgres_plans.plans(scaled(postgres_plans.FULL, options.scale), rivals=bool(places))
    with private_server(str(directory)) as url, psycopg.connect(url) as connection:
        [(said,)] = connection.execute("show server_version").fetchall()
        software = f"psycopg {psycopg.__version__}, PostgreSQL {said}"
        places[SERVER] = url
        yield Run(notes.POSTGRES, "RESULTS-postgres.md", software, versions, *asked("postgres", every, options), places)


def asked(store: Store, every: list[Plan], options: argparse.Namespace) -> tuple[list[Plan], list[Chart]]:
    """Comparisons and pictures. Of `--only` a part, there are the pictures that come of what is measured anyway."""
    numbers = scaled(scenario_plans.FULL, options.scale)
    if options.held_minutes:
        numbers = msgspec.structs.replace(numbers, held_seconds=round(options.held_minutes * 60))
    charts = scenario_plans.chart_plans(store, numbers, short=options.short)
    wanted = scenario_plans.short_plans(store, numbers) if options.short else [
        *every, *scenario_plans.pressure_plans(store, numbers)
    ]  # fmt: skip
    if not options.only and not options.without:
        return wanted, charts
    chosen = [plan for plan in wanted if is_chosen(f"{plan.section} {plan.title}".lower(), options)]
    if not chosen:
        raise SystemExit("nothing is called so: " + ", ".join(dict.fromkeys(plan.section for plan in wanted)))
    measured = set(in_turn(chosen))
    return chosen, [one for one in charts if measured.issuperset(one.commands())]


def is_chosen(name: str, options: argparse.Namespace) -> bool:
    return options.only.lower() in name and not (options.without and options.without.lower() in name)


STORES: Final = {"sqlite": on_sqlite, "postgres": on_postgres}


@contextmanager
def open_directory(parent: Path | None) -> Iterator[Path]:
    """On a disk, and open to the user that a server runs as when root starts it."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=parent) as name:
        directory = Path(name)
        directory.chmod(0o755)
        if filesystem_of(directory) in IN_MEMORY:
            sys.exit(f"{directory.parent} is in memory, where a commit costs nothing: name a disk with --dir")
        yield directory


def main() -> None:
    options = options_of()
    repeats = max(LEAST_ROUNDS, options.repeats or (LEAST_ROUNDS if options.short else 5))
    with open_directory(options.dir) as directory, STORES[options.store](options, directory) as run:
        machine = this_machine(directory, run.software, run.versions)
        seen = measure(in_turn(run.plans, run.charts), directory, run.places, repeats)
        comparisons = compare(run.plans, seen)
        peers = run.peers()
    pictures = drawn(run.charts, seen, "charts")
    page = partial(
        report, machine, comparisons, peers, repeats=repeats, command=shown(options), notes=run.notes, scale=options.scale
    )
    print(page())
    if options.write:
        write_pictures(pictures, HERE / "charts")
        (HERE / run.page).write_text(page(pictures=pictures), "utf-8")
    if options.charts is not None:
        write_pictures(pictures, options.charts)
    if options.json is not None:
        everything = {
            "machine": machine, "scale": options.scale, "comparisons": comparisons, "commands": list(seen.values()),
            "peers": peers,
        }  # fmt: skip
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)) + os.linesep.encode())


def write_pictures(pictures: Sequence[Picture], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for one in pictures:
        (directory / Path(one.address).name).write_text(one.svg, "utf-8")
    print(f"{len(pictures)} pictures in {directory}", file=sys.stderr)


def shown(options: argparse.Namespace) -> str:
    """The command, without directories of this machine."""
    words = ["python bench/run.py"]
    if options.store != "sqlite":
        words.append(f"--store {options.store}")
    if options.short:
        words.append("--short")
    if options.scale != (SHORT_SCALE if options.short else 1.0):
        words.append(f"--scale {options.scale:g}")
    if options.held_minutes:
        words.append(f"--held-minutes {options.held_minutes:g}")
    if options.only:
        words.append(f"--only {shlex.quote(options.only)}")
    if options.without:
        words.append(f"--without {shlex.quote(options.without)}")
    if options.peers is not None:
        words.append(f"--peers {PEERS}")
    return " ".join(words)


if __name__ == "__main__":
    main()
