"""`ctx.transaction()`: a handler's own writes, its follow-up jobs and its success, in one transaction.

The guarded success is the last statement before the commit, so nothing of the lease is locked while the body runs. On
SQLite the body does hold the only write lock of the file; it is therefore limited to a third of the lease, then rolled
back as a failure.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Token
from types import TracebackType
from typing import Any, Protocol

from windlass.client import Client, Joins, joined
from windlass.clock import SECOND
from windlass.core.changes import Settlement
from windlass.drivers.protocol import Enqueued, Transaction
from windlass.errors import InvalidInput, LeaseLost, TransactionTooLong
from windlass.types import Micros, NewJob


class Settles(Protocol):
    """The execution whose success is part of the transaction."""

    @property
    def job_id(self) -> str: ...
    def success(self, result: Any) -> Settlement: ...
    def settling(self, begun: bool) -> None: ...


class JobTransaction:
    """Use it once: `async with` in async handlers, `with` in threads."""

    def __init__(self, client: Client, execution: Settles, limit: Micros) -> None:
        self.client = client
        self.result: Any = None  # what job.result() will answer
        self._execution = execution
        self._limit = limit
        self._transaction: Transaction = client.driver.transaction()
        self._begun_at: Micros | None = None
        self._token: Token[Joins | None] | None = None
        self._timeout: asyncio.Timeout | None = None

    @property
    def connection(self) -> Any:
        """The store's own connection (apsw.Connection or sqlite3.Connection) for statements of yours."""
        return self._transaction.connection

    def enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]:
        return self._transaction.enqueue(new, now=self.client.now())

    # ---------------------------------------------------------------------------------------------------------- async

    async def __aenter__(self) -> JobTransaction:
        self._check_unused()
        await _unbroken(self._transaction.begin, self._transaction.rollback)
        self._begin()
        self._timeout = asyncio.timeout(self._limit / SECOND)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._timeout is not None, "left without having been entered"
        self._leave()
        try:
            await self._timeout.__aexit__(kind, error, where)
        except TimeoutError:
            self._transaction.rollback()
            raise TransactionTooLong(self._execution.job_id, self._limit / SECOND) from None
        if error is not None:
            self._transaction.rollback()
            return
        self._settle()
        await _unbroken(self._commit)

    # ------------------------------------------------------------------------------------------------------- blocking

    def __enter__(self) -> JobTransaction:
        self._check_unused()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise InvalidInput("transaction", "in an async handler write: async with ctx.transaction() as tx")
        self._transaction.begin()
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._leave()
        if error is not None:
            self._transaction.rollback()
            return
        if self._begun_at is not None and self.client.now() - self._begun_at > self._limit:
            self._transaction.rollback()
            raise TransactionTooLong(self._execution.job_id, self._limit / SECOND)
        self._settle()
        self._commit()

    # --------------------------------------------------------------------------------------------------------- shared

    def _check_unused(self) -> None:
        if self._begun_at is not None:
            raise InvalidInput("transaction", "one transaction per ctx.transaction(); leaving it has ended the job")
        around = joined.get()
        if around is not None and around.client is self.client:  # on SQLite it would wait for its own write lock
            raise InvalidInput("transaction", "one is open already in this handler; do all of it in that block")

    def _begin(self) -> None:
        self._begun_at = self.client.now()
        self._token = joined.set(self)

    def _leave(self) -> None:
        if self._token is not None:
            joined.reset(self._token)

    def _settle(self) -> None:
        try:
            answer = self._transaction.settle(self._execution.success(self.result), now=self.client.now())
        except BaseException:
            self._transaction.rollback()
            raise
        if answer != "applied":
            self._transaction.rollback()
            if answer == "repeated":
                raise InvalidInput("transaction", "an earlier one has ended this job; do all of it in one block")
            raise LeaseLost(self._execution.job_id)

    def _commit(self) -> None:
        """From here on a renewal that is refused means that the job has ended, not that its lease was lost."""
        self._execution.settling(True)
        try:
            self._transaction.commit()
        except BaseException:
            self._execution.settling(False)
            self._transaction.rollback()
            raise


async def _unbroken(work: Callable[[], None], undo: Callable[[], None] | None = None) -> None:
    """Run blocking work in a thread. Whoever is cancelled meanwhile waits for its end: half-done it would keep a lock."""
    running = _apart(work)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):  # once more, for another reason: that changes nothing
                await asyncio.wait({running})
        if undo is not None and not running.cancelled() and running.exception() is None:
            undo()
        raise


def _apart(work: Callable[[], None]) -> asyncio.Future[None]:
    """In a thread of its own, not in the event loop's pool: the few threads of that may all be waiting, for the very lock
    that a commit gives back or for whatever else handlers do there."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failed: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # that loop is gone, and with it whoever waited
            loop.call_soon_threadsafe(tell, failed)

    threading.Thread(target=run, name="windlass-transaction", daemon=True).start()
    return done
