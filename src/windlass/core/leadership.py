"""Who leads. A leader's term has a number, the epoch, that fences everything done in its name.

Two conditions grant leadership to a registered worker: nobody leads at this moment, or it leads itself still. A leader
that comes back after its term has lapsed is like anybody else: was it to go on under its old epoch, it would do so beside
work that it began before, of which it cannot know whether somebody has repeated it. SQL drivers say the same in the one
statement `lead`.
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
