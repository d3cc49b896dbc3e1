"""A fleet in one thread: the real parts over a real driver, on virtual time, under faults, replayable from a seed.

    python -m windlass.testing.simulator --seeds 0:10000

`loop` and `world` are the machine, `store` and `faults` stand between a process and its rows, `history` and `invariants`
judge, `scenario` makes up a fleet and its work from a seed, and `run` goes through many seeds.
"""

from windlass.testing.simulator.history import SOMETIMES, History, Violation
from windlass.testing.simulator.scenario import Report, Seat, WorkerMain, simulate

__all__ = ["SOMETIMES", "History", "Report", "Seat", "Violation", "WorkerMain", "simulate"]
