"""Write docs/reference/requirements.md: every requirement of the source systems, and what keeps it.

python tests/acceptance/requirements_page.py            write the page
python tests/acceptance/requirements_page.py --check    fail when the page is not what would be written

The requirements are in requirements/*.toml, one table each, with the keys

    kind     what sort of requirement it is: core, semantics, schema, api, ops, future
    says     the requirement, in a line
    tests    tests that keep it ("tests/…/file.py::name"), beside those whose docstrings name its id
    schema   tables, columns (table.column), constraints, indexes and triggers that keep it, on every SQL driver
    settled  how it is kept in another way than it asks for, and why
    absent   why it does not apply
    note     a remark, which keeps nothing
    web      true: it comes with the web layer

Tests name ids in their docstrings. `pending.toml` lists the ids that wait for a part which is being built.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "requirements.md"
DATA = Path(__file__).parent / "requirements"
PACKAGE = ROOT / "src" / "windlass"
TESTS = (ROOT / "tests", PACKAGE / "testing" / "conformance")
MIGRATIONS = {kind: PACKAGE / "drivers" / kind / "migrations" / "0001_windlass.sql" for kind in ("sqlite", "postgres")}
SYSTEMS = {
    "taskharbor": ("TaskHarbor", 114), "orchestrator": ("Task Orchestrator", 68), "scheduler": ("Job Scheduler", 179),
    "harmonyk": ("Harmonyk", 45),
}  # fmt: skip
KINDS = {"core", "semantics", "schema", "api", "ops", "future"}
BEHAVIOUR = {"semantics", "api", "ops"}
KEYS = {"kind", "says", "tests", "schema", "settled", "absent", "note", "web"}
ID = re.compile(r"\b(?:TH|TO|JS|HK)-\d{3}\b")
REASON = 8  # words that a reason has at least


@dataclass(frozen=True)
class Requirement:
    id: str
    kind: str
    says: str
    tests: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()
    settled: str = ""
    absent: str = ""
    note: str = ""
    web: bool = False
    pending: str = ""

    @property
    def kept(self) -> bool:
        """By anything but a remark."""
        return bool(self.tests or self.schema or self.settled or self.absent)


# ------------------------------------------------------------------------------------------------------------- reading


def all_tests() -> dict[str, str]:
    """Every test, as file::name, with its docstring."""
    return {
        f"{path.relative_to(ROOT)}::{name}": words
        for directory in TESTS
        for path in sorted(directory.rglob("*.py"))
        for name, words in _tests_of(ast.parse(path.read_text()))
    }


def _tests_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def told_by_docstrings(tests: dict[str, str]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = defaultdict(list)
    for test, words in tests.items():
        for requirement in dict.fromkeys(ID.findall(words)):
            told[requirement].append(test)
    return told


def schema_objects(sql: str) -> set[str]:
    """Names of tables, their columns, constraints, indexes and triggers."""
    sql = re.sub(r"--[^\n]*", "", sql).replace("windlass.", "")
    found = set(re.findall(r"create (?:unique )?index\s+(\w+)", sql)) | set(re.findall(r"create trigger\s+(\w+)", sql))
    for table, body in re.findall(r"create table (\w+) \((.*?)\n\)", sql, re.S):
        names = [line.split()[0] for line in body.split("\n") if re.match(r"  \w", line)]
        found |= {table} | {f"{table}.{name}" for name in names if name not in ("constraint", "primary", "unique")}
        found |= set(re.findall(r"\n\s+constraint (\w+)", body))
    return found


def raw(system: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((DATA / f"{system}.toml").read_text())


def pending() -> dict[str, str]:
    """Id → the part that it waits for."""
    parts = tomllib.loads((DATA / "pending.toml").read_text())
    return {requirement: part for part, ids in parts.items() for requirement in ids}


def requirements(system: str, told: dict[str, list[str]]) -> list[Requirement]:
    waits = pending()
    return [
        Requirement(
            **{
                **fields, "id": name, "tests": tuple(dict.fromkeys([*fields.get("tests", ()), *told.get(name, ())])),
                "schema": tuple(fields.get("schema", ())), "pending": waits.get(name, ""),
            }
        )
        for name, fields in raw(system).items()
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- judging


def problems() -> Iterator[str]:
    """What keeps the table from being complete and true."""
    tests = all_tests()
    told = told_by_docstrings(tests)
    stores = {kind: schema_objects(path.read_text()) for kind, path in MIGRATIONS.items()}
    known: set[str] = set()
    for system, (title, number) in SYSTEMS.items():
        rows = requirements(system, told)
        known |= {row.id for row in rows}
        prefix = rows[0].id[:2]
        if [row.id for row in rows] != [f"{prefix}-{n:03d}" for n in range(1, number + 1)]:
            yield f"{title} has {number} requirements, each with one row, in order"
        for row in rows:
            yield from (f"{row.id}: there is no test {test}" for test in row.tests if test not in tests)
            for kind, objects in stores.items():
                yield from (f"{row.id}: {kind} has no {name}" for name in row.schema if name not in objects)
            yield from (f"{row.id}: {problem}" for problem in _problems_of(row))
    yield from (f"{name}: nobody asks for it, but {told[name][0]} names it" for name in told.keys() - known)
    yield from (f"{name}: it waits for something, and nobody asks for it" for name in pending().keys() - known)


def _problems_of(row: Requirement) -> Iterator[str]:
    if row.kind not in KINDS:
        yield f"{row.kind!r} is not a kind"
    if row.pending and (row.kept or row.web):
        yield "it is kept, so it must leave pending.toml"
    if row.web and any((PACKAGE / name).exists() for name in ("web", "web.py")):
        yield "the web layer is there: name the test that keeps it"
    for reason in (row.settled, row.absent):
        if reason and len(reason.split()) < REASON:
            yield f"a reason says more than {reason!r}"
    if row.kind in BEHAVIOUR:
        if not (row.kept or row.web or row.pending):
            yield "nothing keeps it: a test, a schema object, or a reason is needed"
    elif not (row.kept or row.web or row.pending or row.note):
        yield "it has no row: say what keeps it"


# ------------------------------------------------------------------------------------------------------------- writing


def page() -> str:
    told = told_by_docstrings(all_tests())
    tables = {system: requirements(system, told) for system in SYSTEMS}
    total = sum(len(rows) for rows in tables.values())
    parts = [
        "# Requirements of the source systems\n",
        "This page is generated from `tests/acceptance/requirements/` and the docstrings of the tests: `make docs` writes",
        "it, `make lint` fails when it is out of date, and a test fails when a requirement has no row.\n",
        "Windlass is the union of four systems. Each is a [preset](../../src/windlass/presets.py) and a column of",
        f"[words](../../src/windlass/words.py); its acceptance tests run on them. {total} requirements, each with what",
        "keeps it: a test, an object of the schema (the same name in every SQL driver), or a sentence.\n",
    ]
    for system, rows in tables.items():
        parts.append(f"## {SYSTEMS[system][0]}\n\n| id | requirement | kept by |\n|---|---|---|")
        parts += [f"| {row.id} | {_cell(row.says)} | {_cell(kept_by(row))} |" for row in rows]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def kept_by(row: Requirement) -> str:
    parts = [f"[`{test.rpartition('/')[2]}`](../../{test.partition('::')[0]})" for test in row.tests]
    parts += [f"`{name}`" for name in row.schema]
    told = [f"settled: {row.settled}"] if row.settled else []
    told += [f"does not apply: {row.absent}"] if row.absent else []
    told += [row.note] if row.note else []
    told += ["*with the web layer*"] if row.web else []
    told += [f"*pending: {row.pending}*"] if row.pending else []
    return "; ".join(filter(None, [", ".join(parts), *told]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
