"""The worker itself: it puts the parts together, starts them in order and stops them in the opposite order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

from windlass import __version__
from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator import Coordinator
from windlass.coordinator.coordinator import ONE_IN
from windlass.coordinator.firing import fire_all
from windlass.coordinator.ticking import keep_ticking
from windlass.core.settle import Released, Snoozed
from windlass.definitions import Declared
from windlass.delivering import Deliverer
from windlass.errors import InvalidInput
from windlass.hooks import HookRunner, Hooks, WorkerEvent
from windlass.records import WorkerInfo
from windlass.resources import Kit, Resources
from windlass.schedules import declare
from windlass.tasks import Task
from windlass.telemetry.measures import Measures
from windlass.types import Micros
from windlass.wording import are, plural
from windlass.worker.capture import captured
from windlass.worker.claimer import Claimer, Group
from windlass.worker.finish import STOPS_WITHIN, Finisher
from windlass.worker.holdings import Held, Holdings
from windlass.worker.keeper import Keeper
from windlass.worker.logkeeping import LogKeeping, know_owner
from windlass.worker.processes import Processes
from windlass.worker.settler import Settler
from windlass.worker.slots import Slots
from windlass.worker.stats import Stats
from windlass.worker.sweeper import Sweeper
from windlass.worker.threads import Threads

WATCH_EVERY: Final = 1.0
STOPS: Final[Micros] = int(STOPS_WITHIN * SECOND)
LEAVES: Final[Micros] = 2 * SECOND
log: Final = logging.getLogger("windlass.worker")


class Worker:
    """Runs jobs of the given tasks until it is stopped, or with `drain` until no job is due. Made by `app.worker()`; can
    be run once."""

    def __init__(
        self, client: Client, tasks: Mapping[str, Task[..., Any]], *, queues: Sequence[str] | None = None,
        concurrency: int | None = None, threads: int | None = None, worker_id: str | None = None,
        max_jobs: int | None = None, children: int | None = None, target: str | None = None,
        crons: Sequence[Declared] = (), hooks: Hooks | None = None, resources: Resources | None = None,
        measures: Measures | None = None,
    ) -> None:  # fmt: skip
        if not tasks:
            raise InvalidInput("tasks", "this app has no tasks; declare one with @app.task, or import the modules that do")
        settings = client.settings
        self.id: Final = worker_id or f"{socket.gethostname()}:{os.getpid()}:{client.ids.token()[:8]}"
        self.queues: Final = tuple(queues) if queues else tuple(sorted({task.queue for task in tasks.values()}))
        self.stats: Final = Stats()
        self.started: Final = asyncio.Event()  # its resources are open, and it looks for work
        self._client = client
        self._tasks = dict(tasks)
        self.measures: Final = measures  # None where nobody scrapes
        self._most = max_jobs
        self._crons = tuple(crons)
        self._resources = resources or Resources()
        self._hooks = HookRunner(hooks, lambda: client.driver) if hooks else None
        self._size = (concurrency or settings.concurrency, threads or settings.threads, children or settings.children)
        self._target = target  # the app's name, for the children of process tasks
        self._runners: list[Slots | Threads | Processes] = []  # made when it runs
        self._holdings = Holdings()
        self._stop_asked = asyncio.Event()
        self._stop_claiming: Callable[[], None] = lambda: None  # there is nothing to stop before it runs
        self._forced = asyncio.Event()
        self._failure: BaseException | None = None  # of the first part that failed
        self._ending = False
        self.all_stuck = False  # no slot is left: a supervisor should start another process

    # ---------------------------------------------------------------------------------------------------- from outside

    def stop(self) -> None:
        """Claim nothing more, and let running handlers finish within the grace. A second call interrupts them now."""
        if self._stop_asked.is_set():
            self._forced.set()
        self._stop_asked.set()
        self._stop_claiming()

    @property
    def stopping(self) -> bool:
        return self._stop_asked.is_set()

    @property
    def stop_asked(self) -> asyncio.Event:
        return self._stop_asked

    @property
    def size(self) -> int:
        """The number of slots of all kinds; 0 before it runs."""
        return sum(runner.size for runner in self._runners)

    @property
    def holding(self) -> int:
        """How many jobs it has a lease of."""
        return len(self._holdings)

    @property
    def reachable(self) -> bool:
        """Whether the store accepts outcomes, as far as was tried."""
        return not self.started.is_set() or self._settler.reachable

    # ---------------------------------------------------------------------------------------------------------- the run

    async def run(self, *, drain: bool = False) -> Stats:
        """Run until `stop`, with `drain` until no job is due, and return what was done. Raises what a failed part
        raised."""
        if self._ending:
            raise InvalidInput("worker", "has run already; make another one with app.worker()")
        with captured():
            return await self._run(drain)

    async def _run(self, drain: bool) -> Stats:
        await self._client.ready()
        await know_owner(self._client)
        async with self._resources.opened() as kit:
            self._assemble(kit)
            await declare(self._client, self._crons)
            return await self._work(drain)

    async def _work(self, drain: bool) -> Stats:
        log.info("worker %s serves %s", self.id, ", ".join(self.queues))
        slots = [task for runner in self._runners for task in runner.start()]
        self._client.due_listeners.append(self._claimer.expect)
        loop = asyncio.get_running_loop()
        until_empty = drain or self._most is not None
        keeping = [
            loop.create_task(part, name=f"windlass-{name}")
            for name, part in (
                ("settler", self._settler.run()), ("renew", self._keeper.renew()), ("look", self._keeper.look()),
                ("fence", self._keeper.fence()), ("sweeper", self._sweeper.run()), ("watch", self._watch()),
                *self._coordinator.parts(stays=not until_empty), *self._log_keeping(stays=not until_empty),
                *self._delivering(),
            )
        ]  # fmt: skip
        claiming = loop.create_task(self._claim(until_empty=until_empty), name="windlass-claimer")
        stop = loop.create_task(self._stop_asked.wait())
        for part in (claiming, *keeping, *slots):
            part.add_done_callback(self._part_ended)
        self.started.set()
        self._tell("worker.started")
        try:
            await asyncio.wait({claiming, stop}, return_when=asyncio.FIRST_COMPLETED)
            self._stop_asked.set()
            await self._wind_down(claiming, settling=keeping[0])
        finally:
            self._ending = True
            self._client.due_listeners.remove(self._claimer.expect)
            await self._end([claiming, stop, *keeping])
            await self._let_go()
            await self._within(LEAVES, self._coordinator.leave())
        if self._failure is not None:
            raise self._failure
        return self.stats

    def _log_keeping(self, *, stays: bool) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The part that removes old logs. Of workers that end soon, only one in many does it."""
        root = self._client.run_logs.root
        if root is not None and (stays or self._client.ids.random.random() * ONE_IN < 1):
            yield "logs", keep_ticking(LogKeeping(self._client, root), self._client, self.stats)

    def _delivering(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The part that sends to webhooks. A worker that ends soon sends as much as it gets to."""
        if self._client.settings.webhook_concurrency:
            yield self._deliverer.name, keep_ticking(self._deliverer, self._client, self.stats)

    async def _let_go(self) -> None:
        """Give messages that are being sent, and hooks that run, a moment to finish."""
        await self._within(STOPS, self._deliverer.idle())
        await self._deliverer.stop()
        self._tell("worker.stopped")
        if self._hooks is not None:
            await self._within(STOPS, self._hooks.idle())
            self._hooks.stop()

    def _tell(self, event: str) -> None:
        if self._hooks is not None:
            self._hooks.happened(WorkerEvent(event=event, worker_id=self.id, queues=self.queues))

    async def _claim(self, *, until_empty: bool) -> None:
        """Claim until told to stop, or until no job is due. Before a worker that ends soon may end, it takes back what
        dead workers left and fires schedules, because these jobs are due as well."""
        if until_empty:
            await self._sweeper.swept.wait()
            await fire_all(self._client)
        while True:
            before = self.stats.claimed
            await self._claimer.run(until_empty=until_empty)
            if self._claimer.stopping or self.stats.claimed == before:
                return
            await self._sweeper.pay()

    def _part_ended(self, part: asyncio.Task[None]) -> None:
        """End the worker if one of its parts has failed. That is a bug, or the store was closed; half a worker does
        harm."""
        error = RuntimeError(f"{part.get_name()} was cancelled from outside") if part.cancelled() else part.exception()
        if error is not None and not self._ending:
            log.error("%s has failed; this worker ends", part.get_name(), exc_info=error)
            self._failure = self._failure or error
            self.stop()
            self._forced.set()

    def _assemble(self, kit: Kit) -> None:
        client, stats = self._client, self.stats
        self._holdings = holdings = Holdings(kit)
        self._settler = settler = Settler(client, holdings, stats, self._on_settled, self._hooks, self.measures)
        self._deliverer = Deliverer(client)
        self._finisher = finisher = Finisher(client, holdings, settler, stats)
        self._keeper = Keeper(client, holdings, finisher, stats, lambda: self._coordinator.registry.beaten_at)
        prefetch = client.settings.prefetch
        groups: list[Group] = []
        self._runners = []
        for run, size in zip(("async", "thread", "process"), self._size, strict=True):
            tasks = [task for task in self._tasks.values() if task.run == run]
            if tasks:
                runner: Slots | Threads | Processes
                if run == "process":
                    runner = Processes(client, finisher, settler, size=size, target=self._target, on_free=self._on_free)
                else:
                    kind = Slots if run == "async" else Threads
                    runner = kind(client, finisher, settler, size=size, prefetch=prefetch, on_free=self._on_free)
                self._runners.append(runner)
                groups.append(Group(runner, tasks))
        self._claimer = Claimer(
            client, holdings, settler, stats, groups, queues=self.queues, worker_id=self.id, most=self._most,
            hand_back=lambda held: finisher.end(held, Released()), lose=self._keeper.lose,
            put_off=lambda held: finisher.end(held, Snoozed(client.settings.lease)),
            be_heard=lambda: self._coordinator.registry.be_heard(), measures=self.measures,
        )  # fmt: skip
        self._stop_claiming = self._claimer.stop
        if self.stopping:
            self._claimer.stop()
        self._sweeper = Sweeper(
            client, stats, queues=self.queues, types=self._tasks, worker_id=self.id, distrust=self._on_distrust
        )
        self._coordinator = Coordinator(
            client, stats, self._about(), running=lambda: len(holdings), recover=self._sweeper.recover,
            trusts=lambda: self._sweeper.trusts,
        )  # fmt: skip

    def _about(self) -> WorkerInfo:
        return WorkerInfo(
            id=self.id, hostname=socket.gethostname(), pid=os.getpid(), pool_size=sum(r.size for r in self._runners),
            version=__version__, queues=self.queues, types=tuple(sorted(self._tasks)), wakeups="", running=0,
            started_at=self._client.now(),
        )  # fmt: skip

    def _on_free(self) -> None:
        self._claimer.changed()

    def _on_settled(self, count: int) -> None:
        self._claimer.changed()
        self._client.tell_settled()

    def _on_distrust(self, distrusts: bool) -> None:
        self._claimer.reclaim = not distrusts

    async def _watch(self) -> None:
        """Slow handlers must not keep for themselves what others could run: what was prefetched and has not begun within
        a second goes back. A worker whose every slot is taken by a handler that does not stop ends, to be replaced; a
        process is made to stop, which may take longer than a handler is given."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            before = self._client.now() - SECOND
            if any(held.started_at is None and held.job.claimed_at < before and not held.ended for held in self._holdings):
                self._hand_back(before)
            ours = [runner for runner in self._runners if not isinstance(runner, Processes)]
            stuck = sum(held.task.run != "process" for held in self._finisher.stuck)
            if stuck and stuck >= sum(runner.size for runner in ours):
                log.error("every slot is taken by a handler that does not stop; this worker ends")
                self.all_stuck = True
                self.stop()
                if ours == self._runners:  # nothing else runs that could finish
                    self.stop()
                return

    def _hand_back(self, claimed_before: Micros | None = None) -> None:
        """Hand back jobs that wait for a slot here and were claimed before that time."""
        for runner in self._runners:
            kept: list[Held] = []
            for held in runner.take_back():
                if held.can_be_handed_back and (claimed_before is None or held.job.claimed_at < claimed_before):
                    self._finisher.end(held, Released())
                else:
                    kept.append(held)
            runner.accept(kept)

    # ------------------------------------------------------------------------------------------------------ stopping

    async def _wind_down(self, claiming: asyncio.Task[None], settling: asyncio.Task[None]) -> None:
        """Hand back what has not begun, let the rest finish within the grace, interrupt what is left, store it all."""
        self._claimer.stop()
        forced = self._forced.is_set()
        await self._within(self._patience, asyncio.wait({claiming}), or_forced=not forced)
        if self._forced.is_set() and not forced:  # what a claim brings should go back, not lapse
            await self._within(self._patience, asyncio.wait({claiming}))
        self._hand_back()
        if count := self._holdings.running:
            log.info("stopping: %s running, with %g s to end", are(count, "job"), self._grace / SECOND)
            await self._within(self._grace, self._holdings.at_rest(), or_forced=True)
        running = [held for held in self._holdings if not held.ended]
        for held in running:
            held.interrupt("shutdown")
        if running and not settling.done():
            await self._within(STOPS, self._holdings.at_rest())
            for held in self._holdings:
                self._finisher.end(held, Released())
        if not settling.done():
            await self._within(self._patience, self._settler.idle(), or_forced=not self._forced.is_set())
        if self._settler.unsettled:
            log.error("%s could not be stored; the leases lapse", plural(self._settler.unsettled, "outcome"))

    @property
    def _grace(self) -> Micros:
        return self._client.settings.grace

    @property
    def _patience(self) -> Micros:
        """With the store: what it was asked before the end must not be forgotten just because handlers get no grace."""
        return STOPS if self._forced.is_set() else max(self._grace, STOPS)

    async def _within(self, limit: Micros, done: Any, *, or_forced: bool = False) -> None:
        loop = asyncio.get_running_loop()
        waits = {loop.create_task(done)}
        if or_forced:
            waits.add(loop.create_task(self._forced.wait()))
        try:
            await asyncio.wait(waits, timeout=limit / SECOND, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        for runner in self._runners:  # nobody renews what would begin from now on
            runner.take_back()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for runner in self._runners:
            await runner.stop()
