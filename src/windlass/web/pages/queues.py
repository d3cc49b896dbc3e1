"""`/queues` and `/queues/{name}`: what waits where, in which order, within which limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from windlass.admin.capacity import SizedQueue
from windlass.admin.limits import LimitView
from windlass.admin.overview import QueueTrend
from windlass.admin.views import JobView
from windlass.clock import moment
from windlass.core.limits import limit_key
from windlass.core.trends import SPANS
from windlass.errors import InvalidInput, WindlassError
from windlass.web.answers import Events, Page, Redirect
from windlass.web.pages.charts import Chart, Series, stacked
from windlass.web.pages.formats import part, rate_set
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Sure, Told, ask, done, page, zone_of
from windlass.web.request import Request

ORDERED: Final = 20  # jobs whose order is shown


class Move(Struct, frozen=True, kw_only=True):
    """`other` is the neighbour that it changes places with; none: to the top."""

    job: str
    to: Literal["up", "down", "top", "bottom"]
    other: str = ""


class LimitForm(Struct, frozen=True, kw_only=True):
    """`whole`: it showed all that there is, so what is empty is to be gone. Else it stays as it is."""

    key: str
    whole: bool = False
    most: str = ""
    rate: str = ""


async def show(request: Request[Told, None]) -> Page:
    sized = await sizes(request)
    trends = await gathered(request, sized)
    limits = (await request.admin.limits()).limits
    fleet = await request.admin.workers()
    shown = {
        "trends": trends, "limits": limits, "by_queue": {limit.key.removeprefix("queue:"): limit for limit in limits
                                                         if limit.key.startswith("queue:")},
        "capacity": {name: queue.capacity for name, queue in sized.items()},
        "ready": sum(trend.counts.get("queued", 0) for trend in trends), "live": "/live/queues",
        "running": sum(worker.running for worker in fleet.workers if worker.alive),
        "slots": sum(worker.pool_size for worker in fleet.workers if worker.alive),
    }  # fmt: skip
    return await page(request, "queues.html", "queues", shown)


async def live(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, show, "queue-rows"))


async def sizes(request: Request[Any, Any]) -> dict[str, SizedQueue]:
    return {queue.name: queue for queue in (await request.admin.capacity()).queues}


async def gathered(request: Request[Any, Any], now: Mapping[str, SizedQueue]) -> list[QueueTrend]:
    """Every queue: trends from the samples, numbers as they are now."""
    trends = {trend.name: trend for trend in (await request.admin.queue_trends("1h")).queues}
    found = []
    for name in dict.fromkeys([*trends, *now]):
        trend, view = trends.get(name), now.get(name)
        counts = view.counts if view is not None else trend.counts if trend is not None else {}
        running = counts.get("running", 0) + counts.get("claimed", 0)
        found.append(
            QueueTrend(
                name=name, counts=counts, paused_at=view.paused_at if view else trend.paused_at if trend else None,
                held_by=view.held_by if view else None, oldest=trend.oldest if trend else None,
                rate=trend.rate if trend else None, failed=trend.failed if trend else None, running=running,
                workers=trend.workers if trend else 0, problems=trend.problems if trend else (),
                depth=trend.depth if trend else (),
            )
        )  # fmt: skip
    return found


async def one(request: Request[Told, None]) -> Page:
    name = request.path["name"]
    sized = await sizes(request)
    trend = next((trend for trend in await gathered(request, sized) if trend.name == name), None)
    if trend is None:
        raise InvalidInput("queue", f"there is no queue {name!r} in this store")
    try:
        order: Sequence[JobView] = (await request.admin.order(name, limit=ORDERED)).jobs
    except WindlassError:
        order = ()
    limits = (await request.admin.limits()).limits
    shown = {
        "trend": trend, "order": order, "limit": next((one for one in limits if one.key == f"queue:{name}"), None),
        "depth": depth(request, trend), "here_path": f"/queues/{part(name)}", "live": f"/live/queues/{part(name)}",
        "ordered": ORDERED, "capacity": sized[name].capacity if name in sized else None,
    }  # fmt: skip
    return await page(request, "queue.html", "queues", shown)


async def live_one(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, one, "queue-head", "queue-depth"))


def depth(request: Request[Any, Any], trend: QueueTrend) -> Chart | None:
    if not any(level is not None for level in trend.depth):
        return None
    now, points = request.app.client.now(), len(trend.depth)
    step = SPANS["1h"] // points
    times: list[datetime] = [moment(now - step * (points - place)) for place in range(points)]
    values = tuple(None if level is None else float(level) for level in trend.depth)
    return stacked("queue-depth", f"Due jobs of {trend.name}, last hour", times, [Series("Due", "is-ready", values)],
                   zone_of(request), "", height=152)  # fmt: skip


async def pause(request: Request[None, Sure]) -> Page | Redirect:
    name = request.path["name"]
    if not request.body.sure:
        text = "Running jobs finish. Nothing new of it starts on any worker until you resume it."
        return await ask(request, "queues", f"Pause {name}?", text, "Pause", back=f"/queues/{part(name)}")
    await request.admin.pause(name)
    return done(f"/queues/{part(name)}", "paused")


async def resume(request: Request[None, None]) -> Redirect:
    await request.admin.resume(request.path["name"])
    return done(f"/queues/{part(request.path['name'])}", "resumed")


async def move(request: Request[None, Move]) -> Redirect:
    said = request.body
    if said.to in ("top", "bottom"):
        await request.admin.move(said.job, said.to)
    elif said.other:
        await request.admin.move_beside(said.job, said.other, "before" if said.to == "up" else "after", take_priority=True)
    return done(f"/queues/{part(request.path['name'])}", "moved")


async def set_limit(request: Request[None, LimitForm]) -> Redirect:
    said, key = request.body, limit_key(request.body.key.strip())
    most, rate = _whole(said.most), said.rate.strip()
    back = f"/queues/{part(key.removeprefix('queue:'))}" if key.startswith("queue:") else "/queues"
    if not said.whole:
        await request.admin.set_limit(key, most, rate or None)
        return done(back, "saved")
    before: LimitView | None = next((limit for limit in (await request.admin.limits()).limits if limit.key == key), None)
    if most is None and not rate:
        if before is not None:
            await request.admin.remove_limit(key)
        return done(back, "saved")
    as_shown = before is not None and before.per_second is not None and rate == rate_set(before.per_second)
    pace = None if as_shown else rate or "none"  # one that is said anew has a burst of its own
    await request.admin.set_limit(key, "none" if most is None else most, pace)
    return done(back, "saved")


def _whole(text: str) -> int | None:
    try:
        return int(text) if text.strip() else None
    except ValueError:
        raise InvalidInput("most", f"must be a whole number, got {text[:40]!r}") from None


async def pause_limit(request: Request[None, None]) -> Redirect:
    await request.admin.pause_limit(request.path["key"], True)
    return done("/queues", "paused")


async def resume_limit(request: Request[None, None]) -> Redirect:
    await request.admin.pause_limit(request.path["key"], False)
    return done("/queues", "resumed")


async def remove_limit(request: Request[None, Sure]) -> Page | Redirect:
    key = request.path["key"]
    if not request.body.sure:
        text = "Jobs that wait for a permit of it may start at once."
        return await ask(request, "queues", f"Remove the limit {key}?", text, "Remove", back="/queues", danger=True)
    await request.admin.remove_limit(key)
    return done("/queues", "deleted")
