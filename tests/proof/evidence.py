"""What a proof has found, as values: read by `verdict.py` and `report.py`, and written as JSON as they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

SECOND = 1_000_000
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}  # parts of a proof, and what their stores are called
PARTS = ("tests", *STORES, "simulator")


@dataclass
class Tried:
    """One test that a promise rests on. Its cases are the ids that pytest collected of it: one for each store, fault or
    point of a worker's life that it is run for."""

    test: str
    passed: int = 0
    seconds: float = 0.0  # of all of them, one after the other
    full: int = 0  # cases that `make test` leaves out: they are marked so
    failed: list[str] = field(default_factory=list)  # which of them, and the last lines of why
    skipped: list[str] = field(default_factory=list)  # the same
    not_run: list[str] = field(default_factory=list)  # collected, and never told of

    @property
    def cases(self) -> int:
        return self.passed + len(self.failed) + len(self.skipped) + len(self.not_run)

    @property
    def holds(self) -> bool:
        """Every case ran and passed, and there was one."""
        return 0 < self.passed == self.cases


@dataclass
class Promise:
    title: str
    tests: list[Tried]

    @property
    def holds(self) -> bool:
        return bool(self.tests) and all(test.holds for test in self.tests)


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
    server: str = ""  # the version of it, where there is one
    hits: Counter[str] = field(default_factory=Counter)  # what was done to them, and how often it hit
    least: dict[str, int] = field(default_factory=dict)  # how often each blow must have hit to show something


@dataclass
class Evidence:
    version: str
    date: str
    machine: str
    budget: float
    took: float
    first: int = 0  # the seed
    page: str = "guarantees.md"
    promises: list[Promise] = field(default_factory=list)
    simulated: Simulated | None = None
    killed: list[Killed] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # parts of the proof that could not be done, or not to their end
    left_out: list[str] = field(default_factory=list)  # parts that nobody asked for
