"""Every driver keeps every promise."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite.library import Library, connect
from windlass.testing.conformance import DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises


class TestMemory(DriverConformance, TransactionPromises):
    def make_driver(self) -> Driver:
        return MemoryDriver()


class SqliteSuite(DriverConformance, TransactionPromises, DurabilityPromises, SqlPromises):
    library: Library = "apsw"
    inline = False

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_driver(self) -> Driver:
        handle, path = tempfile.mkstemp(dir=self.directory, suffix=".db")
        open(handle, "rb").close()
        return self._open(path)

    def another(self, driver: Driver) -> Driver:
        assert isinstance(driver, SqliteDriver)
        return self._open(driver.path)

    def _open(self, path: str) -> Driver:
        return SqliteDriver(path, sqlite=self.library, inline=self.inline, durability="relaxed")

    def sql(self, driver: Driver, statement: str) -> Sequence[Sequence[Any]]:
        assert isinstance(driver, SqliteDriver)
        connection = connect(self.library, driver.path, 5_000)
        try:
            connection.execute("pragma foreign_keys = on")
            return connection.execute(statement)
        finally:
            connection.close()


class TestSqlite(SqliteSuite):
    pass


@pytest.mark.full
class TestSqliteInline(SqliteSuite):
    inline = True


class TestSqliteStdlib(SqliteSuite):
    library: Library = "stdlib"


def test_the_standard_library_here_can_run_the_schema() -> None:
    assert sqlite3.sqlite_version_info >= (3, 38), "->> needs SQLite 3.38"
