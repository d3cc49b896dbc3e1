"""Outcomes on their way to the store.

While one batch is being written the next gathers, so there is no timer and no job waits for company. When the store
cannot be reached outcomes wait here, their leases renewed as long as that works, and nothing new is claimed; what is
refused in the end is counted and logged with job and outcome. A call repeated after a lost reply takes effect once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from windlass.backoff import Backoff
from windlass.client import Client
from windlass.clock import ticking
from windlass.core.changes import OUTCOME_OF, Ack, Answer, Settlement, due_of
from windlass.core.events import announced
from windlass.core.settle import Execution, Rejected, settle
from windlass.errors import ConstraintViolated, DuplicateId, InvalidInput, StoreError, WindlassError
from windlass.hooks import HookRunner
from windlass.telemetry.jsonlog import about
from windlass.telemetry.measures import Measures
from windlass.worker.holdings import Held, Holdings
from windlass.worker.stats import Stats

BATCH: Final = 1_000
ROOM: Final = 5_000  # unsettled outcomes at which handlers have to wait
log: Final = logging.getLogger("windlass.worker")

Pending = tuple[Held, Settlement]
UNSTORABLE: Final = (InvalidInput, ConstraintViolated, DuplicateId)  # one unit's fault, not the store's


class Settler:
    def __init__(
        self, client: Client, holdings: Holdings, stats: Stats, settled: Callable[[int], None],
        hooks: HookRunner | None = None, measures: Measures | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._holdings = holdings
        self._stats = stats
        self.settled: Final = settled  # told of each confirmed batch
        self._hooks = hooks  # None where nobody listens
        self._measures = measures
        self._pending: list[Pending] = []
        self._writing = 0
        self._confirmations: dict[int, asyncio.Future[None]] = {}
        self._told = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.open = threading.Event()  # the same, for threads
        self.open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.reachable = True

    def put(self, held: Held, change: Settlement) -> None:
        self._pending.append((held, change))
        if len(self._pending) == 1:
            self._told.set()
            self._idle.clear()
        if len(self._pending) >= ROOM:
            self._close()

    def has_room(self) -> bool:
        return self.reachable and self._room.is_set()

    def _close(self) -> None:
        self._room.clear()
        self.open.clear()

    def _open(self) -> None:
        self._room.set()
        self.open.set()

    async def room(self) -> None:
        """Return once outcomes are being stored again: nobody starts new work while finished work cannot be kept."""
        await self._room.wait()

    async def confirmed(self, held: Held) -> None:
        """Return once this job's settlement was answered."""
        if not held.done:
            future = self._confirmations.setdefault(id(held), asyncio.get_running_loop().create_future())
            await future

    async def idle(self) -> None:
        """Return once nothing waits to be stored."""
        await self._idle.wait()

    @property
    def unsettled(self) -> int:
        return len(self._pending) + self._writing

    async def run(self) -> None:
        backoff = Backoff(self._client.ids.random)
        while True:
            if not self._pending:
                self._idle.set()
                self._told.clear()
                await self._told.wait()
            batch, self._pending = self._pending[:BATCH], self._pending[BATCH:]
            self._writing = len(batch)
            await self._write(batch, backoff)
            self._writing = 0
            if len(self._pending) < ROOM and not self._room.is_set():
                self._open()

    async def _write(self, batch: list[Pending], backoff: Backoff) -> None:
        """Until it is answered: the same call again is safe, it is told that it took effect already."""
        while True:
            try:
                changes, began = await self._changes(batch), ticking()
                answers = await self._client.driver.settle(changes, now=self._client.now())
                if self._measures is not None:
                    self._measures.settles.observe(ticking() - began)
            except UNSTORABLE as error:
                if len(batch) == 1:
                    await self._write_refusal(batch[0], error, backoff)
                else:
                    for one in batch:  # one of them cannot be stored as it is; the others need not wait for it
                        await self._write([one], backoff)
                return
            except StoreError as error:
                await self._wait_for_store(len(batch), error, backoff)
            else:
                self._reached(backoff)
                self._answered(batch, answers)
                return

    def stored_by_itself(self, held: Held) -> None:
        """A handler's own transaction has settled its job."""
        if self._measures is not None:
            self._measures.settled(held.job, "ack", held.started_at, self._client.now())
        if self._hooks is not None:
            self._hooks.settled(held.job, Ack(handle=held.job.handle, token=held.job.token, at=self._client.now()))
        self.settled(1)

    async def _changes(self, batch: list[Pending]) -> list[Settlement]:
        """With the events that somebody subscribed to. Who did is asked once in a while, not for each batch."""
        webhooks = await self._client.subscriptions.current()
        if not webhooks:
            return [change for _, change in batch]
        return [announced(webhooks, held.job, change) for held, change in batch]

    async def _write_refusal(self, unit: Pending, error: WindlassError, backoff: Backoff) -> None:
        """An outcome that no store takes: the job is dead, with the reason why. Should even that be refused, its lease
        lapses, and recovery decides."""
        held, change = unit
        if held.refused:
            log.error("job %s: its end cannot be stored (%s); its lease lapses", held.job.id, error, extra=about(held.job))
            self._answered([unit], ["not_inflight"])
            return
        held.refused = True
        rejected = Rejected(f"its outcome could not be stored: {error}")
        await self._write([(held, settle(held.job, rejected, Execution(change.at, change.started_at)))], backoff)

    async def _wait_for_store(self, waiting: int, error: WindlassError, backoff: Backoff) -> None:
        if self.reachable:
            log.warning("the store cannot be written (%s); %d outcomes wait and nothing is claimed", error, waiting)
        self.reachable = False
        self._close()
        self._stats.store_errors += 1
        await backoff.pause()

    def _reached(self, backoff: Backoff) -> None:
        if not self.reachable:
            log.warning("the store can be written again")
            self.reachable = True
            self._open()
        backoff.reset()

    def _answered(self, batch: list[Pending], answers: list[Answer]) -> None:
        for (held, change), answer in zip(batch, answers, strict=True):
            held.done = True
            self._holdings.drop(held)
            if answer in ("applied", "repeated"):
                self._stats.count(change)
                if self._measures is not None:
                    self._measures.settled(held.job, OUTCOME_OF[type(change)], held.started_at, change.at)
                if self._hooks is not None:
                    self._hooks.settled(held.job, change)
                if type(change) is not Ack:
                    self._client.tell_due(due_of(change))
            else:
                self._stats.settled_late += 1
                log.warning(
                    "job %s: its outcome (%s) came too late and was refused: %s",
                    held.job.id,
                    OUTCOME_OF[type(change)],
                    answer,
                    extra=about(held.job),
                )
            if self._confirmations:
                future = self._confirmations.pop(id(held), None)
                if future is not None and not future.done():
                    future.set_result(None)
        self.settled(len(batch))
