"""Retry policies: whether a failed job is tried again, and after which pause. Pure values, stored in the row of the job.

A leader that never imported a task must be able to recover its jobs. Therefore enqueue writes the policy into the row,
and exception classes are stored and compared by their qualified names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from windlass.clock import LONGEST, SECOND, duration
from windlass.errors import InvalidInput, shown
from windlass.types import Micros

Jitter = Literal["none", "full", "equal"]
Duration: TypeAlias = timedelta | float | str

DEFAULT_MAX_RETRIES: Final = 5
LONGEST_DELAY: Final[Micros] = 365 * 86_400 * SECOND
LARGEST_FACTOR: Final = 1e300  # what is larger is soon no number any more


def _check_pauses(**pauses: object) -> None:
    """Raise `InvalidInput` for pauses that cannot be added to a time, also in a policy that SQL wrote into a row."""
    for name, pause in pauses.items():
        if type(pause) is not int or not 0 <= pause <= LONGEST:
            raise InvalidInput(name, f"must be whole microseconds, at most a thousand years of them, got {shown(pause)}")


def _check_factor(factor: object) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= LARGEST_FACTOR:
        raise InvalidInput("factor", f"must be a number of 1 or more, got {shown(factor)}")


class Fixed(Struct, frozen=True, tag="fixed"):
    """The same pause before every retry."""

    pause: Micros

    def __post_init__(self) -> None:
        _check_pauses(pause=self.pause)

    def delay(self, attempt: int) -> Micros:
        return min(self.pause, LONGEST_DELAY)


class Linear(Struct, frozen=True, tag="linear"):
    """first, first + step, first + 2 steps, … up to cap."""

    first: Micros
    step: Micros
    cap: Micros = LONGEST_DELAY

    def __post_init__(self) -> None:
        _check_pauses(first=self.first, step=self.step, cap=self.cap)

    def delay(self, attempt: int) -> Micros:
        return min(self.first + self.step * max(attempt - 1, 0), self.cap)


class Exponential(Struct, frozen=True, tag="exponential"):
    """base, base × factor, base × factor², … up to cap."""

    base: Micros
    cap: Micros = LONGEST_DELAY
    factor: float = 2.0

    def __post_init__(self) -> None:
        _check_pauses(base=self.base, cap=self.cap)
        _check_factor(self.factor)

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
        for pause in self.pauses:
            _check_pauses(pauses=pause)

    def delay(self, attempt: int) -> Micros:
        return min(self.pauses[min(max(attempt, 1), len(self.pauses)) - 1], LONGEST_DELAY)


Backoff: TypeAlias = Fixed | Linear | Exponential | Table


def fixed(pause: Duration) -> Fixed:
    """Wait the same `pause` before every retry: `fixed("5s")`."""
    return Fixed(duration(pause, field="pause"))


def linear(first: Duration, step: Duration, cap: Duration = timedelta(days=365)) -> Linear:
    """Wait `first`, then `step` longer before each further retry, at most `cap`."""
    return Linear(duration(first, field="first"), duration(step, field="step"), duration(cap, field="cap"))


def exponential(base: Duration, *, cap: Duration = timedelta(days=365), factor: float = 2.0) -> Exponential:
    """Wait `base`, then `factor` times as long before each further retry, at most `cap`."""
    _check_factor(factor)
    return Exponential(duration(base, field="base"), duration(cap, field="cap"), float(factor))


def table(*pauses: Duration) -> Table:
    """Wait the given pauses, one after the other; the last one is repeated."""
    return Table(tuple(duration(pause, field="pauses") for pause in pauses))


# Attempts 0 and 1 wait 1 s, then 2, 4, 8, 16, 32 and from the seventh on 60 s.
HARMONYK_BACKOFF: Final = table("1s", "2s", "4s", "8s", "16s", "32s", "60s")


def jittered(delay: Micros, jitter: Jitter, roll: float) -> Micros:
    """The delay with jitter. `roll` is a number in [0, 1) that the caller draws at random."""
    if jitter == "full":
        return int(delay * roll)
    if jitter == "equal":
        return delay // 2 + int((delay - delay // 2) * roll)
    return delay


class Rule(Struct, frozen=True):
    """What happens after exceptions of these classes, instead of what the policy says. The first matching rule decides."""

    on: tuple[str, ...]
    dead: bool = False
    backoff: Backoff | None = None

    def matches(self, error_types: tuple[str, ...]) -> bool:
        return any(name in error_types for name in self.on)


def qualified_name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def error_types(error: BaseException) -> tuple[str, ...]:
    """The names that a rule can match: those of the exception's class and of all its base classes."""
    return tuple(qualified_name(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException))


def rule(*exceptions: type[BaseException] | str, dead: bool = False, backoff: Backoff | None = None) -> Rule:
    """A rule for `Retry(rules=...)`: after these exceptions, or their subclasses, the job is `dead` at once or retried
    with another `backoff`. An exception may be given as its full name, so that its module need not be imported."""
    if not exceptions:
        raise InvalidInput("rule", "name at least one exception class")
    for one in exceptions:
        if not isinstance(one, str) and not _is_exception(one):
            raise InvalidInput("rule", f"takes exception classes or their full names, got {shown(one)}")
    if backoff is not None:
        _check_backoff(backoff)
    return Rule(tuple(e if isinstance(e, str) else qualified_name(e) for e in exceptions), dead, backoff)


def _check_backoff(value: object) -> None:
    """Raise `InvalidInput` for anything but a backoff of ours: the worker could not read it when the job fails."""
    if not isinstance(value, Backoff):
        raise InvalidInput("backoff", f"must be made by fixed('5s'), linear, exponential or table, got {shown(value)}")


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _are_rules(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Rule) for one in value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often a failed job is tried again, and after which pauses.

    Give `max_attempts` (executions in all; 0 = no limit) or `max_retries` (executions after the first), not both.
    `jitter` spreads the pauses: "full" between 0 and the pause, "equal" between half of it and all of it."""

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
            raise InvalidInput("max_attempts", f"must be 0 (no limit) or more, got {shown(self.max_attempts)}")
        if self.max_retries is not None and not _is_count(self.max_retries):
            raise InvalidInput("max_retries", f"must be 0 or more, got {shown(self.max_retries)}")
        _check_backoff(self.backoff)
        if not _are_rules(self.rules):
            raise InvalidInput("rules", f"must be a tuple such as (rule(ValueError, dead=True),), got {shown(self.rules)}")
        if self.jitter not in ("none", "full", "equal"):
            raise InvalidInput("jitter", f"must be none, full or equal, got {shown(self.jitter)}")

    @property
    def executions(self) -> int:
        """How many executions there may be in all, as the row stores it; 0 means no limit."""
        if self.max_attempts is not None:
            return self.max_attempts
        return (DEFAULT_MAX_RETRIES if self.max_retries is None else self.max_retries) + 1

    def rule_for(self, names: tuple[str, ...]) -> Rule | None:
        return next((r for r in self.rules if r.matches(names)), None)

    def encode(self) -> str:
        """The text that the row stores: the backoff in full, other fields only if they differ from their defaults."""
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
