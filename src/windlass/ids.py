"""Names for new things: time-ordered UUIDs (version 7) for jobs, random tokens for leases.

Both come from one source of randomness that a simulation can seed. Ids made by one process sort in the order in which
they were made, also within a millisecond.
"""

from __future__ import annotations

from random import Random, SystemRandom

from windlass.types import Micros


class Ids:
    def __init__(self, random: Random | None = None) -> None:
        self.random: Random = SystemRandom() if random is None else random
        self._bits = self.random.getrandbits
        self._last = 0

    def job(self, now: Micros) -> str:
        """The milliseconds, then the microseconds or one more than the last: increasing, whatever the clock does."""
        stamp = max(now, self._last + 1)
        self._last = stamp
        millis, micros = divmod(stamp, 1_000)
        low = self._bits(62)
        text = f"{millis & 0xFFFFFFFFFFFF:012x}{0x7000 | micros:04x}{0x8000000000000000 | low:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def token(self) -> str:
        return f"{self._bits(128):032x}"
