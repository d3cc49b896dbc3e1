"""One SQLite library per process and file: apsw (the default) or the standard library's, behind the same six calls.

POSIX drops a process's locks on a file when *any* descriptor of it is closed, so two SQLite libraries on one file in one
process silently lose the write lock. Windlass therefore uses one, and says which.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

import apsw

from windlass.clock import ticking
from windlass.copy_errors import StoreMoved, StoreMoving
from windlass.core.copying import BUSY as BEING_COPIED
from windlass.core.copying import MOVED
from windlass.drivers.sqlite.texts import TEXTS_OF, NotText, column_in, is_no_text, tables_in, unreadable
from windlass.drivers.statement import Op, Row, Statement, T
from windlass.errors import (
    ConstraintViolated,
    InvalidInput,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    WindlassError,
)

Library = Literal["apsw", "stdlib"]
CACHED_STATEMENTS = 200
OLDEST = (3, 38, 0)
BETWEEN_LOOKS = 0.0005  # seconds
_NUMBERED = re.compile(r"\?(\d+)")
ERRORS = (apsw.Error, sqlite3.Error)
BUSY = (apsw.BusyError, apsw.LockedError, sqlite3.OperationalError)
CONSTRAINT = (apsw.ConstraintError, sqlite3.IntegrityError)


class Connection(Protocol):
    @property
    def raw(self) -> apsw.Connection | sqlite3.Connection: ...
    def execute(self, sql: str, params: Sequence[Any] = ()) -> list[Row]: ...
    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[Row]: ...
    def counted(self, sql: str, params: Sequence[Any]) -> list[Row]: ...
    def in_transaction(self) -> bool: ...
    def wait_at_most(self, seconds: float) -> None: ...
    def close(self) -> None: ...


class Patience:
    """How to wait for the lock of another process. SQLite itself waits up to a tenth of a second between two tries, and a
    busy worker leaves the lock for less than a millisecond at a time, so such a waiter would find it taken again and
    again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0

    def __call__(self, looks: int) -> bool:
        now = ticking()
        if looks == 0:
            self._until = now + self.seconds
        if now >= self._until:
            return False
        time.sleep(min(BETWEEN_LOOKS, self._until - now))
        return True


