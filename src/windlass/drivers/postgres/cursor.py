"""Where claims begin while something keeps dead rows alive.

A claim walks the index of ready jobs from its start. Entries of jobs that were claimed before lie there until they can be
removed; a transaction that stays open anywhere in the database (a report, a forgotten session, a replica's slot) prevents
that, and then every claim walks over all jobs that ran since. So when claims have become slow, they begin at the floor: of
each priority the last position that was taken. Jobs are enqueued behind it, whatever their priority, and found at once, in
the right order.

What becomes ready before the floor (retried, promoted, taken back, moved, replayed, raised in priority, enqueued by a
transaction that committed late) is not seen from there. Hence a *whole* claim now and then: when it is due by the clock, so
that nothing is overlooked for longer than `LONGEST`, and when a short one has found nothing and somebody wants to be sure
(one that drains; one that is woken by the next job need not be). Whole claims take about a twentieth of the time, more only
when one takes longer than a quarter of a second. Claims are shortened only while whole ones are slow and the server counts
many dead rows, and only as long as it helps.

Time is a parameter: seconds from nowhere in particular.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

SLOW: Final = 0.003  # seconds that a claim may take, and so much more
PER_JOB: Final = 0.00003  # for each job that it takes
PROOF: Final = 3  # slow claims in a row
SHORTEST: Final = 0.2  # between two whole claims
LONGEST: Final = 5.0
SHARE: Final = 20  # a whole claim takes this part of the time
MANY: Final = 10_000  # dead rows: fewer make no claim slow
IN_VAIN: Final = 10  # short claims in a row of which none was twice as quick as the whole one
TIRED: Final = 10.0  # and then none is tried for so long
LEVELS: Final = 8  # priorities that have a floor, the latest ones
ENDS: Final = 2**40  # beyond every priority


class Span(NamedTuple):
    """Priorities between two, both left out, or if they are one: that one, from a position on."""

    low: int
    high: int
    floor: int


class Cursor:
    """Of one kind of claim: a queue, and what is wanted of it."""

    def __init__(self) -> None:
        self._floors: dict[int, int] = {}  # position by priority, the one that was reached last at the end
        self._slow = self._dead = self._shorts = 0
        self._quickest = 0.0
        self._helped = False
        self.took = 0.0  # by the last whole claim
        self._whole_at = 0.0
        self._not_before = 0.0

    @property
    def is_slow(self) -> bool:
        return self._slow >= PROOF

    def spans(self, at: float) -> list[Span] | None:
        """What a short claim looks through, in order; None when a whole one is due."""
        if not self.is_slow or self._dead < MANY or not self._floors or at >= self._whole_at + self._pause:
            return None
        levels = sorted(self._floors, reverse=True)
        found = [Span(levels[0], ENDS, 0)]
        for level, lower in pairwise([*levels, -ENDS]):
            found += [Span(level, level, self._floors[level]), Span(lower, level, 0)]
        return found

    @property
    def _pause(self) -> float:
        return min(max(SHARE * self.took, SHORTEST), LONGEST)

    def was_whole(self, at: float, took: float, jobs: int) -> None:
        """A claim over everything ended at this time."""
        self._whole_at, self.took = at, took
        if took <= SLOW + PER_JOB * jobs or at < self._not_before:
            self._slow, self._helped = 0, False
            self._floors.clear()
        else:
            self._slow += 1

    def was_short(self, at: float, took: float) -> bool:
        """True when the first of them was twice as quick: so it is dead rows that make the others slow. Of several the
        quickest counts, for each may have been held up by something else."""
        self._shorts += 1
        self._quickest = took if self._shorts == 1 else min(took, self._quickest)
        helps = 2 * self._quickest <= self.took
        first, self._helped = helps and not self._helped, self._helped or helps
        if self._shorts >= IN_VAIN:
            self._shorts = 0
            if not helps:
                self._slow, self._helped = 0, False
                self._floors.clear()
                self._not_before = at + TIRED
        return first

    def reached(self, positions: Mapping[int, int], *, full: bool, dead: int | None = None) -> None:
        """A claim took jobs of these priorities, up to these positions; if it was full there may be more behind the last,
        also before the floor. `dead`: rows that are so, by the server's own count, where it was asked."""
        if dead is not None:
            self._dead = dead
        last = min(positions) if full else None
        for priority, position in positions.items():
            floor = self._floors.pop(priority, position)
            self._floors[priority] = position if priority == last else max(position, floor)
        while len(self._floors) > LEVELS:
            del self._floors[next(iter(self._floors))]
