"""How many jobs to hold beyond free slots: what the slots finish in 20 ms, and none until that has been measured."""

from __future__ import annotations

from typing import Final

HORIZON: Final = 0.020  # seconds of work that may wait here
FORGET: Final = 1.0  # seconds after which an old measurement says nothing


class Pace:
    def __init__(self, most: int) -> None:
        self._most = most
        self._finished = 0
        self._since: float | None = None
        self._rate = 0.0

    def finished(self) -> None:
        self._finished += 1

    def measure(self, now: float) -> None:
        """At each claim: how fast jobs have been finished since the last one."""
        if self._since is not None and now > self._since and self._finished:
            rate = self._finished / (now - self._since)
            self._rate = rate if self._rate == 0 else (self._rate + rate) / 2
        elif self._since is not None and now - self._since > FORGET:
            self._rate = 0.0
        self._since, self._finished = now, 0

    @property
    def prefetch(self) -> int:
        return min(int(self._rate * HORIZON), self._most)
