"""Drivers: where jobs are stored. They provide storage and primitive transitions; every decision is made in core."""

from __future__ import annotations

import sys
from typing import Any, Final

from windlass.drivers.migrations import Status
from windlass.drivers.nearest import nearest
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput, StoreUnavailable, UnknownStore, shown
from windlass.urls import IN_MEMORY, file_of, redacted, scheme_of

KNOWN: Final = (
    "memory://, sqlite:///jobs.db (relative), sqlite:////var/lib/jobs.db (absolute), "
    "postgresql://user@host:5432/database or https://TOKEN@host/ (a store that is served)"
)
ODD: Final = "sqlite:///what%3F%23.db for a file what?#.db, memory:// for what ends with the process"
POSTGRES: Final = ("postgresql", "postgres")
HTTP: Final = ("http", "https")


def check_url(url: object) -> None:
    """Whether it names a store at all: what is mistyped is told where it is written, not where the store is opened."""
    if not isinstance(url, str):
        raise InvalidInput("url", f"must be text such as 'sqlite:///jobs.db', got {shown(url)}")
    if scheme_of(url) == "sqlite":
        _file(url)
    elif scheme_of(url) not in ("memory", *POSTGRES, *HTTP):
        raise unknown(url)


def unknown(url: str) -> UnknownStore:
    return UnknownStore(url, KNOWN, nearest(url))


def open_driver(url: str, **options: Any) -> Driver:
    """Open the driver that a URL names. Its module is imported only now; `options` are passed to the driver."""
    scheme = scheme_of(url)
    if scheme == "memory":
        from windlass.drivers.memory import MemoryDriver

        return MemoryDriver(**options)
    if scheme == "sqlite":
        path = _file(url)
        if sys.platform == "win32":  # its wake-ups, locks and clock are written for POSIX, and tested nowhere else
            raise StoreUnavailable(f"{url}: the SQLite store does not run on Windows; use WSL there, or memory:// in tests")
        from windlass.drivers.sqlite import SqliteDriver

        return SqliteDriver(path, **options)
    if scheme in POSTGRES:
        _check_psycopg(url)
        from windlass.drivers.postgres import PostgresDriver

        return PostgresDriver(url, **options)
    if scheme in HTTP:
        _check_httpx(url)
        from windlass.drivers.http import HttpDriver

        return HttpDriver(url, **options)
    raise unknown(url)


def migrations_of(url: str, **options: Any) -> Status:
    """The schema steps of the store at a URL, and which of them are applied. Changes nothing, creates no file."""
    scheme = scheme_of(url)
    if scheme == "memory":
        return Status(url)
    if scheme in HTTP:  # its server has seen to that
        return Status(redacted(url))
    if scheme == "sqlite":
        from windlass.drivers.sqlite.store import migration_status

        return migration_status(_file(url), options.get("sqlite", "apsw"))
    if scheme in POSTGRES:
        _check_psycopg(url)
        from windlass.drivers.postgres.place import Place
        from windlass.drivers.postgres.schema import status

        return status(Place.of(url, **options))
    raise unknown(url)


def migrate(url: str, **options: Any) -> list[str]:
    """Apply what is missing, and answer what was. A SQLite file is brought up to date by whoever opens it."""
    if scheme_of(url) in POSTGRES:
        _check_psycopg(url)
        from windlass.drivers.postgres import schema
        from windlass.drivers.postgres.place import Place

        return schema.migrate(Place.of(url, **options))
    if scheme_of(url) == "sqlite":
        from windlass.drivers.sqlite.store import bring_up_to_date

        return bring_up_to_date(_file(url), options.get("sqlite", "apsw"))
    return [step.label for step, done in migrations_of(url, **options).steps if not done]


def _file(url: str) -> str:
    path = file_of(url)
    if path is None:
        if any(part in url for part in ("?", "#", "%", IN_MEMORY)):
            raise UnknownStore(url, ODD)
        raise unknown(url)
    return path


def _check_httpx(url: str) -> None:
    try:
        import httpx2  # noqa: F401 - the same
    except ImportError as error:
        raise StoreUnavailable(f"{redacted(url)} needs httpx2 ({error}): pip install 'windlass[server]'") from None


def _check_psycopg(url: str) -> None:
    try:
        import psycopg  # noqa: F401 - asked for before our own modules are, so that nothing of them is blamed
    except ImportError as error:
        why = str(error).splitlines()[0]
        raise StoreUnavailable(f"{redacted(url)} needs psycopg ({why}): pip install 'windlass[postgres]'") from None