class ApswConnection:
    def __init__(self, path: str, busy_ms: int, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> None:
        self._connection = apsw.Connection(path, flags=flags, statementcachesize=CACHED_STATEMENTS)
        self._patience = Patience(busy_ms / 1_000)
        self._connection.set_busy_handler(self._patience)

    @property
    def raw(self) -> apsw.Connection:
        return self._connection

    def execute(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(sql, params).fetchall()

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[Row]:
        return self._connection.executemany(sql, rows).fetchall()

    def counted(self, sql: str, params: Sequence[Any]) -> list[Row]:
        self._connection.execute(sql, params)
        return [(self._connection.changes(),)]

    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def wait_at_most(self, seconds: float) -> None:
        self._patience.seconds = seconds

    def on_commit(self, told: Callable[[int], None]) -> None:
        """Tell of every commit how many pages the WAL has now. From then on it is not checkpointed by commits."""

        def hook(_connection: apsw.Connection, _name: str, pages: int) -> int:
            told(pages)
            return apsw.SQLITE_OK

        self._connection.set_wal_hook(hook)

    def close(self) -> None:
        self._connection.close()


class StdlibConnection:
    """A connection of the standard library, ours or a caller's in whose transaction we write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: str, busy_ms: int) -> StdlibConnection:
        options: dict[str, Any] = {"timeout": busy_ms / 1000, "cached_statements": CACHED_STATEMENTS}
        return cls(sqlite3.connect(path, isolation_level=None, check_same_thread=False, **options))

    @property
    def raw(self) -> sqlite3.Connection:
        return self._connection

    def _cursor(self) -> sqlite3.Cursor:
        """A cursor that returns plain rows, whatever row_factory or cursor class the caller has set on the connection."""
        cursor = sqlite3.Connection.cursor(self._connection)
        cursor.row_factory = None
        return cursor

    def execute(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        text, order = _unnumbered(sql)
        values = [params[n] for n in order] if order else params
        factory = self._connection.text_factory
        if factory is str:
            return self._cursor().execute(text, values).fetchall()
        self._connection.text_factory = str  # it belongs to the connection, a cursor has none of its own
        try:
            return self._cursor().execute(text, values).fetchall()
        finally:
            self._connection.text_factory = factory

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[Row]:
        text, order = _unnumbered(sql)
        self._cursor().executemany(text, ([row[n] for n in order] for row in rows) if order else rows)
        return []

    def counted(self, sql: str, params: Sequence[Any]) -> list[Row]:
        text, order = _unnumbered(sql)
        return [(self._cursor().execute(text, [params[n] for n in order] if order else params).rowcount,)]

    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def wait_at_most(self, seconds: float) -> None:
        self._connection.execute(f"pragma busy_timeout = {int(seconds * 1_000)}")

    def close(self) -> None:
        self._connection.close()


@lru_cache(maxsize=CACHED_STATEMENTS)
def _unnumbered(sql: str) -> tuple[str, tuple[int, ...]]:
    """`?1 … ?1` as `? … ?`, and which parameter each of them is: the standard library takes sequences for nothing else."""
    return _NUMBERED.sub("?", sql), tuple(int(number) - 1 for number in _NUMBERED.findall(sql))


def connect(library: Library, path: str, busy_ms: int) -> Connection:
    return ApswConnection(path, busy_ms) if library == "apsw" else StdlibConnection.open(path, busy_ms)


def connect_to_look(library: Library, uri: str) -> Connection:
    """By SQLite's own URI, which says how little may be touched."""
    if library == "apsw":
        return ApswConnection(uri, 0, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    return StdlibConnection(sqlite3.connect(uri, uri=True, isolation_level=None))


def execute(connection: Connection, statement: Statement) -> list[Row]:
    if statement.many:
        return connection.many(statement.sql, statement.params)
    if statement.counted:
        return connection.counted(statement.sql, statement.params)
    return connection.execute(statement.sql, statement.params)


def run(connection: Connection, op: Op[T]) -> T:
    """Drive an operation to its answer."""
    try:
        statement = next(op)
        while True:
            try:
                rows = execute(connection, statement)
            except UnicodeDecodeError as error:
                raise no_text(connection, statement.sql, error) from error
            except ERRORS as error:  # an operation may know what it means; otherwise it comes straight back
                if is_no_text(error):
                    raise no_text(connection, statement.sql, error) from error
                statement = op.throw(error)
            else:
                statement = op.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def no_text(connection: Connection, sql: str, error: Exception) -> NotText:
    """The error of a statement that read bytes which are no text, and where to look for them."""
    column = column_in(error)
    columns = {table: [name for (name,) in connection.execute(TEXTS_OF, (table,))] for table in tables_in(sql)}
    if column is not None:
        columns = {table: [name for name in names if name == column] for table, names in columns.items()}
    return NotText(columns, error.object if isinstance(error, UnicodeDecodeError) else None)


def run_within(connection: Connection, op: Op[T]) -> T:
    """Run an operation inside the caller's own transaction. If it fails, everything that it did is undone, and the
    caller's own work stays."""
    connection.execute("savepoint windlass")
    try:
        return run(connection, op)
    except BaseException:
        if connection.in_transaction():  # after a full disk SQLite has rolled back all of it
            connection.execute("rollback to windlass")
        raise
    finally:
        if connection.in_transaction():
            connection.execute("release windlass")


def require(library: Library) -> None:
    """The SQL of this driver needs STRICT tables, RETURNING and the ->> operator."""
    if tuple(int(part) for part in version(library).split(".")) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise StoreUnavailable(f"SQLite {version(library)} of {library} is too old, {oldest} is needed; use sqlite='apsw'")


def version(library: Library) -> str:
    return apsw.sqlite_lib_version() if library == "apsw" else sqlite3.sqlite_version


def misfit(error: OverflowError | UnicodeError, path: str) -> WindlassError:
    """A value that does not go into the file, or text in it that is none."""
    if isinstance(error, NotText):
        return unreadable(error, path)
    return InvalidInput("value", f"cannot be stored: {error}")


def translate(error: Exception, path: str, waited: float) -> StoreError:
    """The library's exception as ours. Foreign exceptions never leave the driver."""
    code = getattr(error, "result", None)
    if code is None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case apsw.SQLITE_BUSY | apsw.SQLITE_LOCKED:
            return StoreBusy(path, waited)
        case apsw.SQLITE_FULL:
            return StoreFull(path)
        case apsw.SQLITE_READONLY | apsw.SQLITE_PERM:
            return StoreReadOnly(path)
        case apsw.SQLITE_CORRUPT | apsw.SQLITE_NOTADB:
            return StoreCorrupt(path, f"it is damaged, or no store ({error})")
        case apsw.SQLITE_CONSTRAINT if MOVED in (said := str(error)):
            return StoreMoved(path, said.partition(MOVED)[2])
        case apsw.SQLITE_CONSTRAINT if BEING_COPIED in (said := str(error)):
            return StoreMoving(path, said[said.index(BEING_COPIED) :])
        case apsw.SQLITE_CONSTRAINT:
            return ConstraintViolated(f"{path}: the schema refused a row: {error}")
        case apsw.SQLITE_CANTOPEN:
            return StoreUnavailable(f"{path}: cannot be opened ({error})")
        case _:
            return StoreError(f"{path}: {type(error).__name__}: {error}")
