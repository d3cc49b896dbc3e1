"""The tasks of the benchmark, as a user would write them. A worker loads them by name: `windlass worker bench_tasks:app`.

A worker claims for async and for blocking handlers apart, so there is an app with each kind, and one with both of which
only async jobs are enqueued.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Final

from windlass.app import Windlass

MARKS: Final = os.environ.get("BENCH_MARKS", os.devnull)

app: Final = Windlass()
blocking: Final = Windlass()
mixed: Final = Windlass()
_marks: list[int] = []  # one descriptor, opened by the first handler that needs it


@app.task
async def noop(a: int, b: int, x: str) -> None:
    pass


@app.task
async def stamp(sent: float) -> None:
    """Append when the job was sent and when its handler began, by the clock that all processes share."""
    began = time.monotonic()
    if not _marks:
        _marks.append(os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
    os.write(_marks[0], struct.pack("dd", sent, began))


@blocking.task
def noop_blocking(a: int, b: int, x: str) -> None:
    pass


@mixed.task
async def noop_mixed(a: int, b: int, x: str) -> None:
    pass


@mixed.task
def never_enqueued(a: int, b: int, x: str) -> None:
    pass
