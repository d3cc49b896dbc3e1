"""Duties that come in bites: one piece at a time, again soon while there is more, else after their usual pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings
from windlass.coordinator.election import Election
from windlass.core.duties import AgeJobs, Duty, ForgetKeys, Prune, RecountLimits, RollUpUsage, TidyPositions
from windlass.types import Micros

EVERY: Final = 60 * SECOND
SHORTEST: Final = SECOND // 1_000
BITE: Final = 500
SETTLED_AFTER: Final = 300 * SECOND  # usage is counted when runs of that time have surely been written


class InBites:
    def __init__(self, name: str, client: Client, election: Election, next_bite: Callable[[Micros], Duty]) -> None:
        self.name: Final = name
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._next_bite = next_bite
        self._time = asyncio.get_running_loop().time

    async def tick(self) -> Micros:
        """While there is more, others get as much of the store's time as this has taken."""
        began = self._time()
        done = await self._election.act(self._next_bite(self._client.now()))
        if done is None:
            return 0
        took = int((self._time() - began) * SECOND)
        return max(took, SHORTEST) if done.more else EVERY


def retention(settings: Settings) -> Prune:
    return Prune(
        succeeded=settings.keep_succeeded, cancelled=settings.keep_cancelled, dead=settings.keep_dead, limit=BITE
    )  # fmt: skip


def upkeep(client: Client, election: Election) -> list[InBites]:
    kept = retention(client.settings)
    return [
        InBites("retention", client, election, lambda now: kept),
        InBites("keys", client, election, lambda now: ForgetKeys()),
        InBites("limits", client, election, lambda now: RecountLimits()),
        InBites("ageing", client, election, lambda now: AgeJobs()),
        InBites("usage", client, election, lambda now: RollUpUsage(until=now - SETTLED_AFTER)),
        InBites("positions", client, election, lambda now: TidyPositions()),
    ]
