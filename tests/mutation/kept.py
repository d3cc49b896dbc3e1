"""What was found out about each mutant, by a key that changes with the code.

Kept twice. `tried.txt` is part of the repository: how each was answered, so that a run on another machine adds to it and
the page never says less than was known. `.mutation/results.jsonl` is this machine's: also which test failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from mutation.loop import HERE, Verdict
from mutation.mutant import Mutant

How = Literal["killed", "hung", "survived"]
RESULTS = HERE / "results.jsonl"
TRIED = Path(__file__).parent / "tried.txt"


@dataclass(frozen=True)
class Result:
    """The last word on a mutant."""

    how: How
    tests: int
    reach: str = ""  # where it is, and by whom it was caught: as far as this machine knows
    by: str | None = None


def known(tried: Path = TRIED, results: Path = RESULTS) -> dict[str, Result]:
    """What came with the repository, and over it what was found here."""
    found = dict(read_tried(tried.read_text().splitlines())) if tried.exists() else {}
    for line in map(json.loads, results.read_text().splitlines() if results.exists() else ()):
        found[line["key"]] = Result(how_of(line), line["tests"], f"{line['file']}:{line['place']}", line["by"])
    return found


def read_tried(lines: Iterable[str]) -> Iterable[tuple[str, Result]]:
    for line in lines:
        key, how, tests = line.split()
        yield key, Result(cast("How", how), int(tests))


def how_of(line: Mapping[str, Any]) -> How:
    if line["by"] is None:
        return "survived"
    return "hung" if line.get("hung") else "killed"


def keep(mutant: Mutant, verdict: Verdict) -> None:
    line = {
        "key": mutant.key, "file": mutant.file, "place": mutant.place, "what": mutant.what, "by": verdict.by,
        "tests": verdict.tests, "seconds": verdict.seconds, "hung": verdict.hung,
    }  # fmt: skip
    with RESULTS.open("a") as out:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_tried(results: Mapping[str, Result], there_are: Iterable[str], tried: Path = TRIED) -> None:
    """Of mutants that there still are, in the order of their keys: two who add to it seldom touch the same line."""
    lines = [f"{key} {results[key].how} {results[key].tests}" for key in sorted(results.keys() & set(there_are))]
    tried.write_text("".join(f"{line}\n" for line in lines))
