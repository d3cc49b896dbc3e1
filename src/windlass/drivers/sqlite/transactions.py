"""Transactions that hold more than the driver's own statements: on a connection of ours, or on the caller's.

`SqliteTransaction` opens a connection for itself, which costs half a millisecond, and takes the write lock at once, so
that what it answers stays true until the commit. `within` uses the caller's connection, which must be of the same library
and on the same file: two libraries on one file lose each other's locks (library.py), and two files in WAL mode are never
atomic together.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from windlass.core.admission_of_settlements import check_settlements
from windlass.core.changes import Answer, Settlement
from windlass.drivers.sqlite import linking, settlement
from windlass.drivers.sqlite.library import ERRORS, Connection, Library, StdlibConnection, misfit, run_within, translate
from windlass.drivers.sqlite.place import Place
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, T
from windlass.drivers.untransactional import WithoutNetwork
from windlass.drivers.values import Enqueued
from windlass.errors import DriverForked, StoreBusy, TransactionOver, WrongConnection
from windlass.types import Micros, NewJob
from windlass.urls import url_of_file

DJANGO: Final = frozenset({
    "django.db.backends.base.base.BaseDatabaseWrapper", "django.utils.connection.ConnectionProxy"
})  # fmt: skip


@contextmanager
def told(place: Place) -> Iterator[None]:
    """Foreign exceptions do not leave the driver."""
    try:
        yield
    except ERRORS as error:
        raise translate(error, place.path, place.busy_s) from error
    except (OverflowError, UnicodeError) as error:
        raise misfit(error, place.path) from error


class SqliteTransaction(WithoutNetwork):
    def __init__(
        self, place: Place, enter: Callable[[SqliteTransaction], Connection], leave: Callable[[SqliteTransaction], None]
    ) -> None:
        """`enter` opens a connection, `leave` hears that it was closed."""
        self._place, self._enter, self._leave = place, enter, leave
        self._pid = os.getpid()
        self._connection: Connection | None = None
        self._begun = False

    @property
    def connection(self) -> Any:
        return self._held().raw

    def begin(self) -> None:
        if self._begun:
            raise TransactionOver("has begun already" if self._connection is not None else "has ended")
        self._begun = True
        with told(self._place):
            self._place.identity.check()
            if not self._place.turns.take(self._place.busy_s):
                raise StoreBusy(self._place.path, self._place.busy_s)
            try:
                self._connection = self._enter(self)
            except BaseException:
                self._place.turns.give()
                raise
            try:
                self._connection.execute("begin immediate")
            except BaseException:
                self._close()
                raise

    def enqueue(self, new: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return self._run(linking.enqueue(tuple(new), now))

    def settle(self, change: Settlement, *, now: Micros) -> Answer:
        check_settlements([change], now)
        return self._run(settlement.settle([change], now))[0]

    def _run(self, op: Op[T]) -> T:
        connection = self._held()
        with told(self._place):
            return run_within(connection, op)

    def commit(self) -> None:
        connection = self._held()
        try:
            with told(self._place):
                self._place.identity.check()
                connection.execute("commit")
        finally:
            self.rollback()  # after a commit there is nothing to undo, and after a failed one everything

    def rollback(self) -> None:
        self._begun = True
        if self._connection is None or self._pid != os.getpid():  # in a child the connection is the parent's
            return
        with suppress(*ERRORS):  # then SQLite has rolled back by itself
            if self._connection.in_transaction():
                self._connection.execute("rollback")
        self._close()

    def _held(self) -> Connection:
        if self._pid != os.getpid():
            raise DriverForked
        if self._connection is None:
            raise TransactionOver("has ended" if self._begun else "has not begun")
        if not self._connection.in_transaction():  # what is written now would be stored at once, and alone
            raise TransactionOver("was ended by a statement of your own, or by SQLite when the disk was full")
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            finally:
                self._place.turns.give()
                self._leave(self)


# ---------------------------------------------------------------------------------------- on the caller's own connection


def within(connection: object, op: Op[T], place: Place, library: Library, *, guarded: bool) -> T:
    """Run an operation in the caller's transaction, which begins here if it has to and ends where the caller says."""
    if library != "stdlib":
        raise WrongConnection(
            "this store is open through apsw, and a second SQLite library on the same file would lose its locks; open it "
            f"with Windlass('{url_of_file(place.path)}', sqlite=\"stdlib\") to enqueue on a connection of your own"
        )
    connection = _beneath(connection)
    if not isinstance(connection, sqlite3.Connection):
        raise WrongConnection(
            f"a sqlite3.Connection is needed, got {type(connection).__qualname__}; a SQLAlchemy Session or "
            "Connection on one will do, or Django's connection"
        )
    with told(place):
        place.identity.check()
        callers = StdlibConnection(connection)
        _check_file(callers, place.path)
        if guarded:  # nobody but the writer's guard may checkpoint (checkpoint.py)
            callers.execute("pragma wal_autocheckpoint = 0")
        _check_transaction(connection)
        lock = SQL.take_lock()
        callers.execute(lock.sql, lock.params)
        return run_within(callers, op)


def _beneath(given: Any) -> object:
    """The connection of sqlite3 that Django's or SQLAlchemy's is made of, told by the names of their classes."""
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(given).__mro__}
    if kinds & DJANGO:
        given.ensure_connection()
        return given.connection
    if "sqlalchemy.orm.session.Session" in kinds:
        given = given.connection()
    elif "sqlalchemy.engine.base.Connection" not in kinds:
        return given
    return given.connection.driver_connection


def _check_file(callers: StdlibConnection, path: str) -> None:
    files = {name: file for _, name, file in callers.execute("pragma database_list")}
    main = os.path.realpath(files["main"]) if files["main"] else "a database in memory"
    if main != path:
        raise WrongConnection(
            f"the connection is on {main}, this store is {path}; two files are never atomic together, so keep your tables "
            "in the store's file, or enqueue after your own commit"
        )


def _check_transaction(connection: sqlite3.Connection) -> None:
    """Refuse a connection on which every statement is its own transaction. Any other is in one already, or the module
    begins one before our first write, as it does before an INSERT."""
    if connection.in_transaction:
        return
    control = getattr(connection, "autocommit", -1)  # of Python 3.12; -1 is the older way, by isolation_level
    if control is True or (control is not False and connection.isolation_level is None):
        raise WrongConnection(
            'the connection is in autocommit mode and in no transaction; begin one first: conn.execute("begin immediate")'
        )
