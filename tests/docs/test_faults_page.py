"""The page of faults names, for each of the twenty-two kinds, tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", (ROOT / "docs" / "operations" / "faults.md").read_text(), re.M)
FILES = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src" / "windlass" / "testing").rglob("*.py")]
THERE = {name for file in FILES for name in re.findall(r"def (test_\w+)", file.read_text())}


def test_no_fault_is_left_out() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 23))


@pytest.mark.parametrize(("number", "fault", "made_by"), ROWS, ids=[fault[:30] for _, fault, _ in ROWS])
def test_a_fault_is_made_by_tests_that_exist(number: str, fault: str, made_by: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", made_by))
    assert named
    assert named <= THERE
