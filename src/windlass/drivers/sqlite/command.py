"""A command: an operation that a lane is asked to do, and the caller that waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from windlass.drivers.statement import Op

Make = Callable[[], Op[Any]]
HEAVY: Final = 1 << 30


class Command:
    """An operation, and how to tell who waits for its answer: by a future of an event loop, by an event to a blocked
    thread, or not at all, when it is done before anybody has begun to wait."""

    __slots__ = ("answer", "dropped", "error", "event", "future", "loop", "make", "weight")

    def __init__(self, make: Make, weight: int = HEAVY) -> None:
        self.make = make
        self.weight = weight
        self.dropped = False  # by a caller who has no future to cancel
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Any] | None = None
        self.event: threading.Event | None = None
        self.answer: Any = None
        self.error: BaseException | None = None

    def awaited_on(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        future = loop.create_future()
        self.loop, self.future = loop, future
        return future

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer

    def gone(self) -> bool:
        return self.dropped or (self.future is not None and self.future.cancelled())

    def deliver(self) -> None:
        if self.event is not None:
            self.event.set()
        elif self.future is None or self.future.cancelled():
            pass
        elif self.error is None:
            self.future.set_result(self.answer)
        else:
            self.future.set_exception(self.error)


def deliver(commands: list[Command]) -> None:
    """Answers of one group go to each event loop in one call."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Command]] = defaultdict(list)
    for command in commands:
        if command.loop is None:
            command.deliver()
        else:
            by_loop[command.loop].append(command)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # that loop is closed, and with it whoever waited
            loop.call_soon_threadsafe(_deliver_all, group)


def _deliver_all(commands: list[Command]) -> None:
    for command in commands:
        command.deliver()
