"""Where an acceptance test keeps its jobs: a store of each kind, with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Unpack

import psycopg

from windlass import Windlass
from windlass.clock import ManualClock
from windlass.config import SettingsOptions
from windlass.drivers.sqlite.library import connect
from windlass.drivers.values import JobQuery
from windlass.types import Job


class Place:
    """One store, several programs on it, one clock for all of them."""

    def __init__(self, kind: str, url: str, schema: str = "windlass") -> None:
        self.kind = kind
        self.url = url
        self.schema = schema
        self.clock = ManualClock()
        self._apps: list[Windlass] = []

    @classmethod
    def of(cls, kind: str, directory: Path, server: tuple[str, str] | None = None) -> Place:
        if server is not None:
            return cls(kind, *server)
        return cls(kind, "memory://" if kind == "memory" else f"sqlite:///{directory / 'jobs.db'}")

    def app(self, **settings: Unpack[SettingsOptions]) -> Windlass:
        settings.setdefault("schema", self.schema)
        app = Windlass(self.url, clock=self.clock, random=Random(7), **settings)
        self._apps.append(app)
        return app

    def close(self) -> None:
        for app in self._apps:
            asyncio.run(app.close())

    # ------------------------------------------------------------------------------------- hands that are not the engine's

    def sql(self, *statements: str, guarded: bool = True) -> Sequence[Sequence[Any]]:
        """Statements of a person, on a connection of their own; the rows of the last one. Not `guarded`: by somebody who
        has switched off foreign keys and triggers."""
        if self.kind == "postgres":
            return self._sql_on_postgres(statements, guarded)
        connection = connect("apsw", self.url.removeprefix("sqlite:///"), 5_000)
        try:
            connection.execute(f"pragma foreign_keys = {'on' if guarded else 'off'}")
            if not guarded:
                connection.execute("pragma ignore_check_constraints = on")
            return [connection.execute(statement) for statement in statements][-1]
        finally:
            connection.close()

    def _sql_on_postgres(self, statements: Sequence[str], guarded: bool) -> Sequence[Sequence[Any]]:
        with psycopg.connect(self.url, options=f"-c search_path={self.schema}") as connection:
            if not guarded:
                connection.execute("set session_replication_role = replica")
            cursors = [connection.execute(statement.encode()) for statement in statements]
            return cursors[-1].fetchall() if cursors[-1].description else []

    def instant(self, micros: int) -> str:
        """An instant as the store's SQL writes it."""
        return f"at({micros})" if self.kind == "postgres" else str(micros)


async def rows(app: Windlass) -> list[Job]:
    """Everything that is stored, oldest first."""
    page = await app.client.driver.find(JobQuery(superseded=True, limit=500))
    return list(page.jobs[::-1])


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def awaited() -> None:
        await main()

    asyncio.run(awaited())
