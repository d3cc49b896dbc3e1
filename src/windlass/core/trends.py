"""What the samples of queues tell over time: sixty points whatever the span, percentiles from histograms, and how a queue
stands now. A point without samples is a gap, not a zero."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeVar

from msgspec import Struct

from windlass.clock import SECOND
from windlass.core.sampling import EDGES, MINUTE
from windlass.records import QueueSample
from windlass.types import Micros

K = TypeVar("K")
Span = Literal["1h", "6h", "24h", "7d"]

POINTS: Final = 60
SPANS: Final[dict[Span, Micros]] = {"1h": 60 * MINUTE, "6h": 360 * MINUTE, "24h": 1_440 * MINUTE, "7d": 10_080 * MINUTE}
ROWS: Final = 5_000  # samples that one picture is made of; where there are more, some minutes stand for all
ENDINGS: Final = ("completed", "failed", "skipped")


class Point(Struct, frozen=True, kw_only=True):
    """A stretch of time. Levels are those at its end, rates are per second, durations microseconds."""

    at: Micros  # its beginning
    depth: dict[str, int] | None = None  # by label
    oldest: Micros | None = None  # the longest wait in it
    rates: dict[str, float] | None = None  # runs that ended, by outcome
    failed: float | None = None  # the share of them that failed
    wait: Percentiles | None = None
    run: Percentiles | None = None


class Percentiles(Struct, frozen=True):
    p50: Micros
    p95: Micros
    p99: Micros


def edges(span: Span, now: Micros) -> list[Micros]:
    """The beginnings of the points, and the end of the last: the minute that is not over yet is left out."""
    end = now - now % MINUTE
    size = SPANS[span] // POINTS
    return [end - size * (POINTS - n) for n in range(POINTS + 1)]


def minutes_of(span: Span, now: Micros, queues: int) -> list[Micros]:
    """The minutes to read: all of them, or as many of each point as the number of queues allows, evenly apart."""
    begins = edges(span, now)
    whole = (begins[1] - begins[0]) // MINUTE
    each = max(1, min(whole, ROWS // (POINTS * max(queues, 1))))
    return [begin + (whole * (n + 1) // each - 1) * MINUTE for begin in begins[:-1] for n in range(each)]


class Stretch(Struct, frozen=True, kw_only=True):
    """What the samples of some minutes say together."""

    minutes: int
    last: Micros
    depth: dict[str, int]  # in the last of them
    oldest: Micros
    finished: dict[str, int]
    waits: dict[int, int]
    runs: dict[int, int]


def points(samples: Iterable[QueueSample], begins: Sequence[Micros]) -> tuple[list[Point], Point]:
    """Each point, and all of them as one. `begins` as `edges` gives them."""
    inside: list[list[QueueSample]] = [[] for _ in begins[:-1]]
    for sample in samples:
        place = bisect_left(begins, sample.minute + 1) - 1
        if 0 <= place < len(inside):
            inside[place].append(sample)
    parts = [stretch(found) for found in inside]
    each = [told(begin, part) for begin, part in zip(begins[:-1], parts, strict=True)]
    return each, told(begins[0], joined([part for part in parts if part is not None]))


def point(begin: Micros, samples: Sequence[QueueSample]) -> Point:
    return told(begin, stretch(samples))


def stretch(samples: Sequence[QueueSample]) -> Stretch | None:
    if not samples:
        return None
    last = max(sample.minute for sample in samples)
    return Stretch(
        minutes=len({sample.minute for sample in samples}), last=last,
        depth=added(sample.depth for sample in samples if sample.minute == last),
        oldest=max(sample.oldest or 0 for sample in samples), finished=added(sample.finished for sample in samples),
        waits=added(sample.waits for sample in samples), runs=added(sample.runs for sample in samples),
    )  # fmt: skip


def joined(parts: Sequence[Stretch]) -> Stretch | None:
    """Stretches that do not overlap, as one: much less to add up than their samples are."""
    if not parts:
        return None
    newest = max(parts, key=lambda part: part.last)
    return Stretch(
        minutes=sum(part.minutes for part in parts), last=newest.last, depth=newest.depth,
        oldest=max(part.oldest for part in parts), finished=added(part.finished for part in parts),
        waits=added(part.waits for part in parts), runs=added(part.runs for part in parts),
    )  # fmt: skip


def told(begin: Micros, found: Stretch | None) -> Point:
    if found is None:
        return Point(at=begin)
    seconds = found.minutes * MINUTE / SECOND
    return Point(
        at=begin, depth=found.depth, oldest=found.oldest, failed=failed_share(found.finished),
        rates={outcome: found.finished.get(outcome, 0) / seconds for outcome in ENDINGS},
        wait=percentiles(found.waits), run=percentiles(found.runs),
    )  # fmt: skip


def levels(samples: Iterable[QueueSample], begins: Sequence[Micros]) -> list[int | None]:
    """How many jobs of one queue were due at the end of each point."""
    last: list[QueueSample | None] = [None] * (len(begins) - 1)
    for sample in samples:
        place = bisect_left(begins, sample.minute + 1) - 1
        if 0 <= place < len(last):
            before = last[place]
            last[place] = sample if before is None or before.minute < sample.minute else before
    return [None if sample is None else sample.depth.get("queued", 0) for sample in last]


def added(numbers: Iterable[Mapping[K, int]]) -> dict[K, int]:
    total: dict[K, int] = {}
    for each in numbers:
        for key, number in each.items():
            total[key] = total.get(key, 0) + number
    return total


def failed_share(ended: Mapping[str, int]) -> float | None:
    """The share of failures among the runs that ended by themselves. Snoozed and released runs do not count."""
    whole = ended.get("completed", 0) + ended.get("failed", 0)
    return ended.get("failed", 0) / whole if whole else None


def percentiles(histogram: Mapping[int, int]) -> Percentiles | None:
    if not any(histogram.values()):
        return None
    return Percentiles(*(percentile(histogram, share) for share in (0.5, 0.95, 0.99)))


def percentile(histogram: Mapping[int, int], share: float) -> Micros:
    """A percentile, as if the durations of a bucket lay evenly between its bounds."""
    rank = share * sum(histogram.values())
    before = 0
    for bucket in sorted(histogram):
        inside = histogram[bucket]
        if before + inside >= rank:
            low = EDGES[bucket - 1] if bucket else 0
            high = EDGES[bucket] if bucket < len(EDGES) else EDGES[-1]
            return int(low + (high - low) * (rank - before) / inside)
        before += inside
    raise AssertionError("a share of what is there is there")
