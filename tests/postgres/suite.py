"""What the suite of SQL promises asks of PostgreSQL: a connection of its own for statements, and how to write values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.testing.conformance import SqlPromises


class PostgresPromises(SqlPromises):
    dsn: str  # of the server itself, also where the driver goes through a pooler

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
