"""Blocking handlers: a few long-lived threads that take claimed jobs from a queue.

A thread cannot be stopped from outside. When its time is over, `ctx.cancelled` becomes true; a little later its run is
ended without it. Its slot stays taken until it returns, because a second handler beside it would hide what is going on.
The threads are daemons: a process that is told to stop does not wait for a handler that never checks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final

from windlass.client import Client
from windlass.context import enter
from windlass.worker.copied import end_if_copy, generation
from windlass.worker.finish import Finisher
from windlass.worker.holdings import Held
from windlass.worker.metering import Meter, note_cpu, took
from windlass.worker.pace import Pace
from windlass.worker.settler import Settler

Ended = tuple[Held, Any, BaseException | None, bool]  # value or error, and whether the handler was called at all


class Threads:
    """`threads` handlers at once. Same interface as `Slots`."""

    def __init__(
        self, client: Client, finisher: Finisher, settler: Settler, *, size: int, prefetch: int,
        on_free: Callable[[], None],
    ) -> None:  # fmt: skip
        self._on_free = on_free
        self._client = client
        self._finisher = finisher
        self._settler = settler
        self.size: Final = size
        self.pace: Final = Pace(prefetch, size)
        self._queue: SimpleQueue[Held | None] = SimpleQueue()
        self._generation = generation()
        self._outstanding = 0
        self._threads: list[threading.Thread] = []
        self._ended: deque[tuple[float, float, Ended]] = deque()  # when each began and ended, and how
        self._collecting = False
        self._confirming: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop

    # ------------------------------------------------------------------------------------------ as the claimer sees it

    @property
    def free(self) -> int:
        return max(self.size - self._outstanding, 0)

    @property
    def waiting(self) -> int:
        return max(self._outstanding - self.size, 0)

    @property
    def busy(self) -> int:
        return min(self._outstanding, self.size)

    def start(self) -> list[asyncio.Task[None]]:
        self._loop = asyncio.get_running_loop()
        return []

    def accept(self, jobs: Iterable[Held], *, first: bool = False) -> None:
        """`first` is for queues that can put ahead; here whatever waits is what the threads finish in a moment."""
        for held in jobs:
            self._outstanding += 1
            self._queue.put(held)
        while len(self._threads) < min(self.size, self._outstanding):
            name = f"windlass-handler-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def take_back(self) -> list[Held]:
        """Those whose handler has not begun."""
        unbegun: list[Held] = []
        try:
            while True:
                held = self._queue.get_nowait()
                if held is not None:
                    self._outstanding -= 1
                    if not held.ended:
                        unbegun.append(held)
        except Empty:
            return unbegun

    async def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        self._settler.open.set()

    # --------------------------------------------------------------------------------------------- in a handler's thread

    def _work(self) -> None:
        while (held := self._next()) is not None:
            began = self._loop.time()
            outcome = self._call(held)
            ended = self._loop.time()
            took(held, ended - began)
            self._ended.append((began, ended, outcome))
            if not self._collecting:
                self._collecting = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:  # the worker is gone, and this outcome with it: its lease lapses
                    return

    def _next(self) -> Held | None:
        self._settler.open.wait()  # nothing begins while outcomes cannot be stored
        return self._queue.get()

    def _call(self, held: Held) -> Ended:
        if held.ended or not held.begin():
            return held, None, None, False
        try:
            args, kwargs = self._finisher.arguments(held)
        except BaseException as error:
            return held, None, error, True
        if held.job.timeout_ns:
            self._loop.call_soon_threadsafe(self._arm, held)
        enter(held)
        context = copy_context()
        if self._client.tracing is not None:
            held.span = self._client.tracing.consuming(held.job, context)
        call = Meter(context.run) if held.task.metered else context.run
        try:
            value = call(held.task.handler, *args, **kwargs)
            end_if_copy(self._generation, None)
            return held, value, None, True
        except BaseException as error:
            end_if_copy(self._generation, error)
            return held, None, error, True
        finally:
            enter(None)
            if isinstance(call, Meter):
                note_cpu(held, call.cpu)

    # ---------------------------------------------------------------------------------------------- in the event loop

    def _arm(self, held: Held) -> None:
        if not held.ended and held.timer is None:
            held.timer = self._loop.call_later(held.job.timeout_ns / 1e9, self._finisher.time_out, held)

    def _collect(self) -> None:
        self._collecting = False
        while self._ended:
            began, ended, (held, value, error, called) = self._ended.popleft()
            self.pace.finished(began, ended)
            if not called:
                self._finisher.skipped(held)
            elif error is None:
                self._finisher.returned(held, value)
            else:
                self._finisher.raised(held, error)
            if self._finisher.waits(held) and not held.done:
                task = self._loop.create_task(self._confirm(held))
                self._confirming.add(task)
                task.add_done_callback(self._confirming.discard)
            else:
                self._outstanding -= 1
        self._on_free()

    async def _confirm(self, held: Held) -> None:
        await self._settler.confirmed(held)
        self._outstanding -= 1
        self._on_free()
