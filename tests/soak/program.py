"""`python -m soak.program worker`, `python -m soak.program produce RATE`: until they are told to stop, or killed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any, Final

from windlass.clock import SECOND
from windlass.coordinator import bites
from windlass.core import usage
from windlass.errors import StoreError
from windlass.worker import logkeeping

from . import tasks

HASTE: Final = "SOAK_HASTE"  # how many times as often as usual a leader tidies up
log: Final = logging.getLogger(__name__)
TICK: Final = 0.25  # seconds


def hurry(times: float) -> None:
    """What is old goes when it has been counted, five minutes later, once a minute. A run that is shorter than half an hour
    has no time for that: there all of it comes sooner by as much. Logs of runs go after an hour: none has time for it."""
    logkeeping.EVERY = logkeeping.YOUNG = round(60 * SECOND / times)  # type: ignore[misc]  # as said
    for module, name in ((bites, "EVERY"), (bites, "SETTLED_AFTER"), (usage, "LATE")):
        setattr(module, name, round(getattr(module, name) / times))


async def produce(rate: float) -> None:
    """So many jobs a second. What the store does not take is enqueued again, as a program would."""
    number, loop = 0, asyncio.get_running_loop()
    due = loop.time()
    unwanted: Any = None
    while True:
        count = max(1, round(rate * TICK))
        try:
            await tasks.app.enqueue_many([tasks.job(one) for one in range(number, number + count)])
            if unwanted is not None:
                await unwanted.cancel()
            unwanted = await tasks.unwanted.enqueue(number)
        except StoreError as error:
            log.warning("not accepted: %s", error)
        number += count
        due = max(due + TICK, loop.time() - TICK)
        await asyncio.sleep(max(0.0, due - loop.time()))


def main(deed: str, *rest: str) -> None:
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {os.getpid()} %(name)s %(message)s")
    hurry(float(os.environ.get(HASTE, "1")))
    if deed == "worker":
        tasks.app.run(queues=["mixed", "ledger"])
    else:
        asyncio.run(produce(float(rest[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
