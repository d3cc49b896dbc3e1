"""Time, in one place. Nothing else in Windlass reads a clock.

Every engine call takes `now` as a parameter; it comes from one `Clock`. Ownership never rests on a clock: the lease
token decides, and a clock that is wrong only moves the moment at which an abandoned job is taken back.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from windlass.errors import InvalidInput, shown
from windlass.types import Micros

SECOND: Final = 1_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
# The first moment of the year 9999: what Python's datetime still holds in every time zone. No store keeps a later one.
LAST_INSTANT: Final = 253_370_764_800_000_000
LONGEST: Final = 365_000 * 86_400 * SECOND  # a thousand years: any instant plus this still is one, in every store

_UNITS: Final = {
    "us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND, "w": 604_800 * SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w)")


class Clock(Protocol):
    """The source of `now`. It must never run backwards within a process."""

    def now(self) -> Micros: ...


class SystemClock:
    """The wall clock, held back so that it never runs backwards in this process."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> Micros:
        self._last = max(self._last, time.time_ns() // 1_000)
        return self._last


class ManualClock:
    """A clock that moves only when a test says so."""

    def __init__(self, start: datetime | Micros = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start if isinstance(start, int) else instant(start)

    def now(self) -> Micros:
        return self._now

    def advance(self, by: Micros | str | timedelta) -> Micros:
        self._now += by if isinstance(by, int) else duration(by)
        return self._now


class AnchoredClock:
    """A stored anchor plus the time since boot: the same answer in every process of one machine.

    Whatever a process's wall clock says (a container with a wrong date, an administrator, a step by NTP), two workers on
    one file agree, so neither takes back a lease that the other still holds.
    """

    def __init__(self, utc: Micros, boot: Micros) -> None:
        self._offset = utc - boot
        self._last = 0

    def now(self) -> Micros:
        self._last = max(self._last, self._offset + since_boot())
        return self._last

    def move_to(self, utc: Micros, boot: Micros) -> Micros:
        """Adopt another anchor and say by how much it differs from the one held so far."""
        step = (utc - boot) - self._offset
        self._offset = utc - boot
        return step


class StoreClock:
    """The clock of a server, told from this machine's monotonic one: whatever the wall clock here says, all processes that
    use one server agree to within half a round trip. It never runs backwards; when the server's clock was set back, it goes
    at half speed until they meet."""

    def __init__(self) -> None:
        self._ahead: Micros = 0
        self._told: Micros = 0
        self._told_at: Micros = 0
        self._lock = threading.Lock()

    def now(self) -> Micros:
        with self._lock:
            here = time.monotonic_ns() // 1_000
            told = here + self._ahead
            if told < self._told:
                told = max(told, self._told + (here - self._told_at) // 2)
            self._told, self._told_at = told, here
            return told

    def adopt(self, samples: Iterable[tuple[float, float, Micros]]) -> Micros:
        """Of several (asked, answered, what the server said) believe the quickest. Answers by how much the clock moved: not
        at all where the answer took so long that it agrees with what was believed before, for that was known better."""
        asked, answered, said = min(samples, key=lambda sample: sample[1] - sample[0])
        ahead = said - round((asked + answered) / 2 * SECOND)
        with self._lock:
            step, first = ahead - self._ahead, not self._told_at
            if not first and abs(step) <= (answered - asked) / 2 * SECOND:
                return 0
            self._ahead = ahead
        if first:
            self.now()
        return 0 if first else step


def ticking() -> float:
    """Seconds that only ever grow, from nowhere in particular: for deadlines inside one process."""
    return time.monotonic()


def thread_cpu() -> Micros:
    """CPU that this thread has used. A system call."""
    return time.thread_time_ns() // 1_000


def since_boot() -> Micros:
    """Microseconds since the machine started, sleep included where the platform can tell."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000


def wall() -> Micros:
    return time.time_ns() // 1_000


def instant(value: datetime, *, field: str = "datetime") -> Micros:
    """An aware datetime as stored. A naive one is refused: nobody knows which hour it means."""
    given: object = value
    if not isinstance(given, datetime):
        raise InvalidInput(field, f"must be a datetime such as datetime.now(UTC), got {shown(given)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(field, f"{value!r} has no time zone; use datetime.now(UTC) or attach one")
    return (value - EPOCH) // MICROSECOND


def moment(value: Micros) -> datetime:
    """A stored instant as an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=value)


def from_nanoseconds(value: int, *, not_before: bool) -> Micros:
    """Nanoseconds to the store's precision: a not-before time rounds up and `now` rounds down, so nothing runs early."""
    return -(-value // 1_000) if not_before else value // 1_000


def duration(value: timedelta | float | str, *, field: str = "duration") -> Micros:
    """A duration as people write it: `timedelta`, seconds, or `"5m"`, `"1h30m"`, `"250ms"`. Never negative."""
    if isinstance(value, timedelta):
        micros = value // MICROSECOND
    elif isinstance(value, str):
        micros = _parse(value.strip(), field)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"{shown(value)} is not a duration; use a timedelta, seconds, or text such as '5m'")
    elif value != value:
        raise InvalidInput(field, f"{value!r} is not a duration")
    else:  # clamped first: infinity, and what would become it when multiplied, cannot be rounded
        micros = round(max(-1, min(value, LONGEST)) * SECOND)
    if micros < 0:
        raise InvalidInput(field, f"must not be negative, got {shown(value)}")
    if micros > LONGEST:
        raise InvalidInput(field, f"{shown(value)} is longer than a thousand years")
    return micros


def _parse(text: str, field: str) -> Micros:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(field, f"{shown(text)} is not a duration; write '30s', '5m', '1h30m', '250ms' or '2d'")
    return sum(round(min(float(number) * _UNITS[unit], LONGEST + 1)) for number, unit in parts)
