"""What several endpoints are asked in the same way."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from windlass.words import System

Limit = Annotated[int, Meta(ge=1, description="at most so many; the server gives no more than 200")]
Count = Annotated[int, Meta(ge=1)]
Instant = Annotated[datetime, Meta(tz=True)]
Time = Annotated[str | float, Meta(description="seconds, or text such as 30s, 5m, 2h")]
Words = Annotated[System | None, Meta(description="also say states in the words of this system, and take them in `state`")]


def time_of(asked: str | float) -> str | float:
    """In a query everything is text; a bare number is seconds there, too."""
    return float(asked) if isinstance(asked, str) and asked.isascii() and asked.isdecimal() else asked


class Limited(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 50


class Spoken(Struct, frozen=True, forbid_unknown_fields=True):
    words: Words = None


class Switched(Struct, frozen=True):
    """`changed`: it was the other way before."""

    name: str
    paused: bool
    changed: bool


class Gone(Struct, frozen=True):
    """What was removed."""

    name: str
