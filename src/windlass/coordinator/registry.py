"""The registry: a worker says what it is and that it lives, and that it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from windlass.client import Client
from windlass.core.alterations import Leave
from windlass.drivers.protocol import Driver
from windlass.errors import WindlassError
from windlass.records import WorkerInfo
from windlass.types import Micros

log: Final = logging.getLogger("windlass.coordinator")


class Registry:
    name: Final = "heartbeat"

    def __init__(self, client: Client, about: WorkerInfo, running: Callable[[], int]) -> None:
        self._client = client
        self._about = about
        self._running = running  # how many jobs it holds
        self.patience: Final = client.settings.silence // 3
        self.registered: Final = asyncio.Event()
        self.beaten_at: Micros | None = None  # as far as was confirmed: from then on its silence is counted

    async def tick(self) -> Micros:
        driver, now = self._client.driver, self._client.now()
        self.beaten_at = self.beaten_at or now
        await driver.beat(replace(self._about, wakeups=wakeups_of(driver), running=self._running()), now=now)
        self.beaten_at = now
        self.registered.set()
        return self._client.settings.silence // 3

    async def be_heard(self) -> None:
        """Before a job is taken: a worker that was silent for long may be removed at once, and its newest jobs with it."""
        silent_since, timeout = self.beaten_at, self._client.settings.worker_timeout
        if silent_since is not None and self._client.now() - silent_since > timeout // 3:
            await self.tick()

    async def leave(self) -> None:
        """Once and no more: should it fail, the others notice that this worker is silent."""
        try:
            await self._client.driver.alter([Leave(self._about.id)], now=self._client.now())
        except WindlassError as error:
            log.info("worker %s could not sign off: %s", self._about.id, error)


def wakeups_of(driver: Driver) -> str:
    """How this process hears of new work at present. A driver whose way may change tells it as `present_wakeups`."""
    present: str | None = getattr(driver, "present_wakeups", None)
    return present or driver.capabilities.wakeups
