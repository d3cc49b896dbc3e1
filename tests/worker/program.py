"""A small program for the tests that need a process of its own: `python program.py URL LOG`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from windlass.app import Windlass
from windlass.context import Context

app = Windlass(sys.argv[1], grace="10s", concurrency=5, threads=2, lease="5s")
LOG = os.open(sys.argv[2], os.O_APPEND | os.O_CREAT | os.O_WRONLY)


def note(*words: object) -> None:
    os.write(LOG, (" ".join(map(str, words)) + "\n").encode())


@app.task(context=True)
async def work(ctx: Context, number: int) -> None:
    note("begin", number)
    await asyncio.sleep(0.005)
    note("end", number)


@app.task(context=True)
def blocking(ctx: Context, number: int) -> None:
    note("begin", number)
    time.sleep(0.005)
    note("end", number)


@app.task
async def endless() -> None:
    note("endless")
    await asyncio.sleep(60)


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    note("stats", app.run().claimed)
