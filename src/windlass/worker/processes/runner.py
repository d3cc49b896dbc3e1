"""Process handlers and commands: a few lanes, each with at most one child, one job at a time in each.

The worker keeps the leases, decides and settles; a child only calls. Nothing is claimed ahead, because a job that waits
here behind one that runs for an hour could run elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.backoff import Backoff
from windlass.client import Client
from windlass.core.changes import Report
from windlass.core.settle import Failed, Released
from windlass.errors import ChildUnstartable
from windlass.worker.failure import outcome_of, trace
from windlass.worker.finish import Finisher
from windlass.worker.holdings import Held
from windlass.worker.lineup import Lineup
from windlass.worker.pace import Pace
from windlass.worker.processes.calling import DIED, Child, Ending
from windlass.worker.processes.nursery import Nursery
from windlass.worker.processes.running import run_program
from windlass.worker.settler import Settler

HOPELESS: Final = 5  # children in a row that did not come up: no other try will mend that
EVAPORATIONS: Final = 3  # children that were gone before they began one and the same job
T = TypeVar("T")
log: Final = logging.getLogger("windlass.worker")


class Processes(Lineup):
    """`children` handlers at once, in processes. Same interface as `Slots` and `Threads`."""

    def __init__(
        self, client: Client, finisher: Finisher, settler: Settler, *, size: int, target: str | None,
        on_free: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(size)
        self._client = client
        self._finisher = finisher
        self._settler = settler
        self._target = target
        self._on_free = on_free
        self.pace: Final = Pace(0, size)
        self._nursery = Nursery()
        self._arrived = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------------------ as the claimer sees it

    def start(self) -> list[asyncio.Task[None]]:
        loop = asyncio.get_running_loop()
        self._lanes = [loop.create_task(self._lane(), name=f"windlass-lane-{n}") for n in range(self.size)]
        return self._lanes

    def _wake(self) -> None:
        self._arrived.set()

    async def stop(self) -> None:
        for lane in self._lanes:
            lane.cancel()
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=1.0)
        await self._nursery.close()

    # ------------------------------------------------------------------------------------------------------- one lane

    async def _lane(self) -> None:
        child: Child | None = None
        try:
            while True:
                held = await self._next()
                self._busy += 1
                try:
                    if held.ended:
                        pass
                    elif held.task.program is not None:
                        await self._run_program(held)
                    else:
                        child = await self._call(held, child)
                finally:
                    self._busy -= 1
                    self._on_free()
        finally:
            if child is not None:
                child.end()

    async def _next(self) -> Held:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            if self._settler.has_room():
                return self._waiting.popleft()
            await self._settler.room()

    async def _call(self, held: Held, child: Child | None) -> Child | None:
        """Answers the child that the next job may use."""
        for _ in range(EVAPORATIONS):
            if child is None or not await child.fit():
                if child is not None:
                    child.end()
                child = await self._started(held, self._new_child)
            if child is None or not self._begins(held):
                return child
            held.cancel = stopper = child.stopper(held)
            try:
                ending = await child.call(held)
            finally:
                held.cancel = None
                stopper.stand_down()
            if ending is not None:
                await self._finish(held, ending)
                return child
        gone = Ending(Failed("ProcessDied: its process was gone each time before the handler began", DIED), Report())
        await self._finish(held, gone)
        return child

    async def _new_child(self) -> Child:
        assert self._target is not None, "the worker was told where its app is"
        return await Child.start(self._client, self._nursery, self._target)

    async def _fork_server(self) -> Nursery:
        await self._nursery.ready()
        return self._nursery

    async def _started(self, held: Held, start: Callable[[], Awaitable[T]]) -> T | None:
        """What this job needs before it can begin. Meanwhile its lease is renewed. None when it is not wanted any more."""
        backoff = Backoff(self._client.ids.random)
        for tries in range(1, HOPELESS + 1):
            if held.ended or held.why is not None:
                self._finisher.skipped(held)
                return None
            try:
                return await start()
            except ChildUnstartable as error:
                log.error("no child process can be started: %s", error)
                if tries == HOPELESS:
                    self._finisher.end(held, Released())
                    raise
            await backoff.pause()
        raise AssertionError("the last try has returned or raised")

    async def _run_program(self, held: Held) -> None:
        nursery = await self._started(held, self._fork_server)
        if nursery is None or not self._begins(held):
            return
        try:
            ending = await run_program(self._client, nursery, self._finisher, held)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # its arguments cannot be read, or this process has no more pipes
            ending = Ending(outcome_of(error), Report(), trace(error))
        await self._finish(held, ending)

    def _begins(self, held: Held) -> bool:
        again = held.started_at is not None  # its child was gone before it could begin
        if held.why is not None if again else not held.begin():
            self._finisher.skipped(held)
            return False
        if again:
            return True
        if self._client.tracing is not None:
            held.span = self._client.tracing.consuming(held.job, None)
        if held.job.timeout_ns:
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(held.job.timeout_ns / 1e9, self._finisher.stop_in_time, held)
        return True

    async def _finish(self, held: Held, ending: Ending) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.measured = ending.measured
        self._finisher.reported(held, ending.outcome, ending.traceback)
        if self._finisher.waits(held):
            await self._settler.confirmed(held)
