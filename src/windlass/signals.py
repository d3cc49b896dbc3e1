"""Signals: what a handler raises to decide how its execution ends.

They derive from BaseException, so that `except Exception` in a handler does not swallow them. They are raised and not
returned, so that the return type of a task is the type of its result."""

from __future__ import annotations

from windlass.clock import duration
from windlass.policies import Duration


class Signal(BaseException):
    """The base class of the four signals."""


class Snooze(Signal):
    """Put the job off: it runs again after `delay`, and this execution does not count as an attempt."""

    def __init__(self, delay: Duration) -> None:
        self.delay = duration(delay, field="delay")
        super().__init__(f"snoozed for {delay}")


class RetryAfter(Signal):
    """Fail, and retry after `delay` instead of the pause of the retry policy. This execution counts as an attempt."""

    def __init__(self, delay: Duration, reason: str = "the handler asked for a retry") -> None:
        self.delay = duration(delay, field="delay")
        self.reason = reason
        super().__init__(reason)


class Cancel(Signal):
    """End the job as cancelled, because it is no longer wanted."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = reason
        super().__init__(reason)


class Reject(Signal):
    """End the job as dead, because it can never succeed. Attempts that are left are not used."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
