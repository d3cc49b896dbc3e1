"""SQLAlchemy 2: its connection is asked for the one below, of psycopg or asyncpg, once its transaction has begun.

A session tells of its commit; a connection does not, and neither does a session that lives in somebody else's
transaction, as in tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeGuard
from weakref import WeakKeyDictionary

from windlass.drivers.postgres.callers import asyncpg, psycopg
from windlass.drivers.postgres.callers.kinds import AsyncCaller, Caller, is_of, named
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement
from windlass.errors import WrongConnection

_waiting: Final[WeakKeyDictionary[Any, list[Callable[[], None]]]] = WeakKeyDictionary()


def is_blocking(connection: object) -> TypeGuard[Any]:
    return is_session(connection) or is_of(connection, "sqlalchemy.engine", "Connection")


def is_session(connection: object) -> bool:
    return is_of(connection, "sqlalchemy.orm", "Session", "scoped_session")


def is_awaited(connection: object) -> TypeGuard[Any]:
    names = ("AsyncSession", "async_scoped_session", "AsyncConnection")
    return is_of(connection, "sqlalchemy.ext.asyncio", *names)


def caller(given: Any, place: Place) -> Caller:
    if not is_session(given):
        return driving(_begun(given), place)
    session = given() if is_of(given, "sqlalchemy.orm", "scoped_session") else given
    _check_dialect(_bind_of(session), is_async=False)
    return SessionCaller(session, driving(_begun(session.connection()), place))


async def async_caller(given: Any, place: Place) -> AsyncCaller:
    if is_of(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        return await async_driving(given, place)
    session = given() if is_of(given, "sqlalchemy.ext.asyncio", "async_scoped_session") else given
    _check_dialect(_bind_of(session.sync_session), is_async=True)
    return AsyncSessionCaller(session.sync_session, await async_driving(await session.connection(), place))


def driving(connection: Any, place: Place) -> Caller:
    below = connection.connection.driver_connection
    if not psycopg.is_blocking(below):
        raise _unknown(below)
    return psycopg.PsycopgCaller(below, place)


async def async_driving(connection: Any, place: Place) -> AsyncCaller:
    _check_dialect(connection.sync_connection, is_async=True)
    below = connection.sync_connection.connection.driver_connection
    lazy = asyncpg.is_awaited(below) and not below.is_in_transaction()  # its dialect begins with the first statement
    if lazy or not connection.in_transaction():
        await connection.exec_driver_sql("select 1")
    if psycopg.is_awaited(below):
        return psycopg.AsyncPsycopgCaller(below, place)
    if asyncpg.is_awaited(below):
        return asyncpg.AsyncpgCaller(below, place, "an isolation level other than AUTOCOMMIT")
    raise _unknown(below)


def _begun(connection: Any) -> Any:
    """A connection knows nothing of a transaction that we would begin below it."""
    _check_dialect(connection, is_async=False)
    if not connection.in_transaction():
        connection.exec_driver_sql("select 1")
    return connection


def _bind_of(session: Any) -> Any:
    try:
        return session.get_bind()
    except Exception as error:
        raise WrongConnection(
            f"the session has no one database ({error}); give the connection: conn=session.connection(bind_arguments=…)"
        ) from error


def _check_dialect(bind: Any, *, is_async: bool) -> None:
    if bind.dialect.name != "postgresql":
        raise WrongConnection(f"the connection is to {bind.dialect.name}, this store is PostgreSQL")
    if bind.dialect.is_async and not is_async:
        raise WrongConnection(
            "enqueue_sync() takes a blocking connection, and this one belongs to an async engine; with its AsyncSession: "
            "await ….enqueue(…)"
        )


def _unknown(below: object) -> WrongConnection:
    return WrongConnection(
        f"SQLAlchemy uses {named(below)} here; make the engine with postgresql+psycopg:// or postgresql+asyncpg://"
    )


# --------------------------------------------------------------------------------------------------------- after a commit


class Session:
    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def hooks(self) -> bool:
        return is_of(self._session.get_bind(), "sqlalchemy.engine", "Engine")

    def after_commit(self, tell: Callable[[], None]) -> None:
        if self._session not in _waiting:
            event: Any = sys.modules["sqlalchemy.event"]
            event.listen(self._session, "after_commit", _committed)
            event.listen(self._session, "after_transaction_end", _ended)
            _waiting[self._session] = []
        _waiting[self._session].append(tell)


class SessionCaller(Session):
    def __init__(self, session: Any, below: Caller) -> None:
        super().__init__(session)
        self._below = below

    def execute(self, statement: Statement) -> list[Row]:
        return self._below.execute(statement)


class AsyncSessionCaller(Session):
    def __init__(self, session: Any, below: AsyncCaller) -> None:
        super().__init__(session)
        self._below = below

    async def execute(self, statement: Statement) -> list[Row]:
        return await self._below.execute(statement)


def _committed(session: Any) -> None:
    if session.in_nested_transaction():  # a savepoint was released, which stores nothing
        return
    tells, _waiting[session] = _waiting[session], []
    for tell in tells:
        tell()


def _ended(session: Any, transaction: Any) -> None:
    if transaction.parent is None:
        _waiting[session] = []
