"""Async handlers: long-lived coroutines that pull claimed jobs from a local queue.

There is no task per job. A slot drives the handler's coroutine itself, in a context of its own (what a handler sets in a
context variable does not leak into the next job), and is interrupted through the slot's task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from types import coroutine
from typing import Any, Final, TypeVar

from windlass.client import Client
from windlass.context import enter
from windlass.worker.copied import end_if_copy, generation
from windlass.worker.finish import Finisher
from windlass.worker.holdings import Held
from windlass.worker.lineup import Lineup
from windlass.worker.metering import Meter, note_cpu, took
from windlass.worker.pace import Pace
from windlass.worker.settler import Settler

T = TypeVar("T")
TURN: Final = 0.002  # seconds for which handlers that never wait may keep the event loop


class Closed(BaseException):
    """The coroutine of a slot was closed. Not GeneratorExit, because a handler may raise that."""


@coroutine
def driven(
    work: Coroutine[Any, Any, T], resume: Callable[..., Any], abandoned: Callable[[], bool]
) -> Generator[Any, Any, T]:  # fmt: skip
    """Await `work` without a task of its own, each step through `resume`, which gives it its own context variables. Once
    `abandoned`, an interruption is the last one: a handler that swallows it is left where it is."""
    try:
        waiting_for = resume(work.send, None)
        while True:
            try:
                answer = yield waiting_for
            except GeneratorExit:
                work.close()
                raise Closed from None
            except BaseException as error:
                waiting_for = resume(work.throw, error)
                if abandoned():
                    with suppress(RuntimeError):  # it may swallow this too
                        work.close()
                    raise
            else:
                waiting_for = resume(work.send, answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


class Slots(Lineup):
    """`concurrency` async handlers at once in this event loop."""

    def __init__(
        self, client: Client, finisher: Finisher, settler: Settler, *, size: int, prefetch: int,
        on_free: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(size)
        self._on_free = on_free
        self._client = client
        self._finisher = finisher
        self._settler = settler
        self.pace: Final = Pace(prefetch, size)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._generation = generation()
        self._turn_ends = 0.0
        self._turn_is_over = False

    # ------------------------------------------------------------------------------------------ as the claimer sees it

    def start(self) -> list[asyncio.Task[None]]:
        """Answers what must not end before it is told to."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._slot(loop), name=f"windlass-slot-{n}") for n in range(self.size)]
        return self._tasks

    def _wake(self) -> None:
        for _ in range(min(len(self._waiting), len(self._idle))):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    async def stop(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=1.0)

    # ------------------------------------------------------------------------------------------------------- one slot

    async def _slot(self, loop: asyncio.AbstractEventLoop) -> None:
        task = asyncio.current_task(loop)
        assert task is not None, "a slot runs as a task"
        while not self._stopped:
            if not self._waiting:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            if not self._settler.has_room():
                await self._settler.room()
                continue
            held = self._waiting.popleft()
            if held.ended:  # its lease was lost while it waited
                self._on_free()
                continue
            self._busy += 1
            began = loop.time()
            try:
                await self._handle(held, task, loop)
            finally:
                self._busy -= 1
            ended = loop.time()
            self.pace.finished(began, ended)
            took(held, ended - began)
            self._on_free()
            if self._turn_is_over or ended >= self._turn_ends:
                await self._let_others_run(loop)

    async def _let_others_run(self, loop: asyncio.AbstractEventLoop) -> None:
        """All slots together have one turn in each round of the event loop; the claimer, the settler and whoever shares
        the loop come in between."""
        if not self._turn_is_over:
            self._turn_is_over = True
            loop.call_soon(self._new_turn, loop)
        while self._turn_is_over:  # noqa: ASYNC110 - it is rounds of the loop that are waited for
            await asyncio.sleep(0)

    def _new_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._turn_is_over = False
        self._turn_ends = loop.time() + TURN

    async def _handle(self, held: Held, task: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
        finisher = self._finisher
        if not held.begin():
            finisher.skipped(held)
            return
        if held.job.timeout_ns:
            held.timer = loop.call_later(held.job.timeout_ns / 1e9, finisher.time_out, held)
        enter(held)
        context = copy_context()
        if self._client.tracing is not None:
            held.span = self._client.tracing.consuming(held.job, context)
        resume: Callable[..., Any] = context.run
        if held.task.metered:
            resume = Meter(resume)
        try:
            args, kwargs = finisher.arguments(held)
            held.cancel = task.cancel
            value = await driven(held.task.handler(*args, **kwargs), resume, self._is_stopped)
        except Closed:  # the event loop is gone, and with it this worker
            raise GeneratorExit from None
        except BaseException as error:
            end_if_copy(self._generation, error)
            held.cancel = None
            if type(resume) is Meter:
                note_cpu(held, resume.cpu)
            if self._stopped and not held.ended and not held.is_interrupted():
                raise  # the worker was cancelled and has given this job up: its lease lapses
            finisher.raised(held, error)
        else:
            end_if_copy(self._generation, None)
            held.cancel = None
            if type(resume) is Meter:
                note_cpu(held, resume.cpu)
            finisher.returned(held, value)
        if task.cancelling():
            await self._forget_cancellation(task)
        if finisher.waits(held):
            await self._settler.confirmed(held)

    async def _forget_cancellation(self, task: asyncio.Task[None]) -> None:
        """A handler was interrupted, swallowed it, or cancelled its own task just before it returned: none of that is
        meant for the next one."""
        while task.cancelling():
            task.uncancel()
        try:
            await asyncio.sleep(0)  # where a request that nobody has seen yet arrives
        except asyncio.CancelledError:
            if self._stopped:
                raise

    def _is_stopped(self) -> bool:
        return self._stopped
