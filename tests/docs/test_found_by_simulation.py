"""The page of what simulation found names every seed that is kept."""

from __future__ import annotations

import re
from pathlib import Path

from testing.test_seeds import ONCE_FAILED

PAGE = Path(__file__).parent.parent.parent / "docs" / "design" / "found-by-simulation.md"


def test_every_seed_that_once_failed_is_told_with_what_it_found() -> None:
    rows = re.findall(r"^\| (?:seed )?(\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    told = {int(seed): what for seed, what in rows}
    assert set(told) == set(ONCE_FAILED)
    for seed, what in ONCE_FAILED.items():
        assert set(re.findall(r"\w+", what.lower())) <= set(re.findall(r"\w+", told[seed].lower())), seed
