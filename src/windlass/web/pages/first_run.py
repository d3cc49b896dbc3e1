"""What a page without jobs teaches: a file to save, and commands that reach the very store that the page is of."""

from __future__ import annotations

import os
import shlex
from typing import Final

import msgspec
from msgspec import Struct

from windlass.config import Settings
from windlass.urls import file_of, redacted, scheme_of, url_of_file


class Lesson(Struct, frozen=True, kw_only=True):
    """`program`: the file to save. `export`: what its environment must say before, as far as we may tell. `alone`: only the
    program that serves us reaches this store."""

    program: str = ""
    export: str | None = None
    alone: bool = False


PROGRAM: Final = """\
from windlass import Windlass

app = {}


@app.task(queue="mail")
async def send_email(to: str) -> None:
    ...
"""
FROM_ENVIRONMENT: Final = "Windlass()  # $WINDLASS_URL"


def lesson(url: str, schema: str) -> Lesson:
    """Never with a password. A file by its whole path: the reader may sit in another directory than the server."""
    if scheme_of(url) == "memory":
        return Lesson(alone=True)
    path = file_of(url)
    named = url if path is None else url_of_file(os.path.abspath(path))
    other = None if path is not None or schema == Settings.schema else schema
    shown = redacted(named)
    if shown != named:
        also = "" if other is None else f" WINDLASS_SCHEMA={shlex.quote(other)}"
        return Lesson(program=PROGRAM.format(FROM_ENVIRONMENT), export=f"export WINDLASS_URL={shlex.quote(shown)}{also}")
    said = [_quoted(named), *(() if other is None else (f"schema={_quoted(other)}",))]
    return Lesson(program=PROGRAM.format(f"Windlass({', '.join(said)})"))


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
