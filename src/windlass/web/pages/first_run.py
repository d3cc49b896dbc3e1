"""What a page without jobs teaches: a file to save, and commands that reach the very store that the page is of."""

from __future__ import annotations

import os
import shlex
from typing import Final

import msgspec
from msgspec import Struct

from windlass.urls import file_of, redacted, scheme_of, url_of_file


class Lesson(Struct, frozen=True, kw_only=True):
    """`url`: what the program names; None: it reads $WINDLASS_URL, which `export` sets as far as we may tell. `alone`: only
    the program that serves us reaches this store."""

    url: str | None
    export: str | None
    alone: bool

    @property
    def program(self) -> str:
        """The same as the page shows in colours."""
        return PROGRAM.format(self.url or "")


PROGRAM: Final = """\
from windlass import Windlass

app = Windlass({})


@app.task(queue="mail")
async def send_email(to: str) -> None:
    ...
"""


def lesson(url: str) -> Lesson:
    """Never with a password. A file by its whole path: the reader may sit in another directory than the server."""
    if scheme_of(url) == "memory":
        return Lesson(url=None, export=None, alone=True)
    path = file_of(url)
    named = url if path is None else url_of_file(os.path.abspath(path))
    shown = redacted(named)
    if shown != named:
        return Lesson(url=None, export=f"export WINDLASS_URL={shlex.quote(shown)}", alone=False)
    return Lesson(url=msgspec.json.encode(named).decode(), export=None, alone=False)
