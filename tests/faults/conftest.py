"""Fleets on each store. On PostgreSQL the quick run takes some points of a worker's life, `make faults` all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from postgres.server import Server

from .fleet import Fleet
from .history import History
from .stores import PostgresStore
from .summary import PROPERTY, Told, row

FleetMaker = Callable[..., Fleet]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def new_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> FleetMaker:
    """`with new_fleet(lease="1s") as fleet`"""
    return maker(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def new_quick_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> FleetMaker:
    """The same, where PostgreSQL is tried in the quick run too."""
    return maker(request.param, request, tmp_path)


def maker(kind: str, request: pytest.FixtureRequest, directory: Path) -> FleetMaker:
    def make(**settings: str) -> Fleet:
        if kind == "sqlite":
            return Fleet(directory, **settings)
        server: Server = request.getfixturevalue("postgres_server")
        return Fleet(directory, PostgresStore(server), **settings)

    return make


@pytest.fixture
def tell_summary(record_property: Callable[[str, object], None]) -> Told:
    """For the table at the end of a run. A fault that did not hit has shown nothing."""

    def tell(name: str, hits: int, history: History, accepted: Collection[str]) -> None:
        assert hits >= 1, f"{name}: the fault did not hit"
        record_property(PROPERTY, row(name, hits, history, accepted))

    return tell
