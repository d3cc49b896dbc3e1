"""Statements of ours on a table of some size, whatever the planner believes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from postgres.plans import FILL, buffers, explained, scanned, shape
from postgres.server import Server
from windlass.drivers.postgres.link import adapt
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.schema import migrate
from windlass.drivers.statement import Statement

NOW = 1_800_000_000_000_000
Hot = tuple[str, Statement, int, int]  # what, how, rows it touches, pages that each may cost


@contextlib.contextmanager
def store(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """An empty one, in a database where nobody else gathers statistics."""
    dsn = server.create_database()
    place = Place(dsn, "windlass", "none", 60.0)
    migrate(place)
    with psycopg.connect(dsn, autocommit=True) as connection:
        adapt(connection.adapters)
        connection.execute("alter table windlass.jobs set (autovacuum_enabled = off)")
        connection.execute("alter table windlass.runs set (autovacuum_enabled = off)")
        yield connection
    server.drop_database(dsn.rsplit("/", 1)[1])


def fill(connection: psycopg.Connection[Any], rows: int) -> None:
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute(FILL.format(now=NOW, rows=rows).encode())


def faults(connection: psycopg.Connection[Any], hot: list[Hot], belief: str) -> list[str]:
    found: list[str] = []
    for what, statement, rows, pages in hot:
        for generic in (False, True):
            plan = explained(connection, statement, generic=generic)
            most = 60 + pages * rows
            used = buffers(plan)
            if scanned(plan) or used > most:
                kind = "generic" if generic else "custom"
                found.append(
                    f"{what} ({kind}, {belief}): {used} pages, {most} allowed, scans {scanned(plan)}\n{shape(plan)}"
                )
    return found


def forget(connection: psycopg.Connection[Any]) -> None:
    """As if nobody had ever gathered statistics."""
    tables = "('windlass.jobs'::regclass, 'windlass.runs'::regclass)"
    connection.execute(f"delete from pg_statistic where starelid in {tables}".encode())
    connection.execute(f"update pg_class set reltuples = -1, relpages = 0 where oid in {tables}".encode())


def drain(connection: psycopg.Connection[Any]) -> None:
    """Statistics speak of what is there no more."""
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from windlass.runs")
        connection.execute("delete from windlass.jobs")
