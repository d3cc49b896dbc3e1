"""`windlass keys …`: the key ring that payloads are encrypted with."""

from __future__ import annotations

import os
from pathlib import Path

from cyclopts import App

from windlass.cli.session import Common, Flag, epilogue
from windlass.clock import moment, wall
from windlass.errors import InvalidInput
from windlass.sealing import keys_in, new_line

app = App(name="keys", help="The key ring that payloads and results are encrypted with.")


@app.command(help_epilogue=epilogue("windlass keys add keys.txt", "windlass keys add keys.txt --name 2026-12"))
def add(path: str, /, *, name: str | None = None, next: Flag = False, common: Common = Common()) -> None:  # noqa: A002
    """Add a new key to a key ring: it encrypts from the next start on, and those before it still open what they closed.

    The file is made if it is not there, for its owner's eyes only. No key is printed.

    Args:
        path: the file that the setting key_file names
        name: what the key is called; else the day
        next: it only opens, until the word "next" behind it is taken away: while programs are given it one by one
    """
    called = name or moment(wall()).strftime("%Y-%m-%d")
    there = Path(path).exists()
    keys, waiting = keys_in(path) if there else ({}, set())
    if called in keys:
        raise InvalidInput("name", f"{path} has a key {called!r}; give another: --name")
    if next and not keys.keys() - waiting:
        raise InvalidInput("next", "another key has to encrypt meanwhile, and there is none; add one without --next first")
    line = new_line(called, waiting=next)
    text = Path(path).read_text() if there else ""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidInput("path", f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(opened, "w") as file:
        file.write(("" if not text or text.endswith("\n") else "\n") + line)
        file.flush()
        os.fsync(file.fileno())
    if common.json:
        common.out.emit(path=path, name=called)
    else:
        common.out.note(f"{path} has a new key {called!r}; give it to every program: WINDLASS_KEY_FILE={path}")
