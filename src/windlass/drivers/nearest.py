"""What somebody meant by a URL that names no store."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from windlass.urls import file_of, redacted

_PATH: Final = re.compile(r"(?:sqlite3?:)?([^:@?#%]+\.(?:db|sqlite3?))", re.IGNORECASE)
SCHEMES: Final = ("memory", "sqlite", "postgresql", "postgres", "https")


def nearest(url: str) -> str:
    """` (did you mean 'sqlite:///jobs.db'?)`, without a password; nothing where nobody can tell."""
    if (path := _PATH.fullmatch(url)) is not None and "//" not in url:
        return _asked(f"sqlite:///{path[1]}")
    scheme, colon, rest = url.partition("://")
    near = get_close_matches(scheme.lower().partition("+")[0], SCHEMES, n=1)  # what others add names their library
    if not colon or not near:
        return ""
    if near == ["sqlite"]:
        meant = f"sqlite:///{rest.removeprefix('/')}"
        return _asked(meant) if file_of(meant) is not None else ""
    return _asked(f"{near[0]}://{rest}")


def _asked(url: str) -> str:
    return f" (did you mean {redacted(url)!r}?)"
