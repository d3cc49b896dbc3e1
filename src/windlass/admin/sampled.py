"""Queues as a scrape of metrics wants them: from the last sample where there is one, so that watching costs little."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.admin.counting import FRESH, by_queue, newest
from windlass.admin.overview import Latencies, latencies
from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.holds import is_valid
from windlass.core.queries import AllHolds, AllQueues, SamplesSince
from windlass.core.sampling import MINUTE
from windlass.core.trends import point
from windlass.records import QueueSample

QUEUES: Final = 1_000  # the most that are told apart; a name comes from whoever enqueues


class SampledQueue(Struct, frozen=True, kw_only=True):
    """`oldest`: seconds that the oldest job that was due had waited; 0 where none was. `ended`: runs of that minute. None:
    it was not sampled."""

    name: str
    counts: dict[str, int]
    paused: bool
    held: bool
    oldest: float | None = None
    ended: dict[str, int] = {}
    wait: Latencies | None = None
    run: Latencies | None = None


class Sampled(Struct, frozen=True, kw_only=True):
    """`age`: seconds since the end of the sampled minute. None: nobody has sampled the queues lately. `left_out`: how many
    queues there are beyond those that are told of, which have the most jobs."""

    age: float | None
    queues: tuple[SampledQueue, ...]
    left_out: int


async def sampled(client: Client) -> Sampled:
    driver, now = client.driver, client.now()
    last = newest(await driver.read(SamplesSince(since=now - FRESH)))
    samples = {sample.queue: sample for sample in last}
    _, counts = await by_queue(client, last, now)
    rows = {row.name: row for row in await driver.read(AllQueues())}
    held = {hold.queue for hold in await driver.read(AllHolds()) if is_valid(hold, now)}
    names = samples.keys() | counts.keys() | rows.keys() | held
    busiest = sorted(names, key=lambda name: (-sum(counts.get(name, {}).values()), name))[:QUEUES]
    queues = [
        _queue(
            name, counts.get(name, {}), name in rows and rows[name].paused_at is not None, name in held, samples.get(name)
        )
        for name in sorted(busiest)
    ]
    age = max(now - last[0].minute - MINUTE, 0) / SECOND if last else None
    return Sampled(age=age, queues=tuple(queues), left_out=len(names) - len(queues))


def _queue(name: str, counts: dict[str, int], paused: bool, held: bool, sample: QueueSample | None) -> SampledQueue:
    if sample is None:
        return SampledQueue(name=name, counts=counts, paused=paused, held=held)
    said = point(sample.minute, [sample])
    return SampledQueue(
        name=name, counts=counts, paused=paused, held=held, oldest=(sample.oldest or 0) / SECOND,
        ended=dict(sample.finished), wait=latencies(said.wait), run=latencies(said.run),
    )  # fmt: skip
