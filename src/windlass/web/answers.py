"""What a handler may answer besides a view, which becomes JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Answer(Struct, Generic[T], frozen=True):
    """A view with another status than the route's, or with headers."""

    value: T
    status: int = 200
    headers: Mapping[str, str] = {}


class Page(Struct, frozen=True):
    """A template with what it shows. `url`, `static`, `csrf`, `principal` and `may` are there in every template."""

    template: str
    shown: Mapping[str, Any] = {}
    status: int = 200


class Redirect(Struct, frozen=True):
    """After a form: look at `path`, which is below the base path. `cookies` are set, or with None deleted, on the way."""

    path: str
    cookies: Mapping[str, str | None] = {}


class Text(Struct, frozen=True):
    """Text as it is."""

    content: str
    media_type: str = "text/plain; charset=utf-8"
    filename: str | None = None  # offered as a download of this name
    status: int = 200


class Events(Struct, frozen=True):
    """Server-sent events: the name of each and a value for its data."""

    source: AsyncIterator[tuple[str, Any]]
