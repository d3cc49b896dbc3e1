"""SQLite agrees with memory over random histories.

WINDLASS_MODEL_EXAMPLES sets how many; the first failure is told as it was found. WINDLASS_MODEL_SHRINK=1 makes it small,
which takes longer than a test may (so it needs --timeout=0).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings

from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.testing.model import differential

_directory = tempfile.TemporaryDirectory(prefix="windlass-model-")
_numbers = itertools.count()

shrink = os.environ.get("WINDLASS_MODEL_SHRINK", "0") == "1"
thorough = settings(
    phases=[phase for phase in Phase if phase is not Phase.explain and (shrink or phase is not Phase.shrink)],
    max_examples=int(os.environ.get("WINDLASS_MODEL_EXAMPLES", "60")),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def fresh_sqlite() -> Driver:
    return SqliteDriver(Path(_directory.name) / f"{next(_numbers)}.db", inline=True, durability="relaxed")


TestSqliteAgainstMemory = differential(fresh_sqlite).TestCase
TestSqliteAgainstMemory.settings = thorough

# Memory against itself: the answers agree trivially, the machine's own invariants do not.
TestMemoryKeepsTheInvariants = differential(MemoryDriver).TestCase
TestMemoryKeepsTheInvariants.settings = thorough
