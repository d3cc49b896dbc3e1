"""The stores that the fault tests run on, as they are read: with plain SQL, past the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw
import psycopg

from postgres.server import Server

JOB_COLUMNS = (
    "id type state attempts executions skipped lost max_attempts retry_mode dead_kind superseded_by retry_of finished_at "
    "permits"
).split()
SETTLED = 0.3  # seconds after which a transaction that is still open belongs to somebody who does not go on
RUN_COLUMNS = "claimed_at started_at finished_at".split()


class Snapshot(NamedTuple):
    """All rows of one moment."""

    jobs: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    permits: list[tuple[Any, ...]]
    faults: list[str]


class Store(Protocol):
    name: str
    url: str
    transactional: bool  # ctx.transaction() works on it
    instant: str  # a parameter that is an instant, in its SQL

    def open(self) -> None: ...
    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]: ...
    def nobody_is_in_the_way(self) -> bool: ...
    def snapshot(self) -> Snapshot: ...
    def close(self) -> None: ...


class SqliteStore:
    name = "SQLite"
    transactional = True
    instant = "?"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def open(self) -> None:
        self._reader = apsw.Connection(str(self.path))
        self._reader.set_busy_timeout(20_000)
        self._reader.execute("create table effects (job_id text not null, number integer not null) strict")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._reader.execute(sql, values)]

    def nobody_is_in_the_way(self) -> bool:
        """Whether the file's only write lock is free."""
        self._reader.set_busy_timeout(300)
        try:
            self._reader.execute("begin immediate")
            self._reader.execute("rollback")
        except apsw.BusyError:
            return False
        finally:
            self._reader.set_busy_timeout(20_000)
        return True

    def snapshot(self) -> Snapshot:
        with self._own_connection() as connection:
            connection.execute("begin")  # one moment for all that is read
            jobs = list(connection.execute(f"select {', '.join(JOB_COLUMNS)} from jobs"))
            runs = list(connection.execute(
                "select jobs.id, attempt_no, run_id, runs.worker_id, runs.claimed_at, runs.started_at, runs.finished_at, "
                "status, error from runs join jobs on seq = job_seq order by job_seq, attempt_no"
            ))  # fmt: skip
            permits = list(connection.execute("select key, used, max_used from limits"))
            faults = [str(row[0]) for row in connection.execute("pragma integrity_check") if row[0] != "ok"]
            faults += [f"a broken reference: {row}" for row in connection.execute("pragma foreign_key_check")]
        return Snapshot(jobs, runs, permits, faults)

    @contextmanager
    def _own_connection(self) -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(self.path))
        try:
            connection.set_busy_timeout(20_000)
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        self._reader.close()


class PostgresStore:
    """A new database of a server. Workers may reach it by another way than the test does; `url` is theirs."""

    name = "PostgreSQL"
    transactional = False
    instant = "at(?)"

    def __init__(self, server: Server, *, by_port: int | None = None, url: str | None = None) -> None:
        self.direct = server.create_database()
        self._name = self.direct.rpartition("/")[2]
        self.url = url.format(self._name) if url else self.direct.replace(str(server.port), str(by_port or server.port))
        self._reader: psycopg.Connection[Any] | None = None

    def open(self) -> None:
        pass

    def at(self, server: Server) -> None:
        """Read from there from now on."""
        self.direct = server.dsn(self._name)
        self.close()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        text = sql.replace("%", "%%").replace("?", "%s").encode()
        for last in (False, True):
            try:
                if self._reader is None:
                    self._reader = psycopg.connect(
                        self.direct, autocommit=True, options="-c search_path=windlass", connect_timeout=5
                    )
                return self._reader.execute(text, values or ()).fetchall()
            except psycopg.OperationalError:  # tests end sessions, this one too
                self.close()
                if last:
                    raise
        raise AssertionError

    def nobody_is_in_the_way(self) -> bool:
        """Whether no session stands still within a transaction: its locks would be held as long as it does. Those of the
        living come and go all the time: only what stays is in the way."""
        before, deadline = self._transactions(), time.monotonic() + SETTLED
        while still := before & self._transactions():
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        return not still

    def _transactions(self) -> set[tuple[Any, ...]]:
        return set(self.rows(
            "select pid, xact_start from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
            "and xact_start is not null and state <> 'idle'"
        ))  # fmt: skip

    def snapshot(self) -> Snapshot:
        job_columns = [
            f"micros({name})" if name == "finished_at" else f"{name}::text" if name == "permits" else name
            for name in JOB_COLUMNS
        ]
        run_columns = ", ".join(f"micros(runs.{name})" for name in RUN_COLUMNS)
        with psycopg.connect(self.direct, options="-c search_path=windlass") as connection:
            connection.execute("set transaction isolation level repeatable read")  # one moment for all that is read
            jobs = connection.execute(f"select {', '.join(job_columns)} from jobs".encode()).fetchall()
            runs = connection.execute(
                f"select jobs.id, attempt_no, run_id, runs.worker_id, {run_columns}, status, error "
                "from runs join jobs on seq = job_seq order by job_seq, attempt_no".encode()
            ).fetchall()
            permits = connection.execute("select key, used, max_used from limits").fetchall()
        return Snapshot(jobs, runs, permits, [])

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
