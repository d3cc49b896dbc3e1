"""Usage by the hour. The run row is the usage event; a roll-up adds up those that ended, in the order of their ends,
behind a watermark: what ended up to there is counted, and pruning never passes it.

A run ends on the clock of its worker and is stored a little later, so a roll-up leaves the last minute alone. The end of a
run that reaches the store later than that may lie behind the watermark, where no roll-up looks again: it is counted when
it is stored. To look there begins earlier than it must, because two callers rarely mean the same instant by `now`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.queries import UsageBy
from windlass.records import Usage
from windlass.types import Micros, Run

HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
LATE: Final = 60 * SECOND

UsageKey = tuple[Micros, str, str, str, str]


def late_until(now: Micros) -> Micros:
    """An end that is stored now and is not after this may lie behind the watermark."""
    return now - LATE // 2


def latest(until: Micros, now: Micros) -> Micros:
    """How far a roll-up may go."""
    return min(until, now - LATE)


def hour_of(at: Micros) -> Micros:
    return at - at % HOUR


def day_of(at: Micros) -> Micros:
    return at - at % DAY


def month_of(at: Micros) -> Micros:
    """The beginning of the month of this moment, in UTC."""
    first = datetime.fromtimestamp(day_of(at) // SECOND, UTC).replace(day=1)
    return int(first.timestamp()) * SECOND


def whole_days(since: Micros, until: Micros, folded: Micros) -> tuple[Micros, Micros]:
    """The days of this time, from the first to before the last, that may be read by the day: hours before `folded` are in
    them. None: both are `since`."""
    first, last = day_of(since + DAY - 1), day_of(min(until, folded))
    return (first, last) if first < last else (since, since)


def duration(run: Run) -> Micros:
    """How long a run took. Its start and its end may come from two clocks."""
    return max((run.finished_at or 0) - (run.started_at or 0), 0)


def key_of(run: Run) -> UsageKey:
    assert run.finished_at is not None, "only a run that has ended is counted"
    assert run.status is not None, "a run that has ended has a status"
    return hour_of(run.finished_at), run.org_id or "", run.queue, run.type, run.status


def key_of_row(row: Usage) -> UsageKey:
    return row.hour, row.org_id, row.queue, row.type, row.outcome


def added(row: Usage | None, run: Run) -> Usage:
    """An hour's row with one more run."""
    hour, org_id, queue, kind, outcome = key_of(run)
    if row is None:
        row = Usage(hour=hour, org_id=org_id, queue=queue, type=kind, outcome=outcome)
    peaks = [peak for peak in (row.peak_rss, run.peak_rss) if peak is not None]
    return replace(
        row, runs=row.runs + 1, run_us=row.run_us + duration(run), wait_us=row.wait_us + (run.wait_us or 0),
        cpu_us=row.cpu_us + (run.cpu_us or 0), peak_rss=max(peaks, default=None),
    )  # fmt: skip


def spread(row: Usage, asked: UsageBy) -> Usage:
    """An hour's row as it counts for a question: what is not asked for is the same in all rows."""
    return replace(
        row, hour=row.hour - row.hour % asked.step if asked.step else 0, org_id=row.org_id if asked.by_org else "",
        queue=row.queue if asked.by_queue else "", type=row.type if asked.by_type else "",
        outcome=row.outcome if asked.by_outcome else "",
    )  # fmt: skip


def merged(one: Usage | None, other: Usage) -> Usage:
    if one is None:
        return other
    peaks = [peak for peak in (one.peak_rss, other.peak_rss) if peak is not None]
    return replace(
        one, runs=one.runs + other.runs, run_us=one.run_us + other.run_us, wait_us=one.wait_us + other.wait_us,
        cpu_us=one.cpu_us + other.cpu_us, peak_rss=max(peaks, default=None),
    )  # fmt: skip


def bite_of(parts: Iterable[Bite]) -> Bite:
    """As far as all of them go."""
    found = list(parts)
    return Bite(min(part.edge for part in found), any(part.full for part in found))


class Bite(Struct, frozen=True):
    """What one roll-up counts: the runs that ended after the old watermark and up to `edge`, the new one."""

    edge: Micros
    full: bool


def bite(ends: Sequence[Micros], limit: int, until: Micros) -> Bite:
    """`ends`: when the uncounted runs up to `until` ended, sorted. An instant is never divided: a watermark could not
    say which of its runs were counted."""
    return Bite(ends[limit - 1], True) if len(ends) >= limit else Bite(until, False)
