"""Leadership: asked for by every worker, held by one, under an epoch that fences everything a leader does.

The holder renews every third of the lease. One that cannot stops acting at two thirds by its own clocks, before anybody
else may lead; and should it be wrong about that, the store refuses what a past epoch asks for.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.duties import Done, Duty
from windlass.types import Micros

log: Final = logging.getLogger("windlass.coordinator")


class Mandate(NamedTuple):
    """Leadership as the store last confirmed it: since when its lease counts, by the store's clock and by the loop's."""

    epoch: int
    since: Micros
    since_by_loop: float


class Election:
    name: Final = "election"

    def __init__(self, client: Client, worker_id: str) -> None:
        self._client = client
        self._worker_id = worker_id
        self._lease = client.settings.leader_lease
        self._acts_for = 2 * self._lease / 3
        self._loop = asyncio.get_running_loop()
        self._mandate: Mandate | None = None
        self.patience: Final = self._lease
        self.won: Final = asyncio.Event()  # set while it leads, as far as it was told
        self.patience_in_office: Final = max(self._lease, client.settings.lease)  # of each duty

    async def tick(self) -> Micros:
        """Ask for leadership, or for more of it. Who has to wait comes back when the present one may have lapsed, and
        every third of a lease, because it may have been given up before."""
        asked_at, asked = self._client.now(), self._loop.time()
        answer = await self._client.driver.lead(self._worker_id, lease_for=self._lease, now=asked_at)
        until = answer.until or asked_at
        since = min(until - self._lease, asked_at)  # earlier where the old term goes on as it was
        if answer.worker_id == self._worker_id and asked_at - since < self._acts_for:
            self._gain(Mandate(answer.epoch, since, asked - (asked_at - since) / SECOND))
            return self._lease // 3
        is_mine = answer.worker_id == self._worker_id
        self._lose("its term was not prolonged" if is_mine else f"{answer.worker_id or 'nobody'} leads by now")
        spread = int(min(self._lease // 3, SECOND) * (0.5 + self._client.ids.random.random() / 2))
        return min(self._lease // 3, max(until - asked_at, 0) + spread)

    # ---------------------------------------------------------------------------------------------------- in office

    @property
    def epoch(self) -> int | None:
        """Under which it may act now; None when it may not. A clock that stands still does not prolong it."""
        mandate = self._mandate
        if mandate is None:
            return None
        by_store = self._client.now() - mandate.since
        by_loop = (self._loop.time() - mandate.since_by_loop) * SECOND
        return mandate.epoch if max(by_store, by_loop) < self._acts_for else None

    def may_act(self) -> int | None:
        """The same, and leadership that could not be renewed is given up."""
        epoch = self.epoch
        if epoch is None:
            self._lose("it could not be renewed")
        return epoch

    async def act(self, duty: Duty) -> Done | None:
        """Do one piece of maintenance. None: this worker leads no longer, and nothing was changed."""
        epoch = self.may_act()
        if epoch is None:
            return None
        done = await self._client.driver.maintain(duty, epoch=epoch, now=self._client.now())
        if done is None:
            log.warning("worker %s: %s was refused under epoch %d", self._worker_id, type(duty).__name__, epoch)
            if self._mandate is not None and self._mandate.epoch == epoch:
                self._lose("its epoch has ended")
        return done

    def resign(self) -> None:
        """It goes, and does nothing in this name any more."""
        self._mandate = None
        self.won.clear()

    def _gain(self, mandate: Mandate) -> None:
        if self._mandate is None or self._mandate.epoch != mandate.epoch:
            log.info("worker %s leads (epoch %d)", self._worker_id, mandate.epoch)
        self._mandate = mandate
        self.won.set()

    def _lose(self, why: str) -> None:
        if self._mandate is not None:
            log.warning("worker %s leads no longer: %s", self._worker_id, why)
        self.resign()
