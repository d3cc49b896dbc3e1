"""Who may settle a job: the fence, and what a repeated call is told.

A driver writes under the guard in one statement and calls `judge` only for what was refused, to say why. The order of
the answers is part of the contract: not inflight, then expired, then mismatch; the instant of expiry is expired.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Protocol, TypeVar

from windlass.core.changes import Answer, Outcome
from windlass.types import TERMINAL, Micros, RetryMode, State

BRINGS_BACK: Final = frozenset({"retry", "snooze", "release", "expire"})


class Leased(Protocol):
    @property
    def state(self) -> State: ...
    @property
    def lease_token(self) -> str | None: ...
    @property
    def lease_expires_at(self) -> Micros | None: ...
    @property
    def last_token(self) -> str | None: ...
    @property
    def last_outcome(self) -> str | None: ...
    @property
    def retry_mode(self) -> RetryMode: ...


def judge(job: Leased | None, *, token: str, outcome: Outcome | None, lapsed: bool, now: Micros) -> Answer:
    """What a call that names this token is answered. `outcome` None means extend, which is never a repeat."""
    if job is None:
        return "not_inflight"
    if outcome is not None and is_repeat(job, token, outcome):
        return "repeated"
    if job.state != "running" or job.lease_expires_at is None:
        return "not_inflight"
    expired = job.lease_expires_at <= now
    if expired and not lapsed:
        return "expired"
    if job.lease_token != token:
        return "mismatch"
    if lapsed and not expired:
        return "not_lapsed"
    return "never_twice" if job.retry_mode == "new_job" and outcome in BRINGS_BACK else "applied"


def is_repeat(job: Leased, token: str, outcome: Outcome) -> bool:
    """The same call again after a lost reply: it already took effect, so it is told so and changes nothing."""
    if job.last_token != token:
        return False
    if outcome == "fail" and job.last_outcome == "ack":
        return True
    if job.last_outcome == "cancelled" and job.state == "cancelled":  # a wish to cancel may have turned it
        return outcome == "cancelled" or outcome in BRINGS_BACK or (outcome == "fail" and job.retry_mode == "new_job")
    return job.last_outcome == outcome and not (outcome == "retry" and job.state in TERMINAL)


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def rounds(items: Iterable[tuple[K, T]]) -> list[list[tuple[K, T]]]:
    """Split a batch so that no round names a row twice: units of one batch behave as if sent one after the other."""
    out: list[list[tuple[K, T]]] = []
    seen: dict[K, int] = {}
    for key, item in items:
        turn = seen.get(key, 0)
        seen[key] = turn + 1
        if turn == len(out):
            out.append([])
        out[turn].append((key, item))
    return out
