"""Taking work: as much as there are free slots, plus a little ahead when handlers are quick.

Tasks are claimed in groups, because what may be held beyond free slots differs: async and blocking handlers have slots of
their own, and *careful* work (it holds permits, or must never be handed back) is claimed only when it can begin. A claim
is never cancelled half-way: jobs that nobody heard of would stay leased until their lease lapses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from windlass.client import Client
from windlass.clock import SECOND
from windlass.drivers.protocol import Claim
from windlass.errors import StoreError
from windlass.tasks import Task
from windlass.types import Micros
from windlass.worker.backoff import Backoff
from windlass.worker.holdings import Held, Holdings
from windlass.worker.pace import Pace
from windlass.worker.settler import Settler
from windlass.worker.stats import Stats

LARGEST: Final = 1_000
log: Final = logging.getLogger("windlass.worker")


class Runner(Protocol):
    """Where claimed jobs go: `Slots` or `Threads`."""

    @property
    def free(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def pace(self) -> Pace: ...
    def accept(self, jobs: Sequence[Held], *, first: bool = False) -> None: ...


class Group:
    """Tasks that are claimed together."""

    def __init__(self, runner: Runner, tasks: Sequence[Task[..., Any]], *, careful: bool) -> None:
        self.runner = runner
        self.tasks = {task.name: task for task in tasks}
        self.types = tuple(sorted(self.tasks))
        self.careful = careful

    def room(self, held: int) -> int:
        """How many jobs to ask for now; `held` counts those of this group that are here already."""
        runner, prefetch = self.runner, self.runner.pace.prefetch
        if self.careful:  # while quick work passes through, a slot falls free at any moment
            return runner.free if prefetch == 0 else max(runner.size - held, 0)
        if prefetch == 0:
            return runner.free
        return runner.free + prefetch - runner.waiting if runner.waiting <= prefetch // 2 else 0


class Claimer:
    def __init__(
        self, client: Client, holdings: Holdings, settler: Settler, stats: Stats, groups: Sequence[Group],
        *, queues: tuple[str, ...], worker_id: str, hand_back: Callable[[Held], None],
        lose: Callable[[Held], None], most: int | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._holdings = holdings
        self._settler = settler
        self._stats = stats
        self._groups = groups
        self._queues = queues
        self._worker_id = worker_id
        self._hand_back = hand_back
        self._lose = lose
        self._most = most  # claim no more than this in all
        self._changed = asyncio.Event()  # a slot fell free, a settlement was confirmed, somebody wants us to stop
        self._next_due: Micros | None = None
        self._waiting: asyncio.Task[bool] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._told_to_stop = asyncio.Event()
        self.stopping = False
        self.reclaim = True  # False for one lease after the clock was seen to jump

    # ------------------------------------------------------------------------------------------------------ from outside

    def changed(self) -> None:
        self._changed.set()

    def expect(self, due: Micros) -> None:
        """A job that this process knows of will be due then. Called from any thread."""
        loop = self._loop
        if loop is not None and (self._next_due is None or due < self._next_due):
            self._next_due = due
            with suppress(RuntimeError):  # that loop is closed, and with it this worker
                loop.call_soon_threadsafe(self._changed.set)

    def stop(self) -> None:
        self.stopping = True
        self._changed.set()
        self._told_to_stop.set()

    # ---------------------------------------------------------------------------------------------------------- the loop

    async def run(self, *, until_empty: bool) -> None:
        """Claim until told to stop, or with `until_empty` until nothing is due and nothing is held."""
        backoff = Backoff(self._client.ids.random)
        self._loop = asyncio.get_running_loop()
        try:
            while not self.stopping:
                self._changed.clear()
                if not self._settler.has_room() or not self._wanted():
                    await self._changed.wait()
                    continue
                alone = not len(self._holdings)  # what is held may enqueue more, or free a permit, while we look
                try:
                    found = await self._claim_all()
                except StoreError as error:
                    self._stats.store_errors += 1
                    log.warning("nothing could be claimed: %s", error)
                    await backoff.pause(self._told_to_stop)
                    continue
                backoff.reset()
                if found or self.stopping:
                    continue
                if until_empty and alone:
                    return
                await self._wait(until_empty)
        finally:
            self._loop = None
            if self._waiting is not None:
                self._waiting.cancel()

    def _wanted(self) -> bool:
        if self._most is not None and self._stats.claimed >= self._most:
            self.stopping = self.stopping or not len(self._holdings)
            return self.stopping
        return any(self._room(group) > 0 for group in self._groups)

    def _room(self, group: Group) -> int:
        held = sum(h.task.name in group.tasks for h in self._holdings) if group.careful else 0
        room = min(group.room(held), LARGEST)
        return room if self._most is None else min(room, self._most - self._stats.claimed)

    async def _claim_all(self) -> bool:
        """One claim for each group that has room; True when any of them got something."""
        found = False
        now = asyncio.get_running_loop().time()
        for pace in {id(group.runner): group.runner.pace for group in self._groups}.values():
            pace.measure(now)
        for group in self._groups:
            room = self._room(group)
            if room > 0 and not self.stopping:
                found = await self._claim(group, room) or found
        return found

    async def _claim(self, group: Group, room: int) -> bool:
        begins = room <= group.runner.free
        wish = Claim(
            queues=self._queues, limit=room, lease_for=self._client.settings.lease, worker_id=self._worker_id,
            token=self._client.ids.token(), types=group.types, start=begins, reclaim=self.reclaim,
        )  # fmt: skip
        jobs = await self._client.driver.claim(wish, now=self._client.now())
        if not jobs:
            return False
        self._stats.claimed += len(jobs)
        held = [Held(self._client, job, group.tasks[job.type], begun=begins) for job in jobs]
        for one in held:
            before = self._holdings.add(one)
            if before is not None and not before.ended:
                self._lose(before)
        group.runner.accept(self._kept(held), first=group.careful)
        return True

    def _kept(self, claimed: list[Held]) -> list[Held]:
        """All of them; but what was on its way here when the worker was told to stop goes back, unless it cannot."""
        if not self.stopping:
            return claimed
        for held in claimed:
            if held.can_be_handed_back:
                self._hand_back(held)
        return [held for held in claimed if not held.can_be_handed_back]

    async def _wait(self, until_empty: bool) -> None:
        """Until something may be claimable: told by the store, by a slot, by the time; or look again after a while."""
        pause = self._client.settings.poll / SECOND
        if self._next_due is not None:
            until = self._next_due - self._client.now()
            pause = max(min(pause, until / SECOND), 0)
            if until <= 0:
                self._next_due = None
        if until_empty:  # what is held may enqueue more, or come back at once
            pause = min(pause, 0.05)
        loop = asyncio.get_running_loop()
        if self._waiting is None or self._waiting.done():
            self._waiting = loop.create_task(self._client.driver.wait(timeout=self._client.settings.poll / SECOND))
        changed = loop.create_task(self._changed.wait())
        try:
            await asyncio.wait({self._waiting, changed}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if self._waiting.done() and not self._heard(self._waiting):
                await asyncio.wait({changed}, timeout=pause)
        finally:
            changed.cancel()

    def _heard(self, waited: asyncio.Task[bool]) -> bool:
        """Whether the store could be listened to."""
        error = None if waited.cancelled() else waited.exception()
        self._waiting = None
        if error is not None:
            log.warning(
                "the store cannot tell of new work (%s); it is asked every %g s", error, self._client.settings.poll / SECOND
            )
        return error is None
