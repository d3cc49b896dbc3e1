"""What is slower is said to be, and noise is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compare import Change, check_source, of_tree, order, page, title_of, wanted

from .conftest import BENCH

SAME = (100.0, 101.0, 99.0, 100.0, 102.0)


def change(*now: float, quantity: str = "per_second", before: tuple[float, ...] = SAME) -> Change:
    return Change("drain", quantity, before, now)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (change(*SAME), ""),
        (change(90, 91, 89, 90, 92), "slower"),
        (change(97, 98, 96, 97, 99), ""),  # too little to matter
        (change(90, 91, 89, 90, 103), ""),  # one round disagrees
        (change(120, 121, 119, 120, 118), "faster"),
        (change(120, 121, 119, 120, 118, quantity="cpu_us"), "slower"),  # of processor time less is better
        (change(80, 81, 79, 80, 82, quantity="cpu_us"), "faster"),
        (change(60, 20, 90, 30, 70, before=(80.0, 30.0, 150.0, 40.0, 90.0)), ""),  # it differs more from itself
        (change(50, 50), ""),
    ],
)
def test_a_regression_is_worse_in_every_round_and_by_more_than_noise(one: Change, verdict: str) -> None:
    before = one.before[: len(one.now)]
    assert Change(one.title, one.quantity, before, one.now).verdict(0.05) == verdict


def test_the_table_says_how_many_are_slower() -> None:
    text = page([change(*SAME), change(80, 81, 79, 80, 82)], "v1 (abc)", 5, 0.05)
    assert "| drain | jobs/s | 100 | 80 | 0.80 | 0.80–0.80 | **slower** |" in text
    assert text.endswith("1 of 2 are slower than before.")
    assert page([change(*SAME)], "v1", 5, 0.05).endswith("Nothing is slower than before, beyond noise.")


def test_sides_swap_places_from_round_to_round() -> None:
    sides = [Path("a"), Path("b")]
    assert [order(turn, sides)[0].name for turn in range(4)] == ["a", "b", "a", "b"]


def test_only_what_is_ours_is_compared() -> None:
    plans = wanted("sqlite", 0.2, "")
    assert {plan.ours[0] for plan in plans} == {"bench/fleet.py"}
    assert [title_of(plan) for plan in wanted("sqlite", 0.2, "10 callers")] == ["enqueue one, 10 callers"]


def test_what_is_started_meanwhile_imports_from_that_tree(tmp_path: Path) -> None:
    (tmp_path / "src" / "windlass").mkdir(parents=True)
    (tmp_path / "src" / "windlass" / "__init__.py").touch()
    check_source(tmp_path)
    check_source(BENCH.parent)
    (tmp_path / "src" / "windlass" / "__init__.py").write_text("import nothing_of_that_name")
    with pytest.raises(SystemExit, match="imported from nowhere"):
        check_source(tmp_path)


def test_the_environment_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in ("elsewhere", None):
        monkeypatch.delenv("PYTHONPATH") if before is None else monkeypatch.setenv("PYTHONPATH", before)
        with of_tree(tmp_path):
            assert os.environ["PYTHONPATH"] == str(tmp_path / "src")
        assert os.environ.get("PYTHONPATH") == before
