"""How things are: what the first page shows, and the trend of each queue. Everything comes from samples, the registry and a
few small tables: nothing here reads jobs, but for the failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from windlass.admin.counting import Counts, counts, newest
from windlass.admin.dead_letters import ErrorGroup, failures
from windlass.admin.fleet import taken
from windlass.admin.schedules import alive
from windlass.admin.views import Filter
from windlass.client import Client
from windlass.clock import SECOND, moment
from windlass.core.cronwords import in_plain_words
from windlass.core.holds import is_valid
from windlass.core.queries import AllHolds, AllQueues, AllWorkers, DueSchedules, RunningNow, SamplesAt, SamplesSince
from windlass.core.sampling import MINUTE
from windlass.core.trends import SPANS, Percentiles, Point, Span, edges, levels, minutes_of, point, points
from windlass.core.trouble import RECENT, Trouble, TroubleKind, troubles
from windlass.errors import InvalidInput
from windlass.records import QueueSample, WorkerInfo
from windlass.types import Hold, Label, Micros, Queue, RunningCount
from windlass.wording import age, in_words, plural, relative

UPCOMING: Final = 5
FAILURES: Final = 10
FAR: Final = 10_000 * 86_400 * SECOND


class Latencies(Struct, frozen=True):
    """Seconds."""

    p50: float
    p95: float
    p99: float


class TrendPoint(Struct, frozen=True, kw_only=True):
    """A sixtieth of the span. None: nothing was sampled then, or nothing ended. Levels are those at its end."""

    at: datetime
    depth: dict[Label, int] | None
    oldest: float | None  # seconds
    rates: dict[str, float] | None  # runs per second that ended completed, failed, skipped
    failed: float | None  # share
    wait: Latencies | None
    run: Latencies | None


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong with a queue, in words, and what to type about it."""

    kind: TroubleKind
    text: str
    since: datetime | None
    command: str | None


class QueueTrend(Struct, frozen=True, kw_only=True):
    """A queue now, and its depth over the span. `depth`: jobs that are due; None where nothing was sampled."""

    name: str
    counts: dict[Label, int]
    paused_at: datetime | None
    held_by: str | None
    oldest: float | None  # seconds
    rate: float | None  # runs per second that ended in the last minute
    failed: float | None  # share, of the last ten minutes
    running: int
    workers: int  # living ones that serve it
    problems: tuple[Problem, ...]
    depth: tuple[int | None, ...]


class QueueTrends(Struct, frozen=True, kw_only=True):
    """Those in trouble first. `sampled_at` None: nobody has sampled the queues lately, and they were counted instead."""

    at: datetime
    span: Span
    sampled_at: datetime | None
    queues: tuple[QueueTrend, ...]


class Slots(Struct, frozen=True, kw_only=True):
    busy: int
    total: int
    workers: int


class Upcoming(Struct, frozen=True, kw_only=True):
    name: str
    words: str
    timezone: str
    at: datetime


class Dashboard(Struct, frozen=True, kw_only=True):
    """`whole`: the span as one point, `series`: as sixty. `thinned`: some minutes stand for all, because there are many
    queues. `failures_complete` False: the numbers of failures mean "at least"."""

    at: datetime
    span: Span
    counts: Counts
    oldest: float | None  # seconds
    slots: Slots
    whole: TrendPoint
    series: tuple[TrendPoint, ...]
    thinned: bool
    peak_failed: tuple[datetime, float] | None
    queues: tuple[QueueTrend, ...]
    sampled_at: datetime | None
    failures: tuple[ErrorGroup, ...]
    failures_complete: bool
    upcoming: tuple[Upcoming, ...]


class Scene(Struct, frozen=True, kw_only=True):
    """What is read once for everything."""

    now: Micros
    recent: Sequence[QueueSample]
    rows: dict[str, Queue]
    holds: dict[str, Hold]
    living: Sequence[WorkerInfo]
    running: Sequence[RunningCount]


async def scene(client: Client) -> Scene:
    driver, now = client.driver, client.now()
    workers = await driver.read(AllWorkers())
    return Scene(
        now=now, recent=await driver.read(SamplesSince(since=now - RECENT - MINUTE)),
        rows={row.name: row for row in await driver.read(AllQueues())},
        holds={hold.queue: hold for hold in await driver.read(AllHolds()) if is_valid(hold, now)},
        living=alive(workers, now, client.settings.worker_timeout), running=await driver.read(RunningNow()),
    )  # fmt: skip


async def dashboard(client: Client, span: Span, wanted: Filter) -> Dashboard:
    check_span(span)
    here, counted = await scene(client), await counts(client)
    now, minutes = here.now, minutes_of(span, here.now, queues_in(here.recent))
    samples = await client.driver.read(SamplesAt(minutes=tuple(minutes)))
    series, whole = points(samples, edges(span, now))
    trends = trends_of(here, samples, span, counted)
    failed = await failures(client, now - SPANS[span], wanted)
    peak = max((one for one in series if one.failed), key=lambda one: one.failed or 0, default=None)
    return Dashboard(
        at=moment(now), span=span, counts=counted, slots=slots_of(here),
        oldest=max((one.oldest for one in trends if one.oldest is not None), default=None), whole=shown(whole),
        series=tuple(map(shown, series)), thinned=len(minutes) < SPANS[span] // MINUTE,
        peak_failed=None if peak is None else (moment(peak.at), peak.failed or 0.0), queues=trends,
        sampled_at=sampled_at(here), failures=failed.groups[:FAILURES], failures_complete=failed.complete,
        upcoming=await upcoming(client, now),
    )  # fmt: skip


