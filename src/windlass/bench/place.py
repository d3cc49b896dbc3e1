"""Where it is measured: a place that is made for it and removed again, however it ends. Jobs that are there already are
never touched: on SQLite it is a file of its own beside the one named, on PostgreSQL a schema of its own."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.app import Windlass
from windlass.drivers import KNOWN, POSTGRES, migrations_of
from windlass.errors import StoreUnavailable, UnknownStore
from windlass.urls import file_of, redacted, scheme_of, url_of_file

PREFIX: Final = "windlass_bench_"


@dataclass(frozen=True)
class Place:
    url: str
    logs: str  # a directory
    schema: str | None = None  # PostgreSQL alone
    told: str = ""  # for people: no password

    @property
    def shared(self) -> bool:
        """Can a process of its own work here?"""
        return scheme_of(self.url) != "memory"

    def app(self) -> Windlass:
        if self.schema is None:
            return Windlass(self.url, log_root=self.logs)
        return Windlass(self.url, log_root=self.logs, schema=self.schema, migrate="empty")

    def environment(self) -> dict[str, str]:
        """For a worker process. A URL may hold a password, so it is not for a command line."""
        more = {} if self.schema is None else {"WINDLASS_SCHEMA": self.schema}
        return {**os.environ, **more, "WINDLASS_URL": self.url, "WINDLASS_LOG_ROOT": self.logs}


@contextmanager
def place_for(url: str | None) -> Iterator[Place]:
    """None: a SQLite file in the system's temporary directory."""
    scheme = "sqlite" if url is None else scheme_of(url)
    if scheme != "sqlite" and scheme not in ("memory", *POSTGRES):
        raise UnknownStore(url or "", KNOWN)
    parent = _folder(url) if url is not None and scheme == "sqlite" else None
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as name:
        directory = Path(name)
        logs = str(directory / "logs")
        if url is not None and scheme in POSTGRES:
            with _schema(url) as schema:
                yield Place(url, logs, schema, f"{redacted(url)} (schema {schema})")
        elif scheme == "memory":
            yield Place("memory://", logs, told="memory, which keeps nothing")
        else:
            yield Place(url_of_file(directory / "jobs.db"), logs, told=f"a SQLite file below {directory.parent}")


def _folder(url: str) -> Path | None:
    """That of the file named: the question is how fast that disk is. `sqlite:///` alone means none in particular."""
    if url.lower() == "sqlite:///":
        return None
    path = file_of(url)
    if path is None:
        raise UnknownStore(url, KNOWN)
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise StoreUnavailable(f"there is no directory {folder}")
    return folder


@contextmanager
def _schema(url: str) -> Iterator[str]:
    """A name that nobody has; its schema is made by whoever opens the store first."""
    name = f"{PREFIX}{secrets.token_hex(6)}"
    migrations_of(url, schema=name)  # whoever cannot be reached says so now
    try:
        yield name
    finally:
        _drop(url, name)


def _drop(url: str, schema: str) -> None:
    from windlass.drivers.postgres.link import Link
    from windlass.drivers.postgres.place import Place as Server

    assert schema.startswith(PREFIX), "nothing else is ever dropped"
    with Link(Server.of(url)).open() as connection:
        connection.execute(f'drop schema if exists "{schema}" cascade'.encode())
