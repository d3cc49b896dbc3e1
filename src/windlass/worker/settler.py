"""Outcomes on their way to the store.

While one batch is being written the next gathers, so there is no timer and no job waits for company. A batch that takes
long is left to itself, because somebody may hold a row of it and the others must not wait for that; outcomes of rows that
are held for longer wait aside. When the store cannot be reached outcomes wait here, their leases renewed as long as that
works, and nothing new is claimed; what is refused in the end is counted and logged with job and outcome. A call repeated
after a lost reply takes effect once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from windlass.backoff import Backoff
from windlass.client import Client
from windlass.clock import ticking
from windlass.core.changes import OUTCOME_OF, UNSTORABLE, Ack, Answer, Settlement, due_of
from windlass.core.events import announced
from windlass.core.settle import Execution, Rejected, settle
from windlass.drivers.values import RowsHeld
from windlass.errors import StoreError, WindlassError
from windlass.hooks import HookRunner
from windlass.telemetry.jsonlog import about
from windlass.telemetry.measures import Measures
from windlass.wording import plural
from windlass.worker.holdings import Held, Holdings
from windlass.worker.stats import Stats

BATCH: Final = 1_000
ROOM: Final = 5_000  # unsettled outcomes at which handlers have to wait
LONG: Final = 0.5  # seconds after which a batch is left to itself
APART: Final = 3  # batches that may be under way then, each of which may take a connection that others want
log: Final = logging.getLogger("windlass.worker")

Pending = tuple[Held, Settlement]


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
        self._under_way: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None  # of one that was left to itself
        self._aside: deque[Pending] = deque()  # somebody holds their rows
        self._insists = False
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
        if self._is_full():
            self._close()

    def has_room(self) -> bool:
        return self.reachable and self._room.is_set()

    def _is_full(self) -> bool:
        return len(self._pending) + len(self._aside) >= ROOM

    def _close(self) -> None:
        self._room.clear()
        self.open.clear()

    def _open(self) -> None:
        """Only where `has_room` says so too: whoever is told by one and refused by the other would ask without pause."""
        if self.reachable and not self._room.is_set() and not self._is_full():
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
        try:
            while self._failure is None:
                if self._pending:
                    batch, self._pending = self._pending[:BATCH], self._pending[BATCH:]
                    await self._begin(batch)
                else:
                    self._told.clear()
                    self._rest()
                    await self._told.wait()
            raise self._failure
        finally:
            for writing in self._under_way:
                writing.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _begin(self, batch: list[Pending]) -> None:
        """Return once it is stored, or has taken long and may be left to itself."""
        self._writing += len(batch)
        await asyncio.wait({self._start(self._store(batch))}, timeout=LONG)
        while len(self._under_way) >= APART:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        writing = asyncio.get_running_loop().create_task(work)
        self._under_way.add(writing)
        writing.add_done_callback(self._written)
        return writing

    def _written(self, writing: asyncio.Task[None]) -> None:
        """It raises nothing but what nobody expects, and then nobody may be waiting for it."""
        self._under_way.discard(writing)
        if not writing.cancelled() and writing.exception() is not None:
            self._failure = self._failure or writing.exception()
            self._told.set()

    async def _store(self, batch: list[Pending]) -> None:
        held = await self._write(batch, Backoff(self._client.ids.random))
        self._writing -= len(batch) - len(held)
        self._aside.extendleft(reversed(held))
        if held and not self._insists:
            self._insists = True
            self._start(self._insist())
        self._open()
        self._rest()

    async def _insist(self) -> None:
        """Outcomes whose rows somebody holds: many in one call, since what was let go of waits for each that was not; and
        after a wait in vain one by one, since what touches other jobs is stored with its whole batch only. First what came
        last, which may have been held for a moment only. All of them together are one of those that are under way."""
        backoff, most = Backoff(self._client.ids.random), BATCH
        while self._aside:
            batch = [self._aside.popleft() for _ in range(min(most, len(self._aside)))]
            held = await self._write(batch, backoff)
            self._writing -= len(batch) - len(held)
            self._aside.extend(held)
            self._open()
            self._rest()
            if held:
                most = 1 if most > 1 else BATCH
                await backoff.pause()
        self._insists = False

    def _rest(self) -> None:
        """Where nothing is left to be stored, nothing would tell that the store is back: the next outcome finds out."""
        if not self.unsettled:
            self._reached()
            self._idle.set()

    async def _write(self, batch: list[Pending], backoff: Backoff) -> list[Pending]:
        """Until it is answered: the same call again is safe, it is told that it took effect already. What is left are those
        whose rows somebody holds."""
        while True:
            try:
                changes, began = await self._changes(batch), ticking()
                answers = await self._client.driver.settle(changes, now=self._client.now())
                if self._measures is not None:
                    self._measures.settles.observe(ticking() - began)
            except UNSTORABLE as error:
                if len(batch) == 1:
                    return await self._write_refusal(batch[0], error, backoff)
                # one of them cannot be stored as it is; the others need not wait for it
                return [unit for one in batch for unit in await self._write([one], backoff)]
            except RowsHeld as error:
                self._reached()
                self._stats.store_errors += 1
                if len(batch) == 1:
                    log.warning("job %s: its outcome waits (%s)", batch[0][0].job.id, error, extra=about(batch[0][0].job))
                return self._answered(batch, error.answers)
            except StoreError as error:
                await self._wait_for_store(len(batch), error, backoff)
            else:
                self._reached()
                backoff.reset()
                return self._answered(batch, answers)

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

    async def _write_refusal(self, unit: Pending, error: WindlassError, backoff: Backoff) -> list[Pending]:
        """An outcome that no store takes: the job is dead, with the reason why. Should even that be refused, its lease
        lapses, and recovery decides."""
        held, change = unit
        if held.refused:
            log.error("job %s: its end cannot be stored (%s); its lease lapses", held.job.id, error, extra=about(held.job))
            return self._answered([unit], ["not_inflight"])
        held.refused = True
        rejected = Rejected(f"its outcome could not be stored: {error}")
        return await self._write([(held, settle(held.job, rejected, Execution(change.at, change.started_at)))], backoff)

    async def _wait_for_store(self, waiting: int, error: WindlassError, backoff: Backoff) -> None:
        if self.reachable:
            wait = plural(waiting, "outcome")
            log.warning("the store cannot be written (%s); nothing is claimed, and what waits is %s", error, wait)
        self.reachable = False
        self._close()
        self._stats.store_errors += 1
        await backoff.pause()

    def _reached(self) -> None:
        if not self.reachable:
            log.warning("the store can be written again")
            self.reachable = True
            self._open()

    def _answered(self, batch: list[Pending], answers: Sequence[Answer | None]) -> list[Pending]:
        """What has no answer yet."""
        left = list[Pending]()
        for unit, answer in zip(batch, answers, strict=True):
            if answer is None:
                left.append(unit)
            else:
                self._end(*unit, answer)
        self.settled(len(batch) - len(left))
        return left

    def _end(self, held: Held, change: Settlement, answer: Answer) -> None:
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
                held.job.id, OUTCOME_OF[type(change)], answer, extra=about(held.job),
            )  # fmt: skip
        if self._confirmations:
            future = self._confirmations.pop(id(held), None)
            if future is not None and not future.done():
                future.set_result(None)
