"""Room for other processes, under load.

Whoever waits for SQLite's write lock looks again every half millisecond. A drain lets go of it for less than that between
two transactions, so that the single enqueue of a web process would wait for many of them. After a stretch of writing it
takes a breath, then, that others notice: often while somebody else writes to the file too, else seldom, because nobody
can see who waits, and each breath is time in which nothing is written.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from windlass.clock import since_boot
from windlass.drivers.sqlite.library import ERRORS, Connection
from windlass.drivers.sqlite.place import BREATH, Turns
from windlass.types import Micros

AMONG_OTHERS: Final[Micros] = 8_000  # of writing, then a breath
ALONE: Final[Micros] = 60_000
LATELY: Final[Micros] = 100_000


class Breath:
    def __init__(self, connection: Connection, turns: Turns) -> None:
        self._connection = connection
        self._turns = turns
        self._version: object = None  # of the data, which changes when another connection commits
        self._met: Micros = -LATELY

    def due(self) -> bool:
        """Uses the connection: ask while it is yours."""
        stretch = self._turns.stretch()
        return stretch >= ALONE or (stretch >= AMONG_OTHERS and self._is_shared())

    def take(self) -> None:
        time.sleep(BREATH / 1_000_000)

    def _is_shared(self) -> bool:
        now = since_boot()
        with suppress(*ERRORS):  # it is a look: what is wrong with the file is told to those who need it
            version, before = self._connection.execute("pragma data_version"), self._version
            if version != before:
                self._version, self._met = version, self._met if before is None else now
        return now - self._met < LATELY
