"""`GET /metrics`: gauges of the store and counters of this process, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from windlass.web.answers import Text
from windlass.web.pulse import pulse_of
from windlass.web.request import Request

if TYPE_CHECKING:
    from windlass.web.site import Site

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
QUEUES: Final = 1_000  # the most that are told apart; a name comes from whoever enqueues

Sample = tuple[Mapping[str, str], float]


async def scrape(request: Request[None, None]) -> Text:
    """Jobs by queue and label, queues that are paused or held, workers that live, and what this server answered."""
    site = cast("Site", request.http.app.state.site)
    overview = await pulse_of(request.http).recent()
    fleet = await request.admin.workers()
    queues = overview.queues[:QUEUES]
    living = [worker for worker in fleet.workers if worker.alive]
    slots = sum(worker.pool_size for worker in living)
    answers = sorted(site.answers.items())
    lines = [
        *_family("windlass_jobs", "gauge", "Jobs that have not ended, and dead letters, by label.", (
            ({"queue": queue.name, "label": label}, count)
            for queue in queues for label, count in sorted(queue.counts.items())
        )),
        *_family("windlass_queue_paused", "gauge", "1 while nothing of the queue is claimed because somebody paused it.", (
            ({"queue": queue.name}, queue.paused_at is not None) for queue in queues
        )),
        *_family("windlass_queue_held", "gauge", "1 while the queue is held for direct execution.", (
            ({"queue": queue.name}, queue.held_by is not None) for queue in queues
        )),
        *_family("windlass_workers", "gauge", "Workers that are alive.", [({}, len(living))]),
        *_family("windlass_slots", "gauge", "What these workers can run at once.", [({}, slots)]),
        *_family("windlass_has_leader", "gauge", "1 while a worker leads.", [({}, fleet.leader is not None)]),
        *_family("windlass_event_streams", "gauge", "Open streams of events.", [({}, sum(site.streams.values()))]),
        *_family("windlass_http_answers_total", "counter", "Answers of this process.", (
            ({"method": method, "route": path, "status": str(status)}, count) for (method, path, status), count in answers
        )),
    ]  # fmt: skip
    return Text("".join(f"{line}\n" for line in lines), MEDIA_TYPE)


def _family(name: str, kind: str, says: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{shown}}} {float(value):g}" if shown else f"{name} {float(value):g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
