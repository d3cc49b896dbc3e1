"""The connection that a handler gets for its own statements: an ordinary psycopg connection, in our transaction.

It is made for one transaction over the connection that the store uses too, so nothing that is set on it (row factories,
adapters, handlers) outlives the block, and nothing that the store has set is met by the handler.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

ENDS: Final = "this transaction ends with its block: leave the block, or raise to undo it; savepoints are yours"


class BodyConnection(psycopg.Connection[Any]):
    """The connection for handlers in threads."""

    def commit(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)

    def rollback(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)

    def close(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)


class AsyncBodyConnection(psycopg.AsyncConnection[Any]):
    """The connection for async handlers."""

    async def commit(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)

    async def rollback(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)

    async def close(self) -> NoReturn:
        raise psycopg.ProgrammingError(ENDS)


def share(pgconn: pq.abc.PGconn) -> BodyConnection:
    connection = BodyConnection(pgconn, tuple_row)
    connection._autocommit = True  # the transaction has begun; after a COMMIT of the handler's own none would begin unseen
    return connection


def share_async(pgconn: pq.abc.PGconn) -> AsyncBodyConnection:
    connection = AsyncBodyConnection(pgconn, tuple_row)
    connection._autocommit = True
    return connection


def detach(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Whoever still holds it, or a cursor of it, finds it closed; what it stood on may serve another transaction by now."""
    connection.pgconn = _closed()


def _closed() -> pq.abc.PGconn:
    nowhere = pq.PGconn.connect_start(b"nowhere")  # fails at once: it is no connection string
    nowhere.finish()
    return nowhere
