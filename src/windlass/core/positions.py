"""Where a job stands in its queue.

`tail`: position = gap × a sequence that never repeats, so the tail is the tail without a read. `dense`
(the Job Scheduler's rule): the largest position among queued jobs of the same queue and priority, plus the gap; or the
gap when there is none.
Gaps let a job be put between two others without touching them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from windlass.types import Micros

GAP: Final = 100
FURTHEST: Final = 2**62 - 1  # on both sides; the stores refuse what is beyond, as their migrations say
Place: TypeAlias = tuple[int, Micros, int]  # position, created_at, seq: the dispatch order within a priority
FRONT: Final[Place] = (-(2**63), 0, 0)  # before every place
REAR: Final[Place] = (2**63 - 1, 0, 0)


def tail(seq: int) -> int:
    return GAP * seq


def dense(last: int | None) -> int:
    """Of a new job. At the end of what can be counted all stand at one place, in the order in which they came, until they
    are spread; a job that is moved there is older than some of them, and needs `between`."""
    return GAP if last is None else min(last + GAP, FURTHEST)


def between(before: int | None, after: int | None) -> int | None:
    """A position strictly between two neighbours (None = no neighbour on that side), or None when the gap is used up."""
    if before is None and after is None:
        return GAP
    if before is None:
        assert after is not None
        return after - GAP if after - GAP >= -FURTHEST else None
    if after is None:
        return before + GAP if before + GAP <= FURTHEST else None
    middle = (before + after) // 2
    return middle if before < middle else None


def stands(own: Place, before: Place | None, after: Place | None) -> bool:
    """Whether a job stands between two others already (None = nobody on that side)."""
    return (before is None or before < own) and (after is None or own < after)


def renormalised(count: int, last: int | None = None) -> list[int]:
    """Fresh positions for `count` queued jobs, in their order: from the gap upwards, or up to the `last` one's."""
    first = GAP if last is None else max(last - GAP * (count - 1), -FURTHEST)
    return [first + GAP * n for n in range(count)]


def is_crowded(positions: Sequence[int]) -> bool:
    """Whether there is no room left between two neighbours."""
    return any(between(before, after) is None for before, after in pairwise(positions))
