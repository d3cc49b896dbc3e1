"""Transactions without a lock: what is asked is tried on the rows at once, undone, and done for good at the commit.

Holding the driver's lock from begin to commit would let a handler that waits stop every other caller, the event loop
among them. So each call is answered from the rows as they stand, with all that the transaction did before it, and at the
commit the whole is done once more: when an answer is another one by then, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from windlass.core.changes import Answer, Settlement
from windlass.drivers.memory import jobs, settlement
from windlass.drivers.memory.tables import Tables
from windlass.drivers.untransactional import WithoutNetwork
from windlass.drivers.values import Enqueued
from windlass.errors import NoConnection, TransactionConflict, TransactionOver, WindlassError
from windlass.types import Micros, NewJob

T = TypeVar("T")


class Run(Protocol):
    """Something done to the tables under the driver's lock: kept, or only tried."""

    def __call__(self, change: Callable[[Tables], T], /) -> T: ...


class MemoryTransaction(WithoutNetwork):
    def __init__(self, *, keep: Run, attempt: Run) -> None:
        self._keep, self._attempt = keep, attempt
        self._units: list[tuple[Callable[[Tables], Any], Any]] = []  # with the answer that each was given
        self._over: str | None = "has not begun"

    @property
    def connection(self) -> NoReturn:
        raise NoConnection("the memory store")

    def begin(self) -> None:
        if self._over != "has not begun":
            raise TransactionOver(self._over or "has begun already")
        self._over = None
        self._attempt(lambda _: None)  # a closed driver begins nothing

    def enqueue(self, new: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        batch = tuple(new)
        return self._add(lambda tables: jobs.enqueue(tables, batch, now))

    def settle(self, change: Settlement, *, now: Micros) -> Answer:
        return self._add(lambda tables: settlement.settle(tables, [change], now)[0])

    def _add(self, unit: Callable[[Tables], T]) -> T:
        self._check()

        def everything(tables: Tables) -> T:
            self._repeat(tables)
            return unit(tables)

        answer = self._attempt(everything)
        self._units.append((unit, answer))
        return answer

    def commit(self) -> None:
        self._check()
        self._over = "has ended"
        self._keep(self._repeat)

    def rollback(self) -> None:
        self._over = "has ended"
        self._units.clear()

    def _check(self) -> None:
        if self._over is not None:
            raise TransactionOver(self._over)

    def _repeat(self, tables: Tables) -> None:
        """All that was answered so far, once more; the answers must be the same."""
        for unit, told in self._units:
            try:
                answer = unit(tables)
            except WindlassError as error:  # such as an id that somebody else has used by now
                raise TransactionConflict from error
            if answer != told:
                raise TransactionConflict
