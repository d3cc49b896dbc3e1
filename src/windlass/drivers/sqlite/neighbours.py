"""Who else in this process opens files of SQLite, through which library. Nothing is imported to find out.

Two libraries on one file in one process drop each other's locks whenever one of them closes a connection (library.py), so
a file that Django opens through sqlite3 must not be opened through apsw beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from windlass.errors import StoreUnavailable


def django_databases() -> Iterator[tuple[str, str]]:
    """Alias and real path of each file that this process's Django has in its settings."""
    conf = sys.modules.get("django.conf")
    settings = getattr(conf, "settings", None)
    if settings is None or not settings.configured:
        return
    for alias, database in getattr(settings, "DATABASES", {}).items():
        name = str(database.get("NAME") or "")
        if "sqlite" in str(database.get("ENGINE", "")) and name and name != ":memory:" and "mode=memory" not in name:
            yield str(alias), os.path.realpath(name)


def alias_of(path: str) -> str | None:
    return next((alias for alias, file in django_databases() if file == path), None)


def check_neighbours(path: str, library: str) -> None:
    alias = alias_of(path) if library != "stdlib" else None
    if alias is not None:
        raise StoreUnavailable(
            f"{path}: is Django's database {alias!r}, which is opened through sqlite3, and a second SQLite library on the "
            'same file would lose its locks; open it with sqlite="stdlib" (WINDLASS_SQLITE=stdlib), or keep jobs in a file '
            "of their own"
        )
