"""What each error of a real server means: whether it may pass, whether something may be stored, what the caller is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from postgres.proxy import Proxy
from postgres.server import Server, unique_name
from windlass.drivers.postgres.faults import Verdict, translate, verdict
from windlass.drivers.postgres.place import Place
from windlass.errors import (
    ConstraintViolated,
    InvalidInput,
    OutcomeUnknown,
    PoolerInTheWay,
    SchemaMissing,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
    TransactionConflict,
    WindlassError,
)

THERE = Place("postgresql://somebody@127.0.0.1:1/somewhere", "theirs", "none", 1.0)
RAISED: dict[str, tuple[Verdict, type[WindlassError]]] = {
    "40001": ("retryable", TransactionConflict), "40P01": ("retryable", TransactionConflict),
    "08000": ("retryable", StoreUnreachable), "08003": ("retryable", StoreUnreachable),
    "08006": ("retryable", StoreUnreachable), "08001": ("retryable", StoreUnreachable),
    "57P01": ("retryable", StoreUnreachable), "57P02": ("retryable", StoreUnreachable),
    "57P03": ("retryable", StoreUnreachable), "57P05": ("retryable", StoreUnreachable),
    "25P03": ("retryable", StoreUnreachable), "53300": ("retryable", StoreUnreachable),
    "25006": ("retryable", StoreReadOnly), "55P03": ("final", StoreBusy), "57014": ("final", StoreBusy),
    "53100": ("final", StoreFull), "53200": ("final", StoreFull), "42501": ("final", StoreForbidden),
    "42P01": ("final", SchemaMissing), "3F000": ("final", SchemaMissing), "42703": ("final", SchemaMissing),
    "42883": ("final", SchemaMissing), "23514": ("final", ConstraintViolated), "23503": ("final", ConstraintViolated),
    "22003": ("final", StoreCorrupt), "22008": ("final", StoreCorrupt),
    "22P02": ("final", InvalidInput), "26000": ("final", PoolerInTheWay),
    "42P05": ("final", PoolerInTheWay), "58030": ("final", StoreError), "XX000": ("final", StoreError),
    "28000": ("final", StoreUnavailable), "3D000": ("final", StoreUnavailable),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(options={"max_connections": 12, "superuser_reserved_connections": 2}) as server:
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[psycopg.Connection]:
    server.until_ready()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection
        connection.close()


def failure(connection: psycopg.Connection, *statements: LiteralString) -> psycopg.Error:
    try:
        for statement in statements:
            connection.execute(statement)
    except psycopg.Error as error:
        return error
    raise AssertionError(f"{statements[-1]} did not fail")


@pytest.mark.parametrize("code", RAISED)
def test_each_code_has_one_meaning(connection: psycopg.Connection, code: str) -> None:
    text = f"do $$ begin raise exception 'said so' using errcode = '{code}'; end $$"
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(text.encode())
    said, kind = RAISED[code]
    assert caught.value.sqlstate == code
    assert verdict(caught.value, storing=False) == said
    assert type(translate(caught.value, THERE)) is kind
    assert "said so" in str(translate(caught.value, THERE)) or kind in (TransactionConflict, StoreReadOnly, StoreFull)
    is_gone = kind is StoreUnreachable
    assert verdict(caught.value, storing=True) == ("indeterminate" if is_gone else said)
    assert type(translate(caught.value, THERE, storing=True)) is OutcomeUnknown, "what is not known is not guessed"


def test_a_session_that_is_ended_or_killed_is_lost(server: Server) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as doomed:
        server.execute(f"select pg_terminate_backend({doomed.info.backend_pid})".encode())  # type: ignore[arg-type]
        ended = failure(doomed, "select 1")
    assert ended.sqlstate == "57P01"
    with psycopg.connect(server.dsn(), autocommit=True) as doomed:
        server.kill_backend(doomed.info.backend_pid)
        killed = failure(doomed, "select 1", "select 1")
    server.until_ready()
    with Proxy(server.port) as proxy, psycopg.connect(proxy.dsn(), autocommit=True) as cut:
        proxy.cut()
        reset = failure(cut, "select 1")
    for error in (ended, killed, reset):
        assert verdict(error, storing=False) == "retryable"
        assert verdict(error, storing=True) == "indeterminate"
        assert type(translate(error, THERE)) is StoreUnreachable


def test_a_server_that_starts_stops_or_is_full_may_be_back_soon(server: Server) -> None:
    with Proxy(server.port) as proxy:
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(proxy.dsn())
    crowd: list[psycopg.Connection] = []
    full: psycopg.Error | None = None
    try:
        while full is None:
            assert len(crowd) <= 12
            try:
                crowd.append(psycopg.connect(server.dsn()))
            except psycopg.OperationalError as error:
                full = error
    finally:
        for connection in crowd:
            connection.close()
    assert full is not None
    for turned_away in (refused.value, full):
        assert verdict(turned_away, storing=False) == "retryable"
        assert type(translate(turned_away, THERE)) is StoreUnreachable
    assert "max_connections" in str(translate(full, THERE))


def test_a_server_that_recovers_is_waited_for(server: Server) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as doomed:
        server.kill_backend(doomed.info.backend_pid)
    seen, until = set(), time.monotonic() + 10
    while time.monotonic() < until:
        try:
            psycopg.connect(server.dsn()).close()
            break
        except psycopg.OperationalError as error:
            seen.add(verdict(error, storing=False))
    assert seen <= {"retryable"}


def test_rights_schemas_timeouts_and_read_only_servers(server: Server, connection: psycopg.Connection) -> None:
    role = unique_name("nobody")
    connection.execute(f"create role {role}".encode())
    connection.execute("create table if not exists public.mine ()")
    forbidden = failure(connection, f"set role {role}", "select from public.mine")
    connection.execute("reset role")
    missing = failure(connection, "select from public.nowhere")
    busy = failure(connection, "set statement_timeout = 50", "select pg_sleep(5)")
    connection.execute("reset statement_timeout")
    read_only = failure(connection, "set default_transaction_read_only = on", "create table public.x ()")
    stale = failure(connection, "reset default_transaction_read_only", "create table public.y (a int)",
                    "prepare p as select * from public.y", "alter table public.y add b int", "execute p")  # fmt: skip
    kinds = [type(translate(error, THERE)) for error in (forbidden, missing, busy, read_only)]
    assert kinds == [StoreForbidden, SchemaMissing, StoreBusy, StoreReadOnly]
    verdicts = [verdict(error, storing=False) for error in (forbidden, missing, busy, read_only, stale)]
    assert verdicts == ["final", "final", "final", "retryable", "retryable"]
    connection.execute("drop table public.y")
