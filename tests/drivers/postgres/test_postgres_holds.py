"""Whoever takes a queue waits for claims that are under way, and for nobody else."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg import sql

from windlass.core.alterations import Acquire, Grant
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import Link

NOW, TERM = 1_000_000, 60_000_000


def busy(driver: PostgresDriver, dsn: str, table: str) -> psycopg.Connection[tuple[object, ...]]:
    """Somebody who has looked at a table in a transaction that goes on."""
    connection = psycopg.connect(dsn)
    connection.execute(sql.SQL("select from {}").format(sql.Identifier(driver.place.schema, table)))
    return connection


def granted(driver: PostgresDriver) -> bool:
    return asyncio.run(driver.alter([Grant("h", TERM)], now=NOW)) == ["applied"]


def test_who_looks_at_jobs_alone_keeps_no_queue_from_being_held(
    driver: PostgresDriver, empty_store: tuple[str, str]
) -> None:
    """A report that takes an hour is no claim; who has looked at holds may be one, and is waited for."""
    asyncio.run(driver.alter([Acquire("h", "default", "api", TERM)], now=NOW))
    with busy(driver, empty_store[0], "reservations"):
        assert not granted(driver)
    with busy(driver, empty_store[0], "jobs"):
        assert granted(driver)


def test_who_claims_afterwards_is_not_waited_for(driver: PostgresDriver, empty_store: tuple[str, str]) -> None:
    """It sees the hold. Else a queue of which somebody claims at every moment could never be held."""
    link = Link(driver.place)
    looks = DIALECT.outlast_claims()
    with busy(driver, empty_store[0], "reservations"):
        under_way = link.execute(next(looks))
        still = link.execute(looks.send(under_way))
        pause = looks.send(still)
    with busy(driver, empty_store[0], "reservations"):
        look_again = looks.send(link.execute(pause))
        with pytest.raises(StopIteration) as end:
            looks.send(link.execute(look_again))
    assert end.value.value is True, "it waits for one that has begun since"
    link.close()
