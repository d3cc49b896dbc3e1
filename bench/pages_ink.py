"""How rows get into either store without the driver: SQL with a few words that differ, and plain rows with times in
microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import apsw
import psycopg
from msgspec import Struct

TIMES: Final = ("_at", "_until", "_heartbeat")  # columns that end so are instants, and these:
INSTANTS: Final = frozenset({"at", "minute", "hour"})


class Words(Struct, frozen=True):
    """What the two have different words for. `id`, `tags` and `payload` are those of the job with the number n."""

    at: str  # a number of microseconds as an instant
    micros: str  # the difference of two instants, in microseconds
    hour: str  # the hour of an instant
    day: str
    ago: str  # an hour, so many microseconds before
    id: str
    tags: str
    payload: str
    numbers: str
    schema: str


SQLITE: Final = Words(
    at="({})", micros="({} - {})", hour="({0} - {0} % 3600000000)", day="({0} - {0} % 86400000000)", ago="{} - {}",
    id="printf('0192f0c1-%04x-7000-8000-%012x', n / 65536, n)", tags="json_array('tag' || (n % 30), 'all')",
    payload="cast('{\"args\":{\"order\":' || n || ',\"amount\":4999,\"to\":\"ada@example.com\"}}' as blob)",
    schema="",
    numbers="(with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {}) "
    "select n from numbers)",
)  # fmt: skip
POSTGRES: Final = Words(
    at="windlass.at(({})::bigint)", micros="(windlass.micros({}) - windlass.micros({}))",
    hour="date_trunc('hour', {}, 'UTC')", day="date_trunc('day', {}, 'UTC')",
    ago="{} - {} * interval '1 microsecond'",
    id="'0192f0c1-' || lpad(to_hex(n / 65536), 4, '0') || '-7000-8000-' || lpad(to_hex(n), 12, '0')",
    tags="jsonb_build_array('tag' || (n % 30), 'all')",
    payload="convert_to('{\"args\":{\"order\":' || n || ',\"amount\":4999,\"to\":\"ada@example.com\"}}', 'utf8')",
    numbers="(select n from generate_series(1, {}::bigint) as n)", schema="windlass.",
)  # fmt: skip


class Sqlite:
    words: Final = SQLITE
    parts_by_event = False

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.execute("pragma synchronous = off")
        self._connection.execute("begin")

    def execute(self, text: str) -> None:
        self._connection.execute(text)

    def insert(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" for _ in columns.split(", "))
        self._connection.executemany(f"insert into {table} ({columns}) values ({marks})", rows)

    def done(self) -> None:
        for text in ("commit", "pragma wal_checkpoint(truncate)"):
            self._connection.execute(text)
        self._connection.close()


class Postgres:
    words: Final = POSTGRES
    parts_by_event = True  # a delivery lies in the partition of its event, and says when that was

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self.execute("set local session_replication_role = replica")
        self.execute("set local synchronous_commit = off")

    def execute(self, text: str) -> None:
        self._connection.execute(text.encode())

    def insert(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        instants = [name in INSTANTS or name.endswith(TIMES) for name in columns.split(", ")]
        text = f"copy windlass.{table} ({columns}) from stdin"
        with self._connection.cursor().copy(text.encode()) as copy:
            for row in rows:
                copy.write_row([instant(one) if timed else one for one, timed in zip(row, instants, strict=True)])

    def done(self) -> None:
        self.execute("select setval('windlass.jobs_seq', (select max(seq) from windlass.jobs))")
        self._connection.commit()
        self._connection.autocommit = True
        self.execute("vacuum analyze")
        self._connection.close()


def instant(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat()


Ink = Sqlite | Postgres
