"""How many jobs there are, by queue and label, and how old that number is.

The leader counts by index once a minute. Where there is no fresh sample the store counts now. What has ended well or was
cancelled is in no sample: it is counted up to a bound, at most so often that counting takes a fiftieth of the time, and
again after this process has changed something.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from windlass.client import Client
from windlass.clock import SECOND, moment, ticking
from windlass.core.queries import EndedJobs, SamplesSince
from windlass.core.sampling import MINUTE
from windlass.records import QueueSample
from windlass.types import Label, Micros

FRESH: Final = 3 * MINUTE
MOST: Final = 2_000_000  # ended jobs that are counted
REST: Final = 49  # times as long as it took


class LabelCount(Struct, frozen=True, kw_only=True):
    """Not `exact`: at least so many. `at`: when they were counted."""

    jobs: int
    at: datetime
    exact: bool = True


class Counts(Struct, frozen=True, kw_only=True):
    """`labels` of the whole store; `queues` of what has not ended, and of dead letters."""

    at: datetime
    labels: dict[Label, LabelCount]
    queues: dict[str, dict[Label, int]]
    counted_at: datetime  # when the queues were

    @property
    def total(self) -> int:
        return sum(count.jobs for count in self.labels.values())


class Kept(Struct):
    """What a process knows of the ended jobs of a store, and until when that will do."""

    counts: dict[Label, LabelCount]
    until: Micros


_KEPT: Final[WeakKeyDictionary[Client, Kept]] = WeakKeyDictionary()


async def counts(client: Client, *, exact: bool = False) -> Counts:
    now = client.now()
    recent = [] if exact else newest(await client.driver.read(SamplesSince(since=now - FRESH)))
    if recent:
        counted = recent[0].minute + MINUTE
        queues = {sample.queue: dict(sample.depth) for sample in recent}
    else:
        counted, queues = now, {}
        for count in await client.driver.count(now=now):
            queues.setdefault(count.queue, {})[count.label] = count.jobs
    at = moment(counted)
    whole: Counter[str] = Counter()
    for depth in queues.values():
        whole.update(depth)
    labels: dict[Label, LabelCount] = {label: LabelCount(jobs=jobs, at=at) for label, jobs in whole.items()}  # type: ignore[misc]
    labels |= await ended(client, now, exact=exact)
    return Counts(at=moment(now), labels=labels, queues=queues, counted_at=at)  # type: ignore[arg-type]


def newest(samples: list[QueueSample]) -> list[QueueSample]:
    """Those of the last minute that was sampled."""
    last = max((sample.minute for sample in samples), default=0)
    return [sample for sample in samples if sample.minute == last]


async def ended(client: Client, now: Micros, *, exact: bool) -> dict[Label, LabelCount]:
    kept = _KEPT.get(client)
    if kept is not None and not exact and now < kept.until:
        return kept.counts
    began = ticking()
    found: dict[Label, LabelCount] = {}
    label: Literal["succeeded", "cancelled"]
    for label in ("succeeded", "cancelled"):
        [jobs] = await client.driver.read(EndedJobs(state=label, most=MOST))
        found[label] = LabelCount(jobs=jobs, at=moment(now), exact=jobs < MOST)
    took = int((ticking() - began) * SECOND)
    _KEPT[client] = Kept(found, now + max(SECOND, took * REST))
    return found


def forget(client: Client) -> None:
    """This process has changed something."""
    _KEPT.pop(client, None)
