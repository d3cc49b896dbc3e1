"""Notice that the source of a program has changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAUSE: Final = 0.4
FILES: Final = 5_000
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Sources:
    """Every `.py` file below some directories, but for hidden ones and virtual environments."""

    def __init__(self, *directories: Path) -> None:
        self._directories = tuple(dict.fromkeys(directory.resolve() for directory in directories))
        self._seen = self._look()

    async def changed(self) -> Path:
        """Wait until a file was written, made or removed, and answer one of those."""
        while True:
            await asyncio.sleep(PAUSE)
            found = await asyncio.to_thread(self._look)
            different = dict(set(found.items()) ^ set(self._seen.items()))
            if different:
                return min(different)

    def _look(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for directory in self._directories:
            for path in _python_files(directory):
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:
                    continue
                if len(found) >= FILES:
                    return found
        return found


def _python_files(directory: Path) -> Iterator[Path]:
    for where, inner, files in os.walk(directory):
        inner[:] = [name for name in inner if not _is_foreign(Path(where, name))]
        yield from (Path(where, name) for name in files if name.endswith(".py"))


def _is_foreign(directory: Path) -> bool:
    return directory.name.startswith(".") or directory.name in _SKIPPED or (directory / "pyvenv.cfg").exists()
