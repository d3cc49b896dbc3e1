"""What a file holds, found out without a trace: opening a store switches its journal, makes tables, and may write the file
anew, none of which is for a file of somebody else.

SQLite is told that nobody changes the file (`immutable`), so it takes no lock and makes no companion. What is only in the
write-ahead log is not seen so; where there is one, it is read with the memory that all share who have the file open, and
which is left as it is (`readonly_shm`). A log without that memory, as beside a copy, is read by nobody who may not write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from windlass.drivers.sqlite.library import ERRORS, Connection, Library, connect_to_look, translate
from windlass.drivers.sqlite.neighbours import check_neighbours
from windlass.errors import StoreError

TABLES: Final = "select name from sqlite_master where type = 'table' and name not like 'sqlite@_%' escape '@'"
STEPS: Final = "select name from pragma_table_info('migrations')"
NAMED: Final = 3  # tables of somebody else's, in a message
TRIES: Final = 3  # of somebody who writes at this moment


class Look(Struct, frozen=True):
    """`applied`: the schema steps of a Windlass store; None where it is none. `whole`: False where there is a log of writes
    that could not be read."""

    tables: tuple[str, ...]
    applied: dict[int, str] | None
    whole: bool = True

    @property
    def says(self) -> str:
        """What a file is that is no store."""
        if not self.tables:
            return "the file is empty"
        more = f" and {len(self.tables) - NAMED:,} more" if len(self.tables) > NAMED else ""
        return f"it is another program's SQLite database (tables: {', '.join(self.tables[:NAMED])}{more})"


def look(path: str, library: Library) -> Look:
    path = os.path.realpath(path)  # beside which the log is, whatever links to it
    check_neighbours(path, library)
    for uri, whole in _ways(path):
        try:
            with closing(connect_to_look(library, uri)) as connection:
                return _look(connection, whole)
        except ERRORS as error:
            failed = error
    raise translate(failed, path, 0) from failed


def stranger(path: str, library: Library) -> Look | None:
    """What is at a path, where that is no store; None where it is one, and where only opening it will tell."""
    path = os.path.realpath(path)
    if not os.path.isfile(path):
        return None
    try:
        found = look(path, library)
    except StoreError:
        return None
    return found if found.applied is None and (found.tables or not _has_log(path)) else None


def _look(connection: Connection, whole: bool) -> Look:
    tables = tuple(name for (name,) in connection.execute(TABLES))
    steps = {name for (name,) in connection.execute(STEPS)}
    ours = "meta" in tables and {"version", "checksum", "applied_at"} <= steps
    return Look(tables, dict(connection.execute("select version, checksum from migrations")) if ours else None, whole)


def _ways(path: str) -> Iterator[tuple[str, bool]]:
    """And whether each sees all that is there. The one that does is the first."""
    uri, log = f"file:{quote(path)}?mode=ro", _has_log(path)
    if log and os.path.exists(f"{path}-shm"):
        yield from [(f"{uri}&readonly_shm=1", True)] * TRIES
    yield f"{uri}&immutable=1", not log


def _has_log(path: str) -> bool:
    with suppress(OSError):
        return os.path.getsize(f"{path}-wal") > 0
    return False
