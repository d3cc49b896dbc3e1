"""Leadership. The term of a leader has a number, the epoch, which everything done in its name must carry.

Leadership is granted to a registered worker in two cases: nobody leads at this moment, or it is still the leader itself.
A leader that comes back after its term has expired is like any other worker: under its old epoch it would go on beside
work that it began before, without knowing whether another leader has repeated it. SQL drivers express the same rule in
the one statement `lead`.
"""

from __future__ import annotations

from typing import Literal

from windlass.types import Micros

Bid = Literal["refused", "renewed", "elected"]


def leads(until: Micros | None, now: Micros) -> bool:
    """Whether a term still runs. The instant of expiry is expired."""
    return until is not None and until > now


def judge_bid(worker_id: str, *, leader: str | None, until: Micros | None, registered: bool, now: Micros) -> Bid:
    if not registered:
        return "refused"
    if not leads(until, now):
        return "elected"
    return "renewed" if leader == worker_id else "refused"


def may_maintain(epoch: int | None, *, current: int, until: Micros | None, now: Micros) -> bool:
    """Whether a duty may be done in the name of this epoch. None: a person asks, who needs no leadership."""
    return epoch is None or (epoch == current and leads(until, now))


def is_silent(last_heartbeat: Micros, silent_for: Micros, now: Micros) -> bool:
    """Whether a worker counts as dead."""
    return last_heartbeat + silent_for <= now
