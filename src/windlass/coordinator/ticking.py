"""The one loop of every background duty. A duty is a `tick`: it does one bounded piece of work and says when to come back.

An error of the store is logged, counted, and waited out. Anything else is a bug: it leaves the loop, and ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from windlass.backoff import LONGEST, Backoff
from windlass.client import Client
from windlass.clock import SECOND
from windlass.copy_errors import StoreMoved
from windlass.errors import StoreError
from windlass.types import Micros

log: Final = logging.getLogger("windlass.coordinator")


class Ticks(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def patience(self) -> Micros:
        """A tick that takes longer has met a store that does not answer, and is given up."""
        ...

    async def tick(self) -> Micros:
        """One piece of work; answers the pause after it."""
        ...


class Counts(Protocol):
    store_errors: int


async def keep_ticking(part: Ticks, client: Client, counts: Counts, *, once: asyncio.Event | None = None) -> None:
    """For ever. With `once`, only while that is set."""
    backoff, moved = Backoff(client.ids.random), False
    while True:
        if once is not None:
            await once.wait()
        try:
            async with asyncio.timeout(part.patience / SECOND):
                pause = await part.tick()
        except StoreMoved as error:  # for good, unless the move is given up: said once, and looked at now and then
            if not moved:
                log.warning("duty %s rests: %s", part.name, error)
            moved = True
            await asyncio.sleep(LONGEST)
        except (StoreError, TimeoutError) as error:
            counts.store_errors += 1
            client.complaints.say(log, f"duty {part.name} failed and is tried again", error)
            await backoff.pause()
        else:
            backoff.reset()
            moved = False
            await asyncio.sleep(pause / SECOND)
