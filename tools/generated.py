"""Pages that are made, not written: `make docs` writes them, `make lint` fails when one is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def write_or_check(page: Path, text: str, arguments: list[str]) -> int:
    """With `--check` nothing is written; answers an exit code."""
    if "--check" not in arguments:
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
        return 0
    if page.exists() and page.read_text() == text:
        return 0
    print(f"{page.relative_to(ROOT)} is out of date: make docs", file=sys.stderr)
    return 1
