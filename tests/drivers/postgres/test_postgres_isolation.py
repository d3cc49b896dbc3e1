"""The store reads what is committed, whatever the database or the role begins with; a caller keeps their own level."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest
from caller_kinds import NOW, Asyncpg, Kind, Psycopg

from postgres.binaries import binaries
from postgres.pgbouncer import PgBouncer
from postgres.server import Server
from windlass.core.alterations import PutQueue
from windlass.drivers import migrate
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.link import Link
from windlass.drivers.statement import Op, Statement
from windlass.errors import WrongConnection
from windlass.records import Finding
from windlass.types import NewJob

LEVEL = Statement("select current_setting('transaction_isolation')", ())


@pytest.fixture
def strict(fresh_database: str) -> str:
    """A database whose sessions begin serializable."""
    migrate(fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set default_transaction_isolation = serializable'.encode())
    return fresh_database


@pytest.fixture
def driver(strict: str) -> Iterator[PostgresDriver]:
    driver = PostgresDriver(strict)
    yield driver
    asyncio.run(driver.close())


def level() -> Op[str]:
    [(said,)] = yield LEVEL
    return str(said)


WAYS: dict[str, Callable[[Link], str]] = {
    "alone": lambda link: link.run(level()), "in a transaction": lambda link: link.transact(level()),
    "reading": lambda link: link.read(level()),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_statement_of_ours_reads_what_is_committed(driver: PostgresDriver, way: str) -> None:
    assert driver._writes.submit_sync(WAYS[way]) == "read committed"


def test_a_transaction_of_ours_reads_what_is_committed(driver: PostgresDriver) -> None:
    transaction = driver.transaction()
    transaction.begin()
    assert transaction.connection.execute(LEVEL.sql).fetchone() == ("read committed",)
    transaction.rollback()


@pytest.mark.full
def test_through_a_pooler_transactions_read_what_is_committed_and_the_doctor_tells_of_the_rest(
    strict: str, postgres_server: Server
) -> None:
    async def examined(dsn: str, pooler: str) -> list[Finding]:
        driver = PostgresDriver(dsn, pooler=pooler)  # type: ignore[arg-type]
        try:
            assert await driver._writes.submit(WAYS["in a transaction"]) == "read committed"
            found = await driver.examine(now=driver.clock.now())
            return [finding for finding in found if finding.name == "isolation"]
        finally:
            await driver.close()

    database = strict.rsplit("/", 1)[1]
    with PgBouncer(postgres_server) as pooler:
        [finding] = asyncio.run(examined(pooler.dsn(database), "transaction"))
        assert finding.status == "warning"
        assert "SERIALIZABLE" in finding.text
        assert asyncio.run(examined(strict, "none")) == [], "there we say so ourselves"
        assert finding.command is not None
        command = finding.command.replace(str(pooler.port), str(postgres_server.port))
        try:
            subprocess.run(["/bin/sh", "-c", f"PATH={binaries()}:$PATH {command}"], check=True, capture_output=True)
            pooler.restart()
            assert asyncio.run(examined(pooler.dsn(database), "transaction")) == []
        finally:
            postgres_server.execute("alter role postgres reset default_transaction_isolation")


@pytest.mark.parametrize("kind", [Psycopg, Asyncpg], ids=lambda kind: kind.__name__)
def test_a_place_that_the_callers_transaction_cannot_know_is_refused(
    driver: PostgresDriver, strict: str, kind: type[Kind]
) -> None:
    """Others have enqueued since it began, and nobody would tell: two jobs would get one position."""

    async def play() -> None:
        await driver.alter([PutQueue("dense", "dense")], now=NOW)
        own = kind(strict)
        await own.open()
        await own.begin()
        await own.execute("select 1")
        with pytest.raises(WrongConnection, match=r"SERIALIZABLE.*'dense'.*READ COMMITTED"):
            await own.enqueue(driver, [NewJob(id="a", type="work", queue="dense")])
        await own.enqueue(driver, [NewJob(id="b", type="work")])
        await own.commit()
        await own.begin()
        await own.execute("set transaction isolation level read committed")
        await own.enqueue(driver, [NewJob(id="c", type="work", queue="dense")])
        await own.commit()
        await own.close()
        assert [found and found.id for found in await driver.get(["a", "b", "c"])] == [None, "b", "c"]

    asyncio.run(play())
