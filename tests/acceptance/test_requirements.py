"""The table of requirements is complete and true; and the judge that says so can say otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from . import requirements_page as table

RAW = {system: table.raw(system) for system in table.SYSTEMS}


def test_every_requirement_has_a_row_that_is_true() -> None:
    assert list(table.problems()) == []


def test_there_are_four_hundred_and_six() -> None:
    assert sum(len(rows) for rows in RAW.values()) == 406
    assert all(fields.keys() <= table.KEYS for rows in RAW.values() for fields in rows.values())


def test_the_page_is_what_would_be_written() -> None:
    assert table.PAGE.read_text() == table.page(), "make docs"


def test_the_text_speaks_of_systems_and_not_of_papers() -> None:
    for rows in RAW.values():
        for name, fields in rows.items():
            said = " ".join(str(value) for value in fields.values())
            assert ".txt" not in said, name
            assert " seed" not in said, name


# ------------------------------------------------------------------------------------------------------- the judge itself


@pytest.fixture
def tampered(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Harmonyk's rows, for a test to spoil."""
    rows = {name: dict(fields) for name, fields in RAW["harmonyk"].items()}
    real = table.raw
    monkeypatch.setattr(table, "raw", lambda system: rows if system == "harmonyk" else real(system))
    return rows


def found(name: str) -> str:
    return "\n".join(problem for problem in table.problems() if name in problem)


def test_a_requirement_without_a_row_is_found(tampered: dict[str, dict[str, Any]]) -> None:
    del tampered["HK-004"]
    assert "45 requirements" in found("Harmonyk")


def test_a_row_that_names_nothing_is_found(tampered: dict[str, dict[str, Any]]) -> None:
    del tampered["HK-004"]["schema"]
    assert "no row" in found("HK-004")


def test_a_test_or_an_object_that_is_not_there_is_found(tampered: dict[str, dict[str, Any]]) -> None:
    tampered["HK-004"] |= {"tests": ["tests/acceptance/test_harmonyk.py::test_nobody_wrote"], "schema": ["jobs.colour"]}
    assert "no test tests/acceptance/test_harmonyk.py::test_nobody_wrote" in found("HK-004")
    assert "sqlite has no jobs.colour" in found("HK-004")
    assert "postgres has no jobs.colour" in found("HK-004")


def test_behaviour_needs_more_than_a_remark(tampered: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "told_by_docstrings", lambda tests: {})
    tampered["HK-028"]["note"] = "we sort the keys, and that is that, believe us"
    assert "nothing keeps it" in found("HK-028")
    tampered["HK-028"]["settled"] = "it is so"
    assert "a reason says more" in found("HK-028")


def test_the_web_layer_ends_its_excuse(tampered: dict[str, dict[str, Any]]) -> None:
    tampered["HK-039"]["web"] = True
    assert "name the test" in found("HK-039")


def test_what_is_kept_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "pending", lambda: {"HK-020": "nothing", "HK-999": "nothing"})
    assert "must leave pending.toml" in found("HK-020")
    assert "nobody asks for it" in found("HK-999")


def test_only_a_requirement_that_exists_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "told_by_docstrings", lambda tests: {"TH-900": ["tests/x.py::test_y"]})
    assert "nobody asks for it" in found("TH-900")
