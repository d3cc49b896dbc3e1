"""Leases: renewed for everything that is held, and obeyed when they cannot be.

Three loops, because one that hangs must not keep the others from acting: `renew` asks the store every third of a
lease (and about once a second where a handler has told of progress), `look` asks in between who is to be cancelled, `fence`
interrupts every handler whose lease was not confirmed for two thirds of its life, long before anybody else may take the
job. A worker that cannot tell that it lives stops them all: it is about to be taken for dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.drivers.values import Extended, Renewal
from windlass.errors import StoreError
from windlass.telemetry.jsonlog import about
from windlass.types import Micros
from windlass.worker.finish import Finisher
from windlass.worker.holdings import Held, Holdings
from windlass.worker.stats import Stats

BATCH: Final = 1_000
NEWS_EVERY: Final = 1 * SECOND  # progress is written and cancellations are looked for this often
LOOKED_AT: Final = 100  # running jobs asked about at once, between renewals
LOOK_WITHIN: Final = 1.0  # seconds: a read that takes longer waits behind others
ROUNDING: Final = SECOND // 1_000  # a store may keep instants less exactly than they were asked for
TICKS: Final = 12  # looks at the holdings in the life of a lease
log: Final = logging.getLogger("windlass.worker")


class Keeper:
    def __init__(
        self, client: Client, holdings: Holdings, finisher: Finisher, stats: Stats,
        beaten_at: Callable[[], Micros | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._client = client
        self._holdings = holdings
        self._finisher = finisher
        self._stats = stats
        self._beaten_at = beaten_at  # the registry's last heartbeat
        self._lease = client.settings.silence  # others may take a job when its lease lapses, or its worker counts as dead
        self._tick = min(self._lease / TICKS, NEWS_EVERY) / SECOND

    # ---------------------------------------------------------------------------------------------------------- renew

    async def renew(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            if not len(self._holdings):
                continue
            try:
                async with asyncio.timeout(self._lease / SECOND):  # by then they have lapsed: ask anew for what is left
                    await self._renew_what_is_due(self._client.now())
            except (StoreError, TimeoutError) as error:
                self._stats.store_errors += 1
                self._client.complaints.say(log, "leases could not be renewed", error)

    async def _renew_what_is_due(self, now: Micros) -> None:
        due = [held for held in self._holdings if not (held.why == "lost" or held.done) and self._is_due(held, now)]
        for start in range(0, len(due), BATCH):
            await self._extend(due[start : start + BATCH])

    def _is_due(self, held: Held, now: Micros) -> bool:
        """Its lease has used up a third, or it has news."""
        third = self._lease // 3 - self._lease // TICKS  # at the next look it would be late
        return now - held.granted_at >= third or held.news() != held.reported

    async def _extend(self, batch: list[Held]) -> None:
        asked_at, lease = self._client.now(), self._client.settings.lease
        asked = [(held, held.news(), held.started_at) for held in batch]
        renewals = [
            Renewal(held.job.handle, held.job.token, None if held.told_start else started_at, *news)
            for held, news, started_at in asked
        ]
        answers = await self._client.driver.extend(renewals, lease_for=lease, now=asked_at)
        for (held, news, started_at), answer in zip(asked, answers, strict=True):
            if answer.answer != "applied":
                self._refused(held, answer)
                continue
            if (answer.expires_at or 0) > asked_at + lease - ROUNDING:  # else its row was held: the lease is the old one
                held.granted_at = asked_at
                held.reported = news
                held.told_start = held.told_start or started_at is not None
            if answer.cancel_requested and held.why is None:
                held.interrupt("cancel")

    def _refused(self, held: Held, answer: Extended) -> None:
        if held.done or held.ended:  # its settlement is on its way, or has just been confirmed: that answer counts
            return
        if held.why == "lost":  # it was fenced while we asked
            return
        log.warning(
            "job %s (%s): the lease is lost (%s); its handler is stopped", held.job.id, held.task.name, answer.answer,
            extra=about(held.job),
        )  # fmt: skip
        self.lose(held)

    def lose(self, held: Held) -> None:
        """Once: what was fenced may come back to this very worker before its handler has stopped."""
        if held.why != "lost":
            self._stats.leases_lost += 1
            self._finisher.lose(held)

    # ----------------------------------------------------------------------------------------------------------- look

    async def look(self) -> None:
        """A renewal would tell who is to be cancelled, but comes only every third of a lease; a read between them costs
        little. It may wait behind the reads of others, and is given up then: whoever hears nothing hears it from the
        renewal, which must not wait for this."""
        told = False
        while True:
            await asyncio.sleep(self._tick)
            try:
                for some in self._quiet(self._client.now()):
                    async with asyncio.timeout(LOOK_WITHIN):
                        await self._look_for_cancellations(some)
                    told = False
            except (StoreError, TimeoutError) as error:
                self._stats.store_errors += 1
                if not told:
                    log.warning("who is to be cancelled is told late: %s", str(error) or "the store does not answer")
                told = True

    def _quiet(self, now: Micros) -> list[list[Held]]:
        """Handlers that have run for a while and are not to be renewed now, some at a time."""
        quiet = [
            held for held in self._holdings
            if held.started_at is not None and now - held.started_at >= NEWS_EVERY and held.why is None
            and not held.ended and not self._is_due(held, now)
        ]  # fmt: skip
        return [quiet[start : start + LOOKED_AT] for start in range(0, len(quiet), LOOKED_AT)]

    async def _look_for_cancellations(self, begun: list[Held]) -> None:
        for held, job in zip(begun, await self._client.driver.get([held.job.id for held in begun]), strict=True):
            if job is None or job.cancel_requested_at is None or job.lease_token != held.job.token:
                continue
            if held.why is None:  # else somebody was faster, and a second interruption would hit it while it tidies up
                held.interrupt("cancel")

    # ---------------------------------------------------------------------------------------------------------- fence

    async def fence(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            latest = self._client.now() - 2 * self._lease // 3
            unheard = self._is_unheard()
            for held in self._holdings:
                if (unheard or held.granted_at <= latest) and held.why != "lost" and not held.ended:
                    log.error(
                        "job %s (%s): its lease could not be renewed; its handler is stopped", held.job.id,
                        held.task.name, extra=about(held.job),
                    )  # fmt: skip
                    self.lose(held)

    def _is_unheard(self) -> bool:
        beaten_at, timeout = self._beaten_at(), self._client.settings.worker_timeout
        return beaten_at is not None and beaten_at <= self._client.now() - 2 * timeout // 3
