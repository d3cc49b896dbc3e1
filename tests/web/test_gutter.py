"""What stands beside the lines of a chart says what they are, in as few letters as the gutter holds."""

from __future__ import annotations

import pytest

from windlass.web.pages.charts import tick, time_steps


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (1_400, ["0", "500 ms", "1 s", "1.5 s"]),
        (80_000, ["0", "30 s", "60 s", "90 s"]),
        (200_000, ["0", "2 min", "4 min"]),
        (5_000_000, ["0", "30 min", "60 min", "90 min"]),
        (9_000_000, ["0", "1 h", "2 h", "3 h"]),
        (27_000_000, ["0", "2.5 h", "5 h", "7.5 h"]),
    ],
)
def test_labels_are_exact_and_fit(top: float, labels: list[str]) -> None:
    grid = time_steps(top)
    made = [tick(value, grid[1], "ms").replace("\u00a0", " ") for value in grid]
    assert made == labels
    assert max(map(len, made)) <= len("500 ms")
