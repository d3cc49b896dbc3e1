"""Which test comes to which block of SQL and to which function: only those can tell that something is wrong with it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mutation.mutant import PACKAGE
from windlass.drivers.postgres.sql import SQL as POSTGRES
from windlass.drivers.sqlite.sql import SQL as SQLITE
from windlass.drivers.statement import Block, Blocks, blocks_of

OF_INTEREST = tuple(f"{PACKAGE}/{part}/" for part in ("core", "drivers/ops", "drivers/sqlite", "drivers/postgres"))


def files_of(blocks: Blocks, store: str) -> dict[int, str]:
    """Under which name each block is known, by its identity."""
    return {
        id(getattr(blocks, name)): f"drivers/{store}/sql/{file}:{name}"
        for file, name, _ in blocks_of(f"windlass.drivers.{store}.sql")
    }


class Reach:
    def __init__(self, *, called: bool = True) -> None:
        self._calls = called
        self._names = files_of(SQLITE, "sqlite") | files_of(POSTGRES, "postgres")
        self._codes: dict[Any, str | None] = {}
        self._found: set[str] = set()

    @contextmanager
    def noted(self) -> Iterator[set[str]]:
        """What is come to while the block lasts, in whatever thread."""
        self._found = found = set[str]()
        plain = Block.__getattribute__

        def looked_at(block: Block, name: str) -> Any:
            if name in ("sql", "names", "_bulk_sql"):
                found.add(self._names.get(id(block), ""))
            return plain(block, name)

        Block.__getattribute__ = looked_at  # type: ignore[method-assign, assignment]
        if self._calls:
            threading.setprofile(self._called)
            sys.setprofile(self._called)
        try:
            yield found
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            Block.__getattribute__ = plain  # type: ignore[method-assign]

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._codes:
            file = code.co_filename
            place = code.co_qualname.split(".<locals>")[0]
            self._codes[code] = f"{file[len(str(PACKAGE)) + 1 :]}:{place}" if file.startswith(OF_INTEREST) else None
        known = self._codes[code]
        if known is not None:
            self._found.add(known)
