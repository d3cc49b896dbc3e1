"""Behind PgBouncer in transaction mode: found out when nobody said so, and all promises kept when somebody did."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import psycopg
import pytest

from postgres.pgbouncer import PgBouncer
from postgres.server import Server, unique_name
from postgres.suite import PostgresPromises
from windlass import Windlass
from windlass.drivers.postgres import PostgresDriver, listening
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.listening import Listener
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.sharing import check_own_session
from windlass.drivers.postgres.wakeups import Notifier
from windlass.drivers.protocol import Driver
from windlass.errors import PoolerInTheWay
from windlass.testing.conformance import DriverConformance, DurabilityPromises

pytestmark = pytest.mark.full
LENIENT = {"ignore_startup_parameters": "options"}  # as many configure it


@pytest.fixture(scope="module")
def bouncer(postgres_server: Server) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server, options=LENIENT) as pooler:
        yield pooler


@pytest.fixture
def name(fresh_schema: tuple[str, str]) -> str:
    return fresh_schema[1]


def test_a_pooler_that_refuses_our_settings_is_recognised(postgres_server: Server, name: str) -> None:
    with PgBouncer(postgres_server) as strict, pytest.raises(PoolerInTheWay, match='say pooler="transaction"'):
        PostgresDriver(strict.dsn(), schema=name)


def test_a_pooler_that_shares_sessions_is_recognised_at_the_start(bouncer: PgBouncer, name: str) -> None:
    with pytest.raises(PoolerInTheWay, match="WINDLASS_POOLER=transaction"):
        PostgresDriver(bouncer.dsn(), schema=name)


def test_a_pooler_in_session_mode_is_let_through(postgres_server: Server, name: str) -> None:
    with PgBouncer(postgres_server, options={**LENIENT, "pool_mode": "session", "default_pool_size": 30}) as pooler:

        async def run() -> None:
            driver = PostgresDriver(pooler.dsn(), schema=name)
            try:
                found = {finding.name: finding for finding in await driver.examine(now=driver.clock.now())}
                assert found["wake-ups"].text.startswith("pushed")
            finally:
                await driver.close()

        asyncio.run(run())


def test_a_session_that_is_lent_to_another_is_noticed(postgres_server: Server, name: str) -> None:
    """Newer poolers carry prepared statements from session to session; so the sharing itself is looked for."""
    with PgBouncer(postgres_server, options=LENIENT) as pooler:
        link = Link(Place(pooler.dsn(), name, "transaction", 5.0))
        try:
            with pytest.raises(PoolerInTheWay, match="two clients were given one session"):
                check_own_session(link, Place(pooler.dsn(), name, "none", 5.0))
        finally:
            link.close()


def test_a_listener_that_hears_nothing_is_noticed(
    bouncer: PgBouncer, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What one says to oneself comes back even through such a pooler; what others say does not."""
    monkeypatch.setattr(listening, "TEST_WITHIN", 0.5)
    caplog.set_level(logging.WARNING, "windlass.postgres")
    place, watch, told = Place(bouncer.dsn(), name, "transaction", 5.0), Watch(), threading.Event()
    lane = Lane("notify", place, watch)
    listener = Listener(place, watch, told.set, Notifier(place, lane))
    try:
        assert told.wait(20)
        assert (listener.settled, listener.healthy) == (True, False)
        assert 'pooler="transaction"' in caplog.text
    finally:
        listener.close()
        lane.close()
        watch.close()


# ------------------------------------------------------------------------------------------------------- when it was said


class TestThroughPgBouncer(DriverConformance, DurabilityPromises, PostgresPromises):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: Server, bouncer: PgBouncer) -> Iterator[None]:
        self.dsn = postgres_server.dsn()
        self.pooled = bouncer.dsn()
        self.schemas: list[str] = []
        yield
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for schema in self.schemas:
                connection.execute(f"drop schema if exists {schema} cascade".encode())

    def make_driver(self) -> Driver:
        self.schemas.append(unique_name("pooled"))
        return PostgresDriver(self.pooled, schema=self.schemas[-1], pooler="transaction")

    def another(self, driver: Driver) -> Driver:
        assert isinstance(driver, PostgresDriver)
        return PostgresDriver(self.pooled, schema=driver.place.schema, pooler="transaction")


def test_a_worker_works_through_a_strict_pooler_and_leaves_no_trace_in_its_sessions(
    postgres_server: Server, name: str
) -> None:
    """One session of the server for everybody: whatever one leaves behind, another would find."""
    with PgBouncer(postgres_server, options={"default_pool_size": 3}) as pooler:
        app = Windlass(pooler.dsn(), schema=name, pooler="transaction", poll="50ms")
        done: list[int] = []

        @app.task
        async def work(n: int) -> int:
            done.append(n)
            return n

        async def run() -> None:
            async with app.running():
                jobs = await app.enqueue_many(work.job(n) for n in range(50))
                for job in jobs:
                    await job.result(timeout=20)
                pooler.restart()
                after = await work.enqueue(50)
                assert await after.result(timeout=20) == 50
            await app.close()

        asyncio.run(run())
        assert sorted(set(done)) == list(range(51))
        with psycopg.connect(pooler.dsn(), autocommit=True, prepare_threshold=None) as connection:
            for left in ("pg_prepared_statements", "pg_listening_channels()"):
                assert connection.execute(f"select * from {left}".encode()).fetchall() == []
            changed = "select name from pg_settings where source = 'session'"
            assert [row[0] for row in connection.execute(changed.encode()).fetchall() if row[0] not in TRACKED] == []
            held = "select 1 from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory'"
            assert connection.execute(held.encode()).fetchall() == []


TRACKED = {"application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "IntervalStyle"}
