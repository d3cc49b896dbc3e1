"""A link for those who have no lane: each of its statements has a deadline of its own.

Only what builds may take as long as it takes. Then a server that is gone is noticed by the network (place.py), and one
that waits for a lock gives up by itself.
"""

from __future__ import annotations

import psycopg

from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.faults import Overdue
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement


class Timed(Link):
    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._watch = Watch()

    def open(self) -> psycopg.Connection[Row]:
        if self.connection is not None and not self.connection.closed:
            return super().open()
        with self._watch.within(self, self._place.timeout):
            return super().open()

    def execute(self, statement: Statement, patience: float = 0.0) -> list[Row]:
        """`patience`: seconds beside the usual ones."""
        self.open()
        with self._watch.within(self, self._place.timeout + patience):
            return super().execute(statement)

    def script(self, text: str, patience: float = 0.0) -> None:
        """Any number of statements, without parameters."""
        self.open()
        with self._watch.within(self, self._place.timeout + patience):
            self.build(text)

    def build(self, text: str) -> None:
        """The same, for as long as it takes."""
        try:
            self.open().execute(self._place.text(text).encode(), prepare=False)
        except psycopg.Error as error:
            if self._aborted:
                raise Overdue from error
            raise

    def give_up(self) -> None:
        super().give_up()
        self._watch.close()
