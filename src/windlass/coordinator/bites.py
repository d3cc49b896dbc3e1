"""Duties that come in bites: one piece at a time, again soon while there is more, else after their usual pause. A bite is
as large as the store can take without others noticing: what takes long is asked for in smaller pieces the next time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings
from windlass.coordinator.election import Election
from windlass.core.duties import (
    AgeJobs,
    Duty,
    ForgetKeys,
    ForgetUsage,
    Prune,
    RecountLimits,
    ReturnSpace,
    RollUpUsage,
    TidyPositions,
)
from windlass.core.usage import month_of
from windlass.types import Micros

log: Final = logging.getLogger("windlass.coordinator")
EVERY: Final = 60 * SECOND
SHORTEST: Final = SECOND // 1_000
BITE: Final = 500  # rows, to begin with
SMALLEST, LARGEST = 50, 2_000
AIM: Final = SECOND // 20  # that a bite takes
SETTLED_AFTER: Final = 300 * SECOND  # usage is counted when runs of that time have surely been written


class InBites:
    def __init__(self, name: str, client: Client, election: Election, next_bite: Callable[[Micros, int], Duty]) -> None:
        self.name: Final = name
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._next_bite = next_bite
        self._size = BITE
        self._told: set[str] = set()
        self._time = asyncio.get_running_loop().time

    async def tick(self) -> Micros:
        """While there is more, others get as much of the store's time as this has taken."""
        began, size = self._time(), self._size
        self._size = max(SMALLEST, size // 2)  # what fails, or is given up, was more than the store could take
        done = await self._election.act(self._next_bite(self._client.now(), size))
        self._size = size
        if done is None:
            return 0
        if done.refused and done.refused not in self._told:  # once, not in each sweep
            self._told.add(done.refused)
            log.warning("%s: passes over what rows of others refer to: %s", self.name, done.refused)
        took = int((self._time() - began) * SECOND)
        if done.more or took > AIM:  # how quick a bite was that was not full tells nothing
            self._size = fitting(self._size, took)
        return max(took, SHORTEST) if done.more else EVERY


def fitting(size: int, took: Micros) -> int:
    """How large the next bite may be, if one of this size took so long. One that was held up once does not say much: it
    changes by half at most."""
    wanted = size * AIM // max(took, 1)
    return max(SMALLEST, min(LARGEST, 2 * size, max(size // 2, wanted)))


def retention(settings: Settings, limit: int) -> Prune:
    return Prune(
        succeeded=settings.keep_succeeded, cancelled=settings.keep_cancelled, dead=settings.keep_dead, limit=limit
    )  # fmt: skip


def usage_kept(settings: Settings, now: Micros, limit: int) -> ForgetUsage:
    """By whole months, so that a store may drop them whole."""
    kept = settings.keep_usage
    return ForgetUsage(keep=now - month_of(max(now - kept, 0)) if kept else None, limit=limit)


def upkeep(client: Client, election: Election) -> list[InBites]:
    settings = client.settings
    return [
        InBites("retention", client, election, lambda now, size: retention(settings, size)),
        InBites("keys", client, election, lambda now, size: ForgetKeys(limit=size)),
        InBites("limits", client, election, lambda now, size: RecountLimits(limit=size)),
        InBites("ageing", client, election, lambda now, size: AgeJobs()),
        InBites("usage", client, election, lambda now, size: RollUpUsage(until=now - SETTLED_AFTER)),
        InBites("old usage", client, election, lambda now, size: usage_kept(settings, now, size)),
        InBites("space", client, election, lambda now, size: ReturnSpace(limit=size)),
        InBites("positions", client, election, lambda now, size: TidyPositions()),
    ]
