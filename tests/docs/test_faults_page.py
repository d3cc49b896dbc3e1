"""The page of faults names, for each of the twenty-two kinds, tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "operations" / "faults.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", PAGE, re.M)
FILES = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src" / "windlass" / "testing").rglob("*.py")]
THERE = {name for file in FILES for name in re.findall(r"def (test_\w+)", file.read_text())}
WHOLE_FILE_IS_SLOW = re.compile(r"^pytestmark = .*mark\.full", re.M)


def test_no_fault_is_left_out() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 23))


@pytest.mark.parametrize(("number", "fault", "made_by"), ROWS, ids=[fault[:30] for _, fault, _ in ROWS])
def test_a_fault_is_made_by_tests_that_exist(number: str, fault: str, made_by: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", made_by))
    assert named
    assert named <= THERE


def test_the_page_says_which_command_runs_the_slow_ones() -> None:
    """`make faults` runs those of tests/faults; of a file elsewhere that is slow as a whole, they are named."""
    says = PAGE[PAGE.index("## Which test breaks what") : PAGE.index("| no. | fault |")]
    named = {name for _, _, made_by in ROWS for name in re.findall(r"`(test_\w+)`", made_by)}
    slow_files = [file for file in FILES if WHOLE_FILE_IS_SLOW.search(file.read_text()) and "faults" not in file.parts]
    slow = named & {name for file in slow_files for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert "`make faults` runs all of" in says
    assert set(re.findall(r"`(test_\w+)`", says)) == slow
    assert ("`make test-all`" in says) is bool(slow)
