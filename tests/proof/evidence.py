"""What a proof has found, as values: read by `verdict.py` and `report.py`, and written as JSON as they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

SECOND = 1_000_000


@dataclass
class Tried:
    """One test that a promise rests on, on every store that it runs on."""

    test: str
    passed: int = 0
    skipped: int = 0
    seconds: float = 0.0  # of all of them, one after the other
    failed: list[str] = field(default_factory=list)  # which of them, and the last lines of why

    @property
    def holds(self) -> bool:
        return self.passed > 0 and not self.failed


@dataclass
class Promise:
    title: str
    tests: list[Tried]

    @property
    def holds(self) -> bool:
        return all(test.holds for test in self.tests)


@dataclass
class Simulated:
    """Seeds from `first` up to, but without, `last`."""

    first: int
    last: int
    totals: Counter[str]
    faults: Counter[str]
    reached: Counter[str]
    never_reached: list[str]
    failed: list[str]


@dataclass
class Killed:
    """Real processes on one store."""

    store: str
    bound: int  # microseconds within which what a dead worker held must be free again
    accepted: int
    jobs: int
    ended: Counter[str]
    executions: int
    again: Counter[str]  # executions of a job beyond its first, by why
    repeated: int  # of the executions beyond the first: the one before had done its work, and could not say so
    took_over: int  # new jobs that took over from never-twice jobs
    recoveries: list[int]  # microseconds from each death to the moment at which one of its jobs was free again
    lost: list[str]  # jobs that were acknowledged and are gone
    problems: list[str]  # whatever else store and handlers' log disagree about
    seed: int = 0
    seconds: float = 0.0
    hits: Counter[str] = field(default_factory=Counter)  # what was done to them, and how often it hit


@dataclass
class Evidence:
    version: str
    date: str
    machine: str
    budget: float
    took: float
    promises: list[Promise] = field(default_factory=list)
    simulated: Simulated | None = None
    killed: list[Killed] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # parts of the proof that could not be done at all
    left_out: list[str] = field(default_factory=list)  # parts that nobody asked for
