"""How long to wait for a store that cannot be reached: longer each time, spread, never for ever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

FIRST: Final = 0.05
LONGEST: Final = 5.0


class Backoff:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST

    async def pause(self, until: asyncio.Event | None = None) -> None:
        """`until` ends it early."""
        pause, self._next = self._next, min(self._next * 2, LONGEST)
        seconds = pause * (0.5 + self._random.random() / 2)
        if until is None:
            await asyncio.sleep(seconds)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), seconds)

    def reset(self) -> None:
        self._next = FIRST
