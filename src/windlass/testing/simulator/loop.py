"""An event loop that somebody else drives, one turn at a time, on virtual time.

Each simulated process has a loop of its own. It never runs by itself: the world asks which loops have something to do,
picks one, and lets it have one turn. Futures and tasks are asyncio's own, so the code under test is the code
that ships. A process that was killed is simply never stepped again, which is what `kill -9` means: no `finally` runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Final, TypeVar

from windlass.clock import SECOND
from windlass.types import Micros

T = TypeVar("T")
Coro = Coroutine[Any, Any, T] | Generator[Any, Any, T]
CLOSINGS: Final = 20  # a coroutine may await in its `finally` blocks; each such await needs one more push


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, now: Callable[[], Micros]) -> None:
        self._now = now
        self.ready: deque[asyncio.Handle] = deque()  # read by the world, which picks among loops that have something
        self._timers: list[tuple[Micros, int, asyncio.TimerHandle]] = []
        self._made = 0  # breaks ties between timers of one instant, and names tasks
        self._tasks: list[tuple[asyncio.Task[Any], contextvars.Context]] = []
        self._signals: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._ended = False
        self.halted = False  # its process is stopped or dead
        self.errors: list[str] = []

    # ------------------------------------------------------------------------------------------------- for the world

    def wake(self) -> None:
        """Time has passed: what is due now is ready."""
        now, timers = self._now(), self._timers
        while timers and timers[0][0] <= now:
            self.ready.append(heapq.heappop(timers)[2])

    def next_timer(self) -> Micros | None:
        """The instant, by this loop's own count, at which it has something to do again."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def turn(self) -> None:
        """Run what is ready now, as one turn of asyncio's own loop does; less when the process dies in between."""
        ready = self.ready
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if self.halted:
                        return
        finally:
            asyncio._set_running_loop(None)

    def signal(self, number: int) -> bool:
        """Deliver a signal; False when nobody listens for it, which kills a real process."""
        if number not in self._signals:
            return False
        callback, args = self._signals[number]
        self.call_soon(callback, *args)
        return True

    def end(self) -> None:
        """Bury what is left, without a sound, after the last observation was made. Only now do `finally` blocks of
        killed processes run, where nothing that they do is seen by anybody."""
        self._ended = True
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task, context in self._tasks:
                if not task.done():
                    _bury(task, context)
        finally:
            asyncio._set_running_loop(outer)
        self.ready.clear()
        self._timers.clear()
        self._tasks.clear()

    # --------------------------------------------------------------------------------------------------- for asyncio

    def time(self) -> float:
        return self._now() / SECOND

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        # Never early; a thousandth of a microsecond is the noise of floating point, not a wish.
        heapq.heappush(self._timers, (math.ceil(when * SECOND - 0.001), self._made, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they come up."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coro[T], *, name: str | None = None, context: contextvars.Context | None = None, **_: Any
    ) -> asyncio.Task[T]:
        self._made += 1
        context = contextvars.copy_context() if context is None else context
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name or f"task-{self._made}", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks.append((task, context))
        return task

    def get_task_factory(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._ended

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody caught. An error that is only noticed by the garbage collector comes at no certain time, so it is
        not kept: it would make two runs of one seed differ."""
        if "handle" in context and not self._ended:
            self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self._signals[int(sig)] = (callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.pop(int(sig), None) is not None

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        raise RuntimeError(f"{func!r} wants a thread, and the simulator has one only: give it an async function instead")

    async def shutdown_asyncgens(self) -> None:
        """There is nothing to shut down."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""


def _bury(task: asyncio.Task[Any], context: contextvars.Context) -> None:
    coro = task.get_coro()
    for _ in range(CLOSINGS):
        with suppress(BaseException):
            context.run(coro.close)
            return
