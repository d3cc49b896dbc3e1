"""The network that fails on demand fails as it was told to, and counts what it did."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

import asyncpg
import psycopg
import pytest

from .proxy import Proxy
from .server import Server, unique_name

When = Literal["before", "after"]


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def table(postgres_server: Server) -> Iterator[str]:
    """With one column, written through the proxy and read past it."""
    name = unique_name("t")
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(f"create table {name} (x int)".encode())
        yield name
        connection.execute(f"drop table {name}".encode())


def rows(server: Server, table: str) -> list[int]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        return [row[0] for row in connection.execute(f"select x from {table} order by x".encode())]


def connect(proxy: Proxy, *, autocommit: bool = True, timeout: int = 20) -> psycopg.Connection:
    return psycopg.connect(proxy.dsn(), autocommit=autocommit, connect_timeout=timeout)


def sessions(server: Server, pid: int) -> int:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute("select count(*) from pg_stat_activity where pid = %s", [pid]).fetchone()
        assert row is not None
        return int(row[0])


def test_everything_passes_until_told_otherwise(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        text = "x" * 1_000_000
        assert connection.execute("select %s", [text]).fetchone() == (text,)
    assert proxy.counts["accepted"] == 1
    assert min(proxy.counts["bytes_to_server"], proxy.counts["bytes_to_client"]) > len(text)


def test_the_last_words_of_the_server_arrive(proxy: Proxy, postgres_server: Server) -> None:
    with connect(proxy) as connection:
        with psycopg.connect(postgres_server.dsn(), autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("select 1")


@pytest.mark.parametrize("direction", ["both", "to_server", "to_client"])
def test_nothing_comes_out_of_a_black_hole_until_it_is_healed(
    proxy: Proxy, postgres_server: Server, table: str, direction: Literal["both", "to_server", "to_client"]
) -> None:
    async def scene() -> None:
        connection = await psycopg.AsyncConnection.connect(proxy.dsn(), autocommit=True)
        proxy.blackhole(direction)
        asked = asyncio.create_task(connection.execute(f"insert into {table} values (1)".encode()))
        done, _ = await asyncio.wait([asked], timeout=0.3)
        assert not done, "no answer"
        assert rows(postgres_server, table) == ([1] if direction == "to_client" else [])
        proxy.heal()
        await asyncio.wait_for(asked, 20)
        await connection.close()

    asyncio.run(scene())
    assert rows(postgres_server, table) == [1]


def test_a_black_hole_accepts_newcomers_and_keeps_them_waiting(proxy: Proxy) -> None:
    proxy.blackhole()
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        connect(proxy, timeout=2)
    assert proxy.counts["accepted"] == 1
    proxy.heal()
    connect(proxy).close()


def test_the_server_does_not_learn_that_a_client_left_through_a_black_hole(proxy: Proxy, postgres_server: Server) -> None:
    connection = connect(proxy)
    pid = connection.info.backend_pid
    proxy.blackhole()
    connection.close()
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        assert sessions(postgres_server, pid) == 1
    proxy.heal()
    while sessions(postgres_server, pid):
        pass


def test_a_reset_ends_sessions_and_newcomers_until_it_is_healed(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.reset()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        connect(proxy)
    assert proxy.counts["reset"] >= 2
    proxy.heal()
    connect(proxy).close()


def test_a_cut_ends_only_the_sessions_of_now(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    connect(proxy).close()
    assert proxy.counts["reset"] == 1


def test_a_refusal_meets_newcomers_only(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(proxy)
        connection.execute("select 1")
        proxy.heal()
        connect(proxy).close()


def test_a_server_that_is_down_is_seen_as_such(proxy: Proxy) -> None:
    with Server() as server, Proxy(server.port) as proxy:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connect(proxy)
        assert proxy.counts["refused_by_server"] == 1


def test_a_delay_is_felt_in_both_directions(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.delay(0.1)
        begun = time.monotonic()
        connection.execute("select 1")
        assert time.monotonic() - begun >= 0.2
        proxy.heal()


def test_a_slow_line_is_slow_by_the_byte(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.delay(0, bytes_per_second=10_000)
        begun = time.monotonic()
        connection.execute("select repeat('x', 4000)")
        assert time.monotonic() - begun >= 0.4
        proxy.heal()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("manner", ["simple", "pipeline", "prepared", "asyncpg"])
def test_a_commit_is_lost_or_its_answer_is(
    proxy: Proxy, postgres_server: Server, table: str, when: When, manner: str
) -> None:
    """The client cannot tell the two apart; the rows can."""
    trap = proxy.cut_in_commit(when=when)
    insert = f"insert into {table} values (1)"
    if manner == "asyncpg":
        asyncio.run(commit_by_asyncpg(proxy, insert))
    else:
        with connect(proxy) as connection:
            if manner == "prepared":
                connection.pgconn.prepare(b"finish", b"commit")
            assert trap.seen == 0, "to prepare a commit is not to commit"
            connection.execute("begin")
            connection.execute(insert.encode())
            assert not trap.sprung.is_set()
            with pytest.raises(psycopg.OperationalError):
                commit(connection, manner)
    assert trap.sprung.is_set()
    assert rows(postgres_server, table) == ([1] if when == "after" else [])
    assert (proxy.counts["cut_before"], proxy.counts["cut_after"]) == ((1, 0) if when == "before" else (0, 1))
    connect(proxy).close()  # the trap is used up, the network is well


def commit(connection: psycopg.Connection, manner: str) -> None:
    if manner == "simple":
        connection.commit()
    elif manner == "pipeline":
        with connection.pipeline():
            connection.execute("commit")
    else:
        result = connection.pgconn.exec_prepared(b"finish", [])
        if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.OperationalError(connection.pgconn.error_message.decode())


async def commit_by_asyncpg(proxy: Proxy, insert: str) -> None:
    connection = await asyncpg.connect(proxy.dsn())
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(insert)
    with pytest.raises((asyncpg.PostgresConnectionError, OSError)):
        await transaction.commit()
    connection.terminate()


def test_a_trap_can_wait_for_the_nth_statement_of_a_kind(proxy: Proxy, postgres_server: Server, table: str) -> None:
    trap = proxy.trap(rb"^insert", nth=3)
    with connect(proxy) as connection:
        connection.execute(f"insert into {table} values (1)".encode())
        connection.execute("select 'insert'")
        connection.execute(f"INSERT into {table} values (%s)".encode(), [2])
        with pytest.raises(psycopg.OperationalError):
            connection.execute(f"insert into {table} values (3)".encode())
    assert trap.seen == 3
    assert rows(postgres_server, table) == [1, 2, 3]


def test_a_trap_can_end_in_silence(proxy: Proxy, postgres_server: Server, table: str) -> None:
    """The answer is lost, and nothing tells the client so."""

    async def scene() -> None:
        connection = await psycopg.AsyncConnection.connect(proxy.dsn())
        await connection.execute(f"insert into {table} values (1)".encode())
        trap = proxy.trap(b"commit", then="silence")
        asked = asyncio.create_task(connection.commit())
        await asyncio.to_thread(trap.sprung.wait, 20)
        done, _ = await asyncio.wait([asked], timeout=0.3)
        assert not done
        assert rows(postgres_server, table) == [1]
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            await asked
        await connection.close()

    asyncio.run(scene())
    assert proxy.counts["silenced"] == 1
