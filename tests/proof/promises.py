"""The guarantees page, as promises and the tests that hold each. A case of the conformance suite is run by the files that
run that suite on the drivers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "design" / "guarantees.md"
CONFORMANCE: Final = ROOT / "src" / "windlass" / "testing" / "conformance"
RUNNERS: Final = (
    ROOT / "tests" / "drivers" / "test_conformance.py", ROOT / "tests" / "drivers" / "test_conformance_http.py",
    ROOT / "tests" / "drivers" / "postgres" / "test_postgres_conformance.py",
)  # fmt: skip
NO_PROMISE: Final = "Not promised"  # the one section that rests on no test
TEST: Final = re.compile(r"`([tT]est\w+)`.*\]\(([^)#]+\.py)\)")


class Named(NamedTuple):
    """A test as the page names it."""

    test: str
    files: tuple[Path, ...]  # that run it


class Sworn(NamedTuple):
    """A section of the page: every one is a promise, also one that names no test."""

    title: str
    tests: list[Named]


def sworn_on(page: Path = PAGE) -> list[Sworn]:
    found: list[Sworn] = []
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            found.append(Sworn(line.removeprefix("## "), []))
        elif found and line.startswith("|") and (match := TEST.search(line)):
            file = (page.parent / match[2]).resolve()
            found[-1].tests.append(Named(match[1], RUNNERS if file.is_relative_to(CONFORMANCE) else (file,)))
    return [one for one in found if one.title != NO_PROMISE]
