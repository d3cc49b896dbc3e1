"""Enqueueing in the caller's own transaction: the same operation as everywhere, on the caller's connection.

It runs in a savepoint, so what fails here leaves the caller's work as it was. The connection must lead to this very store;
it is asked, through itself, which one it sees.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from windlass.drivers.postgres import jobs, linking
from windlass.drivers.postgres.arrays import Texts
from windlass.drivers.postgres.callers import awaited, blocking
from windlass.drivers.postgres.callers.kinds import Hooked
from windlass.drivers.postgres.faults import Taken, translate
from windlass.drivers.postgres.link import Link, drive
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.savepoints import guarded
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row, Statement, T
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput, SchemaMissing, WrongConnection
from windlass.types import Micros, NewJob

Tell = Callable[[Sequence[NewJob], Sequence[Enqueued], Micros], None]


class Elsewhere(WrongConnection):
    """The connection sees another store than the one it was compared with."""


class Within:
    """The caller's connection must see what our own see; `who` reads that."""

    def __init__(self, place: Place, tell: Tell) -> None:
        self._place, self._tell = place, tell
        self._seen: Row | None = None

    def enqueue(
        self, connection: object, new: Sequence[NewJob], now: Micros, notify: bool, who: Callable[[], Row]
    ) -> list[Enqueued]:
        caller = blocking(connection, self._place)
        jobs.check(new, now)
        if not new:
            return []
        seen = self._seen or who()
        with told(self._place):
            try:
                answers = drive(self._op(caller, new, now, notify, seen), caller.execute)
            except Elsewhere:
                stale, seen = seen, who()  # the server may have been restarted since
                if seen[:-1] == stale[:-1]:
                    raise
                answers = drive(self._op(caller, new, now, notify, seen), caller.execute)
        return self._done(caller, new, answers, now, notify, seen)

    async def enqueue_async(
        self, connection: object, new: Sequence[NewJob], now: Micros, notify: bool, who: Callable[[], Awaitable[Row]]
    ) -> list[Enqueued]:
        caller = await awaited(connection, self._place)
        jobs.check(new, now)
        if not new:
            return []
        seen = self._seen or await who()
        with told(self._place):
            try:
                answers = await drive_async(self._op(caller, new, now, notify, seen), caller.execute)
            except Elsewhere:
                stale, seen = seen, await who()
                if seen[:-1] == stale[:-1]:
                    raise
                answers = await drive_async(self._op(caller, new, now, notify, seen), caller.execute)
        return self._done(caller, new, answers, now, notify, seen)

    def _op(self, caller: Hooked, new: Sequence[NewJob], now: Micros, notify: bool, seen: Row) -> Op[list[Enqueued]]:
        def whole() -> Op[list[Enqueued]]:
            isolation = yield from compare(seen, self._place)
            yield from check_isolation(isolation, new)
            answers = yield from linking.enqueue(new, now, ours=False)
            if notify and not caller.hooks and (queues := jobs.brought(new, answers, now)):
                yield SQL.tell(channel=self._place.channel, queues=Texts(sorted(queues)))
            return answers

        return guarded(whole())

    def _done(
        self, caller: Hooked, new: Sequence[NewJob], answers: list[Enqueued], now: Micros, notify: bool, seen: Row
    ) -> list[Enqueued]:
        self._seen = seen
        if notify and caller.hooks:
            caller.after_commit(lambda: self._tell(new, answers, now))
        return answers


def compare(seen: Row, place: Place) -> Op[str]:
    """Raises when the connection leads elsewhere; answers how isolated its transaction is."""
    try:
        [(*found, isolation)] = yield SQL.who()
    except SchemaMissing:
        raise WrongConnection(
            f"the connection sees no such store; this one is {place}: connect to the same database, or enqueue after your "
            "own commit"
        ) from None
    if tuple(found) != tuple(seen[:-1]):
        raise Elsewhere(
            f"the connection leads to the database {found[1]!r} of another server or to a copy of this store, which is "
            f"{place}; two databases are never atomic together, so enqueue after your own commit"
        )
    return str(isolation)


def check_isolation(level: str, new: Sequence[NewJob]) -> Op[None]:
    """A transaction that sees only what was there when it began can take part: what it does not see of keys, the server
    calls a conflict. Of the last place in a queue nobody would tell it."""
    if level == "read committed":
        return
    dense = yield SQL.lock_queues(names=Texts({job.queue for job in new}))
    if dense:
        raise WrongConnection(
            f"the transaction is {level.upper()}, in which the last position of the queue {dense[0][0]!r} cannot be known; "
            "queues with dense positions want READ COMMITTED, or enqueue after your own commit"
        )


async def drive_async(op: Op[T], execute: Callable[[Statement], Awaitable[list[Row]]]) -> T:
    """`drive` for connections whose calls are awaited."""
    try:
        statement = next(op)
        while True:
            try:
                rows = await execute(statement)
            except BaseException as error:
                statement = op.throw(error)
            else:
                statement = op.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        op.close()


@contextmanager
def told(place: Place) -> Iterator[None]:
    """Foreign exceptions do not leave the driver."""
    try:
        yield
    except (OverflowError, UnicodeError) as error:
        raise InvalidInput("value", f"cannot be stored: {error}") from error
    except Taken as error:
        raise translate(error, place) from error


def who(link: Link) -> Row:
    [row] = link.execute(SQL.who())
    return row
