"""Empty stores for copies, in files and in schemas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.server import Server
from postgres.shelf import Shelf

from .ends import Places


@pytest.fixture
def places(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Places]:
    def server() -> tuple[Server, Shelf]:
        return request.getfixturevalue("postgres_server"), request.getfixturevalue("shelf")

    places = Places(tmp_path, server)
    yield places
    places.close()
