"""Who is in the way of a statement that waits for a lock: seen from a second connection, while it waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psycopg

from windlass.drivers.postgres.faults import Overdue, Taken
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.timed import Timed
from windlass.drivers.statement import Row, Statement

LOOK_EVERY: Final = 0.5
SESSION: Final = """a.pid, a.usename, a.application_name, a.state,
  extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.query_start))::bigint, left(a.query, 60)"""
WHO: Final = f"""select {SESSION}
from pg_stat_activity a where pid = any (pg_blocking_pids($1::int)) order by xact_start nulls last limit 3"""  # noqa: S608 - put together from constants


class Onlooker:
    """Looks on while a step runs. One that ends at once is never looked at, and costs nothing."""

    def __init__(self, place: Place, link: Link) -> None:
        self._link = link
        self._blind = place.pooled  # which session ours is, changes with every transaction
        self._eye = Timed(place)
        self._over = threading.Event()
        self.seen: list[Row] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._blind:
            return self
        [(session,)] = self._link.execute(Statement("select pg_backend_pid()", ()))
        self._thread = threading.Thread(target=self._look, args=(session,), name="windlass-onlooker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._eye.abort()
        if self._thread is not None:
            self._thread.join()
        self._eye.give_up()

    def _look(self, session: int) -> None:
        with suppress(psycopg.Error, Overdue, Taken):  # it only ever explains
            while not self._over.wait(LOOK_EVERY):
                self.seen = self._eye.execute(Statement(WHO, (session,))) or self.seen


def told(sessions: Sequence[Row]) -> str:
    """As the end of a sentence; nothing when nobody was seen."""
    if not sessions:
        return ""
    people = ", ".join(_described(row) for row in sessions)
    ends = "; ".join(f"select pg_terminate_backend({row[0]})" for row in sessions)
    return f", because of {people} (end it with: {ends})"


def _described(row: Row) -> str:
    pid, user, program, state, seconds, query = row
    if user is None:
        return f"session {pid}"
    since = "" if seconds is None else f" for {seconds} s"
    return f"session {pid} of {user} ({program or 'unnamed program'}, {state or 'unknown'}{since}: {query!r})"
