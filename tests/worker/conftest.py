"""A worker that claims ahead."""

from __future__ import annotations

import pytest

from windlass.worker.pace import Pace


@pytest.fixture
def prefetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if handlers had been measured to be quick."""
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: min(3, self._most)))
