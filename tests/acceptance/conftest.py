"""A store of each kind for those who ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .crashing import Crash
from .place import Place, run


def _made(request: pytest.FixtureRequest, directory: Path, *, server: str = "empty_store") -> Iterator[Place]:
    kind = request.param
    place = Place.of(kind, directory, request.getfixturevalue(server) if kind == "postgres" else None)
    yield place
    place.close()


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from _made(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from _made(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store that others can write to as well."""
    yield from _made(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def bare_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """One where nobody has been yet."""
    yield from _made(request, tmp_path, server="fresh_schema")


@pytest.fixture(params=["sqlite"])
def file_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The Job Scheduler's own store."""
    yield from _made(request, tmp_path)


@pytest.fixture
def crash(sql_place: Place, tmp_path: Path) -> Iterator[Crash]:
    made = Crash(sql_place, tmp_path)
    yield made
    run(made.close)
