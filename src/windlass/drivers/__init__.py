"""Where jobs are stored. Drivers provide storage and primitive transitions; every decision is made in core."""

from __future__ import annotations

import sys
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from windlass.drivers.migrations import Migration
from windlass.drivers.protocol import Driver
from windlass.errors import StoreUnavailable, UnknownStore

KNOWN: Final = (
    "memory://, sqlite:///jobs.db (relative), sqlite:////var/lib/jobs.db (absolute) or postgresql://user@host:5432/database"
)


def open_driver(url: str, **options: Any) -> Driver:
    """The driver that a URL names, opened. Its module is imported only now; `options` are the driver's own."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from windlass.drivers.memory import MemoryDriver

        return MemoryDriver(**options)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        if sys.platform == "win32":  # its wake-ups, locks and clock are written for POSIX, and tested nowhere else
            raise StoreUnavailable(f"{url}: the SQLite store does not run on Windows; use WSL there, or memory:// in tests")
        from windlass.drivers.sqlite import SqliteDriver

        return SqliteDriver(unquote(parts.path[1:]), **options)
    raise UnknownStore(url, KNOWN)


def migrations_of(url: str, library: Any = "apsw") -> tuple[str, list[tuple[Migration, bool]]]:
    """Where a URL leads, and its schema steps with whether each was applied. Changes nothing, creates no file."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return url, []
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        from windlass.drivers.sqlite.store import migration_status

        return migration_status(unquote(parts.path[1:]), library)
    raise UnknownStore(url, KNOWN)
