"""The settings that the page of settings lists are those that there are, with the defaults that they have."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from windlass.clock import duration
from windlass.config import Settings, settings_from
from windlass.errors import InvalidInput
from windlass.policies import DEFAULT_RETRY

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "settings.md"
ROW = re.compile(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\| `([^`]+)` \|", re.M)
ROWS = ROW.findall(PAGE.read_text())


def test_the_table_lists_every_setting_once_and_in_order() -> None:
    assert [name for name, _, _ in ROWS] == [field.name for field in fields(Settings)]


def test_the_defaults_in_the_table_are_those_of_the_code() -> None:
    for name, _, told in ROWS:
        actual = getattr(Settings(), name)
        if name == "retry":
            assert (told, actual) == ("Retry()", DEFAULT_RETRY)
        elif re.fullmatch(r"\d+[a-z]+", told):
            assert duration(told) == actual, name
        else:
            assert told == str(actual), name


def test_the_environment_names_in_the_table_are_obeyed() -> None:
    """A name that nobody reads would change nothing; so each is given a value that is refused by that very name."""
    for name, variable, told in ROWS:
        if not variable:
            assert name == "retry"
            continue
        assert settings_from({}, {variable: told}) == Settings()
        with pytest.raises(InvalidInput, match=variable):
            settings_from({}, {variable: "" if name in ("log_root", "key_file") else "?"})  # any other text is a path
