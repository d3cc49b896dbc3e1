"""What a stretch of work costs a PostgreSQL server: WAL, processor time of all its processes, and statements where the
server counts them (pg_stat_statements, which Debian's has and the bundled one has not).

The standard library and psql only, because other queues are measured inside environments of their own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from types import TracebackType
from typing import Self

from processes import cpu_seconds, reaped_seconds

# Is the extension in this database, and its library in this server?
COUNTS = """
select (select count(*) from pg_extension where extname = 'pg_stat_statements')
     + (current_setting('shared_preload_libraries') like '%pg_stat_statements%')::int
""".strip().replace("\n", " ")
CALLS = """
select coalesce(sum(calls), 0)::bigint from pg_stat_statements
 where dbid = (select oid from pg_database where datname = current_database())
""".strip().replace("\n", " ")


def psql() -> str:
    found = shutil.which("psql")
    if found is None:
        raise SystemExit("there is no psql, by which the other queues are looked at")
    return found


class Psql:
    """One session that answers numbers, in a process that is kept: starting one for each look would be most of the load."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [psql(), "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def number(self, query: str) -> int:
        assert self._process.stdin is not None, "it was opened with pipes"
        assert self._process.stdout is not None, "it was opened with pipes"
        self._process.stdin.write(f"{query};\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        if not said:
            raise SystemExit(f"psql ended at: {query}")
        return int(said)

    def do(self, command: str) -> None:
        """Something that answers nothing, done on return."""
        self.number(f"{command};\nselect 1")


class Cost:
    """`begin`, work, `end`. `number` answers a query that has one number."""

    def __init__(self, number: Callable[[str], int]) -> None:
        self._number = number
        self._pid = number("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::bigint")
        self._counts = number(COUNTS) == 2
        self._cpu, self._wal, self._calls = 0.0, 0, 0

    def begin(self) -> None:
        self._cpu, self._wal, self._calls = self._cpu_seconds(), self._wal_bytes(), self._statements()

    def end(self, jobs: int) -> dict[str, float]:
        """A job's share: WAL in bytes, processor time in microseconds, statements of this database's sessions."""
        cpu, wal = self._cpu_seconds() - self._cpu, self._wal_bytes() - self._wal
        found = {"wal_bytes": wal / jobs, "server_us": cpu * 1e6 / jobs}
        return {**found, "statements": (self._statements() - self._calls) / jobs} if self._counts else found

    def _statements(self) -> int:
        return self._number(CALLS) if self._counts else 0

    def _cpu_seconds(self) -> float:
        return cpu_seconds(self._pid) + reaped_seconds(self._pid)

    def _wal_bytes(self) -> int:
        return self._number("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
