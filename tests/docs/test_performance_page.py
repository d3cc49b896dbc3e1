"""The knobs on the page about performance are settings, with the defaults that they have, and none is left out."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from windlass.clock import duration
from windlass.config import Settings
from windlass.core.capacity import USED

PAGE = (Path(__file__).parent.parent.parent / "docs" / "operations" / "performance.md").read_text()
KNOBS = PAGE.split("## Knobs")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", KNOBS, re.M)
[OTHERS] = re.findall(r"^The others do not bear on speed: (.*?)\. All of them", KNOBS, re.M | re.S)


def test_every_setting_is_a_knob_or_is_said_to_be_none() -> None:
    said = [name for name, _ in ROWS] + re.findall(r"`(\w+)`", OTHERS)
    assert sorted(said) == sorted(field.name for field in fields(Settings))


def test_the_defaults_of_the_knobs_are_those_of_the_code() -> None:
    for name, told in ROWS:
        actual = getattr(Settings(), name)
        assert (duration(told) if re.fullmatch(r"\d+[a-z]+", told) else told) in (actual, str(actual)), name


def test_the_share_of_busy_slots_is_that_of_the_answer() -> None:
    assert f"÷ {USED:g} |" in PAGE
