"""Fixtures for tests that need PostgreSQL. Nothing starts before a test asks; each test process has its own server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from windlass.drivers.postgres import PostgresDriver

from .server import Server, unique_name
from .shelf import Shelf


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Shared by the session: a test that stops or breaks a server makes its own."""
    with Server(options={"max_connections": 200}) as server:
        yield server


@pytest.fixture
def fresh_database(postgres_server: Server) -> Iterator[str]:
    """The DSN of a new, empty database."""
    name = unique_name("db")
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def fresh_schema(postgres_server: Server) -> Iterator[tuple[str, str]]:
    """A DSN and the name of a schema that does not exist yet: much cheaper than a database."""
    with schema_of_its_own(postgres_server) as name:
        yield postgres_server.dsn(), name


@pytest.fixture(scope="session")
def shelf(postgres_server: Server) -> Iterator[Shelf]:
    """Empty stores for tests that need several, or one after the other."""
    shelf = Shelf(postgres_server)
    yield shelf
    shelf.close()


@pytest.fixture
def empty_store(postgres_server: Server, shelf: Shelf) -> Iterator[tuple[str, str]]:
    """A DSN and the name of a schema with an empty store in it: much cheaper than to let a driver make one."""
    with shelf.lent() as name:
        yield postgres_server.dsn(), name


@pytest.fixture(name="driver")
def postgres_driver(empty_store: tuple[str, str]) -> Iterator[PostgresDriver]:
    """For those that look inside of one."""
    dsn, schema = empty_store
    driver = PostgresDriver(dsn, schema=schema, timeout=5)
    yield driver
    asyncio.run(driver.close())


@contextlib.contextmanager
def schema_of_its_own(server: Server) -> Iterator[str]:
    name = unique_name("s")
    yield name
    with (
        contextlib.suppress(psycopg.errors.LockNotAvailable),  # somebody still uses it: it goes with the server
        psycopg.connect(server.dsn(), autocommit=True, options="-c lock_timeout=2s") as connection,
    ):
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))
