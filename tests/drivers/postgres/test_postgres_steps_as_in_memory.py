"""The short critical programs of two, in every order of their statements: what comes of it is what memory says of some
order of whole calls. The other files of steps ask more of each; this one asks the same of both stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interleaving.programs import CASES, Case
from interleaving.stores import OnPostgres, state
from interleaving.walking import Program, in_memory
from postgres.programs import check
from postgres.stepping import ALL, FEW, Stage, drive
from windlass.drivers.postgres import dialect
from windlass.testing.comparison import shown

MOST = 1_000
DRAWN = 300 if ALL else 2 * FEW
LONG = {"two that succeed", "one that fails", "two claims of one permit", "two claims of two permits"}  # drawn, not walked


@pytest.fixture(autouse=True)
def _one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that stands still does so for ever here: to look again and again would only make the tests longer."""
    monkeypatch.setattr(dialect, "PAUSES", (0.001,))


def may_be(case: Case, programs: Mapping[str, Program]) -> list[Any]:
    ends = in_memory(case.given, programs, state)
    return [({name: shown(answer) for name, answer in end.answers.items()}, end.state) for end in ends]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_order_of_statements_is_an_order_of_calls(stage: Stage, case: Case, record_property: Any) -> None:
    """Or one of them did less than it was asked for, because of what somebody held at that moment, and said so: a claim, an
    extension, a grant. That is there for the next time."""
    allowed = may_be(case, case.programs)
    less = [end for programs in case.weaker() for end in may_be(case, programs)]
    store = OnPostgres()
    facts = drive(case.given(store), stage.own.execute)
    orders = missed = 0
    programs = lambda: {name: program(store, facts) for name, program in case.programs.items()}  # noqa: E731  anew for each
    long = case.name in LONG
    for outcome in stage.some(programs, rounds=DRAWN, seed=9) if long else stage.every(programs, most=MOST):
        orders += 1
        end = {name: shown(outcome[name]) for name in case.programs}, drive(state(store), stage.own.execute)
        missed += end not in allowed
        assert end in allowed or end in less, f"{outcome}\n{end[0]}"
        check(stage, outcome)
    assert missed < orders, "whom nobody disturbs does what it was asked for"
    record_property("orders", orders)
    record_property("missed", missed)
