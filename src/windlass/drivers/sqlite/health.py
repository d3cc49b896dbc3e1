"""The health of a file: findings for the doctor."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from windlass.drivers.sqlite.neighbours import alias_of
from windlass.records import Finding

LARGE_WAL: Final = 256 << 20
LITTLE_SPACE: Final = 200 << 20


def examine(path: str, *, shrinks: bool = True) -> Iterator[Finding]:
    alias = alias_of(path)
    if alias is not None:
        yield Finding("Django", "ok", f"its database {alias!r} is this file, and both are opened through sqlite3", None)
    wal = Path(path + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        yield Finding(
            "write-ahead log", "warning", f"{wal.name} is {size >> 20} MiB: somebody keeps a read transaction open",
            f"lsof {path}",
        )  # fmt: skip
    if not shrinks:
        yield Finding(
            "file", "warning", "was made by an earlier version: room that old jobs leave is used again, but not given "
            "back. While nobody uses the file, have it written anew",
            f"sqlite3 {shlex.quote(path)} 'pragma auto_vacuum = incremental; vacuum'",
        )  # fmt: skip
    free = shutil.disk_usage(Path(path).parent).free
    little = free < LITTLE_SPACE
    yield Finding(
        "disk", "warning" if little else "ok", f"{free >> 20:,} MiB free beside the store",
        f"df -h {Path(path).parent}" if little else None,
    )  # fmt: skip
