"""The generator finds what there is to break, and what it plants is planted."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mutation import code, loop, sql
from mutation.__main__ import main
from mutation.every import PARTS, every, files_of_core, files_of_sql
from mutation.kept import known, write_tried
from mutation.mutant import PACKAGE, Mutant
from mutation.page import PAGE, TITLES, concerns, explanations
from mutation.planting import function_at, plant
from mutation.reach import Reach
from mutation.server import READY, OneServer
from postgres import fixtures
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


def test_who_is_one_of_many_becomes_who_is_none_of_them() -> None:
    assert "where a <> all(:a)" in mutated("where a = any(:a)")
    assert "where a <> any(:a)" not in mutated("where a = any(:a)")
    assert "where a = any(:a)" in mutated("where a <> all(:a)")


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


def test_a_docstring_is_no_part_of_a_mutant() -> None:
    def left(words: str) -> str:
        lines = [
            "class C:",
            f"    {words}",
            "    def f(self, a):",
            f"        {words}",
            "        def g():",
            f"            {words}",
        ]
        [(_, function)] = code.functions(code.without_docstrings(ast.parse("\n".join([*lines, "        return a < 1"]))))
        return ast.unparse(function)

    assert left('"""One."""') == left('"""Two, at length."""')
    assert "One" not in left('"""One."""')


def test_python_is_turned_negated_and_skipped() -> None:
    tree = ast.parse("def f(a, b):\n    if a < b and b:\n        g(a)\n    return not b")
    [(name, function)] = code.functions(tree)
    whats = {what.partition(":")[0] for what, _ in code.bugs(function, only_skips=False)}
    assert name == "f"
    assert whats == {"LtE for Lt", "left out", "negated", "skipped"}


@cache
def of_core() -> list[Mutant]:
    return [mutant for file in files_of_core() for mutant in code.mutants_of(file)]


def test_every_mutant_of_core_is_another_program() -> None:
    healthy = {
        (file, name): ast.unparse(function)
        for file in files_of_core()
        for name, function in code.functions(ast.parse((PACKAGE / file).read_text()))
    }
    assert [mutant for mutant in of_core() if mutant.text == healthy[mutant.file, mutant.place]] == []


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    function = function_at(guards, mutant.place)
    before = function.__code__
    try:
        plant(mutant)
        yield
    finally:
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
    mutants = [mutant for part in PARTS for mutant in every(part)]
    unused = [explanation for explanation in explanations() if not any(concerns(explanation, mutant) for mutant in mutants)]
    assert unused == []


# ------------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("shard", ["", "1", "0/4", "5/4", "1/0", "a/b", "-1/4", "1/4/2", "1.5/4"])
def test_a_shard_that_is_none_is_refused(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", f"--shard={shard}"]) == 2
    assert f"--shard={shard}?" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["--seconds=soon", "--tests=0", "--tests=-1", "--sekonds=3", "kore"])
def test_a_word_that_nobody_understands_is_refused(word: str) -> None:
    assert main(["core", word]) == 2


def test_what_a_machine_finds_is_added_to_what_came_with_the_repository(tmp_path: Path) -> None:
    tried, results = tmp_path / "tried.txt", tmp_path / "results.jsonl"
    tried.write_text("aaa killed 3\nbbb survived 9\nggg killed 1\n")
    here = {"file": "f", "place": "p", "what": "w", "seconds": 1, "tests": 4}
    lines = [{**here, "key": "bbb", "by": "test"}, {**here, "key": "ccc", "by": "test", "hung": True}]
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_tried(known(tried, results), ["aaa", "bbb", "ccc", "ddd"], tried)
    assert tried.read_text() == "aaa killed 3\nbbb killed 4\nccc hung 4\n"
    assert known(tried, tmp_path / "nothing")["bbb"].how == "killed"


def test_what_two_runs_learn_of_tests_is_kept_of_both(tmp_path: Path) -> None:
    path = tmp_path / "reach.json"
    loop.kept_in(path, {"one": 1})
    assert loop.kept_in(path, {"two": 2}) == json.loads(path.read_text()) == {"one": 1, "two": 2}


def test_without_a_look_at_calls_blocks_are_noted_all_the_same() -> None:
    with Reach(called=False).noted() as places:
        POSTGRES.reached(seqs=[])
    assert places == {"drivers/postgres/sql/leases.sql:reached"}


def test_the_page_tells_of_as_many_as_are_kept() -> None:
    """Both are written at once, and nobody writes one of them alone."""
    rows = [line for line in PAGE.read_text().splitlines() for title in TITLES.values() if line.startswith(f"| {title} |")]
    told = [tuple(map(int, row.split("|")[4:7])) for row in rows]
    counted = Counter(result.how for result in known(results=Path("nothing")).values())
    assert tuple(map(sum, zip(*told, strict=True))) == (counted["killed"], counted["hung"], counted["survived"])


@pytest.mark.parametrize(("said", "by", "hung"), [
    (b"begun a\nbegun b\nfailed b\n", "b", False), (b"begun a\npassed all\n", None, False), (b"begun a\n", "a", True),
])  # fmt: skip
def test_a_child_that_says_nothing_any_more_has_hung_and_is_not_killed(
    said: bytes, by: str | None, hung: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 0.05)
    reader, writer = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
    try:
        os.write(writer, said)
        told = loop.Loop._listen(reader, child.pid)
    finally:
        os.close(reader)
        os.close(writer)
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()
    assert (told[0], told[2]) == (by, hung)


def test_where_one_test_hangs_another_may_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is not kept waiting by the one that hung, neither for this mutant nor for others of the place."""
    one, two = Mutant("x.sql", "p", "w", "1"), Mutant("x.sql", "p", "w", "2")
    verdicts = list[loop.Verdict]()
    reached: Any = {name: {"seconds": cost, "places": ["x.sql:p"]} for cost, name in enumerate(("hangs", "fails"))}
    course = loop.Course([one, two], lambda _, verdict: verdicts.append(verdict), float("inf"), Path("nowhere"))
    looped = loop.Loop(course)
    first = list[str]()

    def judged(_: Mutant, items: list[Any]) -> loop.Verdict:
        first.append(items[0].nodeid)
        return loop.Verdict(items[0].nodeid, 1, 0.0, hung=items[0].nodeid == "hangs")

    monkeypatch.setattr(looped, "_reached", lambda _: (reached, False))
    monkeypatch.setattr(looped, "_judged", judged)
    items: Any = [SimpleNamespace(nodeid=name) for name in reached]
    looped.pytest_runtestloop(cast("Any", SimpleNamespace(items=items)))
    assert [(verdict.by, verdict.hung) for verdict in verdicts] == [("fails", False), ("fails", False)]
    assert first == ["hangs", "fails", "fails"]


def test_a_store_that_a_child_has_dropped_is_given_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Server", "Shelf"):  # whoever starts the one server changes them
        monkeypatch.setattr(fixtures, name, getattr(fixtures, name))
    one = OneServer()
    one.start()
    try:
        assert one.shelf is not None
        assert one.connection is not None
        gone = one.shelf._ready[0]
        one.connection.execute(f"drop schema {gone} cascade".encode())
        one.tidy()
        assert gone not in one.shelf._ready
        assert len(one.shelf._ready) == READY
    finally:
        one.stop()
