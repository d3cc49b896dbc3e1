"""`python -m soak.program worker`, `python -m soak.program produce RATE`: until they are told to stop, or killed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any, Final

from windlass.clock import SECOND
from windlass.coordinator import bites
from windlass.core import usage
from windlass.errors import StoreError
from windlass.worker import logkeeping

from . import tasks

HASTE: Final = "SOAK_HASTE"  # how many times as often as usual a leader tidies up
COUNTS: Final = "SOAK_COUNTS"  # the file in which the producer keeps its numbers
log: Final = logging.getLogger(__name__)
TICK: Final = 0.25  # seconds


def hurry(times: float) -> None:
    """What is old goes when it has been counted, five minutes later, once a minute. A run that is shorter than half an hour
    has no time for that: there all of it comes sooner by as much. Logs of runs go after an hour: none has time for it."""
    logkeeping.EVERY = logkeeping.YOUNG = round(60 * SECOND / times)  # type: ignore[misc]  # as said
    for module, name in ((bites, "EVERY"), (bites, "SETTLED_AFTER"), (usage, "LATE")):
        setattr(module, name, round(getattr(module, name) / times))


def keep_counts(file: Path, accepted: int, cancelled: int) -> None:
    """Rows go when they are old, so that the store does not know how many there were. Whoever reads sees a whole line."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{accepted} {cancelled}")
    fresh.replace(file)


def counts_in(file: Path) -> tuple[int, int]:
    """Jobs that were accepted, but for those that were made to be cancelled; and those that were."""
    accepted, cancelled = file.read_text().split() if file.exists() else ("0", "0")
    return int(accepted), int(cancelled)


async def produce(rate: float, counts: Path) -> None:
    """So many jobs a second, and one that is cancelled in each tick. What the store does not take is not counted."""
    number, loop = 0, asyncio.get_running_loop()
    accepted = cancelled = 0
    due = loop.time()
    unwanted: Any = None
    while True:
        count = max(1, round(rate * TICK))
        try:
            await tasks.app.enqueue_many([tasks.job(one) for one in range(number, number + count)])
            accepted += count
            if unwanted is not None:
                cancelled += await unwanted.cancel() == "cancelled"
            unwanted = await tasks.unwanted.enqueue(number)
        except StoreError as error:
            log.warning("not accepted: %s", error)
        number += count
        keep_counts(counts, accepted, cancelled)
        due = max(due + TICK, loop.time() - TICK)
        await asyncio.sleep(max(0.0, due - loop.time()))


def main(deed: str, *rest: str) -> None:
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {os.getpid()} %(name)s %(message)s")
    hurry(float(os.environ.get(HASTE, "1")))
    if deed == "worker":
        tasks.app.run(queues=["mixed", "ledger"])
    else:
        asyncio.run(produce(float(rest[0]), Path(os.environ[COUNTS])))


if __name__ == "__main__":
    main(*sys.argv[1:])
