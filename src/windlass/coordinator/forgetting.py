"""Old events are forgotten with their deliveries: every minute where somebody subscribes, seldom where nobody does. They go
by whole days (UTC), so that a store may drop a day at once."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator.election import Election
from windlass.core.duties import FanOut, ForgetEvents
from windlass.core.queries import WaitingEvents
from windlass.core.usage import DAY, day_of
from windlass.types import Micros

EVERY: Final = 60 * SECOND
SELDOM: Final = 600 * SECOND  # there is at most what was left when the last webhook went
SOON: Final = SECOND // 20
BITE: Final = 500


class Forgetting:
    name: Final = "events"

    def __init__(self, client: Client, election: Election) -> None:
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._has_begun = False

    async def tick(self) -> Micros:
        if not self._has_begun:  # nothing becomes old in the moment in which somebody begins to lead
            self._has_begun = True
            return self._pause
        now = self._client.now()
        keep = self._keep(now)
        passed_by = await self._pass_by(now - keep)
        done = await self._election.act(ForgetEvents(keep=keep))
        if done is None:
            return 0
        return SOON if done.more or passed_by == BITE else self._pause

    async def _pass_by(self, before: Micros) -> int:
        """What was announced just before the last webhook was switched off or removed: no worker makes deliveries of it any
        more, and until they are made no event may be forgotten. Here they are none."""
        if any(hook.enabled for hook in await self._client.subscriptions.current()):
            return 0
        waiting = await self._client.driver.read(WaitingEvents(limit=BITE))
        old = sum(1 for _ in takewhile(lambda event: event.created_at <= before, waiting))
        if old:
            await self._election.act(FanOut(limit=old))
        return old

    def _keep(self, now: Micros) -> Micros:
        kept = self._client.settings.keep_events
        return kept if kept < DAY else now - day_of(max(now - kept, 0))

    @property
    def _pause(self) -> Micros:
        return EVERY if self._client.subscriptions.known else SELDOM
