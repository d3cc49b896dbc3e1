"""When to try again, and how long to wait: pure values that are stored in the job's row.

A leader that never imported a task must still be able to recover its jobs, so a policy is encoded into the row at
enqueue, and exception classes are kept by qualified name and compared as strings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from windlass.clock import SECOND, duration
from windlass.errors import InvalidInput
from windlass.types import Micros

Jitter = Literal["none", "full", "equal"]
Duration: TypeAlias = timedelta | float | str

DEFAULT_MAX_RETRIES: Final = 5
LONGEST_DELAY: Final[Micros] = 365 * 86_400 * SECOND


class Fixed(Struct, frozen=True, tag="fixed"):
    """The same pause before every retry."""

    pause: Micros

    def delay(self, attempt: int) -> Micros:
        return min(self.pause, LONGEST_DELAY)


class Linear(Struct, frozen=True, tag="linear"):
    """first, first + step, first + 2 steps, … up to cap."""

    first: Micros
    step: Micros
    cap: Micros = LONGEST_DELAY

    def delay(self, attempt: int) -> Micros:
        return min(self.first + self.step * max(attempt - 1, 0), self.cap)


class Exponential(Struct, frozen=True, tag="exponential"):
    """base, base × factor, base × factor², … up to cap."""

    base: Micros
    cap: Micros = LONGEST_DELAY
    factor: float = 2.0

    def delay(self, attempt: int) -> Micros:
        if self.base == 0:
            return 0
        try:
            return min(round(self.base * self.factor ** max(attempt - 1, 0)), self.cap)
        except OverflowError:  # the 310th attempt of a factor-10 policy must wait for the cap, not crash the settlement
            return self.cap


class Table(Struct, frozen=True, tag="table"):
    """One pause per attempt; the last one repeats."""

    pauses: tuple[Micros, ...]

    def __post_init__(self) -> None:
        if not self.pauses:
            raise InvalidInput("pauses", "a table needs at least one pause")

    def delay(self, attempt: int) -> Micros:
        return min(self.pauses[min(max(attempt, 1), len(self.pauses)) - 1], LONGEST_DELAY)


Backoff: TypeAlias = Fixed | Linear | Exponential | Table


def fixed(pause: Duration) -> Fixed:
    return Fixed(duration(pause, field="pause"))


def linear(first: Duration, step: Duration, cap: Duration = timedelta(days=365)) -> Linear:
    return Linear(duration(first, field="first"), duration(step, field="step"), duration(cap, field="cap"))


def exponential(base: Duration, *, cap: Duration = timedelta(days=365), factor: float = 2.0) -> Exponential:
    if not 1 <= factor < float("inf"):
        raise InvalidInput("factor", f"must be a number of 1 or more, got {factor!r}")
    return Exponential(duration(base, field="base"), duration(cap, field="cap"), float(factor))


def table(*pauses: Duration) -> Table:
    return Table(tuple(duration(pause, field="pauses") for pause in pauses))


# Attempts 0 and 1 wait 1 s, then 2, 4, 8, 16, 32 and from the seventh on 60 s.
HARMONYK_BACKOFF: Final = table("1s", "2s", "4s", "8s", "16s", "32s", "60s")


def jittered(delay: Micros, jitter: Jitter, roll: float) -> Micros:
    """Spread a delay by `roll`, a number in [0, 1) that the caller draws from its own seeded source."""
    if jitter == "full":
        return int(delay * roll)
    if jitter == "equal":
        return delay // 2 + int((delay - delay // 2) * roll)
    return delay


class Rule(Struct, frozen=True):
    """What one family of exceptions does instead of the policy's default. The first rule that matches decides."""

    on: tuple[str, ...]
    dead: bool = False
    backoff: Backoff | None = None

    def matches(self, error_types: tuple[str, ...]) -> bool:
        return any(name in error_types for name in self.on)


