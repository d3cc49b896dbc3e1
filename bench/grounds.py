"""The stores that are measured, and what is asked of each: is it drained, what did that cost, what ran when.

`with ground("postgres", server) as there:` makes an empty one: a SQLite file, or a database of a PostgreSQL.
"""

from __future__ import annotations

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import apsw
import psycopg
from cost import Cost
from limits.postgres_loop import rest as rest_server
from limits.sqlite_loop import fresh_file, micros, opened
from server import cost_of, fresh_database
from workers import QUEUE

from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.sqlite import SqliteDriver

Store = Literal["sqlite", "postgres"]
Measured = dict[str, Any]  # by quantity: see report.QUANTITIES; `series` holds what charts are made of
Series = list[tuple[float, float]]
TALLY_S: Final = 0.1  # the width of a step in what ran when

LAST: Final = "select max(seq) from {jobs}"
ENDED: Final = "select finished_at is not null from {jobs} where seq = {seq}"
LEFT: Final = """
select exists (select 1 from {jobs} where {queue} state = 'queued' and {ready} and priority >= {priority})
    or exists (select 1 from {jobs} where {queue} state = 'queued' and {waits} and waiting_on = 0 and parked_on is null
                  and run_at < {soon})
    or exists (select 1 from {jobs} where {queue} state = 'running' and priority >= {priority})
"""
COUNTED: Final = """
select (select count(*) from {jobs} where type = '{type}' and state = 'succeeded'),
       (select count(*) from {runs} where type = '{type}' and status = 'completed'),
       (select count(*) from {runs} where type = '{type}')
"""


