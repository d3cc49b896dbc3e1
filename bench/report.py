"""Figures → text: the machine they hold for, a table, and what a reader must know before quoting them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import apsw
import msgspec
from peers import PeerFigure

NOTES: Final = """\
- The bare loop is written for speed by the same people who wrote the driver. It runs on the schema of our migrations,
  so triggers, CHECKs, indexes and the foreign key slow both sides alike: the ratio says what the driver costs, not
  what the schema costs.
- The bare loop reads 8 columns of a job, the driver 23; the bare loop does not look for expired leases, due times,
  limits or paused queues. It settles a batch under one token; the driver takes the token of each job.
- The bare loop works in the caller's thread. The driver hands calls to its writer thread and waits for the answer, but
  for single enqueues, which it commits in the caller's thread while the disk is quick and nobody else writes. Callers
  that overlap share commits, which only the rows with 10 callers show.
- `executemany` runs one INSERT for each row. Many rows in one INSERT are faster, and are shown beside it.
- Every commit is durable (`synchronous=FULL`). On a disk with a slow fsync all small batches fall, and ratios rise.
- The app and its workers are measured as users have them: tasks with three arguments that are decoded for each call, jobs
  enqueued by the tasks' own calls, workers started by `python -m windlass worker` with default settings (20 async
  handlers, 8 threads). A drain runs from the opening of a paused queue, all processes ready, to the moment at which
  nothing is queued and nothing runs, seen by a look every 2 ms; the cold start of prefetching is part of it.
- Two worker processes run under the supervisor (`--processes 2`). SQLite has one writer: they share it.
- Pick-up: one job every 20 ms from another process, from just before the call that enqueues (its durable commit is
  inside) to the start of the handler. Processor time and memory are those of the whole process tree, in /proc; an idle
  worker is watched after a few jobs, and its time comes in steps of 10 ms.
- Huey is as it comes: SqliteHuey, 4 threads, synchronous FULL. It deletes a job before it runs it (a crash loses it),
  keeps no history and writes nothing at its end, so its drain is taken from the first handler's start to the last one's.
  Its handler appends 16 bytes to a file (about 1.5 µs); ours is empty. It drains fewer jobs; rates are compared.
- Each sample is a process of its own on a fresh file. Sides alternate, so that both meet the same weather; a ratio is
  the median of those of the rounds. Differences smaller than the ranges mean nothing.
- Every drain is counted afterwards: a job that is not succeeded, or a run that is not completed, fails the benchmark.
"""


class Quantity(msgspec.Struct, frozen=True):
    """One of the numbers that a command prints, and how it is told."""

    unit: str
    digits: int
    more_is_better: bool = False


QUANTITIES: Final = {
    "per_second": Quantity("jobs/s", 0, more_is_better=True),
    "cpu_us": Quantity("µs a job", 1),
    "p50_ms": Quantity("ms", 2),
    "p99_ms": Quantity("ms", 2),
    "cpu_percent": Quantity("% of a core", 2),
    "rss_mb": Quantity("MB", 0),
}


class Target(msgspec.Struct, frozen=True):
    """The least, or for what should be small the most, that we ask for: of the ratio, or of our own figure."""

    bound: float
    absolute: bool = False


class Machine(msgspec.Struct, frozen=True):
    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    filesystem: str
    python: str
    apsw: str
    sqlite: str
    peers: str  # versions of what else was measured
    load: float  # of the last minute, before the first run


class Figure(msgspec.Struct, frozen=True):
    """One quantity of one command, one sample for each round."""

    command: str
    samples: tuple[float, ...]
    disturbed: int  # how many of them began while other work kept the machine busy

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class Comparison(msgspec.Struct, frozen=True):
    section: str
    title: str
    quantity: str
    ours: Figure
    base: Figure | None
    target: Target | None

    @property
    def told(self) -> Quantity:
        return QUANTITIES[self.quantity]

    @property
    def ratios(self) -> list[float]:
        """One for each round: the sides of a round ran next to each other, so a slow spell of the machine cancels.
        None at all where there is nothing to divide by."""
        if self.base is None or 0 in self.base.samples:
            return []
        return [ours / base for ours, base in zip(self.ours.samples, self.base.samples, strict=True)]

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        judged = self.ours.samples if self.target.absolute else self.ratios
        if not judged:
            return "**not measured**"
        rounds = sum(map(self._is_met, judged))
        met = self._is_met(statistics.median(judged))
        return f"{'met' if met else '**missed**'} ({rounds} of {len(judged)} rounds)"

    def _is_met(self, value: float) -> bool:
        assert self.target is not None, "only what has a target is judged"
        return value >= self.target.bound if self.told.more_is_better else value <= self.target.bound


def this_machine(directory: Path, peers: str = "") -> Machine:
    return Machine(
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=filesystem_of(directory),
        python=platform.python_version(),
        apsw=apsw.apsw_version(),
        sqlite=apsw.sqlite_lib_version(),
        peers=peers,
        load=os.getloadavg()[0],
    )


def filesystem_of(directory: Path) -> str:
    """The type of the deepest mount that holds the directory."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    holding = [(len(where), kind) for _, where, kind, *_ in mounts if directory.resolve().is_relative_to(where)]
    return max(holding, default=(0, "unknown"))[1]