def qualified_name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def error_types(error: BaseException) -> tuple[str, ...]:
    """The names a rule may match: the exception's class and every base of it, most specific first."""
    return tuple(qualified_name(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException))


def rule(*exceptions: type[BaseException] | str, dead: bool = False, backoff: Backoff | None = None) -> Rule:
    if not exceptions:
        raise InvalidInput("rule", "name at least one exception class")
    for one in exceptions:
        if not isinstance(one, str) and not _is_exception(one):
            raise InvalidInput("rule", f"takes exception classes or their full names, got {one!r}")
    if backoff is not None:
        _check_backoff(backoff)
    return Rule(tuple(e if isinstance(e, str) else qualified_name(e) for e in exceptions), dead, backoff)


def _check_backoff(value: object) -> None:
    """What cannot be read back would only be noticed when a job fails, and kill it."""
    if not isinstance(value, Backoff):
        raise InvalidInput("backoff", f"must be made by fixed('5s'), linear, exponential or table, got {value!r}")


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _are_rules(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Rule) for one in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how soon. `max_attempts=n` is n executions in all; `max_retries=n` is n more after the first."""

    max_attempts: int | None = None
    max_retries: int | None = None
    backoff: Backoff = HARMONYK_BACKOFF
    jitter: Jitter = "none"
    rules: tuple[Rule, ...] = field(default=())
    count_lost: bool = True

    def __post_init__(self) -> None:
        if self.max_attempts is not None and self.max_retries is not None:
            raise InvalidInput("retry", "give max_attempts (executions in all) or max_retries (after the first), not both")
        if self.max_attempts is not None and not _is_count(self.max_attempts):
            raise InvalidInput("max_attempts", f"must be 0 (no limit) or more, got {self.max_attempts!r}")
        if self.max_retries is not None and not _is_count(self.max_retries):
            raise InvalidInput("max_retries", f"must be 0 or more, got {self.max_retries!r}")
        _check_backoff(self.backoff)
        if not _are_rules(self.rules):
            raise InvalidInput("rules", f"must be a tuple such as (rule(ValueError, dead=True),), got {self.rules!r}")
        if self.jitter not in ("none", "full", "equal"):
            raise InvalidInput("jitter", f"must be none, full or equal, got {self.jitter!r}")

    @property
    def executions(self) -> int:
        """The total the row stores as max_attempts; 0 means no limit."""
        if self.max_attempts is not None:
            return self.max_attempts
        return (DEFAULT_MAX_RETRIES if self.max_retries is None else self.max_retries) + 1

    def rule_for(self, names: tuple[str, ...]) -> Rule | None:
        return next((r for r in self.rules if r.matches(names)), None)

    def encode(self) -> str:
        """As stored in the row: the backoff always in full, the rest only where it says something."""
        said = {name: getattr(self, name) for name in self.__dataclass_fields__ if getattr(self, name) != _UNSAID[name]}
        return msgspec.json.encode({**said, "backoff": self.backoff}).decode()

    @staticmethod
    @lru_cache(maxsize=256)
    def decode(text: str) -> Retry:
        return msgspec.json.decode(text, type=Retry)


DEFAULT_RETRY: Final = Retry()
_UNSAID: Final = {name: getattr(DEFAULT_RETRY, name) for name in Retry.__dataclass_fields__}


# --------------------------------------------------------------------- Harmonyk's own functions, to the letter

JobStatus = Literal["queued", "running", "success", "failed"]


def can_retry(status: JobStatus, attempts: int, max_attempts: int = 5) -> bool:
    """False for success and running; otherwise true while attempts < max_attempts."""
    if status not in ("queued", "running", "success", "failed"):
        raise InvalidInput("status", f"{status!r} is not one of queued, running, success, failed")
    return status not in ("success", "running") and attempts < max_attempts


def backoff_delay_ms(attempts: int) -> int:
    """1 s for attempts 0 and 1, doubled from 2 on, at most 60 s; no jitter."""
    return HARMONYK_BACKOFF.delay(attempts) // 1_000