class Ground(ABC):
    """One store, empty at first, and gone afterwards."""

    store: ClassVar[Store]
    names: ClassVar[Mapping[str, str]]  # of tables, and how it says what both say
    url: str
    directory: Path

    @abstractmethod
    def driver(self) -> SqliteDriver | PostgresDriver: ...

    @abstractmethod
    def rows(self, query: str) -> Sequence[Sequence[Any]]: ...

    @abstractmethod
    def execute(self, text: str, given: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def rest(self) -> None:
        """What loading left behind is no part of what is measured."""

    @abstractmethod
    def begin(self) -> None:
        """From here on it costs."""

    @abstractmethod
    def end(self, jobs: int) -> Measured:
        """What it has cost the server meanwhile: a job's share."""

    @abstractmethod
    def tally(self, type_: str) -> Series:
        """Ends of handlers a second, from the first one on."""

    @abstractmethod
    def size_mb(self) -> float:
        """What the store takes on the disk, without its log."""

    @abstractmethod
    def soon(self) -> str: ...

    def one(self, query: str) -> Any:
        [[found]] = self.rows(query)
        return found

    def last(self) -> int:
        """The number of the job that was stored last."""
        return int(self.one(LAST.format(**self.names)))

    def has_ended(self, seq: int) -> bool:
        return bool(self.one(ENDED.format(**self.names, seq=seq)))

    def left(self, priority: int = 0, *, spread: bool = False) -> bool:
        """Is anything still to be done, of at least that priority? `spread`: in whatever queue."""
        queue = "" if spread else f"queue = '{QUEUE}' and"
        return bool(self.one(LEFT.format(**self.names, queue=queue, priority=priority, soon=self.soon())))

    def is_drained(self, last: int, priority: int = 0, *, spread: bool = False) -> bool:
        """Looks are work for the store that is measured: they wait for the job that stands last before they ask for the
        rest, which reads what is dead in the indexes."""
        return self.has_ended(last) and not self.left(priority, spread=spread)

    def check(self, type_: str, jobs: int, runs: int) -> None:
        """A fast drain that lost something has measured nothing."""
        [found] = self.rows(COUNTED.format(**self.names, type=type_))
        assert tuple(found) == (jobs, jobs if runs else 0, runs), (
            f"succeeded, completed, runs: {tuple(found)}, expected {jobs} of {runs} runs"
        )


def tallied(rows: Sequence[Sequence[Any]]) -> Series:
    """Counts by step → a rate for every step, also for those in which nothing ended."""
    found = {int(step): count for step, count in rows}
    first, last = min(found), max(found)
    return [(round((step - first) * TALLY_S, 3), found.get(step, 0) / TALLY_S) for step in range(first, last + 1)]


class SqliteGround(Ground):
    store: ClassVar[Store] = "sqlite"
    names: ClassVar[Mapping[str, str]] = {"jobs": "jobs", "runs": "runs", "ready": "ready = 1", "waits": "ready = 0"}

    def __init__(self, path: Path, db: apsw.Connection) -> None:
        self.url = f"sqlite:///{path}"
        self.directory = path.parent
        self._path, self._db = path, db

    def driver(self) -> SqliteDriver:
        return SqliteDriver(self._path)

    def rows(self, query: str) -> Sequence[Sequence[Any]]:
        return list(self._db.execute(query))

    def execute(self, text: str, given: Mapping[str, Any]) -> None:
        with self._db:
            for statement in text.split(";"):
                self._db.execute(statement, given)

    def rest(self) -> None:
        self._db.execute("pragma wal_checkpoint(truncate)")

    def begin(self) -> None:
        """There is no server."""

    def end(self, jobs: int) -> Measured:
        return {}

    def size_mb(self) -> float:
        return float(self.one("select page_count * page_size / 1e6 from pragma_page_count, pragma_page_size"))

    def soon(self) -> str:
        return str(micros() + 86_400_000_000)

    def tally(self, type_: str) -> Series:
        step = int(TALLY_S * 1e6)
        return tallied(self.rows(
            f"""select finished_at / {step}, count(*) from (
                  select finished_at from runs where type = '{type_}' and status is not null
                  union all
                  select finished_at from jobs
                   where type = '{type_}' and history is not null and state = 'succeeded') group by 1"""
        ))  # fmt: skip


class PostgresGround(Ground):
    store: ClassVar[Store] = "postgres"
    names: ClassVar[Mapping[str, str]] = {
        "jobs": "windlass.jobs", "runs": "windlass.runs", "ready": "ready", "waits": "not ready",
    }  # fmt: skip

    def __init__(self, url: str, directory: Path, connection: psycopg.Connection[Any]) -> None:
        self.url = url
        self.directory = directory
        self._connection = connection
        self._cost: Cost | None = None

    def driver(self) -> PostgresDriver:
        return PostgresDriver(self.url)

    def rows(self, query: str) -> Sequence[Sequence[Any]]:
        return self._connection.execute(query.encode(), prepare=True).fetchall()

    def execute(self, text: str, given: Mapping[str, Any]) -> None:
        self._connection.execute(text.encode(), given)

    def rest(self) -> None:
        rest_server(self.url)

    def begin(self) -> None:
        self._cost = cost_of(self._connection)
        self._cost.begin()

    def end(self, jobs: int) -> Measured:
        assert self._cost is not None, "it has begun"
        return dict(self._cost.end(jobs))

    def size_mb(self) -> float:
        return float(self.one("select pg_database_size(current_database()) / 1e6"))

    def soon(self) -> str:
        return "now() + interval '1 day'"

    def tally(self, type_: str) -> Series:
        return tallied(self.rows(
            f"""select floor(extract(epoch from finished_at) * {round(1 / TALLY_S)}), count(*) from (
                  select finished_at from windlass.runs where type = '{type_}' and status is not null
                  union all
                  select finished_at from windlass.jobs
                   where type = '{type_}' and history is not null and state = 'succeeded') as ended group by 1"""
        ))  # fmt: skip


@contextmanager
def ground(store: Store, server: str | None = None, parent: str | None = None) -> Iterator[Ground]:
    if store == "sqlite":
        with fresh_file(parent) as path, opened(path) as db:
            yield SqliteGround(path, db)
        return
    with (
        tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=parent) as name,
        fresh_database(server, parent) as url,
    ):
        asyncio.run(PostgresDriver(url).close())
        with psycopg.connect(url, autocommit=True) as connection:
            yield PostgresGround(url, Path(name), connection)
