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
        """At each claim: how fast jobs are being finished. Moments shorter than the horizon say nothing: a few slow jobs
        that happen to end together would look like quick ones."""
        if self._since is None:
            self._since, self._finished = now, 0
            return
        passed = now - self._since
        if passed < HORIZON:
            return
        rate = self._finished / passed
        self._rate = rate if self._rate == 0 or passed > FORGET else (self._rate + rate) / 2
        self._since, self._finished = now, 0

    @property
    def prefetch(self) -> int:
        return min(int(self._rate * HORIZON), self._most)
