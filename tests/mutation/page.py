"""docs/design/mutation.md: what was tried, and what is said of those that no test failed for."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from mutation.every import PARTS, every
from mutation.kept import Result
from mutation.mutant import ROOT, Mutant

PAGE = ROOT / "docs" / "design" / "mutation.md"
EXPLAINED = Path(__file__).parent / "survivors.toml"
TITLES = {
    "core": "Core", "sqlite": "SQLite, and the operations that both stores share", "postgres": "PostgreSQL"
}  # fmt: skip
COLUMNS, RULE = "| mutants | tried | killed | hung | survived |", "|---|---|---|---|---|---|"
HEAD = """# Mutation testing

Made by `make mutation` from what was tried so far (`tests/mutation/tried.txt`, to which every run adds); explanations are
kept in `tests/mutation/survivors.toml`.

Beside the bugs that people planted (`tests/mutants.py`), a generator makes every one that a few operators can make,
in each SQL block of both dialects, in core, and in the statements that operations send along:

- **SQL**: each member of an `and` or `or` and each condition made true (in an `or`: false); each comparison turned
  (`<` to `<=`, `=` to `<>`, `is null` to `is not null`, `in` to `not in`, `exists` to `not exists`); each change
  inside a `with` left out.
- **Python of core**: each comparison turned, each condition negated, each member of an `and` or `or` left out, each
  statement that stands for itself skipped, each set of riders left at home.
- **Python of operations**: each statement that stands for itself skipped, which is how riders travel there.

Each is planted in a forked child that runs the tests which come to that block or function, quick ones first, until
one fails. One whose tests say nothing for a long while has *hung*: nobody saw it, so it is not counted as killed. The
random histories of the model and the simulator are not among them: what survives here may still be caught there. In a
first, coarse run the number of tests may be bounded; how many were tried stands behind each survivor. Not mutated are SQL
that is put together at run time, functions and checks of the schema, and constants at module level.
"""


def explanations() -> list[dict[str, str]]:
    found: list[dict[str, str]] = tomllib.loads(EXPLAINED.read_text())["survivor"]
    return found


def concerns(explanation: Mapping[str, str], mutant: Mutant) -> bool:
    """Each part is a pattern; what is not said is any."""
    return all(fnmatchcase(getattr(mutant, part), explanation.get(part, "*")) for part in ("file", "place", "what"))


def why(mutant: Mutant, known: Sequence[Mapping[str, str]]) -> str | None:
    return next((explanation["why"] for explanation in known if concerns(explanation, mutant)), None)


def write(results: Mapping[str, Result]) -> None:
    lines, reasons = [HEAD], explanations()
    totals, left = [], list[str]()
    for part in PARTS:
        mutants = every(part)
        tried = [mutant for mutant in mutants if mutant.key in results]
        totals.append(f"| {TITLES[part]} | {numbers(mutants, results)} |")
        if not tried:
            continue
        left += [f"\n## {TITLES[part]}\n", f"| file {COLUMNS}", RULE]
        for file in dict.fromkeys(mutant.file for mutant in tried):
            left.append(f"| `{file}` | {numbers([mutant for mutant in mutants if mutant.file == file], results)} |")
        left += survivors([mutant for mutant in tried if results[mutant.key].how == "survived"], results, reasons)
    lines += [f"| part {COLUMNS}", RULE, *totals, *left]
    PAGE.write_text("\n".join(lines) + "\n")


def numbers(mutants: Sequence[Mutant], results: Mapping[str, Result]) -> str:
    tried = [results[mutant.key] for mutant in mutants if mutant.key in results]
    counted = Counter(result.how for result in tried)
    return f"{len(mutants)} | {len(tried)} | {counted['killed']} | {counted['hung']} | {counted['survived']}"


def survivors(mutants: Sequence[Mutant], results: Mapping[str, Result], reasons: Sequence[Mapping[str, str]]) -> list[str]:
    """By what is said of them; first those of which nothing is."""
    by_reason: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_reason.setdefault(why(mutant, reasons) or "", []).append(mutant)
    lines = list[str]()
    for reason, them in sorted(by_reason.items()):
        lines += ["", f"**Survived. {reason or 'Not explained yet'}**", ""]
        for mutant in them:
            tests = results[mutant.key].tests
            lines.append(f"- `{mutant.file.rpartition('/')[2]}: {mutant.place}`: `{mutant.what}` ({tests} tests)")
    return lines
