"""How many jobs there are, by queue and label, and how old that number is.

The leader counts by index once a minute. Where there is no fresh sample, or nobody lives who would take the next one, the
store counts now. What has ended well or was cancelled is in no sample: it is counted up to a bound. Either is done at most
so often that counting takes a fiftieth of the time, and again after this process has changed something.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from windlass.admin.schedules import alive
from windlass.client import Client
from windlass.clock import SECOND, moment, ticking
from windlass.core.queries import AllWorkers, EndedJobs, SamplesSince
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


class KeptQueues(Struct):
    """The same of those that wait and run."""

    queues: dict[str, dict[Label, int]]
    at: Micros
    until: Micros


_KEPT: Final[WeakKeyDictionary[Client, Kept]] = WeakKeyDictionary()
_KEPT_QUEUES: Final[WeakKeyDictionary[Client, KeptQueues]] = WeakKeyDictionary()


async def counts(client: Client, *, exact: bool = False) -> Counts:
    now = client.now()
    recent = [] if exact else newest(await client.driver.read(SamplesSince(since=now - FRESH)))
    counted, queues = await by_queue(client, recent, now, exact=exact)
    at = moment(counted)
    whole: Counter[str] = Counter()
    for depth in queues.values():
        whole.update(depth)
    labels: dict[Label, LabelCount] = {label: LabelCount(jobs=jobs, at=at) for label, jobs in whole.items()}  # type: ignore[misc]
    labels |= await ended(client, now, exact=exact)
    return Counts(at=moment(now), labels=labels, queues=queues, counted_at=at)


async def by_queue(
    client: Client, recent: list[QueueSample], now: Micros, *, exact: bool = False
) -> tuple[Micros, dict[Any, dict[Any, int]]]:
    """From the last samples, while somebody lives who takes the next ones."""
    if recent and alive(await client.driver.read(AllWorkers()), now, client.settings.worker_timeout):
        return min(recent[0].minute + MINUTE, now), {sample.queue: dict(sample.depth) for sample in recent}
    return await waiting(client, now, exact=exact)


async def waiting(client: Client, now: Micros, *, exact: bool) -> tuple[Micros, dict[Any, dict[Any, int]]]:
    kept = _KEPT_QUEUES.get(client)
    if kept is not None and not exact and now < kept.until:
        return kept.at, kept.queues
    began, queues = ticking(), dict[str, dict[Label, int]]()
    for count in await client.driver.count(now=now):
        queues.setdefault(count.queue, {})[count.label] = count.jobs
    took = int((ticking() - began) * SECOND)
    _KEPT_QUEUES[client] = KeptQueues(queues, now, now + max(SECOND, took * REST))
    return now, queues


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
    _KEPT_QUEUES.pop(client, None)
