"""A soak that could not find a leak would be a waste of half an hour."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from .__main__ import main, told
from .flatness import line_of
from .report import Seen, Soak

SECONDS = [10.0 * n for n in range(180)]  # half an hour
MEMORY, SPEED, FILE, ROWS = "memory of a worker, MB", "jobs a second", "file, MB", "rows of jobs"


def noisy(level: float, *, by: float = 0.05, growth: float = 0.0) -> list[float]:
    """`growth`: how much more of it there is in the end, as a part of the level."""
    dice = random.Random(3)
    return [level * (1 + dice.uniform(-by, by) + growth * n / len(SECONDS)) for n in range(len(SECONDS))]


@pytest.mark.parametrize("name", [MEMORY, SPEED, FILE, ROWS])
def test_noise_is_flat(name: str) -> None:
    assert line_of(name, SECONDS, noisy(5_000)).is_flat


@pytest.mark.parametrize(("name", "level"), [(MEMORY, 60), (FILE, 40), (ROWS, 5_000)])
def test_what_grows_steadily_is_not_flat(name: str, level: float) -> None:
    assert not line_of(name, SECONDS, noisy(level, growth=0.5)).is_flat


def test_speed_may_rise_and_must_not_fall() -> None:
    assert line_of(SPEED, SECONDS, noisy(60, growth=0.5)).is_flat
    assert not line_of(SPEED, SECONDS, noisy(60, growth=-0.4)).is_flat


def test_what_grows_only_until_the_first_old_rows_go_is_flat() -> None:
    """The first third is for that."""
    assert line_of(ROWS, SECONDS, [min(n, 50) * 200.0 for n in range(180)]).is_flat
    assert not line_of(ROWS, SECONDS, [min(n, 150) * 200.0 for n in range(180)]).is_flat


def test_what_comes_and_goes_is_flat() -> None:
    assert line_of(FILE, SECONDS, [30.0 + n % 6 for n in range(180)]).is_flat


def sound() -> Soak:
    samples = [
        {"second": second, "ended": 60 * second, SPEED: 60.0, MEMORY: memory, ROWS: 3_600.0}
        for second, memory in zip(SECONDS, noisy(60), strict=True)
    ]  # fmt: skip
    return Soak("1.0", "2026-01-01", 30, 1, 60.0, [Seen("SQLite", samples, kills=7)])


def test_a_soak_that_was_flat_says_so(tmp_path: Path) -> None:
    assert told(sound(), tmp_path) == 0
    assert "**Flat.**" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["flat"] is True


@pytest.mark.parametrize("plant", ["a leak", "somebody ended", "nobody was killed", "too slow", "too short"])
def test_a_soak_that_was_not_flat_fails(tmp_path: Path, plant: str) -> None:
    soak = sound()
    [seen] = soak.seen
    if plant == "a leak":
        for sample, memory in zip(seen.samples, noisy(60, growth=0.5), strict=True):
            sample[MEMORY] = memory
    elif plant == "somebody ended":
        soak.problems.append("SQLite: worker 7 ended with 1")
    elif plant == "nobody was killed":
        seen.kills = 0
    elif plant == "too slow":
        soak.rate = 100.0
    else:
        del seen.samples[4:]
    assert told(soak, tmp_path) == 1
    assert "NOT FLAT: 1 failures" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["flat"] is False


def test_a_few_seconds_of_it_work_and_tell(tmp_path: Path) -> None:
    """Whether that is flat, nobody can say: whether everything is measured, and comes to its end, one can."""
    main(["--minutes", "0.15", "--stores", "sqlite", "--workers", "2", "--rate", "20", "--out", str(tmp_path)])
    data = json.loads((tmp_path / "report.json").read_text())
    [seen] = data["seen"]
    assert data["problems"] == []
    assert seen["kills"] >= 1
    assert seen["samples"][-1][MEMORY] > 5
    assert "| rows of runs |" in (tmp_path / "report.md").read_text()
