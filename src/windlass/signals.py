"""What a handler raises to steer its own job.

They derive from BaseException, so that a handler's `except Exception` does not swallow them, and they are raised, never
returned, so that a task's return type stays its result's.
"""

from __future__ import annotations

from windlass.clock import duration
from windlass.policies import Duration


class Signal(BaseException):
    """The root of the four."""


class Snooze(Signal):
    """Not now: run this job again after `delay`. No attempt is spent."""

    def __init__(self, delay: Duration) -> None:
        self.delay = duration(delay, field="delay")
        super().__init__(f"snoozed for {delay}")


class RetryAfter(Signal):
    """Failed, and the handler knows when to try again: an attempt is spent, the policy's own delay is not used."""

    def __init__(self, delay: Duration, reason: str = "the handler asked for a retry") -> None:
        self.delay = duration(delay, field="delay")
        self.reason = reason
        super().__init__(reason)


class Cancel(Signal):
    """This job is no longer wanted: it ends cancelled."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = reason
        super().__init__(reason)


class Reject(Signal):
    """This job can never succeed: it is dead at once, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
