"""`ctx.transaction()`: the handler's own writes, its follow-up jobs and the success of its job in one transaction.

The success, which the lease guards, is the last statement before the commit, so the row of the job is not locked while
the body runs. On SQLite the body holds the only write lock of the file; therefore it may take a third of the lease, and
is rolled back as a failure after that. On PostgreSQL it may take as long as it likes, because the lease is renewed
meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Token
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from windlass.apart import apart
from windlass.client import Client, Joins, joined
from windlass.clock import SECOND
from windlass.core.changes import Settlement
from windlass.drivers.protocol import Transaction
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput, LeaseLost, TransactionTooLong
from windlass.types import Micros, NewJob

T = TypeVar("T")


class Settles(Protocol):
    """What the transaction needs of the execution whose success it contains."""

    @property
    def job_id(self) -> str: ...
    def success(self, result: Any) -> Settlement: ...
    def settling(self, begun: bool) -> None: ...


class JobTransaction:
    """What `ctx.transaction()` returns. Use it once, with `async with` in async handlers and `with` in threads."""

    def __init__(self, client: Client, execution: Settles, limit: Micros | None) -> None:
        """`limit` is how long the body may take; None = no limit."""
        self.client = client
        self.result: Any = None  # what job.result() will answer
        self._execution = execution
        self._limit = limit
        self._transaction: Transaction = client.driver.transaction()
        self._begun_at: Micros | None = None
        self._token: Token[Joins | None] | None = None
        self._timeout: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of an async handler
        self._turn: asyncio.Lock | None = None  # there, when the store is behind a network
        self._new: set[str] = set()  # jobs and groups that it has enqueued
        self._over = False

    @property
    def connection(self) -> Any:
        """The connection of the store, for your own statements: an apsw.Connection or sqlite3.Connection on SQLite; on
        PostgreSQL a psycopg.AsyncConnection in async handlers and a psycopg.Connection in threads."""
        return self._transaction.connection if self._loop is None else self._transaction.async_connection

    async def enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]:
        turn = self._turn if self._loop is not None else self._transaction.turn()
        if turn is None:
            return self._enqueue(new)
        async with turn:
            return await _unbroken(lambda: self._enqueue(new))

    def enqueue_sync(self, new: Sequence[NewJob]) -> list[Enqueued]:
        if self._loop is None or self._turn is None:
            return self._enqueue(new)
        if _running_loop() is not self._loop:  # a thread that the handler has started
            return asyncio.run_coroutine_threadsafe(self.enqueue(new), self._loop).result()
        if self._turn.locked():
            raise InvalidInput("transaction", "another statement of this block is under way; write: await ….enqueue(…)")
        return self._enqueue(new)

    def _enqueue(self, new: Sequence[NewJob]) -> list[Enqueued]:
        answers = self._transaction.enqueue(new, now=self.client.now())
        for job, answer in zip(new, answers, strict=True):
            if not answer.existed:
                self._new |= {answer.id} if job.opens is None else {answer.id, job.opens.group_id}
        return answers

    @property
    def alone(self) -> bool:
        return not self._over and self.client.driver.capabilities.single_writer

    def has_new(self, noun_id: str) -> bool:
        return not self._over and noun_id in self._new

    # ---------------------------------------------------------------------------------------------------------- async

    async def __aenter__(self) -> JobTransaction:
        self._check_unused()
        await self.client.subscriptions.current()  # whoever asks to hear of its end while the block runs may miss it
        await _unbroken(self._transaction.begin, self._transaction.rollback)
        self._loop = asyncio.get_running_loop()
        self._turn = self._transaction.turn()
        self._begin()
        if self._limit is not None:
            self._timeout = asyncio.timeout(self._limit / SECOND)
            await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._leave()
        if self._timeout is not None and self._limit is not None:
            try:
                await self._timeout.__aexit__(kind, error, where)
            except TimeoutError:
                await self._undo()
                raise TransactionTooLong(self._execution.job_id, self._limit / SECOND) from None
        if error is not None:
            await self._undo()
        elif self._turn is None:
            self._settle()
            await _unbroken(self._commit)
        else:
            await self._take_turn(self._turn)
            try:
                await _unbroken(self._end)
            finally:
                self._turn.release()

    async def _take_turn(self, turn: asyncio.Lock) -> None:
        try:
            await turn.acquire()
        except BaseException:
            await self._undo()
            raise

    async def _undo(self) -> None:
        if self._turn is None:
            self._transaction.rollback()
        else:
            await _unbroken(self._transaction.rollback)

    # ------------------------------------------------------------------------------------------------------- blocking

    def __enter__(self) -> JobTransaction:
        self._check_unused()
        if _running_loop() is not None:
            raise InvalidInput("transaction", "in an async handler write: async with ctx.transaction() as tx")
        if not self.client.subscriptions.is_fresh():
            apart(self.client.subscriptions.current)
        self._transaction.begin()
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._leave()
        if error is not None:
            self._transaction.rollback()
            return
        limit = self._limit
        if limit is not None and self._begun_at is not None and self.client.now() - self._begun_at > limit:
            self._transaction.rollback()
            raise TransactionTooLong(self._execution.job_id, limit / SECOND)
        self._end()

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
        self._over = True  # for tasks too that were started in the block and go on
        if self._token is not None:
            joined.reset(self._token)

    def _end(self) -> None:
        self._settle()
        self._commit()

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
        """Commit. From now on a refused renewal means that the job has ended, not that its lease was lost."""
        self._execution.settling(True)
        try:
            self._transaction.commit()
        except BaseException:
            self._execution.settling(False)
            self._transaction.rollback()
            raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _unbroken(work: Callable[[], T], undo: Callable[[], None] | None = None) -> T:
    """Run blocking work in a thread. A caller that is cancelled waits for its end, because half-done it would keep a
    lock; then `undo` undoes what succeeded."""
    running = _apart(work)
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        if await _ended(running) is None and undo is not None:
            await _ended(_apart(undo))
        raise
    return running.result()


async def _ended(running: asyncio.Future[Any]) -> BaseException | None:
    """Wait for its end and return its exception, which the event loop would otherwise report as never retrieved."""
    while not running.done():
        with suppress(asyncio.CancelledError):  # once more, for another reason: that changes nothing
            await asyncio.wait({running})
    return running.exception()


def _apart(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run it in a thread of its own. The few threads of the event loop's pool may all be waiting, for example for the
    lock that this very commit gives back."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            answer = work()
        except BaseException as error:
            tell: Callable[[], None] = partial(done.set_exception, error)
        else:
            tell = partial(done.set_result, answer)
        with suppress(RuntimeError):  # that loop is gone, and with it whoever waited
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=run, name="windlass-transaction", daemon=True).start()
    return done
