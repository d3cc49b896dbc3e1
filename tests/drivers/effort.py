"""How much SQLite does for a call, which no busy machine changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from windlass.drivers.sqlite import SqliteDriver

EVERY = 100  # instructions of its machine


async def effort(driver: SqliteDriver, work: Callable[[], Awaitable[Any]]) -> int:
    """Of a driver with `inline`; in hundreds of instructions."""
    seen = [0]

    def more() -> bool:
        seen[0] += 1
        return False

    raw: Any = driver._writer._connection
    raw.raw.set_progress_handler(more, EVERY)
    try:
        await work()
    finally:
        raw.raw.set_progress_handler(None)
    return seen[0]
