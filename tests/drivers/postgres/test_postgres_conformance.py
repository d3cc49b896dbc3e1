"""PostgreSQL keeps every promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from postgres.server import Server
from postgres.shelf import Shelf
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.testing.conformance import DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises


class TestPostgres(DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: Server, shelf: Shelf) -> Iterator[None]:
        self.dsn = postgres_server.dsn()
        self.shelf = shelf
        self.schemas: list[str] = []
        yield
        for schema in self.schemas:
            shelf.give_back(schema)

    def make_driver(self) -> Driver:
        self.schemas.append(self.shelf.take())
        return PostgresDriver(self.dsn, schema=self.schemas[-1])

    def another(self, driver: Driver) -> Driver:
        assert isinstance(driver, PostgresDriver)
        return PostgresDriver(self.dsn, schema=driver.place.schema)

    def sql(self, driver: Driver, statement: str) -> Sequence[Sequence[Any]]:
        assert isinstance(driver, PostgresDriver)
        with psycopg.connect(self.dsn, autocommit=True, options=f"-c search_path={driver.place.schema}") as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def instant(self, micros: int) -> str:
        return f"at({micros})"

    def later(self, column: str) -> str:
        return f"{column} + interval '1 microsecond'"

    def dateless(self) -> Sequence[str]:
        return ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'1969-12-31'", "'294260-01-01'", "'10000-01-02'")

    def endless(self) -> str:
        return "'infinity'"

    def blob(self, digits: str) -> str:
        return f"decode('{digits}', 'hex')"
