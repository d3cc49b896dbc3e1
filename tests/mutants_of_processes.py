"""The bugs that mutants.py plants between a worker and its processes, and the tests that are to catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

HERE = "worker/processes/"
PROCESSES: list[Planted] = [
    ("children: a program that stops half-way in order has succeeded", HERE + "running.py",
     "if gone.code == 0 and not stopped:", "if gone.code == 0:", ("lines: ends_in_order",)),
]  # fmt: skip
