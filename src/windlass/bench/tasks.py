"""The tasks that are measured, as a user would write them. A worker process imports this module; its environment says
which store is meant."""

from __future__ import annotations

import time

from windlass.app import Windlass


async def noop(a: int, b: int, x: str) -> None:
    pass


def noop_blocking(a: int, b: int, x: str) -> None:
    pass


async def began() -> float:
    """When its handler began, by a clock that all processes of this machine share."""
    return time.perf_counter()


app = Windlass()
began_task = app.task(began)
