"""The page about bugs of others speaks of tests that there are, and leaves no bug out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "design" / "others-bugs.md"
TESTS = (ROOT / "tests", ROOT / "src" / "windlass" / "testing" / "conformance")
OUTSIDE_PYTHON, IN_PYTHON = 24, 89


def rows() -> list[tuple[list[int], str]]:
    """The numbers of each row, and what is said to protect us."""
    found = re.findall(r"^\| ([\d, ]+) \| .+ \| (.+) \|$", PAGE.read_text(), re.M)
    return [([int(number) for number in numbers.split(",")], protection) for numbers, protection in found]


def test_every_test_that_the_page_names_is_there() -> None:
    files = [path for place in TESTS for path in place.rglob("*.py")]
    defined = {name for path in files for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(), re.M)}
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert named - defined == set()
    assert len(named) > 100


def test_no_bug_is_left_out_and_each_has_a_test_or_a_reason() -> None:
    numbers = [number for row, _ in rows() for number in row]
    assert sorted(numbers[:OUTSIDE_PYTHON]) == list(range(1, OUTSIDE_PYTHON + 1))
    assert sorted(numbers[OUTSIDE_PYTHON:]) == list(range(1, IN_PYTHON + 1))
    for row, protection in rows():
        assert "`test_" in protection or len(protection.split()) >= 8, row
