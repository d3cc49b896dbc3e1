"""The page of threats cites tests that are there, and no threat goes without one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "design" / "threat-model.md").read_text()
THREATS = [
    line for line in PAGE.partition("## Threats")[2].partition("## What is left")[0].splitlines() if line.startswith("| ")
]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_test_that_the_page_cites_is_there() -> None:
    cited = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(cited) > 50
    assert [f"{path}::{name}" for path, name in cited if name not in names_in(path)] == []


def test_every_threat_has_a_test() -> None:
    rows = [line for line in THREATS if not line.startswith("| threat |")]
    assert len(rows) > 30
    assert [row for row in rows if "`tests/" not in row.rsplit("|", 2)[1]] == []
