"""Looking at a schema and making it end in time where the server falls silent; only what builds may take longer."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import psycopg
import pytest

from postgres.proxy import Proxy
from postgres.server import Server
from windlass.drivers.migrations import Migration
from windlass.drivers.postgres import migrating
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import ALIVE, Place
from windlass.drivers.postgres.schema import migrate, own_steps, status
from windlass.drivers.postgres.timed import Timed
from windlass.drivers.statement import Statement
from windlass.errors import StoreUnreachable

TIMEOUT, LATE = 0.5, 0.75
SLOW = Migration(2, "slow", "select pg_sleep(1.5);\n")


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy
        proxy.heal()


@pytest.fixture
def far(proxy: Proxy, fresh_schema: tuple[str, str]) -> Place:
    """Behind a network that fails."""
    return Place(proxy.dsn(), fresh_schema[1], "none", TIMEOUT)


@pytest.mark.parametrize("call", [status, migrate])
def test_a_server_that_never_answers_is_given_up(far: Place, proxy: Proxy, call: object) -> None:
    proxy.blackhole()
    began = time.monotonic()
    with pytest.raises(StoreUnreachable, match="in time"):
        call(far)  # type: ignore[operator]
    assert time.monotonic() - began < TIMEOUT + LATE


@pytest.mark.parametrize("statement", [rb"to_regclass", rb"select version, checksum"])
def test_a_look_at_the_schema_ends_when_the_server_falls_silent(far: Place, proxy: Proxy, statement: bytes) -> None:
    migrate(far)
    proxy.trap(statement, when="before", then="silence")
    began = time.monotonic()
    with pytest.raises(StoreUnreachable, match="in time"):
        status(far)
    assert time.monotonic() - began < TIMEOUT + LATE


@pytest.mark.parametrize(
    "statement",
    [rb"pg_is_in_recovery", rb"pg_backend_pid", rb"^begin", rb"pg_try_advisory", rb"set local", rb"create schema",
     rb"insert into \S*migrations", rb"^commit"],
)  # fmt: skip
def test_making_the_schema_ends_when_the_server_falls_silent(
    far: Place, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, statement: bytes
) -> None:
    monkeypatch.setattr(migrating, "FOR_A_TABLE", 0.2)
    monkeypatch.setattr(migrating, "FOR_OTHERS", 0.2)
    trap = proxy.trap(statement, when="before", then="silence")
    began = time.monotonic()
    with pytest.raises(StoreUnreachable):
        migrate(far)
    assert time.monotonic() - began < TIMEOUT + 1 + LATE
    assert trap.sprung.is_set()
    proxy.heal()
    assert migrate(far) == [step.label for step in own_steps()], "nothing of it was left behind"


def test_a_step_may_take_longer_than_a_call(far: Place) -> None:
    migrate(far)
    assert migrate(far, [*own_steps(), SLOW]) == ["0002_slow"]


def test_what_may_wait_for_a_lock_has_that_much_more_time(far: Place) -> None:
    link = Timed(far)
    try:
        link.script("set statement_timeout = 0")
        link.script("select pg_sleep(1)", patience=2)
        assert link.execute(Statement("select pg_sleep(1)::text", ()), 2) == [("",)]
    finally:
        link.give_up()


def test_the_network_notices_that_the_server_is_gone(far: Place) -> None:
    """Nobody else does while a step builds: what was sent has arrived, and no answer is due."""
    link = Link(far)
    try:
        with socket.socket(fileno=os.dup(link.open().fileno())) as wire:
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == ALIVE["keepalives_idle"]
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == ALIVE["keepalives_interval"]
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == ALIVE["keepalives_count"]
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == ALIVE["tcp_user_timeout"]
    finally:
        link.give_up()


def test_what_the_url_says_of_the_network_is_left_alone(proxy: Proxy) -> None:
    url = psycopg.conninfo.make_conninfo(proxy.dsn(), keepalives_idle=77, tcp_user_timeout=7_000)
    given = Place(url, "windlass", "none", TIMEOUT).parameters()
    assert (given["keepalives_idle"], given["tcp_user_timeout"]) == ("77", "7000")
