"""PostgreSQL keeps every promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgres.server import Server
from postgres.shelf import Shelf
from postgres.suite import PostgresPromises
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.testing.conformance import DriverConformance, DurabilityPromises, TransactionPromises


class TestPostgres(DriverConformance, DurabilityPromises, PostgresPromises, TransactionPromises):
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
