"""Figures → text: the machine they hold for, a table, and what a reader must know before quoting them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
from notes import Notes
from peers import PeerFigure


class Quantity(msgspec.Struct, frozen=True):
    """One of the numbers that a command prints, and how it is told."""

    unit: str
    digits: int
    more_is_better: bool = False


QUANTITIES: Final = {
    "per_second": Quantity("jobs/s", 0, more_is_better=True),
    "burst_per_second": Quantity("jobs/s", 0, more_is_better=True),
    "cpu_us": Quantity("µs a job", 1),
    "p50_ms": Quantity("ms", 2),
    "p95_ms": Quantity("ms", 2),
    "p99_ms": Quantity("ms", 2),
    "call_ms": Quantity("ms", 2),
    "server_us": Quantity("µs a job", 1),
    "wal_bytes": Quantity("bytes a job", 0),
    "statements": Quantity("a job", 3),
    "claim_first_ms": Quantity("ms", 2),
    "claim_last_ms": Quantity("ms", 2),
    "page_p50_ms": Quantity("ms", 1),
    "page_p99_ms": Quantity("ms", 1),
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
    software: str
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


def this_machine(directory: Path, software: str, peers: str = "") -> Machine:
    return Machine(
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=filesystem_of(directory),
        software=f"Python {platform.python_version()}, {software}",
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


class Picture(msgspec.Struct, frozen=True):
    title: str
    address: str  # as the page names it
    svg: str


def report(
    machine: Machine, comparisons: Sequence[Comparison], peers: Sequence[PeerFigure], *, repeats: int, command: str,
    notes: Notes, scale: float = 1.0, pictures: Sequence[Picture] = (),
) -> str:  # fmt: skip
    parts = [
        f"# {notes.title}",
        f"Made by `{command}`, {repeats} rounds.{'' if scale == 1 else FEWER.format(scale=scale)}",
        f"{_described(machine)}\n{notes.settings}",
        f"Each figure: median (smallest–largest). {_weather(comparisons)} {SMALL}",
    ]
    for section, rows in groupby(comparisons, key=lambda one: one.section):
        parts += [f"## {section}", "\n".join([HEADER, *map(_row, rows)])]
    if pictures:
        parts += ["## Pictures", PICTURES_INTRO, *(f"![{one.title}]({one.address})" for one in pictures)]
    parts += ["## The same by hand", _commands(one.command for one in _figures(comparisons))]
    if peers:
        parts += ["## Peers, for scale", PEERS_INTRO, "\n".join([PEERS_HEADER, *map(_peer_row, peers)])]
        parts += [_commands(peer.command for peer in peers)]
    parts += ["## Read this before quoting a number", notes.text]
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
        f"{machine.filesystem}; load {machine.load:.2f} before the first run. {machine.software}."
        + (f" {machine.peers}." if machine.peers else "")
    )


HEADER: Final = """\
| what | unit | ours | compared with | ratio | range | target | |
|---|---|---:|---:|---:|---|---:|---|"""

SMALL: Final = "Of jobs a second more is better, of everything else less."

FEWER: Final = """ **At a scale of {scale:g}: fewer jobs, fewer rows.** What needs them all is not
judged, and small numbers lie: what a start costs weighs more."""

PICTURES_INTRO: Final = "Of the last round. Processor time: the median of all rounds."

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
