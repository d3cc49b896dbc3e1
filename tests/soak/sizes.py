"""How large a store is, asked with plain SQL past the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

import apsw
import psycopg

MB: Final = 1_000_000
TABLES: Final = ("jobs", "runs", "idempotency_keys", "outbox", "audit", "queue_stats")
CREATED: Final = "select coalesce(max(seq), 0) from jobs"
UNFINISHED: Final = "select count(*) from jobs where state in ('queued', 'running')"


class Sizes(Protocol):
    name: str
    url: str

    def number(self, sql: str) -> int: ...
    def bytes(self) -> dict[str, float]: ...
    def close(self) -> None: ...


class SqliteSizes:
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"
        self._connection: apsw.Connection | None = None

    def number(self, sql: str) -> int:
        if self._connection is None:
            self._connection = apsw.Connection(str(self._path))
            self._connection.set_busy_timeout(20_000)
        [(found,)] = self._connection.execute(sql)
        return int(str(found))

    def bytes(self) -> dict[str, float]:
        log = self._path.with_name(self._path.name + "-wal")
        used = self.number("pragma page_count") - self.number("pragma freelist_count")
        return {
            "file, MB": self._path.stat().st_size / MB,
            "used of the file, MB": used * self.number("pragma page_size") / MB,
            "log of the file, MB": log.stat().st_size / MB if log.exists() else 0.0,
        }

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class PostgresSizes:
    name = "PostgreSQL"

    def __init__(self, dsn: str) -> None:
        self.url = dsn
        self._connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=windlass")

    def number(self, sql: str) -> int:
        row = self._connection.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def bytes(self) -> dict[str, float]:
        ours = "from pg_class where relnamespace = 'windlass'::regnamespace and relkind in ('r', 'm')"
        return {
            "database, MB": self.number("select pg_database_size(current_database())") / MB,
            "tables, MB": self.number(f"select sum(pg_table_size(oid)) {ours}") / MB,
            "indexes, MB": self.number(f"select sum(pg_indexes_size(oid)) {ours}") / MB,
        }

    def close(self) -> None:
        self._connection.close()
