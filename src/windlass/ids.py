"""Names for new things: time-ordered UUIDs (version 7) for jobs, random tokens for leases.

Both come from one source of randomness that a simulation can seed. Ids made by one process sort in the order in which
they were made, also within a millisecond.
"""

from __future__ import annotations

import os
from random import Random, SystemRandom
from struct import Struct
from typing import Final

from windlass.types import Micros

_AT_ONCE: Final = Struct("256Q")  # each fetch is a system call, which took longer than all the rest of making an id
_fetched: Final[list[int]] = []
os.register_at_fork(after_in_child=_fetched.clear)  # a child would give its jobs the ids of its parent's


class SystemBits(SystemRandom):
    """The system's randomness; 64 bits at a time are fetched ahead."""

    def getrandbits(self, k: int) -> int:
        if k > 64:
            return super().getrandbits(k)
        try:
            return _fetched.pop() >> 64 - k
        except IndexError:
            _fetched.extend(_AT_ONCE.unpack(os.urandom(_AT_ONCE.size)))
            return self.getrandbits(k)

    def random(self) -> float:
        return self.getrandbits(53) * 2**-53


class Ids:
    def __init__(self, random: Random | None = None) -> None:
        self.random: Random = SystemBits() if random is None else random
        self._bits = self.random.getrandbits
        self._last = 0
        self._head = (-1, "")  # a millisecond, and how its ids begin

    def job(self, now: Micros) -> str:
        """The milliseconds, then the microseconds or one more than the last: increasing, whatever the clock does."""
        last = self._last
        stamp = self._last = now if now > last else last + 1
        millis, micros = divmod(stamp, 1_000)
        head = self._head
        if head[0] != millis:
            head = self._head = (millis, f"{millis >> 16 & 0xFFFFFFFF:08x}-{millis & 0xFFFF:04x}-7")
        low = self._bits(62)
        return "%s%03x-%04x-%012x" % (head[1], micros, 0x8000 | low >> 48, low & 0xFFFFFFFFFFFF)  # noqa: UP031 - half the time

    def token(self) -> str:
        return f"{self._bits(128):032x}"
