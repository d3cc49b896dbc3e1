"""What a minute of a queue looked like, as one row: how much waits, for how long, what ended, how long it had waited and
run. Durations go into buckets on a log scale (1, 2, 5, 10, …), from which percentiles are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from windlass.clock import SECOND
from windlass.records import QueueSample
from windlass.types import Job, Micros

MINUTE: Final = 60 * SECOND
# From 100 microseconds to 100,000 seconds. Bucket n holds what is at least EDGES[n - 1] and less than EDGES[n].
EDGES: Final = (*(step * 10**power for power in range(2, 11) for step in (1, 2, 5)), 10**11)


def bucket(duration: Micros) -> int:
    return bisect_right(EDGES, duration)


def minute_before(now: Micros) -> Micros:
    """The beginning of the minute that has just ended."""
    return now - now % MINUTE - MINUTE


def due_since(job: Job) -> Micros:
    return max(job.queued_at, job.run_at or 0)


class Ended(Struct, frozen=True, gc=False):
    """So many runs of a queue that ended alike: same outcome, same buckets."""

    queue: str
    outcome: str
    wait: int
    run: int
    runs: int


def samples(
    minute: Micros, queues: Iterable[str], depth: Iterable[tuple[str, str, int]], oldest: Mapping[str, Micros],
    ended: Iterable[Ended],
) -> list[QueueSample]:  # fmt: skip
    """One row for every queue that is declared, holds jobs or has ended some. `depth`: (queue, label, jobs)."""
    depths: dict[str, Counter[str]] = {queue: Counter() for queue in queues}
    for queue, label, jobs in depth:
        depths.setdefault(queue, Counter())[label] += jobs
    finished: dict[str, Counter[str]] = {}
    waits: dict[str, Counter[int]] = {}
    runs: dict[str, Counter[int]] = {}
    for kind in ended:
        finished.setdefault(kind.queue, Counter())[kind.outcome] += kind.runs
        waits.setdefault(kind.queue, Counter())[kind.wait] += kind.runs
        runs.setdefault(kind.queue, Counter())[kind.run] += kind.runs
    return [
        QueueSample(
            queue=queue, minute=minute, depth=dict(depths.get(queue, {})), oldest=oldest.get(queue),
            finished=dict(finished.get(queue, {})), waits=dict(waits.get(queue, {})), runs=dict(runs.get(queue, {})),
        )
        for queue in sorted(depths.keys() | finished.keys())
    ]  # fmt: skip
