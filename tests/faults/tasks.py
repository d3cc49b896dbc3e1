"""What the workers under test run. Every handler tells of its start and its end in a log outside of the store.

A line is one O_APPEND write, which no other process can cut and which survives the writer's kill -9. Its time is the
store's own clock, the same in every process of the machine, so that lines and rows can be compared to the microsecond.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from windlass import Retry, Windlass, current, fixed
from windlass.context import Context

LOG = "FAULTS_LOG"
LIMIT = "key:few"  # at most three of its jobs at once
NEVER_TWICE = "ledger"

app = Windlass(retry=Retry(max_attempts=30, backoff=fixed("50ms")), max_lost=25)


def tell(what: str, subject: str = "-", run_id: str = "-") -> None:
    line = f"{what} {subject} {run_id} {os.getpid()} {app.client.now()}\n"
    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def write(what: str) -> None:
    tell(what, current().job.id, current().run_id)


def first_time() -> bool:
    """Handlers that take long do so once, so that whoever recovers them is quick."""
    job = current().job
    return job.attempts + job.lost + job.skipped == 0


@app.task(queue="steady")
async def quick(number: int) -> int:
    write("start")
    await asyncio.sleep(0)
    write("done")
    return number


@app.task(queue="steady")
async def slow(seconds: float) -> None:
    write("start")
    try:
        await asyncio.sleep(seconds if first_time() else 0)
    except asyncio.CancelledError:
        write("stopped")
        raise
    write("done")


@app.task(queue="steady")
def blocking(gate: str) -> None:
    """The first time it blocks a thread until that file exists, and does not look whether it should stop."""
    write("start")
    if gate and first_time():
        deadline = time.monotonic() + 120
        while not Path(gate).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    write("done")


@app.task(queue="steady")
def gated(gate: str) -> None:
    """Every run of it waits for a file of its own: the gate's name and the number of the run."""
    write("start")
    deadline = time.monotonic() + 120
    while not Path(f"{gate}{current().job.executions}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    write("done")


@app.task(queue="steady")
async def flaky(number: int) -> int:
    write("start")
    if first_time():
        raise ConnectionError("not the first time")
    write("done")
    return number


@app.task(queue="ledger", retry_mode="new_job")
async def ledger(seconds: float) -> None:
    """A job id of this task never starts twice: a crash is a recorded failure, and a new job takes over."""
    write("start")
    await asyncio.sleep(seconds if first_time() else 0)
    write("done")


@app.task(queue="steady", limits=(LIMIT,))
async def limited(seconds: float) -> None:
    write("start")
    await asyncio.sleep(seconds)
    write("done")


@app.task(queue="steady", context=True)
async def written(ctx: Context, number: int) -> None:
    """Its effect, a follow-up job and its own success are one transaction."""
    write("start")
    async with ctx.transaction() as tx:
        tx.connection.execute("insert into effects (job_id, number) values (?, ?)", (ctx.job.id, number))
        await quick.enqueue(number)
        write("done")


@app.task(queue="steady")
async def poison() -> None:
    """Takes its process with it, as a segmentation fault would."""
    write("start")
    os.kill(os.getpid(), signal.SIGSEGV)
