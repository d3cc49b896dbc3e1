"""Whose turn it is in a queue with order="fair": orgs are served in proportion to their weights, nobody while idle.

Start-time fair queueing. Each org has a *finish*, the virtual time at which its last job would end if one job took
1/weight; its next job starts there, or at the queue's virtual time when that is later, so that an org which was idle saves
up nothing and owes nothing. The earliest start is served. The queue's virtual time is the latest start that was served.
Within an org the order is the usual one. What is stored is a row per org that was served of late, changed by deltas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct

from windlass.types import Micros


class Share(Struct, frozen=True, gc=False):
    """What one org of one queue had, in virtual time."""

    started: float
    finish: float


def share_of(org_id: str | None) -> str:
    """Jobs without an org are one org."""
    return "" if org_id is None else f"={org_id}"


def virtual_time(shares: Collection[Share]) -> float:
    return max((share.started for share in shares), default=0.0)


def served(before: Share | None, clock: float, count: int, weight: float) -> Share:
    """After so many more jobs."""
    base = clock if before is None else max(before.finish, clock)
    return Share(base + (count - 1) / weight, base + count / weight)


def is_past(share: Share, clock: float) -> bool:
    """Whether the row tells no more than its absence would."""
    return share.finish <= clock


class Turns:
    """The turns of one queue during one claim. What was offered advances an org here, so that one whose jobs find no
    permit does not stand in the way; what was granted is what it is charged."""

    def __init__(self, shares: Mapping[str, Share], weights: Mapping[str, float]) -> None:
        self.clock = virtual_time(shares.values())
        self._shares = shares
        self._weights = weights
        self.offered: Counter[str] = Counter()
        self.granted: Counter[str] = Counter()

    def weight(self, share: str) -> float:
        return self._weights.get(share, 1.0)

    def start(self, share: str, ahead: int = 0) -> float:
        before = self._shares.get(share)
        base = self.clock if before is None else max(before.finish, self.clock)
        ahead += self.offered.get(share, 0)
        return base + ahead / self._weights.get(share, 1.0) if ahead else base

    def heads(self, waiting: Collection[str]) -> list[tuple[float, str]]:
        """(start, share) of each of many."""
        if self.offered:
            return [(self.start(share), share) for share in waiting]
        clock, finish = self.clock, {share: row.finish for share, row in self._shares.items()}
        return [(max(finish.get(share, clock), clock), share) for share in waiting]

    def next(self, waiting: Collection[str], ahead: Mapping[str, int] | None = None) -> str | None:
        """Whose turn it is among those that have jobs, after `ahead` more of each."""
        taken = ahead or {}
        return min(waiting, key=lambda share: (self.start(share, taken.get(share, 0)), share), default=None)

    def charges(self) -> list[tuple[str, int, float]]:
        """(share, jobs granted, weight), in the order of shares."""
        return [(share, count, self.weight(share)) for share, count in sorted(self.granted.items()) if count]


def due_for_ageing(waiting_since: Micros, aged_at: Micros | None, after: Micros, now: Micros) -> bool:
    return now - max(waiting_since, aged_at or 0) >= after
