"""Taking work: as much as there are free slots, plus a little ahead when handlers are quick.

Async and blocking handlers have slots of their own, so they are claimed apart. *Careful* work (it holds permits, or must
never be handed back) is not taken ahead. A claim
is never cancelled half-way: jobs that nobody heard of would stay leased until their lease lapses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from windlass.backoff import Backoff
from windlass.client import Client
from windlass.clock import SECOND, ticking
from windlass.copy_errors import StoreMoved, StoreMoving
from windlass.core.queries import NextRefill
from windlass.drivers.values import Claim
from windlass.errors import StoreError
from windlass.tasks import Task
from windlass.telemetry.measures import Measures
from windlass.types import Micros
from windlass.worker.holdings import Held, Holdings
from windlass.worker.pace import Pace
from windlass.worker.settler import Settler
from windlass.worker.stats import Stats
from windlass.worker.suspects import Suspects

LARGEST: Final = 500  # jobs of one claim: what is urgent waits for the one that is under way
LARGEST_OF_MANY: Final = 1_000  # where there are as many queues, each of which costs a claim a look
REST: Final = 20  # times as long as looking in vain took: at most a twentieth of the time goes into it
LONGEST_REST: Final = 1.0  # seconds, of one who was robbed
FIRST_VAIN: Final = 0.05  # seconds until a token is looked for again that is said to be there and was not found
log: Final = logging.getLogger("windlass.worker")


class Runner(Protocol):
    """Where claimed jobs go: `Slots`, `Threads` or `Processes`."""

    @property
    def free(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def pace(self) -> Pace: ...
    def accept(self, jobs: Sequence[Held], *, first: bool = False) -> None: ...


class Wish(NamedTuple):
    """How many jobs to claim, and of which types."""

    types: tuple[str, ...]
    room: int
    first: bool = False  # to begin before what already waits for a slot


class Group:
    """A runner with the tasks that it runs."""

    def __init__(self, runner: Runner, tasks: Sequence[Task[..., Any]]) -> None:
        self.runner = runner
        self.tasks = {task.name: task for task in tasks}
        self._all = tuple(sorted(self.tasks))
        self._careful = tuple(name for name in self._all if self.tasks[name].careful)
        self._plain = tuple(name for name in self._all if not self.tasks[name].careful)
        self.rests_until = 0.0

    def wishes(self, holdings: Holdings) -> list[Wish]:
        """What to ask for now. While nothing is taken ahead one claim asks for all types, so that they come in the one
        order. While quick work passes through, a slot falls free at any moment: then careful work is asked for apart
        and begins first; should that be slow, the pace falls and the one order holds again."""
        runner, prefetch = self.runner, self.runner.pace.prefetch
        if prefetch == 0 or (self._careful and prefetch < runner.size):
            return [Wish(self._all, runner.free)]
        half = (prefetch + 1) // 2  # while one half is worked off, a claim for the other is under way
        ahead = runner.free + min(prefetch - runner.waiting, half) if runner.waiting <= half else 0
        wishes = [Wish(self._plain, ahead)] if self._plain else []
        if self._careful:
            held = sum(held.task.careful and held.task.name in self.tasks for held in holdings)
            wishes.insert(0, Wish(self._careful, max(runner.size - held, 0), first=True))
        return wishes


class Claimer:
    def __init__(
        self, client: Client, holdings: Holdings, settler: Settler, stats: Stats, groups: Sequence[Group],
        *, queues: tuple[str, ...], worker_id: str, hand_back: Callable[[Held], None],
        put_off: Callable[[Held], None], lose: Callable[[Held], None], be_heard: Callable[[], Awaitable[None]],
        most: int | None = None, measures: Measures | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._holdings = holdings
        self._settler = settler
        self._stats = stats
        self._groups = groups
        self._types = tuple(sorted({name for group in groups for name in group.tasks}))
        self._queues = queues
        self._worker_id = worker_id
        self._hand_back = hand_back
        self._suspects = Suspects(holdings, put_off)
        self._lose = lose
        self._be_heard = be_heard
        self._measures = measures
        self._most = most  # claim no more than this in all
        self._largest = max(LARGEST, min(len(queues), LARGEST_OF_MANY))
        self._changed = asyncio.Event()  # a slot fell free, a settlement was confirmed, somebody wants us to stop
        self._next_due: Micros | None = None
        self._looked_at: Micros = 0  # by the last claims
        self._waited_at: Micros | None = None
        self._stood = 0.0  # seconds to the next look while the clock stands
        self._vain: float | None = None  # seconds to the next look for a token that they did not find
        self._waiting: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._told_to_stop = asyncio.Event()
        self._rests_because: type[StoreError] | None = None  # the store is being copied, or has moved
        self._one_by_one = False  # the last claim brought a suspect
        self._until_empty = False
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
        """Claim until told to stop, or with `until_empty` until nothing is due and nothing is held. What only waits for a
        token of its rate is due, and is waited for; not when so many were asked for: those want an answer soon."""
        backoff = Backoff(self._client.ids.random)
        self._until_empty = until_empty
        self._loop = asyncio.get_running_loop()
        try:
            while not self.stopping:
                self._changed.clear()
                if not self._settler.has_room() or not self._wanted():
                    await self._until_changed()
                    continue
                alone = not len(self._holdings)  # what is held may enqueue more, or free a permit, while we look
                try:
                    found = await self._claim_all()
                except (StoreMoved, StoreMoving) as error:
                    if until_empty and isinstance(error, StoreMoved):
                        raise
                    self._rest(error)
                    await backoff.pause(self._told_to_stop)
                    continue
                except StoreError as error:
                    self._stats.store_errors += 1
                    self._client.complaints.say(log, "nothing could be claimed", error)
                    await backoff.pause(self._told_to_stop)
                    continue
                backoff.reset()
                self._rest(None)
                if found or self.stopping:
                    self._vain = None
                    continue
                throttled = await self._ask_for_refill()
                if until_empty and alone and (self._most is not None or not throttled):
                    return
                await self._wait(until_empty)
        finally:
            self._loop = None
            if self._waiting is not None:
                self._waiting.cancel()

    def _rest(self, why: StoreMoved | StoreMoving | None) -> None:
        """While the store is copied, or has moved, there is nothing to do but to look now and then: the copy may be given
        up. That is said once, not each time."""
        said = None if why is None else type(why)
        if said is self._rests_because:
            return
        self._rests_because = said
        if why is None:
            log.warning("jobs are claimed again")
        else:
            log.warning("no jobs are claimed: %s", why)

    async def _until_changed(self) -> None:
        """Or until a group that rests has rested."""
        now = asyncio.get_running_loop().time()
        rests = [group.rests_until - now for group in self._groups if group.rests_until > now]
        with suppress(TimeoutError):
            async with asyncio.timeout(min(rests, default=None)):
                await self._changed.wait()

    def _wanted(self) -> bool:
        if self._most is not None and self._stats.claimed >= self._most:
            self.stopping = self.stopping or not len(self._holdings)
            return self.stopping
        now = asyncio.get_running_loop().time()
        return any(
            wish.room > 0 for group in self._groups if group.rests_until <= now for wish in group.wishes(self._holdings)
        )

    async def _claim_all(self) -> bool:
        """One claim for each wish that has room; True when any of them got something.

        A group that found nothing rests for some time if another did: looking for its types among a hundred thousand
        jobs of other types is slow, and must not keep those from running."""
        loop = asyncio.get_running_loop()
        self._looked_at = self._client.now()
        due = self._next_due if self._must_be_sure() else None
        resting, empty = list[Group](), list[tuple[Group, float]]()
        found = False
        for group in self._groups:
            began = loop.time()
            group.runner.pace.measure(began)
            if group.rests_until > began:
                resting.append(group)
            elif await self._claim_for(group):
                found = True
            else:
                empty.append((group, loop.time() - began))
        asked_all = not (found and resting)
        if found:
            for group, took in empty:
                group.rests_until = loop.time() + min(REST * took, self._client.settings.poll / SECOND)
        else:  # there is time for everybody
            for group in resting:
                group.rests_until = 0.0
                found = await self._claim_for(group) or found
        if asked_all and due is not None and self._next_due == due <= self._client.now():  # it was looked for
            self._next_due = None
        return found

    async def _claim_for(self, group: Group) -> bool:
        found = False
        for wish in group.wishes(self._holdings):
            room = min(wish.room, self._largest if self._most is None else self._most - self._stats.claimed)
            room = min(room, 1) if self._one_by_one else room
            if room > 0 and not self.stopping:
                found = await self._claim(group, wish._replace(room=room)) or found
        return found

    async def _claim(self, group: Group, wish: Wish) -> bool:
        await self._be_heard()
        if self.stopping:  # said meanwhile
            return False
        free = group.runner.free
        begins = wish.room <= free
        claim = Claim(
            queues=self._queues, limit=wish.room, lease_for=self._client.settings.lease, worker_id=self._worker_id,
            token=self._client.ids.token(), types=wish.types, start=begins, reclaim=self.reclaim, sure=self._must_be_sure(),
        )  # fmt: skip
        began = ticking()
        jobs = await self._client.driver.claim(claim, now=self._client.now())
        if self._measures is not None:
            self._measures.claimed(jobs, ticking() - began)
        if not jobs:
            return False
        self._stats.claimed += len(jobs)
        client, kit = self._client, self._holdings.kit
        held = [Held(client, job, group.tasks[job.type], begun=begins, kit=kit) for job in jobs]
        robbed = False
        for one in held:
            before = self._holdings.add(one)
            if before is not None and not before.ended:
                self._lose(before)
                robbed = True
        suspects = self._suspects.among(held)
        group.runner.accept(self._kept([one for one in held if one not in suspects]), first=wish.first)
        hopeless = self._suspects.wait_in_vain()
        for one in suspects if hopeless else ():
            self._suspects.put_off(one)
        self._one_by_one = bool(suspects) and not hopeless
        if self._one_by_one:
            for one in suspects[1:]:
                self._hand_back(one)
            await self._run_alone(group.runner, suspects[0])
        elif robbed:
            await self._rest_a_while()
        elif len(jobs) <= free:
            await asyncio.sleep(0)  # they begin before more is asked for
        return True

    def _must_be_sure(self) -> bool:
        """That there is nothing, when nothing is found: whoever drains stops then, and what is due by now is waited for."""
        return self._until_empty or (self._next_due is not None and self._next_due <= self._client.now())

    async def _run_alone(self, runner: Runner, suspect: Held) -> None:
        if await self._once(lambda: len(self._holdings) <= 1):  # none when it was lost while it waited
            runner.accept(self._kept([suspect]), first=True)
            await self._once(lambda: self._holdings.get(suspect.job.id) is not suspect)
        else:
            self._suspects.has_waited_in_vain(suspect)

    async def _rest_a_while(self) -> None:
        """Somebody took back what is held here, and may do so again: whose clock is ahead by more than a lease does it at
        each look. Two of them would pass the job to and fro without pause, and it would be started each time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._client.settings.poll / SECOND, LONGEST_REST)):
                await self._told_to_stop.wait()

    async def _once(self, happened: Callable[[], bool]) -> bool:
        """Whether it happens within a third of a lease. When the worker is told to stop there is nothing to wait for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._client.settings.lease / SECOND / 3):
                while not happened() and not self.stopping:
                    self._changed.clear()
                    await self._changed.wait()
        return happened() or self.stopping

    def _kept(self, claimed: list[Held]) -> list[Held]:
        """All of them; but what was on its way here when the worker was told to stop goes back, unless it cannot."""
        if not self.stopping:
            return claimed
        for held in claimed:
            if held.can_be_handed_back:
                self._hand_back(held)
        return [held for held in claimed if not held.can_be_handed_back]

    async def _ask_for_refill(self) -> bool:
        """Jobs may wait for a token of their rate, which nobody tells of: it is there at a certain time. One that was there
        already when we looked is for somebody else, or cannot be had: to look at once, each time, would be to spin."""
        try:
            asked = NextRefill(queues=self._queues, now=self._client.now(), types=self._types)
            found = await self._client.driver.read(asked)
        except StoreError:
            return False
        before, self._vain = self._vain, None
        for at in found:
            if at > self._looked_at:
                self._next_due = at if self._next_due is None else min(at, self._next_due)
            else:
                self._vain = FIRST_VAIN if before is None else min(2 * before, self._client.settings.poll / SECOND)
        return bool(found)

    async def _wait(self, until_empty: bool) -> None:
        """Until something may be claimable: told by the store, by a slot, by the time; or look again after a while."""
        pause = self._client.settings.poll / SECOND
        if self._next_due is not None:
            now = self._client.now()
            until = self._next_due - now
            # A clock that was ahead stands until the time has caught up with it: its next instant may be far away.
            longest = min(pause, LONGEST_REST)
            self._stood = min(max(2 * self._stood, FIRST_VAIN), longest) if now == self._waited_at else 0.0
            self._waited_at = now
            pause = max(min(pause, until / SECOND), self._stood if until > 0 else 0)
            if until <= 0:
                self._next_due = None
        if self._vain is not None:
            pause = min(pause, self._vain)
        if until_empty:  # what is held may enqueue more, or come back at once
            pause = min(pause, 0.05)
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.get_running_loop().create_task(self._until_told())
        await self._changed_within(pause)
        if self._waiting.done() and not self._heard(self._waiting) and not self.stopping:
            self._changed.clear()
            await self._changed_within(pause)

    async def _until_told(self) -> None:
        """By the store, however long that takes: to look again after a while is not up to it. It says so itself, since
        whoever waits for the end of a task is called a turn of the loop later."""
        try:
            while not await self._client.driver.wait(timeout=self._client.settings.poll / SECOND):
                pass
        finally:
            self._changed.set()

    async def _changed_within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _heard(self, waited: asyncio.Task[None]) -> bool:
        """Whether the store could be listened to."""
        error = None if waited.cancelled() else waited.exception()
        self._waiting = None
        if error is not None:
            log.warning(
                "the store cannot tell of new work (%s); it is asked every %g s", error, self._client.settings.poll / SECOND
            )
        return error is None
