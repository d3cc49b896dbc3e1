"""Timings of pages and lists → text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        mark = "  slow" if self.slow else ""
        return f"{self.address:60} {self.median:8.1f} ms {self.worst:8.1f} ms   worked {self.cpu:7.1f} ms {self.size:9,} bytes{mark}"


def written(
    machine: Machine, found: Mapping[str, Sequence[Timing]], loads: Mapping[str, tuple[float, float]], jobs: int, times: int
) -> str:
    stores = list(found)
    ordered = dict.fromkeys(one.address for timings in found.values() for one in timings)
    by_store = {name: {one.address: one for one in timings} for name, timings in found.items()}
    every = [one for timings in found.values() for one in timings]
    slow = sum(one.slow for one in every)
    loaded = ", ".join(f"{name} {before:.2f} and {after:.2f}" for name, (before, after) in loads.items())
    lines = [
        "# Pages and lists", "",
        f"Made by `python bench/pages.py --write`: {jobs:,} jobs, of which nine in ten have ended, with their runs, a week of samples",
        f"and five of usage, 10,000 groups, 100,000 messages to webhooks and 300,000 lines of audit. Each address {times} times, in",
        "process and without a network; what the process remembers of earlier questions is thrown away before each.", "",
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, files on {machine.filesystem}; "
        f"{machine.software.rstrip(', ')}. Load before and after: {loaded}.", "",
        f"Target: a median of at most {MOST_MS:.0f} ms. {slow} of {len(every)} are over it" + (" and **marked**." if slow else "."), "",
        "| address | " + " | ".join(f"{name}: median | worst" for name in stores) + " |",
        "|---|" + "---:|---:|" * len(stores),
    ]  # fmt: skip
    for address in ordered:
        cells = []
        for name in stores:
            one = by_store[name].get(address)
            median = "" if one is None else f"{one.median:.0f} ms"
            cells += [f"**{median}**" if one is not None and one.slow else median, "" if one is None else f"{one.worst:.0f} ms"]
        lines.append(f"| `{address.replace('|', '%7C')}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
