"""Measures the time at the server, and how long it took to ask."""

from __future__ import annotations

from typing import Final

from windlass.clock import ticking
from windlass.drivers.postgres.link import Link
from windlass.drivers.statement import Statement
from windlass.types import Micros

SAMPLES: Final = 5
LONGEST: Final = 0.1  # seconds: heartbeats wait for this connection
CLOCK: Final = Statement("select (extract(epoch from clock_timestamp()) * 1000000)::bigint", ())


def readings(link: Link) -> list[tuple[float, float, Micros]]:
    """(asked, answered, what the server said), fewer over a slow network."""
    found: list[tuple[float, float, Micros]] = []
    for _ in range(SAMPLES):
        asked = ticking()
        [(said,)] = link.execute(CLOCK)
        found.append((asked, ticking(), said))
        if ticking() - found[0][0] > LONGEST:
            break
    return found
