"""Telling many remote workers that there may be work, with one ear at the store.

Each time the store tells of something the number grows. Whoever waits names the last number that it knew, so nothing is
missed between a claim and a wait, nor by a reply that was lost. The ear is open while somebody has asked lately.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from windlass.clock import ticking
from windlass.drivers.protocol import Driver
from windlass.errors import AppClosed, DriverClosed, WindlassError

LISTENS: Final = 90.0  # seconds after the last question
SLICE: Final = 5.0  # seconds of one wait at the store
AGAIN: Final = 1.0  # seconds until the store is asked again after it failed


class Wakeups:
    def __init__(self, driver: Callable[[], Driver]) -> None:
        self._driver = driver
        self._epoch = secrets.token_hex(4)  # of this process: after a restart everybody looks once
        self._number = 0
        self._told = asyncio.Event()
        self._asked = 0.0
        self._ear: asyncio.Task[None] | None = None

    def mark(self) -> str:
        """Where waiting begins for who looks at the store after this."""
        self._asked = ticking()
        if self._ear is None or self._ear.done():
            self._number += 1  # what happened while nobody listened is not known
            self._ear = asyncio.create_task(self._listen(), name="windlass-wakeups")
        return f"{self._epoch}:{self._number}"

    async def wait(self, wake: str | None, timeout: float) -> tuple[bool, str]:
        """Whether there was something since `wake`, and the mark for the next time."""
        here = self.mark()
        if wake is not None and wake != here:
            return True, here
        told = self._told
        try:
            await asyncio.wait_for(told.wait(), timeout)
        except TimeoutError:
            return False, self.mark()
        return True, self.mark()

    async def _listen(self) -> None:
        own = asyncio.current_task()
        while ticking() - self._asked < LISTENS and not (own is not None and own.cancelling()):
            try:
                if await self._driver().wait(timeout=SLICE):
                    self._number += 1
                    told, self._told = self._told, asyncio.Event()
                    told.set()
            except (AppClosed, DriverClosed):
                return
            except WindlassError:  # whoever looks at the store meets the error, in its own words
                await asyncio.sleep(AGAIN)
