"""Figures → text: the machine they hold for, a table, and what a reader must know before quoting them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
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
- Each sample is a process of its own on a fresh file. Sides alternate, so that both meet the same weather; a ratio is
  the median of those of the rounds. Differences smaller than the ranges mean nothing.
- Every drain is counted afterwards: a job that is not succeeded, or a run that is not completed, fails the benchmark.
"""


class Machine(msgspec.Struct, frozen=True):
    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    filesystem: str
    python: str
    apsw: str
    sqlite: str
    load: float  # of the last minute, before the first run


class Figure(msgspec.Struct, frozen=True):
    """Jobs a second, one sample for each round."""

    command: str
    samples: tuple[float, ...]
    disturbed: int  # how many of them began while other work kept the machine busy

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class Comparison(msgspec.Struct, frozen=True):
    title: str
    ours: Figure
    base: Figure
    target: float | None

    @property
    def ratios(self) -> list[float]:
        """One for each round: the sides of a round ran next to each other, so a slow spell of the machine cancels."""
        return [ours / base for ours, base in zip(self.ours.samples, self.base.samples, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        rounds = sum(ratio >= self.target for ratio in self.ratios)
        return f"{'met' if self.ratio >= self.target else '**missed**'} ({rounds} of {len(self.ratios)} rounds)"


def this_machine(directory: Path) -> Machine:
    return Machine(
        cpu=_field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=filesystem_of(directory),
        python=platform.python_version(),
        apsw=apsw.apsw_version(),
        sqlite=apsw.sqlite_lib_version(),
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
        _described(machine) + "\nWAL, `synchronous=FULL`, foreign keys on, 64 MB of cache, on both sides.",
        "Jobs a second: median (smallest–largest). " + _weather(comparisons),
        "\n".join([HEADER, *map(_row, comparisons)]),
        "## The same by hand",
        "```\n"
        + "\n".join(dict.fromkeys(c for one in comparisons for c in (one.base.command, one.ours.command)))
        + "\n```",
    ]
    if peers:
        parts += ["## Peers, for scale", PEERS_INTRO, "\n".join([PEERS_HEADER, *map(_peer_row, peers)])]
        parts += ["```\n" + "\n".join(dict.fromkeys(peer.command for peer in peers)) + "\n```"]
    parts += ["## Read this before quoting a number", NOTES]
    return "\n\n".join(parts)


def _weather(comparisons: Sequence[Comparison]) -> str:
    figures = {figure.command: figure for one in comparisons for figure in (one.base, one.ours)}.values()
    disturbed, samples = sum(f.disturbed for f in figures), sum(len(f.samples) for f in figures)
    return f"{disturbed} of {samples} samples began while other work kept the machine busy."


def _described(machine: Machine) -> str:
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, files on "
        f"{machine.filesystem}; load {machine.load:.2f} before the first run. Python {machine.python}, apsw "
        f"{machine.apsw}, SQLite {machine.sqlite}."
    )


HEADER: Final = """\
| what | ours | compared with | ratio | range | target | |
|---|---:|---:|---:|---|---:|---|"""

PEERS_HEADER: Final = """\
| script | what | best | median |
|---|---|---:|---:|"""

PEERS_INTRO: Final = """\
Another schema with fewer obligations (no runs, no fence, no foreign key, 11 columns): how far away the sky is, not a
target. Commands are for the directory of the scripts, with `BENCH_DIR` set to an empty directory."""


def _row(one: Comparison) -> str:
    low, high = min(one.ratios), max(one.ratios)
    target = "" if one.target is None else f"≥ {one.target:.0%}"
    cells = (
        one.title,
        _figure(one.ours),
        _figure(one.base),
        f"{one.ratio:.0%}",
        f"{low:.0%}–{high:.0%}",
        target,
        one.verdict,
    )
    return f"| {' | '.join(cells)} |"


def _figure(figure: Figure) -> str:
    return f"{figure.median:,.0f} ({min(figure.samples):,.0f}–{max(figure.samples):,.0f})"


def _peer_row(peer: PeerFigure) -> str:
    return f"| {peer.peer} | {peer.what} | {peer.best:,.0f} | {peer.median:,.0f} |"
