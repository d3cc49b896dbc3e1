"""The tasks of the benchmark, as a user would write them. A worker loads them by name: `windlass worker bench_tasks:app`.

A worker claims for async, blocking and process handlers apart, so there is an app with each kind, and one with two of which
only async jobs are enqueued.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Final

from windlass import Retry, Windlass, current, fixed

MARKS: Final = os.environ.get("BENCH_MARKS", os.devnull)
BURNT_NS: Final = 50_000

app: Final = Windlass()
blocking: Final = Windlass()
mixed: Final = Windlass()
apart: Final = Windlass()
_marks: list[int] = []  # one descriptor, opened by the first handler that needs it


@app.task
async def noop(a: int, b: int, x: str) -> None:
    pass


@app.task
async def filler(a: int, b: int, x: str) -> None:
    """What else is in the store: jobs that nobody counts."""


@app.task
async def burn(a: int, b: int, x: str) -> None:
    """Costs 50 microseconds of processor time."""
    until = time.thread_time_ns() + BURNT_NS
    while time.thread_time_ns() < until:
        pass


@app.task(retry=Retry(max_retries=3, backoff=fixed("100ms")))
async def flaky(a: int, b: int, x: str) -> None:
    """Fails the first time."""
    if current().attempt == 1:
        raise ConnectionError("not yet")


@app.task
async def stamp(sent: float) -> None:
    """Append when the job was sent and when its handler began, by the clock that all processes share."""
    began = time.monotonic()
    if not _marks:
        _marks.append(os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
    os.write(_marks[0], struct.pack("dd", sent, began))


@app.task(history="failures")
async def noop_lean(a: int, b: int, x: str) -> None:
    pass


@blocking.task
def noop_blocking(a: int, b: int, x: str) -> None:
    pass


@apart.task(run="process")
def noop_apart(a: int, b: int, x: str) -> None:
    pass


@mixed.task
async def noop_mixed(a: int, b: int, x: str) -> None:
    pass


@mixed.task
def never_enqueued(a: int, b: int, x: str) -> None:
    pass
