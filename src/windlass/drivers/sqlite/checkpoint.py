"""Keeping the WAL small, by the writer's thread between transactions: a commit that an event loop waits for must not
begin to copy a thousand pages, which is what SQLite does by itself.

SQLite 3.7.0 to 3.51.2 (but for 3.50.7 and 3.44.6) can corrupt a database when one connection checkpoints in the very
moment in which another one, having found the WAL fully copied, begins to overwrite it. apsw bundles a repaired version; the
standard library often does not. There, nothing checkpoints by itself, and when the WAL has grown the writer checkpoints
from a second connection while it holds the write lock, so that no commit can reset the WAL meanwhile. That this closes
the race is reasoned from the published description of the bug, not proved.
"""

from __future__ import annotations

import os
from typing import Final

from windlass.drivers.sqlite.library import ERRORS, ApswConnection, Connection

WAL_LIMIT: Final = 8 << 20
PAGES: Final = 1_000  # SQLite's own measure
PAUSE: Final = 100  # transactions between two checkpoints: the file keeps its size when its content starts over


def is_affected(version: str) -> bool:
    parts = tuple(int(part) for part in version.split("."))[:3]
    if parts in ((3, 44, 6), (3, 50, 7)) or (3, 44, 6) < parts < (3, 45, 0) or (3, 50, 7) < parts < (3, 51, 0):
        return False
    return (3, 7, 0) <= parts <= (3, 51, 2)


class Checkpoint:
    """Checkpoints for a sound SQLite: it reports the length of the WAL, and the writer itself copies it."""

    def __init__(self, writer: ApswConnection) -> None:
        self._writer = writer
        self._pages = 0
        writer.on_commit(self._committed)

    def _committed(self, pages: int) -> None:
        self._pages = pages

    def due(self) -> bool:
        return self._pages >= PAGES

    def __call__(self) -> None:
        self._pages = 0
        self._writer.execute("pragma wal_checkpoint(passive)")


class GuardedCheckpoint:
    """Checkpoints for a SQLite with the bug that the module describes."""

    def __init__(self, path: str, writer: Connection, others: list[Connection]) -> None:
        self._wal = path + "-wal"
        self._writer, self._janitor = writer, others[-1]
        self._since = 0
        for connection in (writer, *others):
            connection.execute("pragma wal_autocheckpoint = 0")

    def due(self) -> bool:
        self._since += 1
        if self._since < PAUSE:
            return False
        try:
            if os.stat(self._wal).st_size >= WAL_LIMIT:
                return True
        except OSError:
            pass
        self._since = 0
        return False

    def __call__(self) -> None:
        self._since = 0
        try:
            self._writer.execute("begin immediate")
            self._janitor.execute("pragma wal_checkpoint(passive)")
        except ERRORS:  # somebody reads an old page, or writes: the WAL waits for the next time
            pass
        finally:
            if self._writer.in_transaction():
                self._writer.execute("rollback")
