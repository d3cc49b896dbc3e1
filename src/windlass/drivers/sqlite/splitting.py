"""SQL as SQLite itself tells its statements apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator


def statements(text: str) -> Iterator[str]:
    """The statements of a script, one by one; the body of a trigger belongs to its statement."""
    gathered = ""
    for line in text.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
    assert not gathered.strip() or all(not line.strip() or line.startswith("--") for line in gathered.splitlines()), (
        "the text ends inside a statement"
    )
