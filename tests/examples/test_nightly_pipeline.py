"""The example of a night's work does what it says, on a clock that stands still."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from nightly_pipeline import main


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_night_is_fired_once_in_order_and_not_while_the_queue_is_held(store: str, tmp_path: Path) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    assert asyncio.run(main(url)) == [
        "next at 2026-03-29 01:00 UTC",  # half past two does not exist in that night: three o'clock comes instead
        "held: 0 jobs begun",
        "fetch 2026-03-29 0",
        "fetch 2026-03-29 1",
        "load 2026-03-29",
        "report 2026-03-29",
    ]
