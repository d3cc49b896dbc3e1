"""The runs of a job drawn to scale: grey while it waited, coloured while it ran, dashed where it will run next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from windlass.admin.views import RunView
from windlass.web.pages.labels import run_mark

TICKS: Final = 4
MOST: Final = 200  # bars; older runs are left to the list
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
EDGE: Final = 8  # percent of the width: half a time of day on a phone
THIN: Final = 0.4  # percent: a run that took no time can be seen


class Bar(Struct, frozen=True):
    """In percent of the width. `tone` None: a wait."""

    x: float
    width: float
    tone: str | None


class Bars(Struct, frozen=True):
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, datetime], ...]
    days: bool  # ticks are whole days apart: their hours say nothing
    now: float | None
    next: float | None


def bars(begin: datetime, runs: Sequence[RunView], now: datetime, due: datetime | None) -> Bars:
    """`now` is where it ends: the present, or the end of the job."""
    ongoing = any(run.finished_at is None for run in runs) or due is not None
    first = min((run.started_at or run.claimed_at for run in runs[-MOST:]), default=begin)
    start, end = min(begin, first), max(due or now, now)  # the clock of a worker may lag behind that of who enqueued
    room = max((end - start).total_seconds(), 0.001)
    end = end + timedelta(seconds=room * 0.04)
    room = (end - start).total_seconds()

    def place(at: datetime) -> float:
        return round((at - start).total_seconds() / room * 100, 2)

    drawn: list[Bar] = []
    free = begin
    for run in runs[-MOST:]:
        began = run.started_at or run.claimed_at
        ended = run.finished_at or now
        if began > free:
            drawn.append(Bar(place(free), round(place(began) - place(free), 2), None))
        drawn.append(Bar(place(began), max(round(place(ended) - place(began), 2), THIN), run_mark(run.status).tone))
        free = ended
    if due is not None and now > free:
        drawn.append(Bar(place(free), round(place(now) - place(free), 2), None))
    ticks = _ticks(start, end, place)
    days = len(ticks) > 1 and ticks[1][1] - ticks[0][1] >= timedelta(days=1)
    return Bars(
        bars=tuple(drawn), ticks=ticks, days=days, now=place(now) if ongoing else None,
        next=None if due is None else place(due),
    )  # fmt: skip


def _ticks(start: datetime, end: datetime, place: object) -> tuple[tuple[float, datetime], ...]:
    assert callable(place)
    room = (end - start).total_seconds()
    step = next((step for step in STEPS if room / step <= TICKS + 1), max(round(room / TICKS / 86400), 1) * 86400)
    first = -(-start.timestamp() // step) * step
    found = list[tuple[float, datetime]]()
    while first <= end.timestamp() and len(found) <= TICKS + 2:
        at = datetime.fromtimestamp(first, tz=start.tzinfo)
        found.append((place(at), at))
        first += step
    inner = tuple(one for one in found if EDGE <= one[0] <= 100 - EDGE)
    return inner if len(inner) > 1 else tuple(found)  # words at an edge are moved inwards, beside their neighbours
