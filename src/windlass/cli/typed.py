"""Arguments as people type them, and the program that can check them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from windlass.admin import Admin
from windlass.cli.session import Common, me, opened, opened_app
from windlass.errors import InvalidInput


def arguments_of(whole: str | None, pairs: Sequence[str], texts: Container[str] = ()) -> dict[str, Any]:
    """A JSON object, and name=value over it. `texts`: names of those that take text, which stays as it was typed."""
    return {**_object(whole), **dict(_pair(text, texts) for text in pairs)}


def _pair(text: str, texts: Container[str]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput("arguments", f"{text!r} has no name; write name=value, or give --payload '{{...}}'")
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    return name, value if name in texts and not isinstance(read, str | None) else read


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        raw = sys.stdin.read() if text == "-" else Path(text[1:]).read_text("utf-8") if text[:1] == "@" else text
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput("payload", f'must be a JSON object such as \'{{"to": "ada"}}\' ({error})') from None
    except OSError as error:
        raise InvalidInput("payload", f"{text[1:]} cannot be read: {error.strerror}") from None


@asynccontextmanager
async def admin_of(target: str | None, common: Common) -> AsyncIterator[Admin]:
    """With the tasks of a program, where one is named."""
    if target is None:
        async with opened(common, create=True) as admin:
            yield admin
    else:
        async with opened_app(target, common) as loaded:
            yield Admin(loaded.client, loaded.tasks).acting_as(me())
