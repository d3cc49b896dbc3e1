"""Workers that fell silent are removed, and what they held is taken back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.client import Client
from windlass.coordinator.election import Election
from windlass.core.duties import RemoveDeadWorkers
from windlass.types import Micros
from windlass.wording import plural

log: Final = logging.getLogger("windlass.coordinator")


class Burial:
    name: Final = "burial"

    def __init__(
        self, client: Client, election: Election, *, recover: Callable[[], Awaitable[None]], trusts: Callable[[], bool]
    ) -> None:
        self._silent_for = client.settings.worker_timeout
        self._election = election
        self._recover = recover
        self._trusts = trusts  # whether this process may judge others by its clock
        self._began: int | None = None  # the epoch in which it has begun to look
        self.patience: Final = election.patience_in_office

    async def tick(self) -> Micros:
        """A leader that has just begun lets one heartbeat of everybody pass: perhaps the whole machine has slept."""
        pause = self._silent_for // 3
        epoch = self._election.may_act()
        if epoch is None:
            return 0
        if epoch != self._began or not self._trusts():
            self._began = epoch
            return pause
        done = await self._election.act(RemoveDeadWorkers(silent_for=self._silent_for))
        if done is None:
            return 0
        if done.rows:
            log.warning("removed because of their silence: %s", plural(done.rows, "worker"))
            await self._recover()
        return pause
