"""The generator finds what there is to break, and what it plants is planted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mutation import code, sql
from mutation.every import files_of_core, files_of_sql
from mutation.mutant import PACKAGE, Mutant
from mutation.page import concerns, explanations
from mutation.planting import function_at, plant
from windlass.core import guards
from windlass.drivers.postgres.sql import SQL as POSTGRES
from windlass.drivers.sqlite.sql import SQL as SQLITE
from windlass.drivers.statement import Block


def mutated(text: str) -> set[str]:
    return {text[:start] + new + text[end:] for start, end, new, _ in sql.edits(text)}


def test_each_guard_is_dropped_and_each_comparison_turned() -> None:
    assert mutated("select 1 from t where a = :a and b is null") == {
        "select 1 from t where (a = :a or true) and b is null", "select 1 from t where a = :a and (b is null or true)",
        "select 1 from t where a <> :a and b is null", "select 1 from t where a = :a and b is not null",
    }  # fmt: skip


def test_of_an_or_each_side_is_made_false() -> None:
    made = {"where (a < 1 and false) or c", "where a < 1 or (c and false)", "where a < 1 or (not (c))"}
    assert made < mutated("where a < 1 or c")


def test_an_assignment_compares_nothing_and_what_is_assigned_may() -> None:
    assert mutated("update t set a = 1, b = (c = 2)") == {"update t set a = 1, b = (c <> 2)"}


def test_the_and_of_a_between_joins_no_guards() -> None:
    assert mutated("where a between 1 and 2") == {"where (a between 1 and 2 or true)", "where (not (a between 1 and 2))"}


def test_a_change_inside_of_a_with_is_left_out() -> None:
    text = "with x as (update t set a = 1 where b returning b) select b from x"
    assert "with x as (update t set a = 1 where ((b) and false) returning b) select b from x" in mutated(text)


@pytest.mark.parametrize(("store", "blocks"), [("sqlite", SQLITE), ("postgres", POSTGRES)])
def test_a_mutant_takes_the_same_parameters_in_the_same_order(store: str, blocks: object) -> None:
    for file in files_of_sql(store):
        for mutant in sql.mutants_of(file):
            block: Block = getattr(blocks, mutant.place)
            assert Block(mutant.place, mutant.text, block._mark).names == block.names, mutant.what


def test_python_is_turned_negated_and_skipped() -> None:
    tree = ast.parse("def f(a, b):\n    if a < b and b:\n        g(a)\n    return not b")
    [(name, function)] = code.functions(tree)
    whats = {what.partition(":")[0] for what, _ in code.bugs(function, only_skips=False)}
    assert name == "f"
    assert whats == {"LtE for Lt", "left out", "negated", "skipped"}


def test_every_mutant_of_core_is_another_program() -> None:
    for file in files_of_core()[:12]:
        tree = ast.parse((PACKAGE / file).read_text())
        healthy = {name: ast.unparse(function) for name, function in code.functions(tree)}
        assert all(mutant.text != healthy[mutant.place] for mutant in code.mutants_of(file))


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    function = function_at(guards, mutant.place)
    before = function.__code__
    plant(mutant)
    yield
    function.__code__ = before


def test_what_is_planted_acts_wherever_the_function_was_imported() -> None:
    rounds = guards.rounds
    healthy = list(rounds([(1, "a"), (1, "b")]))
    outcomes = list[object]()
    for mutant in code.mutants_of("core/guards.py"):
        if mutant.place == "rounds":
            with planted(mutant):
                try:
                    outcomes.append(list(rounds([(1, "a"), (1, "b")])))
                except Exception as error:
                    outcomes.append(error)
    assert any(outcome != healthy for outcome in outcomes)
    assert list(rounds([(1, "a"), (1, "b")])) == healthy


def test_every_explanation_is_of_a_mutant_that_there_is() -> None:
    """An explanation that nothing needs any more is one that somebody will believe."""
    mutants = [m for store in ("sqlite", "postgres") for file in files_of_sql(store) for m in sql.mutants_of(file)]
    mutants += [m for file in files_of_core() for m in code.mutants_of(file)]
    unused = [explanation for explanation in explanations() if not any(concerns(explanation, mutant) for mutant in mutants)]
    assert unused == []
