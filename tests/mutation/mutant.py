"""One planted bug, as a value."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "windlass"


@dataclass(frozen=True)
class Mutant:
    """`place` is a block of SQL or a function of `file`; `text` is all of it with the bug in it; `what` says what was done.

    `nth` tells those apart that do the same to one place.
    """

    file: str
    place: str
    what: str
    text: str
    nth: int = 0

    @cached_property
    def key(self) -> str:
        """The same as long as the place is: what was found out about it stays true until somebody changes the code."""
        return hashlib.sha256("\0".join((self.file, self.place, self.text)).encode()).hexdigest()[:12]

    @property
    def reach(self) -> str:
        """By what name a test says that it came to this place."""
        return f"{self.file}:{self.place}"

    @property
    def store(self) -> str:
        """Whose tests can see it."""
        return "postgres" if self.file.startswith("drivers/postgres/") else "sqlite"
