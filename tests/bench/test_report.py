"""Figures are told as they are: more or less of them is better, and a target is met by the median only."""

from __future__ import annotations

from pathlib import Path

import pytest
from notes import POSTGRES, SQLITE, Notes
from report import Comparison, Figure, Target, report, this_machine


def figure(*samples: float, command: str = "python x.py") -> Figure:
    return Figure(command, samples, 0)


def compared(
    ours: Figure, base: Figure | None = None, target: Target | None = None, quantity: str = "per_second"
) -> Comparison:
    return Comparison("Section", "title", quantity, ours, base, target)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (compared(figure(9, 6, 6), figure(10, 10, 10), Target(0.5)), "met (3 of 3 rounds)"),
        (compared(figure(9, 4, 4), figure(10, 10, 10), Target(0.5)), "**missed** (1 of 3 rounds)"),
        (compared(figure(2, 2, 9), figure(10, 10, 10), Target(0.25), "p50_ms"), "met (2 of 3 rounds)"),
        (compared(figure(2, 9, 9), figure(10, 10, 10), Target(0.25), "p50_ms"), "**missed** (1 of 3 rounds)"),
        (compared(figure(0.1, 0.2, 0.9), None, Target(0.5, absolute=True), "cpu_percent"), "met (2 of 3 rounds)"),
        (compared(figure(0.1, 0.8, 0.9), None, Target(0.5, absolute=True), "cpu_percent"), "**missed** (1 of 3 rounds)"),
        (compared(figure(0.1), figure(0), Target(0.5), "cpu_percent"), "**not measured**"),
        (compared(figure(1), figure(2)), ""),
    ],
)
def test_a_target_is_judged_by_the_median_in_the_direction_of_its_quantity(one: Comparison, verdict: str) -> None:
    assert one.verdict == verdict


def test_a_ratio_is_taken_within_each_round() -> None:
    assert compared(figure(1, 20), figure(2, 10)).ratios == [0.5, 2.0]


@pytest.mark.parametrize("notes", [SQLITE, POSTGRES], ids=lambda notes: notes.title)
def test_all_rows_have_one_format(notes: Notes, tmp_path: Path) -> None:
    rows = [
        compared(figure(30_000, command="python a.py"), figure(3_000, command="python b.py"), Target(10.0)),
        compared(figure(0.21, command="python c.py"), None, Target(0.5, absolute=True), "cpu_percent"),
        compared(figure(2.5), figure(15.0), Target(0.25), "p50_ms"),
        compared(figure(1_400), figure(700), None, "wal_bytes"),
    ]
    machine = this_machine(tmp_path, "Store 8", "Huey 9")
    text = report(machine, rows, [], repeats=1, command="python run.py", notes=notes)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {9}
    assert "| jobs/s | 30,000 (30,000–30,000) | 3,000 (3,000–3,000) | 10.0 × | 10.0 ×–10.0 × | ≥ 10.0 × | met" in text
    assert "| % of a core | 0.21 (0.21–0.21) |  |  |  | ≤ 0.5 % of a core | met" in text
    assert "| ms | 2.50 (2.50–2.50) | 15.00 (15.00–15.00) | 17% | 17%–17% | ≤ 25% | met" in text
    assert "| bytes a job | 1,400 (1,400–1,400) | 700 (700–700) | 2.0 × | 2.0 ×–2.0 × |  |  |" in text
    assert "Store 8. Huey 9." in text
    assert text.startswith(f"# {notes.title}\n")
    assert notes.settings in text
    assert notes.text in text
    for command in "abc":
        assert f"python {command}.py" in text
