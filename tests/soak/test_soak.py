"""A soak that could not find a leak would be a waste of half an hour."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from .__main__ import main, parser, told
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
        {"second": second, "ended": 60 * second, "cancelled": 4 * second, "taken over": 3 * second,
         SPEED: 60.0, MEMORY: memory, ROWS: 3_600.0}
        for second, memory in zip(SECONDS, noisy(60), strict=True)
    ]  # fmt: skip
    return Soak("1.0", "2026-01-01", 30, 1, 60.0, [Seen("SQLite", samples, kills=7)])


def test_a_soak_that_was_flat_says_so(tmp_path: Path) -> None:
    assert told(sound(), tmp_path) == 0
    assert "**Flat.**" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["flat"] is True


PLANTED = {  # and what the verdict begins with
    "a leak": "memory of a worker, MB rose by 19.4 at a mean of 79.8, 8.0 are allowed.**",
    "somebody ended": "worker 7 ended with 1.**",
    "nobody was killed": "nobody was killed.**",
    "too slow": "it did 60.0 jobs a second of 100, so that more and more waits.**",
    "too short": "3 samples are too few to tell anything.**",
}


@pytest.mark.parametrize("plant", PLANTED)
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
    assert f"**NOT FLAT: SQLite: {PLANTED[plant]}" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["flat"] is False


def test_the_verdict_says_which_series_was_not_flat_and_by_how_much(tmp_path: Path) -> None:
    soak = sound()
    for n, sample in enumerate(soak.seen[0].samples):
        sample[ROWS], sample[MEMORY] = 3_600.0 + 60 * n, 60.0 + n
    told(soak, tmp_path)
    says = (tmp_path / "report.md").read_text()
    assert (
        "**NOT FLAT: SQLite: memory of a worker, MB rose by 119.0 at a mean of 179.5, 17.9 are allowed; and 1 more.**"
        in says
    )
    assert "- SQLite: rows of jobs rose by 7,140.0 at a mean of 10,770.0, 2,154.0 are allowed\n" in says


def test_what_was_cancelled_and_taken_over_is_told_apart_from_what_ended(tmp_path: Path) -> None:
    told(sound(), tmp_path)
    says = (tmp_path / "report.md").read_text()
    assert (
        "107,400 jobs ended in 1,790 s, after 5,370 were taken over by a new one; 7,160 others were cancelled; 7 w" in says
    )
    assert "| cancelled |" not in says


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--minutes", "0"], "make soak MINUTES=30"), (["--minutes", "nan"], "is no number"),
        (["--minutes", "-1"], "too short"), (["--minutes", "inf"], "is no number"), (["--minutes", "ten"], "is no number"),
        (["--rate", "0"], "--rate 60"), (["--rate=-5"], "is no load"), (["--rate", "nan"], "is no number"),
        (["--workers", "1"], "--workers 3"), (["--workers", "0"], "too few"), (["--workers=-2"], "too few"),
        (["--workers", "2.5"], "too few"),
    ],
)  # fmt: skip
def test_what_cannot_be_soaked_is_refused_with_what_to_type(
    typed: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parser().parse_args(typed)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_a_few_seconds_of_it_work_and_tell(tmp_path: Path) -> None:
    """Whether that is flat, nobody can say: whether everything is measured, and comes to its end, one can."""
    main(["--minutes", "0.15", "--stores", "sqlite", "--workers", "2", "--rate", "20", "--out", str(tmp_path)])
    data = json.loads((tmp_path / "report.json").read_text())
    [seen] = data["seen"]
    assert data["problems"] == []
    assert seen["kills"] >= 1
    assert seen["samples"][-1][MEMORY] > 5
    last = seen["samples"][-1]
    assert last["cancelled"] > 5
    offered = 5 * (last["cancelled"] + 3)  # five in each tick, in which one other is cancelled
    assert 5 < last["ended"] <= offered, "those that were cancelled or taken over are counted as work done"
    assert "| rows of runs |" in (tmp_path / "report.md").read_text()
