"""One look at the queues for everybody who watches, at most once a second and for no more than a twentieth of the time."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from windlass.admin import Admin
from windlass.admin.views import Overview

SPACING: Final = 1.0
REST: Final = 19  # times as long as a look took


class Pulse:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._latest: Overview | None = None
        self._number = 0
        self._not_before = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def next(self, seen: int) -> tuple[int, Overview]:
        """The first picture that differs from the one with the number `seen`; who has seen none (0) gets the latest."""
        while self._latest is None or self._number == seen:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look(), name="windlass-pulse")
            await asyncio.shield(self._looking)
        return self._number, self._latest

    async def recent(self) -> Overview:
        """A picture that is no older than a look may be."""
        if self._latest is None or asyncio.get_running_loop().time() >= self._not_before:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look(), name="windlass-pulse")
            await asyncio.shield(self._looking)
        assert self._latest is not None, "a look that did not fail has seen something"
        return self._latest

    async def _look(self) -> None:
        time = asyncio.get_running_loop().time
        await asyncio.sleep(max(self._not_before - time(), 0))
        began = time()
        found = await self._admin.overview()
        self._not_before = time() + max(SPACING, (time() - began) * REST)
        if self._latest is None or replace(found, at=self._latest.at) != self._latest:
            self._latest, self._number = found, self._number + 1
