"""psycopg 3, blocking and awaited. Its transaction may be begun by us, as by any statement of the caller's."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.bool import BoolBinaryLoader
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader, TextBinaryLoader

from windlass.drivers.postgres.callers.kinds import Unhooked
from windlass.drivers.postgres.faults import Taken, translate
from windlass.drivers.postgres.link import adapt
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement
from windlass.errors import WindlassError, WrongConnection

LOADERS: Final[dict[str, type[Loader]]] = {
    "bool": BoolBinaryLoader, "int8": Int8BinaryLoader, "text": TextBinaryLoader, "bytea": ByteaBinaryLoader
}  # fmt: skip


def is_blocking(connection: object) -> TypeGuard[psycopg.Connection[Any]]:
    return isinstance(connection, psycopg.Connection)


def is_awaited(connection: object) -> TypeGuard[psycopg.AsyncConnection[Any]]:
    return isinstance(connection, psycopg.AsyncConnection)


class PsycopgCaller(Unhooked):
    def __init__(self, connection: psycopg.Connection[Any], place: Place) -> None:
        check(connection, "with conn.transaction():")
        self._connection, self._place = connection, place

    def execute(self, statement: Statement) -> list[Row]:
        with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
            ours(cursor.adapters)
            try:
                cursor.execute(self._place.text(statement.sql), statement.params, binary=True)
                return cursor.fetchall() if cursor.description is not None else []
            except psycopg.Error as error:
                raise told(error, self._place, self._connection) from error


class AsyncPsycopgCaller(Unhooked):
    def __init__(self, connection: psycopg.AsyncConnection[Any], place: Place) -> None:
        check(connection, "async with conn.transaction():")
        self._connection, self._place = connection, place

    async def execute(self, statement: Statement) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            ours(cursor.adapters)
            try:
                await cursor.execute(self._place.text(statement.sql), statement.params, binary=True)
                return await cursor.fetchall() if cursor.description is not None else []
            except psycopg.Error as error:
                raise told(error, self._place, self._connection) from error


def check(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], begin: str) -> None:
    if connection.closed:
        raise WrongConnection("the connection is closed")
    status = connection.info.transaction_status
    if status == TransactionStatus.IDLE and connection.autocommit:
        raise WrongConnection(
            f"the connection is in autocommit mode and in no transaction, so the job could be part of none; write: {begin}"
        )
    if status == TransactionStatus.INERROR:
        raise WrongConnection("the transaction of this connection has failed; roll it back first")


def ours(adapters: AdaptersMap) -> None:
    """Of one cursor. What the caller has registered on the connection is not for our columns, nor the reverse."""
    adapt(adapters)
    for name, loader in LOADERS.items():
        adapters.register_loader(name, loader)


def told(
    error: psycopg.Error, place: Place, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
) -> WindlassError | Taken:
    if isinstance(error, psycopg.errors.UniqueViolation):
        return Taken(error.diag.constraint_name or "", error.diag.message_detail or "")
    user = None if connection.closed else connection.info.parameter_status("session_authorization")
    return translate(error, place, user=user)
