"""The statements of a step that runs outside of transactions, one by one.

Only what such a step is for is understood: building and dropping indexes, and validating constraints, each written so that
it may be repeated. Everything else is a mistake of whoever wrote the step, and is refused before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from windlass.drivers.migrations import CONCURRENTLY

_PIECE: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<whole>'[^']*'|"[^"]*"|(?P<tag>\$\w*\$).*?(?P=tag))|(?P<end>;)|(?P<one>.)""",
    re.DOTALL,
)
_CREATE: Final = re.compile(r"create (?:unique )?index concurrently if not exists (\w+) on windlass\.\w+\b")
_REPEATABLE: Final = re.compile(
    r"drop index concurrently if exists windlass\.\w+$|alter table windlass\.\w+ validate constraint \w+$"
)


def statements(text: str) -> Iterator[str]:
    """Split at semicolons that are in no text, name, body or comment. Comments are dropped."""
    gathered = ""
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            yield gathered.strip()
            gathered = ""
        elif not piece["comment"]:
            assert piece["one"] not in ("'", '"', "$", "\\"), f"a quote without its end, or an escape: {gathered[-40:]!r}"
            gathered += piece[0]
    assert not gathered.strip(), f"the text ends inside a statement: {gathered.strip()[-40:]!r}"


def index_built(statement: str) -> str | None:
    """The name of the index that a statement builds."""
    found = _CREATE.match(statement)
    return None if found is None else found[1]


def concurrent_statements(text: str) -> list[str]:
    parts = list(statements(text.removeprefix(CONCURRENTLY)))
    for part in parts:
        assert index_built(part) or _REPEATABLE.match(part), (
            f"cannot be repeated, or needs no step of its own: {part[:80]!r}"
        )
    return parts
