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
TEST: Final = re.compile(r"`([tT]est\w+)`.*\]\(([^)#]+\.py)\)")


class Named(NamedTuple):
    """A test as the page names it."""

    promise: str
    test: str
    files: tuple[Path, ...]  # that run it


def named_on(page: Path = PAGE) -> list[Named]:
    found, promise = [], ""
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            promise = line.removeprefix("## ")
        elif line.startswith("|") and (match := TEST.search(line)):
            file = (page.parent / match[2]).resolve()
            found.append(Named(promise, match[1], RUNNERS if file.is_relative_to(CONFORMANCE) else (file,)))
    return found
