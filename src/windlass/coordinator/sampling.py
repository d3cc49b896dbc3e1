"""Depths of queues, once a minute, and never for more than a fiftieth of the leader's time."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator.election import Election
from windlass.core.duties import SampleQueues
from windlass.types import Micros

MINUTE: Final = 60 * SECOND
KEEP: Final = 7 * 86_400 * SECOND
REST: Final = 49  # times as long as it took


class Sampling:
    name: Final = "sampling"

    def __init__(self, client: Client, election: Election) -> None:
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._time = asyncio.get_running_loop().time

    async def tick(self) -> Micros:
        began = self._time()
        done = await self._election.act(SampleQueues(keep=KEEP, waits_over=self._client.settings.unhealthy_after))
        if done is None:
            return 0
        rest = int((self._time() - began) * SECOND * REST)
        return max(MINUTE - self._client.now() % MINUTE, rest)