def _field(file: Path, name: str) -> str | None:
    if not file.exists():
        return None
    return next((line.split(":", 1)[1].strip() for line in file.read_text().splitlines() if line.startswith(name)), None)


def report(
    machine: Machine, comparisons: Sequence[Comparison], peers: Sequence[PeerFigure], *, repeats: int, command: str
) -> str:
    parts = [
        "# Results",
        f"Made by `{command}`, {repeats} rounds.",
        _described(machine)
        + "\nWAL, `synchronous=FULL`, foreign keys on, 64 MB of cache, on our side and the bare loop's.",
        f"Each figure: median (smallest–largest). {_weather(comparisons)} {SMALL}",
    ]
    for section, rows in groupby(comparisons, key=lambda one: one.section):
        parts += [f"## {section}", "\n".join([HEADER, *map(_row, rows)])]
    parts += ["## The same by hand", _commands(one.command for one in _figures(comparisons))]
    if peers:
        parts += ["## Peers, for scale", PEERS_INTRO, "\n".join([PEERS_HEADER, *map(_peer_row, peers)])]
        parts += [_commands(peer.command for peer in peers)]
    parts += ["## Read this before quoting a number", NOTES]
    return "\n\n".join(parts)


def _figures(comparisons: Sequence[Comparison]) -> list[Figure]:
    return [figure for one in comparisons for figure in (one.base, one.ours) if figure is not None]


def _commands(commands: Iterable[str]) -> str:
    return "\n".join(["```", *dict.fromkeys(commands), "```"])


def _weather(comparisons: Sequence[Comparison]) -> str:
    figures = {figure.command: figure for figure in _figures(comparisons)}.values()
    disturbed, samples = sum(f.disturbed for f in figures), sum(len(f.samples) for f in figures)
    return f"{disturbed} of {samples} samples began while other work kept the machine busy."


def _described(machine: Machine) -> str:
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, files on "
        f"{machine.filesystem}; load {machine.load:.2f} before the first run. Python {machine.python}, apsw "
        f"{machine.apsw}, SQLite {machine.sqlite}." + (f" {machine.peers}." if machine.peers else "")
    )


HEADER: Final = """\
| what | unit | ours | compared with | ratio | range | target | |
|---|---|---:|---:|---:|---|---:|---|"""

SMALL: Final = "Of jobs a second more is better, of everything else less."

PEERS_HEADER: Final = """\
| script | what | best | median |
|---|---|---:|---:|"""

PEERS_INTRO: Final = """\
Another schema with fewer obligations (no runs, no fence, no foreign key, 11 columns): how far away the sky is, not a
target. Commands are for the directory of the scripts, with `BENCH_DIR` set to an empty directory."""


def _row(one: Comparison) -> str:
    ratios = one.ratios
    cells = (
        one.title,
        one.told.unit,
        _figure(one.ours, one.told),
        "" if one.base is None else _figure(one.base, one.told),
        _ratio(statistics.median(ratios)) if ratios else "",
        f"{_ratio(min(ratios))}–{_ratio(max(ratios))}" if ratios else "",
        _target(one),
        one.verdict,
    )
    return f"| {' | '.join(cells)} |"


def _figure(figure: Figure, told: Quantity) -> str:
    median, low, high = (f"{value:,.{told.digits}f}" for value in (figure.median, min(figure.samples), max(figure.samples)))
    return f"{median} ({low}–{high})"


def _ratio(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio < 2 else f"{ratio:.1f} ×"


def _target(one: Comparison) -> str:
    if one.target is None:
        return ""
    sign = "≥" if one.told.more_is_better else "≤"
    return f"{sign} {f'{one.target.bound:g} {one.told.unit}' if one.target.absolute else _ratio(one.target.bound)}"


def _peer_row(peer: PeerFigure) -> str:
    return f"| {peer.peer} | {peer.what} | {peer.best:,.0f} | {peer.median:,.0f} |"
