"""A mixed load: async and blocking, failing and rejected, never twice, limited, keyed, cancelled, with a log of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from windlass import Reject, Retry, Windlass, current, fixed
from windlass.tasks import PreparedJob

app = Windlass(retry=Retry(max_attempts=3, backoff=fixed("500ms")), max_lost=25)
app.limit("few", 3)
log = logging.getLogger(__name__)
CANCELLED = "cancelled"  # a queue that nobody serves


@app.task(queue="mixed")
async def quick(number: int) -> str:
    await asyncio.sleep(0)
    return "x" * (number % 500)


@app.task(queue="mixed")
def blocking(number: int) -> int:
    time.sleep(0.005)
    return number


@app.task(queue="mixed")
async def flaky(number: int) -> None:
    if current().attempt == 1:
        raise ConnectionError(f"number {number} is not there at the first time")


@app.task(queue="mixed")
async def rejected(number: int) -> None:
    raise Reject(f"number {number} is none")


@app.task(queue="mixed")
async def talkative(number: int) -> None:
    log.warning("number %s: %s", number, "word " * 20)


@app.task(queue="mixed", limits=("few",))
async def limited(number: int) -> None:
    await asyncio.sleep(0.01)


@app.task(queue="ledger", retry_mode="new_job")
async def ledger(number: int) -> None:
    if current().attempt == 1 and number % 20 == 5:
        raise ConnectionError("another job does it")


@app.task(queue=CANCELLED)
async def unwanted(number: int) -> None:
    raise AssertionError("nobody serves this queue")


KINDS = (quick, quick, blocking, quick, flaky, ledger, quick, limited, talkative, rejected)


def job(number: int) -> PreparedJob[Any]:
    if number % 30 == 0:
        return quick.using(idempotency_key=f"k{number}", idempotency_for="20s").job(number)
    return KINDS[number % len(KINDS)].job(number)