async def queue_trends(client: Client, span: Span) -> QueueTrends:
    check_span(span)
    here, counted = await scene(client), await counts(client)
    minutes = [edge - MINUTE for edge in edges(span, here.now)[1:]]  # one level for each point is enough
    samples = await client.driver.read(SamplesAt(minutes=tuple(minutes)))
    return QueueTrends(
        at=moment(here.now), span=span, sampled_at=sampled_at(here), queues=trends_of(here, samples, span, counted)
    )


async def upcoming(client: Client, now: Micros) -> tuple[Upcoming, ...]:
    rows = await client.driver.read(DueSchedules(by=now + FAR, limit=UPCOMING))
    return tuple(
        Upcoming(
            name=row.name, words=in_plain_words(row.cron_expression, row.timezone), timezone=row.timezone,
            at=moment(row.next_trigger_at),
        )
        for row in rows if row.next_trigger_at is not None
    )  # fmt: skip


def check_span(span: str) -> None:
    if span not in SPANS:
        raise InvalidInput("span", f"{span!r} is none; use one of {', '.join(SPANS)}")


def queues_in(samples: Sequence[QueueSample]) -> int:
    return len({sample.queue for sample in samples})


def sampled_at(here: Scene) -> datetime | None:
    last = max((sample.minute for sample in here.recent), default=None)
    return None if last is None else moment(last + MINUTE)


def slots_of(here: Scene) -> Slots:
    busy = sum(map(min, taken(here.living, here.running), (worker.pool_size for worker in here.living)))
    return Slots(busy=busy, total=sum(worker.pool_size for worker in here.living), workers=len(here.living))


def trends_of(here: Scene, samples: Sequence[QueueSample], span: Span, counted: Counts) -> tuple[QueueTrend, ...]:
    """What was counted after the last sample stands for a sample of its own."""
    by_queue: dict[str, list[QueueSample]] = {}
    for sample in samples:
        by_queue.setdefault(sample.queue, []).append(sample)
    lately: dict[str, list[QueueSample]] = {}
    for sample in here.recent:
        lately.setdefault(sample.queue, []).append(sample)
    last_sampled = sampled_at(here)
    if last_sampled is None or counted.counted_at > last_sampled:
        for name in {*lately, *counted.queues}:
            lately.setdefault(name, []).append(counted_as_sample(name, counted.queues.get(name, {}), here.now))
    last = {sample.queue for sample in newest([one for each in lately.values() for one in each])}
    names = sorted(last | here.rows.keys() | here.holds.keys() | {one.queue for one in here.running})
    begins = edges(span, here.now)
    found = [trend_of(here, name, lately.get(name, []), by_queue.get(name, []), begins) for name in names]
    return tuple(sorted(found, key=lambda trend: (not trend.problems, trend.name)))


def counted_as_sample(queue: str, depth: Mapping[Any, int], now: Micros) -> QueueSample:
    return QueueSample(queue=queue, minute=now, depth=dict(depth), oldest=None, finished={}, waits={}, runs={})


def trend_of(
    here: Scene, name: str, recent: Sequence[QueueSample], samples: Sequence[QueueSample], begins: Sequence[Micros]
) -> QueueTrend:  # fmt: skip
    row, hold = here.rows.get(name), here.holds.get(name)
    last = recent[-1] if recent else None
    depth = {} if last is None else last.depth
    found = troubles(recent, row, hold, here.living)
    return QueueTrend(
        name=name, counts=dict(depth), paused_at=None if row is None or row.paused_at is None else moment(row.paused_at),  # type: ignore[arg-type]
        held_by=None if hold is None else hold.by, oldest=seconds(None if last is None else last.oldest),
        rate=None if last is None or not here.recent else sum(last.finished.values()) / 60,
        failed=point(here.now, recent).failed,
        running=sum(one.jobs for one in here.running if one.queue == name),
        workers=sum(name in worker.queues for worker in here.living),
        problems=tuple(problem(one, name, here.now) for one in found),
        depth=tuple(levels(samples, begins)),
    )  # fmt: skip


def problem(trouble: Trouble, queue: str, now: Micros) -> Problem:
    since = None if trouble.since is None else moment(trouble.since)
    ago = "" if since is None else relative(since, moment(now))
    held = "" if since is None else age(since, moment(now))
    jobs = plural(int(trouble.number), "job")
    text, command = {
        "paused": (f"paused {ago}, {jobs} due", f"windlass queues resume {queue}"),
        "held": (f"held by {trouble.by} for {held}, {jobs} due", "windlass holds list"),
        "nobody": (f"{jobs} due, and no living worker serves it", "windlass workers"),
        "late": (f"the oldest job that is due waits for {in_words(int(trouble.number))}", f"windlass queues show {queue}"),
        "failing": (
            f"{trouble.number:.0%} of runs failed in the last 10 min",
            f"windlass dlq list --by-error --queue {queue}",
        ),
        "full": (f"{jobs} for which no permit is left", "windlass limits list"),
    }[trouble.kind]
    return Problem(kind=trouble.kind, text=text, since=since, command=command)


def shown(one: Point) -> TrendPoint:
    return TrendPoint(
        at=moment(one.at), depth=one.depth, oldest=seconds(one.oldest), rates=one.rates, failed=one.failed,  # type: ignore[arg-type]
        wait=latencies(one.wait), run=latencies(one.run),
    )  # fmt: skip


def latencies(found: Percentiles | None) -> Latencies | None:
    return None if found is None else Latencies(found.p50 / SECOND, found.p95 / SECOND, found.p99 / SECOND)


def seconds(value: Micros | None) -> float | None:
    return None if value is None else value / SECOND
