"""What `windlass doctor --security` asks of a server about roles: of ours and of this schema, and of no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from postgres.server import unique_name
from windlass.drivers.postgres import PostgresDriver
from windlass.records import Finding


def exposed(dsn: str, schema: str) -> dict[str, Finding]:
    async def run() -> list[Finding]:
        driver = PostgresDriver(dsn, schema=schema, timeout=5.0)
        try:
            return await driver.exposure()
        finally:
            await driver.close()

    return {finding.name: finding for finding in asyncio.run(run())}


@pytest.fixture
def owner(empty_store: tuple[str, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(empty_store[0], autocommit=True) as connection:
        connection.execute(f'set search_path to "{empty_store[1]}"'.encode())
        yield connection


@pytest.fixture
def role(owner: psycopg.Connection, empty_store: tuple[str, str]) -> Iterator[str]:
    name = unique_name("role")
    owner.execute(f'create role {name} login; grant usage on schema "{empty_store[1]}" to {name}'.encode())
    owner.execute(f"grant select on meta, migrations to {name}".encode())
    yield name
    owner.execute(f"reassign owned by {name} to postgres; drop owned by {name}; drop role {name}".encode())


def test_who_owns_this_schema_is_told_and_who_owns_another_is_not(
    empty_store: tuple[str, str], owner: psycopg.Connection, role: str
) -> None:
    """With others connected, whose way to the server is not ours."""
    dsn, schema = empty_store
    owner.execute(f"create schema of_{role} authorization {role}".encode())
    with psycopg.connect(dsn), psycopg.connect(dsn):
        assert exposed(dsn.replace("postgres@", f"{role}@"), schema)["role"].status == "ok"
        owner.execute(f'alter schema "{schema}" owner to {role}'.encode())
        assert "owns the schema" in exposed(dsn.replace("postgres@", f"{role}@"), schema)["role"].text
    owner.execute(f'drop schema of_{role}; alter schema "{schema}" owner to postgres'.encode())


def test_what_everybody_may_use_is_told_of_tables(
    empty_store: tuple[str, str], owner: psycopg.Connection, role: str
) -> None:
    dsn, schema = empty_store
    owner.execute(f"grant select on jobs to {role}".encode())
    owner.execute("grant select on sequence jobs_seq to public")
    assert exposed(dsn, schema)["other roles"].status == "ok", "one role is not everybody, and a number is no job"
    owner.execute("grant select on runs, queues to public")
    try:
        assert exposed(dsn, schema)["other roles"].text == "every role of the server may use queues, runs"
    finally:
        owner.execute("revoke all on runs, queues from public; revoke all on sequence jobs_seq from public")
