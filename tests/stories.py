"""Stories that are told on every store: what happens in a place, and what is seen there then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from windlass.client import Client
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver


class Told(Protocol):
    @property
    def client(self) -> Client: ...


P = TypeVar("P", bound=Told)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of the stores that need no server."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Driver]:
    def driver() -> Driver:
        if request.param == "postgres":
            dsn, schema = request.getfixturevalue("empty_store")
            return PostgresDriver(dsn, schema=schema)
        if request.param == "sqlite":
            return SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed")
        return MemoryDriver()

    return driver


@pytest.fixture(params=["sqlite", "postgres"])
def sql_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteDriver | PostgresDriver]:
    made: SqliteDriver | PostgresDriver
    if request.param == "sqlite":
        made = SqliteDriver(str(tmp_path / "jobs.db"), durability="relaxed")
    else:
        dsn, schema = request.getfixturevalue("empty_store")
        made = PostgresDriver(dsn, schema=schema)
    yield made
    asyncio.run(made.close())


def teller(place: Callable[[], P]) -> Callable[[Callable[[P], Awaitable[None]]], None]:
    def tell(story: Callable[[P], Awaitable[None]]) -> None:
        async def whole() -> None:
            told = place()
            try:
                await story(told)
            finally:
                await told.client.close()

        asyncio.run(whole())

    return tell
