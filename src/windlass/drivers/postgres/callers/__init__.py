"""Connections that belong to the caller, of whatever library: recognised without importing any that the program has not.

A caller's connection is asked for one thing only: to execute statements of ours inside the transaction that it is in. One
that is in none, and would not begin one, is refused.
"""

from __future__ import annotations

from windlass.drivers.postgres.callers import asyncpg, django, psycopg, sqlalchemy
from windlass.drivers.postgres.callers.kinds import AsyncCaller, Caller, named
from windlass.drivers.postgres.place import Place
from windlass.errors import WrongConnection

__all__ = ["AsyncCaller", "Caller", "awaited", "blocking"]

KNOWN = (
    "a psycopg.Connection, a SQLAlchemy Session or Connection and Django's connection for enqueue_sync(); a "
    "psycopg.AsyncConnection, an asyncpg.Connection, a SQLAlchemy AsyncSession or AsyncConnection for enqueue()"
)


def blocking(connection: object, place: Place) -> Caller:
    """For `enqueue_sync`."""
    if django.is_django(connection):
        return django.caller(connection, place)
    if sqlalchemy.is_blocking(connection):
        return sqlalchemy.caller(connection, place)
    if psycopg.is_blocking(connection):
        return psycopg.PsycopgCaller(connection, place)
    if psycopg.is_awaited(connection) or asyncpg.is_awaited(connection) or sqlalchemy.is_awaited(connection):
        raise WrongConnection(
            f"enqueue_sync() takes a blocking connection, got {named(connection)}; with this one: await ….enqueue(…)"
        )
    raise unknown(connection)


async def awaited(connection: object, place: Place) -> AsyncCaller:
    """For `enqueue`."""
    if sqlalchemy.is_awaited(connection):
        return await sqlalchemy.async_caller(connection, place)
    if psycopg.is_awaited(connection):
        return psycopg.AsyncPsycopgCaller(connection, place)
    if asyncpg.is_awaited(connection):
        return asyncpg.AsyncpgCaller(connection, place)
    if django.is_django(connection) or psycopg.is_blocking(connection) or sqlalchemy.is_blocking(connection):
        raise WrongConnection(
            f"enqueue() takes an async connection, got {named(connection)}; with this one call enqueue_sync()"
        )
    raise unknown(connection)


def unknown(connection: object) -> WrongConnection:
    return WrongConnection(f"{named(connection)} is no connection to PostgreSQL that is known here; known are {KNOWN}")
