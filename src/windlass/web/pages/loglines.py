"""The log of a run as lines, each with its time and level where it says them."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

# 2026-03-27T14:27:21.082+00:00 INFO tasks: capturing …
_LINE: Final = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
    r"\s+\[?(?P<level>[A-Za-z]+)\]?\s+(?P<text>.*)$"
)
_TONES: Final = {"warning": "is-blocked", "warn": "is-blocked", "error": "is-dead", "critical": "is-dead"}


class LogLine(Struct, frozen=True):
    at: str
    level: str
    text: str
    tone: str


def log_lines(text: str, most: int) -> list[LogLine]:
    """The last `most` lines."""
    return [_line(line) for line in text.splitlines()[-most:]]


def _line(line: str) -> LogLine:
    found = _LINE.match(line)
    if found is None:
        return LogLine("", "", line[:2000], "")
    level = found["level"].lower()
    return LogLine(found["at"][11:23], level, found["text"][:2000], _TONES.get(level, ""))
