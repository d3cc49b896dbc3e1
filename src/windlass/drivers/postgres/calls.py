"""Calls: what a caller asks of a lane, from that moment until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic

from windlass.clock import ticking
from windlass.drivers.postgres.link import Link
from windlass.drivers.statement import Op, Statement, T

Work = Callable[[Link], T]
Quick = Callable[[], Op[T | None]]
Parting = Callable[[T], Statement | None]


class Call(Generic[T]):
    """One call. `again` is what to do if nobody knows whether `work` took effect; None: report that. `parting` is sent on
    the same connection once the call is answered; nobody waits for it, and it may be lost."""

    def __init__(self, work: Work[T], again: Work[T] | None, timeout: float, parting: Parting[T] | None = None) -> None:
        self.work, self.again, self.parting = work, again, parting
        self.until = ticking() + timeout
        self.unknown = False  # a try broke off at a moment at which it may have taken effect
        self.link: Link | None = None  # once it is its turn
        self.future: Future[T] = Future()

    def refuse(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # it was answered at this very moment, or nobody waits any more
            self.future.set_exception(error)
