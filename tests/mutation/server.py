"""One PostgreSQL for all children, started by the parent, which also tidies up after each of them.

A child ends in the middle of a test: its sessions are ended, what it made is dropped, what it wrote is deleted.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import psycopg
from psycopg import sql

from postgres import fixtures
from postgres.server import Server
from postgres.shelf import Connection, Shelf, _empty, _shape

READY = 4  # stores on the shelf: more than one test takes at a time
OTHERS = """select pg_terminate_backend(pid, 2000) from pg_stat_activity
 where pid <> pg_backend_pid() and backend_type = 'client backend'"""
SCHEMAS = "select nspname from pg_namespace where nspname !~ '^pg_' and nspname not in ('public', 'information_schema')"


class OneServer:
    def __init__(self) -> None:
        self.server: Server | None = None
        self.shelf: Shelf | None = None
        self.connection: Connection | None = None

    def start(self) -> None:
        """From now on the fixtures give out this one."""
        server = Server(options={"max_connections": 200})
        server.__enter__()
        self.server, self.shelf = server, Shelf(server)
        self._fill()
        self.connection = psycopg.connect(server.dsn(), autocommit=True, options="-c lock_timeout=5s")
        patched: Any = fixtures
        patched.Server = lambda **_: nullcontext(server)
        patched.Shelf = lambda _: self.shelf

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self.server is not None:
            self.server.__exit__(None, None, None)

    def tidy(self) -> None:
        assert self.shelf is not None
        assert self.connection is not None
        self.connection.execute(OTHERS)
        there = [str(name) for (name,) in self.connection.execute(SCHEMAS).fetchall()]
        for name in self.shelf._shapes.keys() - there:  # the child has dropped it itself
            del self.shelf._shapes[name]
        for name in there:
            known = self.shelf._shapes.get(name)
            if known is not None and known == _shape(self.connection, name):
                _empty(self.connection, name)
            else:
                self.connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
                self.shelf._shapes.pop(name, None)
        self.shelf._ready = []  # else those that are missing would be taken from there, and not made
        self._fill()

    def _fill(self) -> None:
        assert self.shelf is not None
        missing = (
            [self.shelf.take() for _ in range(READY - len(self.shelf._shapes))] if len(self.shelf._shapes) < READY else []
        )
        self.shelf._ready = list(dict.fromkeys([*self.shelf._ready, *missing, *self.shelf._shapes]))
        if self.shelf._kept is not None:  # each child makes its own
            self.shelf._kept.close()
            self.shelf._kept = None


ONE = OneServer()
