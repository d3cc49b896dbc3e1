"""Who can read a file of the store, change it, or put another in its place: findings for the doctor."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from windlass.records import Finding

COMPANIONS = ("", "-wal", "-shm", "-journal")


def exposure(path: str) -> Iterator[Finding]:
    yield from _files([Path(path + suffix) for suffix in COMPANIONS])
    yield from _directory(Path(path).parent)


def _files(paths: list[Path]) -> Iterator[Finding]:
    modes = {file: _mode(file) for file in paths if file.exists()}
    loose = [file for file, mode in modes.items() if mode & (stat.S_IRWXG | stat.S_IRWXO)]
    if not loose:
        yield Finding("file", "ok", f"{paths[0]} is for its owner alone")
        return
    everybody = any(modes[file] & stat.S_IRWXO for file in loose)
    who = "everybody on this machine" if everybody else "its group"
    yield Finding(
        "file", "problem" if everybody else "warning", f"{loose[0]} (mode {modes[loose[0]]:03o}) is open to {who}: "
        "payloads can be read, and whoever can write decides what workers run",
        f"chmod 600 {' '.join(shlex.quote(str(file)) for file in loose)}",
    )  # fmt: skip


def _directory(directory: Path) -> Iterator[Finding]:
    """A finding if others may write to the directory and so replace what is in it; a sticky one prevents that."""
    mode = _mode(directory)
    if mode & stat.S_ISVTX or not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    everybody = bool(mode & stat.S_IWOTH)
    yield Finding(
        "directory", "problem" if everybody else "warning", f"{directory} (mode {mode:03o}) can be written to by "
        f"{'everybody' if everybody else 'its group'}: the store in it can be replaced",
        f"chmod go-w {shlex.quote(str(directory))}",
    )  # fmt: skip


def _mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)
