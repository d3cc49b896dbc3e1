"""Two connections to one file, statement by statement, through every order: what comes of it is what memory says of some
order of whole calls. And whoever dies in the middle has done nothing of what it was about to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interleaving.programs import CASES, Case
from interleaving.stores import state
from interleaving.walking import Ended, SqliteStage, calls_before_a_death, in_memory, made_empty
from windlass.testing.comparison import shown

CASE = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_empty(tmp_path_factory.mktemp("steps") / "empty.db")


@pytest.fixture
def stage(tmp_path: Path) -> SqliteStage:
    return SqliteStage(tmp_path)


def told(end: Ended) -> tuple[Any, Any]:
    return {name: shown(answer) for name, answer in end.answers.items()}, end.state


@CASE
def test_every_order_of_statements_is_an_order_of_calls(
    stage: SqliteStage, empty: Path, tmp_path: Path, case: Case, record_property: Any
) -> None:
    allowed = [told(end) for end in in_memory(case.given, case.programs, state)]
    template = tmp_path / "template.db"
    facts = stage.prepared(case.given, empty, template)
    orders, met = 0, list[Any]()
    for end in stage.every(template, facts, case.programs, state):
        orders += 1
        assert told(end) in allowed, f"{end}\n{end.answers}"
        met.append(told(end))
    assert all(one in met for one in allowed), "each of them comes first in some order"
    record_property("orders", orders)


@CASE
def test_whoever_dies_has_done_its_calls_whole_or_not_at_all(
    stage: SqliteStage, empty: Path, tmp_path: Path, case: Case, record_property: Any
) -> None:
    template = tmp_path / "template.db"
    facts = stage.prepared(case.given, empty, template)
    allowed = [told(end) for end in calls_before_a_death(case.given, case.programs, state)]
    deaths = 0
    for end in stage.deaths(template, facts, case.programs, state):
        deaths += 1
        assert told(end) in allowed, f"{end}\n{end.answers}"
    assert deaths > 2, "it dies before it begins, in the middle, and before it commits"
    record_property("deaths", deaths)
