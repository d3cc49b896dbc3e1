"""The servers that other tests rely on: they start, survive what tests do to them, and leave nothing behind."""

from __future__ import annotations

import psycopg

from .server import Server


def test_a_fresh_database_is_empty_and_nobody_elses(postgres_server: Server, fresh_database: str) -> None:
    with psycopg.connect(fresh_database) as connection:
        [count] = (
            connection.execute("select count(*) from pg_class where relnamespace = 'public'::regnamespace").fetchone() or ()
        )
        assert count == 0
        connection.execute("create table mine (x int)")
    with psycopg.connect(postgres_server.create_database()) as connection:
        assert connection.execute("select to_regclass('public.mine')").fetchone() == (None,)
