"""The sweeper of a worker: takes back what dead workers left, and deals with jobs of types that nobody handles."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.duties import TellDependants
from windlass.core.events import announced
from windlass.core.fields import BATCH_LIMIT
from windlass.core.settle import Execution, Rejected, settle
from windlass.drivers.values import Claim, WaitingType
from windlass.errors import StoreError
from windlass.types import Micros
from windlass.worker.recovering import BITE, recover_lapsed, settle_all
from windlass.worker.stats import Stats

HEAD: Final = 200  # ready jobs of each queue that are looked at for types that nobody here handles
REMEASURE_EVERY: Final = 30 * SECOND
HINT_EVERY: Final = 300 * SECOND
HINTS: Final = 1_000  # in that time: whoever enqueues may invent names
JUMP: Final = 1 * SECOND
log: Final = logging.getLogger("windlass.worker")


class Sweeper:
    def __init__(
        self, client: Client, stats: Stats, *, queues: tuple[str, ...], types: Collection[str], worker_id: str,
        distrust: Callable[[bool], None],
    ) -> None:  # fmt: skip
        self._client = client
        self._stats = stats
        self._queues = queues
        self._types = frozenset(types)
        self._worker_id = worker_id
        self._distrust = distrust  # told whether leases may be taken back
        self._trusts_again_at: Micros | None = None
        self._last: dict[str, Micros] = {}
        self._hinted: dict[tuple[str, str], Micros] = {}
        self.swept: Final = asyncio.Event()  # once, or tried to

    async def run(self) -> None:
        pause = self._client.settings.lease / 3 / SECOND
        while True:
            try:
                await self.sweep()
            except StoreError as error:
                self._stats.store_errors += 1
                self._client.complaints.say(log, "the sweep failed and is tried again", error)
            finally:
                self.swept.set()
            await asyncio.sleep(pause)

    async def sweep(self) -> None:
        now = self._client.now()
        self._measure_clock(now)
        await self.recover()
        await self._meet_unknown_types(now)
        if self._is_time("other queues", HINT_EVERY, now):
            await self._look_at_other_queues()

    @property
    def trusts(self) -> bool:
        """Whether this process may judge by its clock that others are gone."""
        return self._trusts_again_at is None

    async def recover(self) -> None:
        if self.trusts:
            self._stats.recovered += await recover_lapsed(self._client)

    async def pay(self) -> None:
        """What ended jobs owe to those that wait for them, because it did not fit into the transaction of their end: for
        who drains, and would be gone before the next sweep. Whatever the clock says: no lease is judged by it. What
        somebody else holds, and perhaps what comes behind it, is left to a sweep, of theirs or of any other worker."""
        client = self._client
        try:
            while (done := await client.driver.maintain(TellDependants(), epoch=None, now=client.now())) and done.more:
                pass  # each bite in a transaction of its own
            await self.recover()
        except StoreError as error:
            self._stats.store_errors += 1
            log.warning("what waits for ended jobs is left to the next sweep: %s", error)

    def _is_time(self, what: str, every: Micros, now: Micros) -> bool:
        if what in self._last and now - self._last[what] < every:
            return False
        self._last[what] = now
        return True

    def _measure_clock(self, now: Micros) -> None:
        """A process that saw its clock jump takes nothing back for one lease: others may still count on theirs."""
        if self._trusts_again_at is not None and now >= self._trusts_again_at:
            self._trusts_again_at = None
            self._distrust(False)
        remeasure = getattr(self._client.driver, "remeasure", None)
        if remeasure is not None and self._is_time("remeasure", REMEASURE_EVERY, now) and abs(remeasure()) > JUMP:
            self._trusts_again_at = self._client.now() + self._client.settings.lease
            self._distrust(True)

    # --------------------------------------------------------------------------------------------------- unknown types

    async def _meet_unknown_types(self, now: Micros) -> None:
        """Jobs at the head of a queue that nobody here handles: those that say so are dead, the others get a hint."""
        unknown = await self._unknown_types()
        doomed = tuple(sorted({entry.type for entry in unknown if entry.on_unknown == "dead"}))
        if doomed:
            await self._reject(doomed)
        self._hinted = {name: at for name, at in self._hinted.items() if now - at < HINT_EVERY}
        for entry in unknown:
            name = (entry.queue, entry.type)
            if entry.on_unknown == "wait" and name not in self._hinted and len(self._hinted) < HINTS:
                self._hinted[name] = now
                log.warning(
                    "queue %s: jobs of type %r wait, and this worker has no task of that name; import the module that "
                    "declares it, or start a worker that does", entry.queue, entry.type,
                )  # fmt: skip

    async def _unknown_types(self) -> list[WaitingType]:
        """A head of nothing but jobs that wait for another worker hides no others: then further ones are looked at."""
        head = HEAD
        while True:
            waiting = await self._client.driver.waiting_types(self._queues, limit=head)
            unknown = [entry for entry in waiting if entry.type not in self._types]
            left = Counter[str]()
            for entry in unknown:
                left[entry.queue] += entry.jobs if entry.on_unknown == "wait" else 0
            if head == BATCH_LIMIT or max(left.values(), default=0) < head:
                return unknown
            head = min(5 * head, BATCH_LIMIT)

    async def _look_at_other_queues(self) -> None:
        """Work that this worker could do, in queues that it was not told of."""
        for entry in await self._client.driver.waiting_types(None, limit=HEAD):
            if entry.queue not in self._queues and entry.type in self._types:
                log.info(
                    "queue %s has jobs of type %r, and this worker does not serve it; add it to --queues?",
                    entry.queue, entry.type,
                )  # fmt: skip

    async def _reject(self, types: tuple[str, ...]) -> None:
        now = self._client.now()
        wish = Claim(
            queues=self._queues, limit=BITE, lease_for=self._client.settings.lease, worker_id=self._worker_id,
            token=self._client.ids.token(), types=types, unhandled=True,
            reclaim=self.trusts,
        )  # fmt: skip
        jobs = await self._client.driver.claim(wish, now=now)
        if jobs:
            webhooks = await self._client.subscriptions.current()
            ends = [(job, announced(webhooks, job, settle(job, _unknown(job.type), Execution(now)))) for job in jobs]
            answers = await settle_all(self._client, ends, now=now)
            self._stats.dead += sum(answer in ("applied", "repeated") for answer in answers.values())


def _unknown(kind: str) -> Rejected:
    return Rejected(f"no task is called {kind!r} and the job says on_unknown='dead'")
