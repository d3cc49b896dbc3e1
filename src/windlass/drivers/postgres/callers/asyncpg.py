"""asyncpg: connections, and those that a pool has lent. It has no transactions but those that were begun."""

from __future__ import annotations

from typing import Any, TypeGuard

from windlass.drivers.postgres.callers.kinds import Unhooked, is_of
from windlass.drivers.postgres.faults import Taken, by_state
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement
from windlass.errors import StoreError, StoreUnreachable, WindlassError, WrongConnection


def is_awaited(connection: object) -> TypeGuard[Any]:
    return is_of(connection, "asyncpg.connection", "Connection") or is_of(connection, "asyncpg.pool", "PoolConnectionProxy")


class AsyncpgCaller(Unhooked):
    def __init__(self, connection: Any, place: Place, begin: str = "async with conn.transaction():") -> None:
        try:
            begun = connection.is_in_transaction()
            closed = connection.is_closed()
        except Exception as error:  # its pool has taken it back
            raise WrongConnection(f"the connection cannot be used: {error}") from error
        if closed:
            raise WrongConnection("the connection is closed")
        if not begun:
            raise WrongConnection(
                f"the connection is in no transaction, so the job could not be part of one; write: {begin}"
            )
        self._connection, self._place = connection, place

    async def execute(self, statement: Statement) -> list[Row]:
        try:
            return [tuple(row) for row in await self._connection.fetch(self._place.text(statement.sql), *statement.params)]
        except Exception as error:
            raise told(error, self._place, self._connection) from error


def told(error: Exception, place: Place, connection: Any) -> WindlassError | Taken:
    state = getattr(error, "sqlstate", None)
    if state == "23505":
        return Taken(getattr(error, "constraint_name", None) or "", getattr(error, "detail", None) or "")
    if isinstance(error, OSError) or (state is not None and state[:2] == "08"):
        return StoreUnreachable(str(place), str(error))
    if state is None:
        return StoreError(f"{place}: {error}")
    user = None if connection.is_closed() else getattr(connection.get_settings(), "session_authorization", None)
    return by_state(state, str(error), place, user)
