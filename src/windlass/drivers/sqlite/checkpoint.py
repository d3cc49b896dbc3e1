"""Keeping the WAL small on a SQLite that carries the WAL-reset bug.

SQLite 3.7.0 to 3.51.2 (but for 3.50.7 and 3.44.6) can corrupt a database when one connection checkpoints in the very
moment in which another one, having found the WAL fully copied, begins to overwrite it. apsw bundles a repaired version; the
standard library often does not. There, nothing checkpoints by itself, and when the WAL has grown the writer checkpoints
from a second connection while it holds the write lock, so that no commit can reset the WAL meanwhile. That this closes
the race is reasoned from the published description of the bug, not proved.
"""

from __future__ import annotations

import os
from typing import Final

from windlass.drivers.sqlite.library import ERRORS, Connection

WAL_LIMIT: Final = 8 << 20
PAUSE: Final = 100  # transactions between two checkpoints: the file keeps its size when its content starts over


def is_affected(version: str) -> bool:
    parts = tuple(int(part) for part in version.split("."))[:3]
    if parts in ((3, 44, 6), (3, 50, 7)) or (3, 44, 6) < parts < (3, 45, 0) or (3, 50, 7) < parts < (3, 51, 0):
        return False
    return (3, 7, 0) <= parts <= (3, 51, 2)


class GuardedCheckpoint:
    """Called by the writer between transactions."""

    def __init__(self, path: str, writer: Connection, others: list[Connection]) -> None:
        self._wal = path + "-wal"
        self._writer, self._janitor = writer, others[-1]
        self._since = 0
        for connection in (writer, *others):
            connection.execute("pragma wal_autocheckpoint = 0")

    def __call__(self) -> None:
        self._since += 1
        if self._since < PAUSE:
            return
        self._since = 0
        try:
            if os.stat(self._wal).st_size < WAL_LIMIT:
                return
        except OSError:
            return
        try:
            self._writer.execute("begin immediate")
            self._janitor.execute("pragma wal_checkpoint(passive)")
        except ERRORS:  # somebody reads an old page, or writes: the WAL waits for the next time
            pass
        finally:
            if self._writer.in_transaction():
                self._writer.execute("rollback")
