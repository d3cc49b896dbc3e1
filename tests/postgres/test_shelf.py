"""The stores that tests share one after the other: whoever comes next finds nothing of those before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from windlass.core.alterations import PutLimit, SetPaused
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

from .server import Server
from .shelf import Shelf


@pytest.fixture
def own_shelf(postgres_server: Server) -> Iterator[Shelf]:
    shelf = Shelf(postgres_server)
    yield shelf
    shelf.close()


def contents(server: Server, schema: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, and where the sequences are."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        names = connection.execute(
            "select relname from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'S')", (schema,)
        )
        return {
            name: connection.execute(f"select * from {schema}.{name}".encode()).fetchall() for (name,) in names.fetchall()
        }


async def lived_in(dsn: str, schema: str) -> None:
    driver = PostgresDriver(dsn, schema=schema)
    now = driver.clock.now()
    await driver.enqueue([NewJob(id=f"job-{n}", type="work", dedupe_key=f"k{n}") for n in range(3)], now=now)
    await driver.alter([PutLimit("type:work", 1), SetPaused("other", True)], now=now)
    await driver.claim(Claim(queues=("default",), limit=1, lease_for=10**7, worker_id="w", token="t"), now=now)
    await driver.close()


def test_a_store_that_is_given_back_is_as_it_was_made(postgres_server: Server, own_shelf: Shelf) -> None:
    schema = own_shelf.take()
    made = contents(postgres_server, schema)
    asyncio.run(lived_in(postgres_server.dsn(), schema))
    postgres_server.execute(f"insert into {schema}.meta values ('usage_watermark', '7')")
    assert contents(postgres_server, schema) != made
    own_shelf.give_back(schema)
    assert own_shelf.take() == schema
    assert contents(postgres_server, schema) == made


def test_nobody_else_has_it_meanwhile(own_shelf: Shelf) -> None:
    assert own_shelf.take() != own_shelf.take()


@pytest.mark.parametrize(
    "change",
    [
        "create table {}.own (x int)", "alter table {}.jobs add column own int", "drop index {}.jobs_ready",
        "alter table {}.jobs disable trigger all", "grant select on {}.jobs to public",
        "create function {}.own() returns int language sql as 'select 1'",
    ],
)  # fmt: skip
def test_one_that_was_changed_is_never_given_out_again(postgres_server: Server, own_shelf: Shelf, change: str) -> None:
    schema = own_shelf.take()
    postgres_server.execute(change.format(schema))
    own_shelf.give_back(schema)
    assert own_shelf.take() != schema
    assert postgres_server.execute(f"select to_regnamespace('{schema}')") == [(None,)]


def test_one_that_somebody_still_uses_is_left_to_him(postgres_server: Server, own_shelf: Shelf) -> None:
    schema = own_shelf.take()
    with psycopg.connect(postgres_server.dsn()) as user:
        user.execute(f"lock table {schema}.jobs".encode())
        own_shelf.give_back(schema)
        assert own_shelf.take() != schema


def test_a_session_that_was_ended_is_replaced(postgres_server: Server, own_shelf: Shelf) -> None:
    schema = own_shelf.take()
    postgres_server.execute("select pg_terminate_backend(pid) from pg_stat_activity where query like 'select concat_ws%'")
    own_shelf.give_back(schema)
    assert own_shelf.take() == schema
