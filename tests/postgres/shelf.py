"""Stores in schemas that are made once: emptied after each use, and never given out again once somebody changed more than
rows. To make one and to drop it costs some 75 ms, to empty it some 5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql

from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.schema import migrate

from .server import Server, unique_name

# Whoever alters, adds, drops or truncates writes rows of these catalogues anew; vacuum and analyze do not.
CATALOGUES = {
    "pg_class": "relnamespace = n.oid", "pg_proc": "pronamespace = n.oid", "pg_type": "typnamespace = n.oid",
    "pg_constraint": "connamespace = n.oid",
    "pg_attribute": "attrelid in (select oid from pg_class where relnamespace = n.oid)",
    "pg_trigger": "tgrelid in (select oid from pg_class where relnamespace = n.oid)",
    "pg_rewrite": "ev_class in (select oid from pg_class where relnamespace = n.oid)",
    "pg_policy": "polrelid in (select oid from pg_class where relnamespace = n.oid)",
}  # fmt: skip
SHAPE = "select concat_ws(' ', n.xmin, {}) from pg_namespace n where nspname = %s".format(
    ", ".join(
        f"(select concat_ws(':', count(*), sum(hashint8(xmin::text::bigint)::bigint)) from {name} where {own})"
        for name, own in CATALOGUES.items()
    )
)
TABLES = "select tablename from pg_tables where schemaname = %s and tablename not in ('meta', 'migrations')"
SEQUENCES = """select setval(format('%%I.%%I', schemaname, sequencename)::regclass, start_value, false)
  from pg_sequences where schemaname = %s"""
KEPT = ("store_id",)  # of what a store knows of itself, what it knew when it was made
Connection = psycopg.Connection[tuple[object, ...]]


class Shelf:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._shapes: dict[str, str] = {}
        self._ready: list[str] = []
        self._kept: Connection | None = None

    def take(self) -> str:
        """The name of a schema with an empty store in it, nobody else's until it is given back."""
        if self._ready:
            return self._ready.pop()
        name = unique_name("store")
        migrate(Place(self._server.dsn(), name, "none", 30.0))
        self._shapes[name] = _shape(self._connection(), name)
        return name

    def give_back(self, name: str) -> None:
        connection = self._connection()
        with suppress(psycopg.errors.LockNotAvailable):  # somebody still uses it: it goes with the server
            if _shape(connection, name) == self._shapes[name]:
                _empty(connection, name)
                self._ready.append(name)
            else:
                connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))

    @contextmanager
    def lent(self) -> Iterator[str]:
        name = self.take()
        yield name
        self.give_back(name)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def _connection(self) -> Connection:
        """One that is kept, for a new one would have to learn of every table first; a test may have ended its session."""
        try:
            if self._kept is not None:
                self._kept.execute("select 1")
                return self._kept
        except psycopg.OperationalError:
            self.close()
        self._kept = psycopg.connect(self._server.dsn(), autocommit=True, options="-c lock_timeout=2s")
        return self._kept


def _shape(connection: Connection, name: str) -> str:
    row = connection.execute(SHAPE.encode(), (name,)).fetchone()
    return "" if row is None else str(row[0])


def _empty(connection: Connection, name: str) -> None:
    """Without triggers, for some tables may only grow. Rows are few: to delete them is quicker than to truncate."""
    tables = [str(row[0]) for row in connection.execute(TABLES, (name,))]
    deletes = [sql.SQL("delete from {}").format(sql.Identifier(name, table)) for table in tables]
    forgets = sql.SQL("delete from {} where key <> all({})").format(sql.Identifier(name, "meta"), sql.Literal(list(KEPT)))
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute(sql.SQL("; ").join([*deletes, forgets]))
        connection.execute(SEQUENCES, (name,))
