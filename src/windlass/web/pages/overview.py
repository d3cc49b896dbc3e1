"""`/`: how things are, in one sentence, six figures, two charts, and what needs somebody."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.overview import Dashboard, Latencies, TrendPoint
from windlass.core.trends import SPANS, Span
from windlass.web.answers import Events, Page, Redirect
from windlass.web.identity import is_narrow
from windlass.web.pages.charts import Chart, Series, levels, lined, stacked
from windlass.web.pages.formats import duration, number, percent, query, rate, span
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Told, page, zone_of
from windlass.web.request import Request

LEAST: Final = 5  # points that a chart is wide
WORDS: Final[dict[Span, str]] = {"1h": "last hour", "6h": "last 6 hours", "24h": "last 24 hours", "7d": "last 7 days"}


class Looked(Told, frozen=True, kw_only=True):
    span: Span = "1h"
    latency: Literal["wait", "run"] = "wait"


class Figure(Struct, frozen=True):
    name: str
    value: str
    unit: str
    remark: str
    tone: str
    bad: bool
    levels: tuple[float, ...]


async def front(request: Request[Looked, None]) -> Page | Redirect:
    """Where everybody comes in. Who sees a part of the store has no numbers of all, but jobs."""
    return Redirect("/jobs") if is_narrow(request.principal) else await show(request)


async def show(request: Request[Looked, None]) -> Page:
    asked = request.query
    board = await request.admin.dashboard(asked.span)
    zone = zone_of(request)
    since = next((point.at for point in board.series if point.rates is not None), None)
    whole, board = board.series, replace(board, series=sampled(board.series))
    shown = {
        "board": board,
        "figures": figures(board),
        "span_words": WORDS[asked.span],
        "span": asked.span,
        "throughput": throughput(board, zone),
        "latency": latency(board, asked.latency, zone),
        "asked": asked,
        "spans": [(one, one.replace("h", "\u00a0h").replace("d", "\u00a0d"), address(asked, span=one)) for one in SPANS],
        "since": since.astimezone(zone) if since and len(board.series) < len(whole) - 1 else None,
        "latencies": [(kind, kind.capitalize(), address(asked, latency=kind)) for kind in ("wait", "run")],
        "problems": [queue for queue in board.queues if queue.problems],
        "live": address(asked, "/live/overview"),
        "empty": not board.counts.labels or not board.counts.total,
        "busiest": sorted(board.queues, key=lambda queue: (-queue.running, -(queue.rate or 0), queue.name))[:8],
    }
    return await page(request, "overview.html", "overview", shown)


def sampled(series: Sequence[TrendPoint]) -> tuple[TrendPoint, ...]:
    """From the first sample on: a young store's would be squeezed into the last pixels. Where there is none, all of it."""
    first = next((place for place, point in enumerate(series) if point.rates is not None), 0)
    return tuple(series[min(first, len(series) - LEAST) :])


async def live(request: Request[Looked, None]) -> Page | Events:
    return Events(
        fragments(request, show, "status", "kpis", "throughput", "latency", "problems", "failures", "busiest", "upcoming")
    )


def address(asked: Looked, path: str = "/", **other: str) -> str:
    pairs = {"span": asked.span, "latency": asked.latency, **other}
    usual = {"span": "1h", "latency": "wait"}
    return path + query({name: value for name, value in pairs.items() if usual[name] != value})


def waited(board: Dashboard) -> str:
    """For how long the oldest has. Only samples know that, and jobs may be there before the next one."""
    if board.oldest:
        return f"oldest {duration(board.oldest)}"
    ready = board.counts.labels.get("queued")
    return "age not sampled yet" if ready is not None and ready.jobs else "none waits"


def figures(board: Dashboard) -> tuple[Figure, ...]:
    ready = board.counts.labels.get("queued")
    series = board.series
    last = next((point for point in reversed(series) if point.rates is not None), None)
    per_second = sum(last.rates.values()) if last is not None and last.rates else 0.0
    slots = board.slots
    peak = board.peak_failed
    finished = rate(per_second)
    return (
        Figure(
            "Ready",
            number(ready.jobs if ready else 0),
            "",
            waited(board),
            "is-ready",
            False,
            _levels(series, "queued"),
        ),
        Figure(
            "Running",
            number(slots.busy),
            f" / {number(slots.total)}",
            f"{percent(slots.busy / slots.total)} of slots busy" if slots.total else "no worker is alive",
            "is-running",
            not slots.total,
            _levels(series, "running"),
        ),
        Figure(
            "Finished",
            finished.split("/")[0],
            f"/{finished.split('/')[1]}",
            _finished(board),
            "is-succeeded",
            False,
            tuple(levels([sum(point.rates.values()) if point.rates else None for point in series])),
        ),
        Figure(
            "Failure rate",
            percent(board.whole.failed or 0).rstrip("%"),
            "%",
            f"peak {percent(peak[1])}" if peak else "no failures",
            "is-dead",
            bool(peak),
            tuple(levels([point.failed for point in series])),
        ),
        _latency("Wait p95", board.whole.wait, [point.wait for point in series]),
        _latency("Run p95", board.whole.run, [point.run for point in series]),
    )


def _finished(board: Dashboard) -> str:
    ended = [sum(point.rates.values()) for point in board.series if point.rates is not None]
    runs = round(sum(ended) * SPANS[board.span] / 60 / 1_000_000)
    return f"{runs:,} runs in {board.span.replace('h', ' h').replace('d', ' d')}"


def _levels(series: Sequence[TrendPoint], label: str) -> tuple[float, ...]:
    return tuple(levels([None if point.depth is None else point.depth.get(label, 0) for point in series]))  # type: ignore[call-overload]


def _latency(name: str, whole: Latencies | None, points: Sequence[Latencies | None]) -> Figure:
    p95 = None if whole is None else whole.p95
    text = duration(p95) if p95 is None or p95 < 60 else span(p95, brief=True) if p95 >= 120 else f"{p95:.0f}\u00a0s"
    value, _, unit = text.partition("\u00a0")
    remark = f"half under {duration(whole.p50)}" if whole else "nothing ran"
    return Figure(
        name,
        value,
        f" {unit}" if unit else "",
        remark,
        "is-accent",
        False,
        tuple(levels([one.p95 if one else None for one in points])),
    )


def throughput(board: Dashboard, zone: tzinfo) -> Chart:
    def of(kind: str) -> tuple[float | None, ...]:
        return tuple(None if point.rates is None else round(point.rates.get(kind, 0), 3) for point in board.series)

    series = [
        Series("Succeeded", "is-succeeded", of("completed")), Series("Failed", "is-dead", of("failed")),
        Series("Skipped", "is-cancelled", of("skipped")),
    ]  # fmt: skip
    label = f"Throughput by outcome, runs per second, {WORDS[board.span]}"
    return stacked("throughput", label, [point.at for point in board.series], series, zone, "/s")


def latency(board: Dashboard, kind: Literal["wait", "run"], zone: tzinfo) -> Chart:
    found = [point.wait if kind == "wait" else point.run for point in board.series]

    def of(name: str) -> tuple[float | None, ...]:
        return tuple(None if one is None else round(getattr(one, name) * 1000, 1) for one in found)

    series = [Series(name, name, of(name)) for name in ("p99", "p95", "p50")]
    what = "Wait before start" if kind == "wait" else "Time of a run"
    return lined(
        "latency", f"{what}, percentiles, {WORDS[board.span]}", [one.at for one in board.series], series, zone, "ms"
    )
