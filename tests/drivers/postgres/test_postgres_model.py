"""PostgreSQL agrees with memory over random histories. WINDLASS_MODEL_EXAMPLES as in test_model.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings

from postgres.server import Server, unique_name
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.testing.model import differential

EXAMPLES = int(os.environ.get("WINDLASS_MODEL_EXAMPLES", "12"))
SECONDS_EACH = 6  # that one may take on a busy machine
pytestmark = pytest.mark.timeout(max(300, EXAMPLES * SECONDS_EACH))

shrink = os.environ.get("WINDLASS_MODEL_SHRINK", "0") == "1"
store: dict[str, str] = {}
reader: list[psycopg.Connection[tuple[int]]] = []


def fresh_postgres() -> Driver:
    """One schema for all histories, emptied: making one takes longer than a history does."""
    with psycopg.connect(store["dsn"], autocommit=True) as connection:
        names = connection.execute(
            "select string_agg(quote_ident(schemaname) || '.' || quote_ident(tablename), ', ') from pg_tables "
            "where schemaname = %s and tablename not in ('migrations', 'meta')",
            (store["schema"],),
        ).fetchone()
        if names is not None and names[0]:
            connection.execute(f"truncate {names[0]} restart identity".encode())
            connection.execute(f"delete from {store['schema']}.meta where key = 'usage_watermark'".encode())
    return PostgresDriver(store["dsn"], schema=store["schema"])


@pytest.fixture(scope="module", autouse=True)
def _store(postgres_server: Server) -> Iterator[None]:
    store.update(dsn=postgres_server.dsn(), schema=unique_name("model"))
    reader[:] = [psycopg.connect(store["dsn"], autocommit=True)]
    yield
    reader.pop().close()
    with psycopg.connect(store["dsn"], autocommit=True) as connection:
        connection.execute(f"drop schema if exists {store['schema']} cascade".encode())


def newest_number() -> int:
    looks = f"select case when is_called then last_value else 0 end from {store['schema']}.jobs_seq"
    found = reader[0].execute(looks.encode()).fetchone()
    assert found is not None
    return int(found[0])


TestPostgresAgainstMemory = differential(fresh_postgres, newest_number).TestCase
TestPostgresAgainstMemory.settings = settings(
    phases=[phase for phase in Phase if phase is not Phase.explain and (shrink or phase is not Phase.shrink)],
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
