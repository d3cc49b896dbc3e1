"""A driver for those that look inside of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from windlass.drivers.postgres import PostgresDriver


@pytest.fixture
def driver(empty_store: tuple[str, str]) -> Iterator[PostgresDriver]:
    dsn, schema = empty_store
    driver = PostgresDriver(dsn, schema=schema, timeout=5)
    yield driver
    asyncio.run(driver.close())
