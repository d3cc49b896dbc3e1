"""The tasks of `windlass demo`: a program as a user would write it. Its worker processes import this module."""

from __future__ import annotations

import asyncio
import os
import time

from windlass import Reject, Retry, Windlass, current, fixed

app = Windlass(retry=Retry(max_retries=2, backoff=fixed("200ms")), max_lost=5, lease="5s")


def write(what: str) -> None:
    """One line to a log outside of the store, in one write that other processes cannot cut: what really happened."""
    path = os.environ.get("WINDLASS_DEMO_LOG")
    if path:
        job, run_id = current().job, current().run_id
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, f"{what} {job.queue} {job.id} {run_id} {os.getpid()}\n".encode())
        finally:
            os.close(fd)


@app.task(queue="mail")
async def send_email(number: int) -> str:
    """Every tenth needs a second try, every fiftieth never works."""
    write("start")
    await asyncio.sleep(0.03)
    if number % 50 == 0 or (number % 10 == 0 and current().attempt == 1):
        raise ConnectionError(f"the mail server refused number {number}")
    write("done")
    return f"mail {number} is out"


@app.task(queue="images")
def make_thumbnail(number: int) -> int:
    """Blocking work in a thread; a broken image is set aside at once, because trying again cannot help."""
    write("start")
    time.sleep(0.02)
    if number % 60 == 7:
        raise Reject(f"image {number} is not an image")
    write("done")
    return number * number


@app.task(queue="ledger", retry_mode="new_job")
async def transfer(number: int) -> None:
    """Money: a job id never starts twice. A crash in the middle is a recorded failure, and a new job takes over."""
    write("start")
    await asyncio.sleep(0.02)
    write("done")
