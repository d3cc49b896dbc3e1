"""Base classes for drivers and transactions that offer less than the contract allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from windlass.errors import WrongConnection
from windlass.types import Micros, NewJob


class WithoutNetwork:
    """Base of a transaction whose store is in this process, so that its calls never wait for a network."""

    @property
    def connection(self) -> Any:
        raise NotImplementedError

    @property
    def async_connection(self) -> Any:
        return self.connection

    def turn(self) -> None:
        return None


def no_async_connection(given: object) -> WrongConnection:
    """The error of a store that cannot use a connection whose calls are awaited."""
    return WrongConnection(
        f"enqueue() takes an async connection, and this store shares none: got {type(given).__module__}."
        f"{type(given).__qualname__}; inside a sqlite3 transaction call enqueue_sync(), else enqueue after your own commit"
    )


class Untransactional:
    """Base of a driver with `transactional=False`."""

    def transaction(self) -> NoReturn:
        raise WrongConnection(f"{type(self).__name__} has no transactions; settle, and enqueue what follows before that")

    def enqueue_within(self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True) -> NoReturn:
        raise WrongConnection(f"{type(self).__name__} cannot write on another connection; enqueue after your own commit")

    async def enqueue_within_async(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> NoReturn:
        raise no_async_connection(connection)
