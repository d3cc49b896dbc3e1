"""Where a job stands in its queue.

`tail`: position = gap × a sequence that never repeats, so the tail is the tail without a read. `dense`
(the Job Scheduler's rule): the largest position among queued jobs of the same queue and priority, plus the gap; or the
gap when there is none.
Gaps let a job be put between two others without touching them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from windlass.types import End, Micros

GAP: Final = 100
Place: TypeAlias = tuple[int, Micros, int]  # position, created_at, seq: the dispatch order within a priority


def tail(seq: int) -> int:
    return GAP * seq


def dense(last: int | None) -> int:
    return GAP if last is None else last + GAP


def between(before: int | None, after: int | None) -> int | None:
    """A position strictly between two neighbours (None = no neighbour on that side), or None when the gap is used up."""
    if before is None and after is None:
        return GAP
    if before is None:
        assert after is not None
        return after - GAP
    if after is None:
        return before + GAP
    middle = (before + after) // 2
    return middle if before < middle < after else None


def beyond(own: Place, others: Place | None, to: End) -> int | None:
    """The position that puts a job at one end of its queue and priority, or None when it stands there already. `others` is
    the place of the job that stands at that end among the others, None when there is no other."""
    if others is None or (own < others if to == "top" else own > others):
        return None
    return between(None, others[0]) if to == "top" else between(others[0], None)


def renormalised(count: int) -> list[int]:
    """Fresh positions for `count` queued jobs, in their order."""
    return [GAP * n for n in range(1, count + 1)]
