"""Whatever is wrong with a server, a URL or a role: an error that names the cause and what to type."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from caller_kinds import Asyncpg, AsyncPsycopg, Kind, Psycopg

from postgres.home import free_port
from postgres.server import Server, unique_name
from windlass.drivers import migrate, open_driver
from windlass.drivers.postgres import PostgresDriver, schema
from windlass.drivers.postgres.faults import grants
from windlass.drivers.values import Claim, JobQuery
from windlass.errors import (
    InvalidInput,
    StoreForbidden,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
    UnknownStore,
    WindlassError,
)
from windlass.types import NewJob
from windlass.urls import redacted

JOB = NewJob(id="j1", type="t", payload=b"{}")


def close(driver: Any) -> None:
    asyncio.run(driver.close())


def refused(url: str, **options: Any) -> WindlassError:
    options.setdefault("timeout", 2.0)
    with pytest.raises(WindlassError) as told:
        close(open_driver(url, **options))
    return told.value


# ---------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "POSTGRESQL"])
def test_a_url_names_the_driver(fresh_schema: tuple[str, str], scheme: str) -> None:
    dsn, name = fresh_schema
    driver = open_driver(dsn.replace("postgresql:", f"{scheme}:"), schema=name)
    assert isinstance(driver, PostgresDriver)
    close(driver)


def test_the_environment_of_libpq_applies(fresh_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    dsn, name = fresh_schema
    parts = urlsplit(dsn)
    for variable, value in {"HOST": "127.0.0.1", "PORT": parts.port, "USER": "postgres", "DATABASE": "postgres"}.items():
        monkeypatch.setenv(f"PG{variable}", str(value))
    driver = open_driver("postgresql://", schema=name)
    assert isinstance(driver, PostgresDriver)
    assert str(driver.place) == f"postgresql://postgres@127.0.0.1:{parts.port}/postgres (schema {name})"
    close(driver)


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = refused("postgresql://ada:canary@127.0.0.1/x")
    assert isinstance(error, StoreUnavailable)
    assert "pip install 'windlass[postgres]'" in str(error)
    assert "canary" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:canary/x@127.0.0.1/db",
        "postgresql://ada:1234/canary@127.0.0.1/db",
        "postgresql://ada:can#ary@127.0.0.1:port/db",
        "postgresql://ada:canary@127.0.0.1/db?no_such_option=1",
        "postgresql://ada:canary@[::1/db",
        "postgresql://ada:canary%zz@h/db",
        "postgresql://ada:canary\u2100@h:x/db",
        "postgresql://ada:x@canary@h/db",
    ],
)
def test_a_malformed_url_is_refused_without_showing_its_password(url: str) -> None:
    error = refused(url)
    assert isinstance(error, StoreUnavailable)
    assert "not a PostgreSQL URL" in str(error)
    assert "%40 for @" in str(error)
    assert "canary" not in str(error)
    assert "ary@" not in str(error)


def test_a_scheme_that_nobody_knows_is_refused_without_showing_the_password() -> None:
    for url in ("postgresql+asyncpg://ada:canary@h/db", "mysql://ada:canary@h/db", "canary"):
        with pytest.raises(UnknownStore) as told:
            open_driver(url)
        assert ("canary" in str(told.value)) == (url == "canary")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@h:5432/db", "postgresql://ada:***@h:5432/db"),
        ("postgresql://ada@h:5432/db", "postgresql://ada@h:5432/db"),
        ("postgresql://ada:a@b:c/d?e@h/db", "postgresql://ada:***@h/db"),
        ("postgresql://:secret@h/db", "postgresql://:***@h/db"),
        ("postgresql://a@b:secret@h/db", "postgresql://a@b:***@h/db"),
        ("postgresql://h/db?user=ada&password=secret&sslpassword=other&x=1", "postgresql://h/db?user=ada&password=***&sslpassword=***&x=1"),
        ("postgresql://ada@h:5432/db?password=sec@ret", "postgresql://ada@h:5432/db?password=***"),
        ("postgresql://ada:a@h,i:5/db?x=1&password=se cret:@&y=@", "postgresql://ada:***@h,i:5/db?x=1&password=***&y=@"),
        ("postgresql://ada:a/b@h/db?password=sec@ret", "postgresql://***"),
        ("postgresql://h/db?pass%77ord=secret", "postgresql://h/db?pass%77ord=***"),
        ("postgresql://ada:secret/db", "postgresql://ada:***/db"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("ada:secret@h:5432/db", "ada:***@h:5432/db"),
        ("host=h password='se cret' user=ada", "host=h password=*** user=ada"),
        ("host=h password=se\\ cret&x user=ada", "host=h password=*** user=ada"),
        ("host=h password='se cret", "host=h password=***"),
        ("DATABASE_PASSWORD=secret", "DATABASE_PASSWORD=***"),
        ("postgresql://h/db password=secret", "postgresql://h/db password=***"),
        ("postgresql://h/db?sslmode=a password=secret", "postgresql://h/db?sslmode=a password=***"),
        ("postgresql://ada@[::1]:5432/db", "postgresql://ada@[::1]:5432/db"),
        ("sqlite:////var/lib/jobs.db", "sqlite:////var/lib/jobs.db"),
        ("memory://", "memory://"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize("name", ["Windlass", "a b", "x;drop table jobs", "", "pg_own", "x" * 42, "ä"])
def test_a_bad_name_of_a_schema_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="schema: must be"):
        PostgresDriver("postgresql://127.0.0.1:1/x", schema=name)


# ------------------------------------------------------------------------------------------------------------- servers


def test_a_port_where_nothing_listens() -> None:
    port = free_port()
    error = refused(f"postgresql://postgres@127.0.0.1:{port}/x")
    assert isinstance(error, StoreUnreachable)
    assert f"127.0.0.1:{port}" in str(error)
    assert "nothing listens there; check host and port" in str(error)
    assert f"pg_isready -h 127.0.0.1 -p {port}" in str(error)


def test_a_host_that_nobody_knows() -> None:
    error = refused("postgresql://postgres@no-such-host.invalid/x")
    assert isinstance(error, StoreUnreachable)
    assert "the name of the host is not known here" in str(error)


def test_a_database_that_is_not_there(postgres_server: Server) -> None:
    error = refused(postgres_server.dsn("no_such_db"))
    assert isinstance(error, StoreUnavailable)
    assert "createdb no_such_db" in str(error)


def test_a_role_that_is_not_there(postgres_server: Server) -> None:
    error = refused(postgres_server.dsn().replace("postgres@", "nobody_here@"))
    assert isinstance(error, StoreUnavailable)
    assert "createuser nobody_here" in str(error)


@pytest.fixture(scope="module")
def strict_server() -> Iterator[Server]:
    """A server that asks for passwords."""
    with Server() as server:
        server.execute("create role ada login password 'right'")
        hba = next(server.directory.rglob("pg_hba.conf"))
        hba.write_text(f"host all ada 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
        server.execute("select pg_reload_conf()")
        until_asked(server)
        yield server


def until_asked(server: Server) -> None:
    for _ in range(1_000):
        try:
            psycopg.connect(server.dsn().replace("postgres@", "ada@"), password="x").close()
        except psycopg.OperationalError:
            return
    raise AssertionError("the server does not ask")


@pytest.mark.parametrize(("given", "said"), [("ada:wrong@", "check user and password"), ("ada@", "give a password")])
def test_a_wrong_password_is_final_and_not_shown(strict_server: Server, given: str, said: str) -> None:
    error = refused(strict_server.dsn().replace("postgres@", given))
    assert isinstance(error, StoreUnavailable)
    assert not error.retryable
    assert said in str(error)
    assert "wrong@" not in str(error)


def test_a_server_that_is_too_old(fresh_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "OLDEST", 990_000)
    dsn, name = fresh_schema
    assert "is too old; 99 or newer is needed" in str(refused(dsn, schema=name))


def test_a_standby_can_be_read_and_says_so_when_written_to() -> None:
    with Server(options={"wal_level": "replica"}) as primary:
        driver = PostgresDriver(primary.dsn())
        asyncio.run(driver.enqueue([JOB], now=driver.clock.now()))
        close(driver)
        with Server.standby_of(primary) as standby:
            error = refused(standby.dsn(), schema="another")
            assert isinstance(error, StoreReadOnly)
            assert "target_session_attrs=read-write" in str(error)

            async def run() -> None:
                driver = PostgresDriver(standby.dsn(), timeout=1.0)
                assert [job.id for job in (await driver.find(JobQuery())).jobs] == ["j1"]
                with pytest.raises(StoreReadOnly, match="it is a standby"):
                    await driver.enqueue([JOB], now=driver.clock.now())
                await driver.close()

            asyncio.run(run())


# -------------------------------------------------------------------------------------------------------------- rights


READS = "grant usage on schema windlass to {user}; grant select on all tables in schema windlass to {user}"


@pytest.fixture
def role(postgres_server: Server, fresh_database: str) -> Iterator[str]:
    """Somebody who may log in to a database, and nothing else. The DSN is theirs."""
    name = unique_name("role")
    postgres_server.execute(psycopg.sql.SQL("create role {} login").format(psycopg.sql.Identifier(name)))
    yield fresh_database.replace("postgres@", f"{name}@")
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(f"drop owned by {name}".encode())
        connection.execute(f"drop role {name}".encode())


def as_owner(dsn: str, text: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())


def test_a_role_that_may_not_make_the_schema(role: str, fresh_database: str) -> None:
    user = urlsplit(role).username
    error = refused(role)
    assert isinstance(error, StoreForbidden)
    assert f"grant create on database {urlsplit(role).path[1:]} to {user}" in str(error)
    assert "windlass migrate" in str(error)


def test_a_role_without_any_right_on_the_schema(role: str, fresh_database: str) -> None:
    migrate(fresh_database)
    error = refused(role)
    assert isinstance(error, StoreForbidden)
    assert f"grant usage on schema windlass to {urlsplit(role).username}" in str(error)


def test_a_role_that_may_only_read_is_told_what_it_lacks(role: str, fresh_database: str) -> None:
    migrate(fresh_database)
    user = urlsplit(role).username
    as_owner(
        fresh_database, f"grant usage on schema windlass to {user}; grant select on all tables in schema windlass to {user}"
    )

    async def run() -> None:
        driver = PostgresDriver(role, timeout=2.0)
        now = driver.clock.now()
        assert (await driver.find(JobQuery())).jobs == ()
        calls: list[Callable[[], Any]] = [
            lambda: driver.enqueue([JOB], now=now),
            lambda: driver.claim(
                Claim(queues=("q",), limit=1, lease_for=1_000_000, worker_id="w", token="t" * 20), now=now
            ),
        ]
        for call in calls:
            with pytest.raises(StoreForbidden, match=f"insert, update, delete on all tables in schema windlass to {user}"):
                await call()
        await driver.close()

    asyncio.run(run())


def test_the_rights_that_the_error_names_are_enough(role: str, fresh_database: str) -> None:
    migrate(fresh_database)
    driver = PostgresDriver(fresh_database)
    wanted = grants(driver.place).replace("to postgres", f"to {urlsplit(role).username}")
    close(driver)
    as_owner(fresh_database, wanted)

    async def run() -> None:
        driver = PostgresDriver(role, migrate="never")
        now = driver.clock.now()
        await driver.enqueue([JOB], now=now)
        wish = Claim(queues=("default",), limit=1, lease_for=1_000_000, worker_id="w", token="t" * 20)
        assert [job.id for job in await driver.claim(wish, now=now)] == ["j1"]
        await driver.close()

    asyncio.run(run())


def test_a_directory_of_the_socket_is_shown_as_the_host(tmp_path: Path) -> None:
    error = refused(f"postgresql:///x?host={tmp_path}")
    assert isinstance(error, StoreUnreachable)
    assert str(tmp_path) in str(error)


def test_a_transaction_of_a_role_that_may_only_read_is_told_what_it_lacks(role: str, fresh_database: str) -> None:
    user = urlsplit(role).username
    migrate(fresh_database)
    as_owner(fresh_database, READS.format(user=user))
    driver = PostgresDriver(role)
    transaction = driver.transaction()
    transaction.begin()
    with pytest.raises(StoreForbidden, match=f"insert, update, delete on all tables in schema windlass to {user}"):
        transaction.enqueue([JOB], now=driver.clock.now())
    transaction.rollback()
    close(driver)


@pytest.mark.parametrize("kind", [Psycopg, AsyncPsycopg, Asyncpg], ids=lambda kind: kind.__name__)
def test_a_callers_role_is_named_not_the_stores(role: str, fresh_database: str, kind: type[Kind]) -> None:
    user = urlsplit(role).username
    migrate(fresh_database)
    as_owner(fresh_database, READS.format(user=user))

    async def run() -> None:
        driver, own = PostgresDriver(fresh_database), kind(role)
        await own.open()
        await own.begin()
        with pytest.raises(StoreForbidden, match=f"insert, update, delete on all tables in schema windlass to {user}"):
            await own.enqueue(driver, [JOB])
        await own.rollback()
        await own.close()
        await driver.close()

    asyncio.run(run())
