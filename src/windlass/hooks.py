"""Hooks: functions that a worker calls after it has settled a job. They run after the commit and at most once.

They are for effects inside this process: a metric, a cache, a line in a log. If the worker dies or is stopped between the
commit and the call, the call is lost. A webhook is not."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct

from windlass.core.changes import Settlement
from windlass.core.events import CANCELLED, SETTLED, comes_back, event_of
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput, WindlassError
from windlass.types import Claimed
from windlass.words import did_you_mean

AT_ONCE: Final = 8
MOST_WAITING: Final = 1_000
log: Final = logging.getLogger("windlass.hooks")
Hook = Callable[[Any], Any]
STARTED: Final = "worker.started"
STOPPED: Final = "worker.stopped"
KNOWN: Final = (*SETTLED, STARTED, STOPPED)
H = TypeVar("H", bound=Callable[..., Any])


class JobEvent(Struct, frozen=True, kw_only=True):
    """The argument of a hook for jobs. `error` says why the job failed, died or was cancelled, if that is known."""

    event: str
    job_id: str
    type: str
    queue: str
    org_id: str | None
    execution: int
    error: str | None = None
    traceback: str | None = None

    @property
    def about(self) -> str:
        return f"job {self.job_id}"


class WorkerEvent(Struct, frozen=True, kw_only=True):
    """The argument of a hook for workers. `worker.started`: the worker begins to look for jobs. `worker.stopped`: its
    last job has ended, and its resources are about to be closed."""

    event: str
    worker_id: str
    queues: tuple[str, ...]

    @property
    def about(self) -> str:
        return f"worker {self.worker_id}"


class Hooks:
    """The hooks of an app, by event."""

    def __init__(self) -> None:
        self._by_event: dict[str, list[Hook]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_event)

    def add(self, event: str, hook: H) -> H:
        if event not in KNOWN:
            raise InvalidInput(
                "event", f"{event!r:.80} is nothing that one worker settles{did_you_mean(str(event), KNOWN)}; known: "
                f"{', '.join(KNOWN)}. Of anything else a webhook can tell you"
            )  # fmt: skip
        if not callable(hook):
            raise InvalidInput("hook", f"must be a function of one argument, got {hook!r:.80}")
        self._by_event.setdefault(event, []).append(hook)
        return hook

    def of(self, event: str) -> list[Hook]:
        return self._by_event.get(event, [])

    def event_for(self, change: Settlement) -> bool:
        """Whether a hook may have to be called for this settlement."""
        event = event_of(change)
        return (event in self._by_event) or (comes_back(change) and CANCELLED in self._by_event)


class HookRunner:
    """Calls the hooks of a worker, after the commit and without delaying jobs."""

    def __init__(self, hooks: Hooks, driver: Callable[[], Driver]) -> None:
        self._hooks = hooks
        self._driver = driver
        self._waiting: deque[tuple[Claimed, Settlement]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    def settled(self, job: Claimed, change: Settlement) -> None:
        """Note a settlement that was stored, for the hooks that want it."""
        if not self._hooks.event_for(change):
            return
        if len(self._waiting) >= MOST_WAITING:
            log.warning("job %s: its hooks are not called, because too many wait (%d)", job.id, len(self._waiting))
            return
        self._waiting.append((job, change))
        if len(self._running) < AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._work(), name="windlass-hooks")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def happened(self, told: WorkerEvent) -> None:
        """To the worker itself."""
        if self._hooks.of(told.event):
            task = asyncio.get_running_loop().create_task(self._call_all(told), name="windlass-hooks")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def idle(self) -> None:
        """Return once every hook has returned."""
        while self._running:
            await asyncio.wait(set(self._running))

    def stop(self) -> None:
        self._waiting.clear()
        for task in self._running:
            task.cancel()

    async def _work(self) -> None:
        while self._waiting:
            job, change = self._waiting.popleft()
            try:
                told = await self._told(job, change)
            except WindlassError as error:
                log.warning("job %s: its hooks are not called, because the store cannot be asked: %s", job.id, error)
                continue
            await self._call_all(told)

    async def _call_all(self, told: JobEvent | WorkerEvent) -> None:
        for hook in self._hooks.of(told.event):
            await self._call(hook, told)

    async def _told(self, job: Claimed, change: Settlement) -> JobEvent:
        """A change that brings a job back is turned into a cancellation where somebody has asked for that meanwhile: only
        the row knows."""
        event, error = event_of(change) or "", None
        if comes_back(change):
            [row] = await self._driver().get([job.id])
            if row is not None and row.last_token == change.token and row.last_outcome == "cancelled":
                event, error = CANCELLED, row.last_error
        if event != CANCELLED or error is None:
            error = getattr(change, "error", None) or getattr(change, "reason", None)
        report = change.report
        return JobEvent(
            event=event, job_id=job.id, type=job.type, queue=job.queue, org_id=job.org_id, execution=job.executions,
            error=error, traceback=None if report is None else report.traceback,
        )  # fmt: skip

    async def _call(self, hook: Hook, told: JobEvent | WorkerEvent) -> None:
        try:
            answer = hook(told) if inspect.iscoroutinefunction(hook) else await asyncio.to_thread(hook, told)
            if inspect.isawaitable(answer):  # also of an object whose call is async, which does not look so
                await answer
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # somebody else's code, and the job has ended
            task = asyncio.current_task()
            stopping = task is not None and task.cancelling() > 0  # it is we who are to stop
            if not stopping or not isinstance(error, asyncio.CancelledError):
                log.exception("%s: a hook of %s failed", told.about, told.event)
            if stopping:
                raise asyncio.CancelledError from None
