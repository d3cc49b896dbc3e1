"""What the samples of a queue say about its pace: how many runs come due, how many end, how long one takes.

Arrivals are not counted; they follow from what is counted. What came due in a minute is what ended in it, plus what waits
or runs more at its end than at its beginning. A retry that comes due again counts again, because it takes a slot again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct

from windlass.clock import SECOND
from windlass.core.sampling import EDGES, MINUTE, bucket
from windlass.core.trends import added, percentile
from windlass.records import QueueSample
from windlass.types import Micros

ENOUGH_MINUTES: Final = 3  # samples that make a pace
ENOUGH_RUNS: Final = 10  # that make a mean; with fewer, older ones are asked too
STALE: Final = 3 * MINUTE  # a last sample that is older speaks of the past
PROOF: Final = 5  # busy minutes that show what is possible: the last ones, since fleets change
LATE: Final = 2  # seconds for which jobs wait, at least, in a minute that is busy

WAITING: Final = ("queued", "parked", "claimed")


class Pace(Struct, frozen=True, kw_only=True):
    """Rates are runs per second."""

    minutes: int  # that were sampled
    sampled_at: Micros  # the end of the last of them
    arrivals: float  # came due, on average
    steady: float  # came due in the middling minute: a bulk that came at once is not in it
    finished: float
    proven: float | None  # ended in the last minutes in which jobs waited all the time and somebody worked
    run: float | None  # seconds that a run takes on average
    runs: int  # that this average is of

    @property
    def load(self) -> float:
        """Slots that it kept busy on average."""
        return self.finished * (self.run or 0)


class Step(Struct, frozen=True, gc=False):
    """The difference between one sample and the next."""

    seconds: float
    came: float  # runs
    ended: float
    working: float  # handlers at once
    busy: bool


def waiting_of(depth: Mapping[str, int]) -> int:
    """Due, and not begun: whatever a worker or a limit lets them wait for."""
    return sum(depth.get(label, 0) for label in WAITING)


def pace_of(
    samples: Iterable[QueueSample], minutes: Sequence[Micros], now: Micros, older: Iterable[QueueSample] = ()
) -> Pace | None:
    """Of one queue. `minutes`: those in which any queue was sampled, in order; a queue without a row in one of them held
    nothing then. `older`: what else is known of its runs. None: there is not enough history yet."""
    if len(minutes) < ENOUGH_MINUTES or now - (minutes[-1] + MINUTE) > STALE:
        return None
    rows = {sample.minute: sample for sample in samples}
    whole = minutes[1:] if len(minutes) > ENOUGH_MINUTES else minutes  # a leader's first sample is taken when it begins
    steps = [step(rows.get(before), rows.get(after), after - before) for before, after in pairwise(whole)]
    seconds = sum(one.seconds for one in steps)
    run, runs = mean_run(added(sample.runs for sample in rows.values()), older, occupancy(steps))
    return Pace(
        minutes=len(minutes), sampled_at=minutes[-1] + MINUTE, arrivals=max(sum(one.came for one in steps) / seconds, 0.0),
        steady=max(median(one.came / one.seconds for one in steps), 0.0),
        finished=sum(one.ended for one in steps) / seconds, proven=proof(steps), run=run, runs=runs,
    )  # fmt: skip


def step(before: QueueSample | None, after: QueueSample | None, apart: Micros) -> Step:
    """What ended in minutes that nobody sampled is taken to be as much as in the one that was."""
    first: Mapping[str, int] = {} if before is None else before.depth
    last: Mapping[str, int] = {} if after is None else after.depth
    seconds = apart / SECOND
    ended = 0.0 if after is None else sum(after.finished.values()) * apart / MINUTE
    least = min(waiting_of(first), waiting_of(last))
    worked = ended > 0 or at_work(first) > 0 or at_work(last) > 0
    waited = after is not None and waited_in(after) >= LATE * SECOND
    return Step(
        seconds=seconds, came=ended + _due(last) - _due(first), ended=ended, working=(at_work(first) + at_work(last)) / 2,
        busy=worked and waited and least >= max(1.0, LATE * ended / seconds),
    )  # fmt: skip


def waited_in(sample: QueueSample) -> Micros:
    """How long the middling run of a minute had waited, at least; where none ended, how long the oldest waits. A few jobs
    that are seen waiting say little: they may have come that very moment."""
    return bounds(bucket(percentile(sample.waits, 0.5)))[0] if any(sample.waits.values()) else sample.oldest or 0


def at_work(depth: Mapping[str, int]) -> int:
    return depth.get("running", 0)


def _due(depth: Mapping[str, int]) -> int:
    return waiting_of(depth) + at_work(depth)


def proof(steps: Sequence[Step]) -> float | None:
    busy = _busy(steps)
    ended = sum(one.ended for one in busy)
    return ended / sum(one.seconds for one in busy) if ended else None


def occupancy(steps: Sequence[Step]) -> float | None:
    """Seconds of a slot for each run that ended, while jobs waited and slots were as busy as they can be (Little's law)."""
    busy = _busy(steps)
    ended, worked = sum(one.ended for one in busy), sum(one.working * one.seconds for one in busy)
    return worked / ended if ended and worked else None


def _busy(steps: Sequence[Step]) -> list[Step]:
    return [one for one in steps if one.busy][-PROOF:]


def mean_run(
    recent: Mapping[int, int], older: Iterable[QueueSample], seen: float | None = None
) -> tuple[float | None, int]:  # fmt: skip
    """Seconds, and of how many runs. Buckets are wide: what was `seen` of slots is believed as far as they allow it, else
    runs are taken to lie evenly in them."""
    found = recent
    if sum(recent.values()) < ENOUGH_RUNS:
        before = added(sample.runs for sample in older)
        found, seen = (before, None) if sum(before.values()) > sum(recent.values()) else (recent, seen)
    runs = sum(found.values())
    if not runs:
        return None, 0
    least, most = (sum(number * bounds(place)[end] for place, number in found.items()) / runs / SECOND for end in (0, 1))
    return (least + most) / 2 if seen is None else min(max(seen, least), most), runs


def bounds(place: int) -> tuple[int, int]:
    """Of a bucket, in microseconds. The last one has no end, so it is taken to be narrow."""
    low: int = EDGES[place - 1] if place else 0
    high: int = EDGES[place] if place < len(EDGES) else EDGES[-1]
    return low, high
