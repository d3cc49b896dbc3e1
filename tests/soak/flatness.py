"""Is a series flat? A straight line through its last two thirds, and how far that rises from one end to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, mean
from typing import Final

# A series may change by this part of its mean over the whole stretch, or by this much in its own unit if that is more.
ROOM: Final[dict[str, tuple[float, float]]] = {
    "jobs a second": (0.15, 2.0),
    "waiting and running": (0.5, 100.0),
    "memory of a worker, MB": (0.1, 5.0),
    "open files of a worker": (0.1, 3.0),
    "threads of a worker": (0.1, 2.0),
}
ROOM_OF_SIZES: Final = (0.2, 3.0)
ROOM_OF_ROWS: Final = (0.2, 500.0)
FEWEST: Final = 5  # samples that a line is drawn through
ONLY_WORSE: Final = {"jobs a second": -1}  # a series that may rise, and must not fall; all others must not rise


@dataclass(frozen=True)
class Line:
    name: str
    mean: float
    change: float  # from the begin of the stretch to its end
    room: float

    @property
    def is_flat(self) -> bool:
        return self.change * ONLY_WORSE.get(self.name, 1) <= self.room

    def told(self) -> str:
        way = "rose" if self.change > 0 else "fell"
        return f"{self.name} {way} by {abs(self.change):,.1f} at a mean of {self.mean:,.1f}, {self.room:,.1f} are allowed"


def room_of(name: str) -> tuple[float, float]:
    return ROOM.get(name, ROOM_OF_SIZES if name.endswith("MB") else ROOM_OF_ROWS)


def settled(count: int) -> int:
    """How many samples at the beginning are left out."""
    return count // 3


def line_of(name: str, seconds: Sequence[float], values: Sequence[float]) -> Line:
    at, those = seconds[settled(len(seconds)) :], values[settled(len(values)) :]
    part, least = room_of(name)
    level = mean(those)
    change = linear_regression(at, those).slope * (at[-1] - at[0]) if len(those) >= FEWEST else float("inf")
    return Line(name, level, change, max(part * abs(level), least))
