"""How many jobs to hold beyond free slots: what the slots finish in 20 ms, and none until that has been measured.

Time in which slots have nothing to do is not counted: a store that answers slowly must not make quick handlers look slow,
or they would be brought ever smaller batches of work.
"""

from __future__ import annotations

from typing import Final

HORIZON: Final = 0.020  # seconds of work that may wait here
FORGET: Final = 1.0  # seconds after which an old measurement says nothing


class Pace:
    def __init__(self, most: int, slots: int) -> None:
        self._most = most
        self._slots = slots
        self._since: float | None = None
        self._rate = 0.0
        self._clear()

    def _clear(self) -> None:
        self._finished = 0
        self._worked = 0.0  # by all slots together
        self._busy = 0.0  # in which at least one of them worked
        self._seen = 0.0  # the last moment at which one did

    def finished(self, began: float, ended: float) -> None:
        self._finished += 1
        self._worked += ended - began
        if ended > self._seen:
            self._busy += ended - (began if began > self._seen else self._seen)
            self._seen = ended

    def measure(self, now: float) -> None:
        """At each claim: how fast jobs are being finished. Moments shorter than the horizon say nothing: a few slow jobs
        that happen to end together would look like quick ones. So does what each of them took, when none is busy."""
        if self._since is None:
            self._since = now
            self._clear()
            return
        passed = now - self._since
        if passed < HORIZON:
            return
        if self._finished == 0:
            rate = 0.0
        else:
            rate = min(self._finished / max(self._busy, 1e-6), self._slots * self._finished / max(self._worked, 1e-6))
        self._rate = rate if self._rate == 0 or passed > FORGET else (self._rate + rate) / 2
        self._since = now
        self._clear()

    @property
    def prefetch(self) -> int:
        return min(int(self._rate * HORIZON), self._most)
