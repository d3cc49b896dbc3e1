"""The pooler that other tests rely on: sessions are shared, a restart cuts them, and nothing is left behind."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest

from .pgbouncer import PgBouncer, PoolerFailed
from .server import Server
from .watchdog import alive

pytestmark = pytest.mark.full


def connect(pooler: PgBouncer) -> psycopg.Connection:
    return psycopg.connect(pooler.dsn(), prepare_threshold=None)


def backend(connection: psycopg.Connection) -> object:
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]


def test_clients_share_sessions_by_the_transaction(postgres_server: Server) -> None:
    with PgBouncer(postgres_server, options={"default_pool_size": 1}) as pooler, ExitStack() as stack:
        clients = [stack.enter_context(connect(pooler)) for _ in range(3)]
        seen = set()
        for client in clients:
            seen.add(backend(client))
            client.commit()
        assert len(seen) == 1


def test_a_restart_cuts_every_client_and_keeps_the_address(postgres_server: Server) -> None:
    with PgBouncer(postgres_server) as pooler:
        client = connect(pooler)
        client.execute("select 1")
        pooler.restart()
        with pytest.raises(psycopg.OperationalError):
            client.execute("select 1")
        client.close()
        with connect(pooler) as client:
            client.execute("select 1")


def test_a_server_that_restarts_behind_it_is_found_again() -> None:
    with Server() as server, PgBouncer(server, options={"server_login_retry": 0}) as pooler:
        with connect(pooler) as client:
            client.execute("select 1")
        server.restart("immediate")
        with connect(pooler) as client:
            client.execute("select 1")


def test_a_closed_pooler_leaves_neither_process_nor_directory(postgres_server: Server) -> None:
    with PgBouncer(postgres_server) as pooler:
        pid, directory = pooler.pid, pooler.directory
        assert alive(pid)
    assert not alive(pid)
    assert not directory.exists()


def test_a_pooler_that_cannot_start_says_why(postgres_server: Server) -> None:
    pooler = PgBouncer(postgres_server, options={"pool_mode": "puddle"})
    with pytest.raises(PoolerFailed, match="pool_mode"), pooler:
        pass
    assert not pooler.directory.exists()
