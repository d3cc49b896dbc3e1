"""The guarantees page says of each promise where it holds and what it does not cover, and rests it on tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "design" / "guarantees.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
PROMISES = [title for title in SECTIONS if title not in ("And also", "Not promised")]


def test_there_are_eleven_of_them() -> None:
    assert len(PROMISES) == 11
    assert PAGE.startswith("# Guarantees\n\nEleven promises.")


@pytest.mark.parametrize("title", PROMISES)
def test_a_promise_says_what_where_and_what_not(title: str) -> None:
    text = SECTIONS[title].lstrip()
    assert text.startswith("**"), "the promise itself comes first"
    places = [text.index(word) for word in ("*Scope.*", "*Not covered.*", "| held by | where |")]
    assert places == sorted(places)
    assert len(re.findall(r"^\| `test_\w+` \|", text, re.M)) >= 5


def test_recovery_is_promised_as_it_is_measured() -> None:
    assert "within its lease and two seconds" in SECTIONS["Recovery"]
