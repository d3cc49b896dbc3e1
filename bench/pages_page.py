"""Timings of pages and lists → text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from report import Machine

MOST_MS: Final = 300.0


class Timing(Struct, frozen=True):
    path: str
    address: str
    median: float
    worst: float
    cpu: float  # milliseconds of processor time for each, of us and of the server
    size: int

    @property
    def slow(self) -> bool:
        return self.median > MOST_MS

    def told(self) -> str:
        times = f"{self.median:8.1f} ms {self.worst:8.1f} ms   worked {self.cpu:7.1f} ms"
        return f"{self.address:60} {times} {self.size:9,} bytes{'  slow' if self.slow else ''}"


def written(
    machine: Machine, found: Mapping[str, Sequence[Timing]], loads: Mapping[str, tuple[float, float]], jobs: int, times: int
) -> str:
    every = [one for timings in found.values() for one in timings]
    slow = sum(one.slow for one in every)
    loaded = ", ".join(f"{name} {before:.2f} and {after:.2f}" for name, (before, after) in loads.items())
    lines = [
        "# Pages and lists", "",
        f"Made by `python bench/pages.py --write`: {jobs:,} jobs, of which nine in ten have ended, with their runs, a week",
        f"of samples and five of usage, {jobs // 100:,} groups, {jobs // 10:,} messages to webhooks and {jobs * 3 // 10:,}",
        f"lines of audit. Each address {times} times, in process and without a network. What the process remembers of",
        "earlier questions is thrown away before each. “Work” is the processor time of an answer, ours and the server's:",
        "it tells more than the wall clock does on a machine that does other things meanwhile.", "",
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, files on {machine.filesystem}; "
        f"{machine.software.rstrip(', ')}. Load before and after: {loaded}.", "",
        f"Target: a median of at most {MOST_MS:.0f} ms. {slow} of {len(every)} are over it"
        + (" and **marked**." if slow else "."), "",
        "| address | " + " | ".join(f"{name}: median | worst | work" for name in found) + " |",
        "|---|" + "---:|---:|---:|" * len(found),
    ]  # fmt: skip
    return "\n".join([*lines, *rows(found)]) + "\n"


def rows(found: Mapping[str, Sequence[Timing]]) -> Iterator[str]:
    by_store = [{one.address: one for one in timings} for timings in found.values()]
    for address in dict.fromkeys(one.address for timings in found.values() for one in timings):
        cells = " | ".join(cells_of(timings.get(address)) for timings in by_store)
        yield f"| `{address.replace('|', '%7C')}` | {cells} |"


def cells_of(one: Timing | None) -> str:
    if one is None:
        return " | | "
    median = f"{one.median:.0f} ms"
    return f"{f'**{median}**' if one.slow else median} | {one.worst:.0f} ms | {one.cpu:.0f} ms"
