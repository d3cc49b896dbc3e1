"""An app on each store, with a clock that stands still; closed when the test is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Unpack

import pytest

from windlass import Windlass
from windlass.clock import ManualClock
from windlass.config import SettingsOptions
from windlass.drivers.values import JobQuery
from windlass.types import Job

START = datetime(2030, 1, 1, tzinfo=UTC)


class Place:
    """Where a test's apps store their jobs."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind = kind
        self.file = path / "jobs.db"
        self.url = "memory://" if kind == "memory" else f"sqlite:///{self.file}"
        self.clock = ManualClock(START)
        self._apps: list[Windlass] = []

    def app(self, **settings: Unpack[SettingsOptions]) -> Windlass:
        app = Windlass(self.url, clock=self.clock, random=Random(7), **settings)
        self._apps.append(app)
        return app

    def close(self) -> None:
        for app in self._apps:
            asyncio.run(app.close())


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(request.param, tmp_path)
    yield place
    place.close()


@pytest.fixture
def file_place(tmp_path: Path) -> Iterator[Place]:
    place = Place("sqlite", tmp_path)
    yield place
    place.close()


async def rows(app: Windlass) -> list[Job]:
    """Everything that is stored, oldest first."""
    page = await app.client.driver.find(JobQuery(superseded=True, limit=500))
    return list(page.jobs[::-1])


async def only(app: Windlass) -> Job:
    [job] = await rows(app)
    return job
