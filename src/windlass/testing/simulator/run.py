"""Campaigns: many seeds, a summary of what they reached, and for a seed that fails all that is needed to see it again."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, get_args

from windlass.clock import SECOND, since_boot
from windlass.testing.simulator.faults import PROFILES
from windlass.testing.simulator.history import SOMETIMES
from windlass.testing.simulator.scenario import Report, StoreName, WorkerMain, simulate

TAIL: Final = 60
BITE: Final = 20  # seeds that a process goes through before it tells
INTERRUPTED: Final = 130  # as shells have it


class Campaign:
    """What a number of seeds did, added up. It travels between processes, so it keeps words rather than histories."""

    def __init__(self, worker: WorkerMain, *, profile: str, store: StoreName) -> None:
        self._worker = worker
        self.profile = profile
        self.store: StoreName = store
        self.totals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.failed: list[str] = []

    def run(self, seed: int) -> Report:
        report = simulate(seed, self._worker, profile=self.profile, store=self.store)
        history = report.history
        self.totals.update(
            seeds=1, jobs=report.jobs, executions=report.executions, crashes=report.crashes, calls=report.calls,
            steps=report.steps,
        )  # fmt: skip
        self.faults.update(history.faults)
        self.seen.update(history.seen)
        if history.violation is not None:
            self.failed.append("\n".join(self.told(report)))
        return report

    def part(self, seeds: Iterable[int]) -> Campaign:
        """Another one of the same kind, gone through these seeds."""
        made = Campaign(self._worker, profile=self.profile, store=self.store)
        for seed in seeds:
            made.run(seed)
        return made

    def add(self, other: Campaign) -> None:
        self.totals.update(other.totals)
        self.faults.update(other.faults)
        self.seen.update(other.seen)
        self.failed += other.failed

    def never_reached(self) -> list[str]:
        return [name for name in SOMETIMES if not self.seen[name]]

    def summary(self) -> Iterator[str]:
        yield "  ".join(f"{name} {number:,}" for name, number in self.totals.items())
        yield "faults  " + "  ".join(f"{name} {number:,}" for name, number in sorted(self.faults.items()))
        for name, meaning in SOMETIMES.items():
            yield f"  {self.seen[name]:>9,}  {name:<20} {meaning}" + ("" if self.seen[name] else "  << NEVER REACHED")
        yield f"{len(self.failed)} of {self.totals['seeds']} seeds broke a rule"

    def told(self, report: Report) -> Iterator[str]:
        """A failing seed: the rule, how it came to it, and how to see it again."""
        yield f"seed {report.seed}: {report.history.violation}"
        yield from (f"    {line}" for line in report.history.lines(TAIL))
        options = "" if self.profile == "swarm" else f" --profile {self.profile}"
        options += "" if self.store == "memory" else f" --store {self.store}"
        yield f"  again: python -m windlass.testing.simulator --seed {report.seed}{options} --trace"


def main(argv: Sequence[str], worker: WorkerMain) -> int:
    options = parser().parse_args(argv)
    campaign = Campaign(worker, profile=options.profile, store=options.store)
    if options.seed is not None:
        return _one(campaign, options.seed, trace=options.trace)
    first, last = (int(part) for part in options.seeds.split(":"))
    bites = [range(start, min(start + BITE, last)) for start in range(first, last, BITE)]
    try:
        _go_through(campaign, bites, options)
    except KeyboardInterrupt:  # hours may have gone into what was seen until then
        _out(f"stopped: of the seeds from {first} on, {campaign.totals['seeds']:,} were gone through")
        _out("\n".join(campaign.summary()))
        return INTERRUPTED
    _out("\n".join(campaign.summary()))
    missed = options.reach_all and campaign.never_reached()
    return 1 if campaign.failed or missed else 0


def _go_through(campaign: Campaign, bites: list[range], options: argparse.Namespace) -> None:
    began = since_boot()
    for part in _parts(campaign.part, bites, options.jobs):
        campaign.add(part)
        for told in part.failed:
            _out(told)
        passed, seeds = since_boot() - began, campaign.totals["seeds"]
        if sys.stderr.isatty():
            sys.stderr.write(f"{seeds:,} seeds, {seeds * SECOND // passed} a second \r")
        if len(campaign.failed) >= options.failures or 0 < options.seconds * SECOND < passed:
            break


def _parts(go: Callable[[range], Campaign], bites: list[range], jobs: int) -> Iterator[Campaign]:
    """In the order of the seeds, however many processes share them: two campaigns print the same."""
    if jobs == 1 or len(bites) == 1:
        yield from map(go, bites)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(go, bites)
        finally:
            pool.shutdown(cancel_futures=True)


def _one(campaign: Campaign, seed: int, *, trace: bool) -> int:
    report = campaign.run(seed)
    if trace:
        _out("\n".join(report.history.lines()))
    elif report.history.violation is not None:
        _out(campaign.failed[0])
    _out(f"seed {seed}: {report.history.violation or 'every rule held'} ({report.history.digest()})")
    return 0 if report.history.violation is None else 1


def _out(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m windlass.testing.simulator", description=__doc__)
    made.add_argument("--seeds", default="0:1000", metavar="A:B", help="from A up to, but without, B")
    made.add_argument("--seed", type=int, help="this one only")
    made.add_argument("--trace", action="store_true", help="print the whole history of --seed")
    made.add_argument("--profile", default="swarm", choices=sorted(PROFILES), help="which faults there are")
    made.add_argument("--store", default="memory", choices=get_args(StoreName))
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the seeds")
    made.add_argument("--seconds", type=int, default=0, help="stop after so many; 0 = go through all seeds")
    made.add_argument("--failures", type=int, default=3, help="stop after so many failing seeds")
    made.add_argument("--reach-all", action="store_true", help="fail when a rare branch was never reached")
    return made
