"""`GET /metrics`: gauges of the store and counters of this process, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.admin.overview import Latencies
from windlass.admin.sampled import Sampled
from windlass.admin.views import Fleet
from windlass.telemetry import families as of
from windlass.telemetry.exposition import MEDIA_TYPE, Sample, page, plain
from windlass.web.answers import Text
from windlass.web.request import Request
from windlass.web.site import Site, site_of


async def scrape(request: Request[None, None]) -> Text:
    """Queues as they were sampled last, workers that live, and what this server answered."""
    site = site_of(request.http)
    admin = site.admin()  # whoever asks: what was counted for one need not be counted again for the next
    sampled, fleet = await admin.sampled(), await admin.workers()
    return Text(page((*_queues(sampled), *_fleet(fleet), *_server(site))), MEDIA_TYPE)


def _queues(sampled: Sampled) -> Iterator[str]:
    queues = sampled.queues
    yield from plain(of.JOBS, [((one.name, label), jobs) for one in queues for label, jobs in sorted(one.counts.items())])
    yield from plain(of.PAUSED, [((one.name,), one.paused) for one in queues])
    yield from plain(of.HELD, [((one.name,), one.held) for one in queues])
    yield from plain(of.LEFT_OUT, [((), sampled.left_out)])
    yield from plain(of.SAMPLE_AGE, [] if sampled.age is None else [((), sampled.age)])
    yield from plain(of.OLDEST, [((one.name,), one.oldest) for one in queues if one.oldest is not None])
    yield from plain(of.ENDED, [((one.name, status), runs) for one in queues for status, runs in sorted(one.ended.items())])
    yield from plain(of.RECENT_WAIT, [sample for one in queues for sample in _quantiles(one.name, one.wait)])
    yield from plain(of.RECENT_RUN, [sample for one in queues for sample in _quantiles(one.name, one.run)])


def _quantiles(queue: str, found: Latencies | None) -> list[Sample]:
    """None of a queue in which nothing ended."""
    return (
        [] if found is None else [((queue, "0.5"), found.p50), ((queue, "0.95"), found.p95), ((queue, "0.99"), found.p99)]
    )


def _fleet(fleet: Fleet) -> Iterator[str]:
    living = [worker for worker in fleet.workers if worker.alive]
    yield from plain(of.WORKERS, [((), len(living))])
    yield from plain(of.SLOTS, [((), sum(worker.pool_size for worker in living))])
    yield from plain(of.BUSY, [((), sum(min(worker.running, worker.pool_size) for worker in living))])
    yield from plain(of.LEADER, [((), fleet.leader is not None)])


def _server(site: Site) -> Iterator[str]:
    yield from plain(of.STREAMS, [((), sum(site.streams.values()))])
    answers = sorted(site.answers.items())
    yield from plain(of.ANSWERS, [((method, path, str(status)), count) for (method, path, status), count in answers])
