"""`/api/schedules`: rules that make jobs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from windlass.admin.schedules import ScheduleList, ScheduleView
from windlass.admin.views import Queued
from windlass.definitions import Preview, ScheduleOptions
from windlass.errors import UnknownSchedule
from windlass.types import CatchUp, Overlap
from windlass.web.api.asking import Count, Gone, Instant, Switched
from windlass.web.arguments import whole
from windlass.web.request import Request


class ScheduleChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    template: str | UnsetType = UNSET
    cron: Annotated[str | None, Meta(description="five or six fields, or @daily; or `every`")] = None
    every: Annotated[str | float | None, Meta(description="an interval: seconds, or 15m")] = None
    tz: str | UnsetType = UNSET
    params: Annotated[dict[str, Any] | UnsetType, Meta(description="over those of the template")] = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    cap: int | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter: str | float | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class ScheduleWish(ScheduleChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out is as usual, but for `enabled`, which stays as it is."""

    template: str


class PreviewWish(Struct, frozen=True, forbid_unknown_fields=True):
    """`rule`: a cron expression, an interval such as `every 15m`, or a schedule's name."""

    rule: str
    tz: str | None = None
    count: Count = 5
    after: Annotated[Instant | None, Meta(description="begin here instead of now")] = None


async def listed(request: Request[None, None]) -> ScheduleList:
    """Every schedule, what it makes and when, and whether code still declares it."""
    return await request.admin.scheduled()


async def show(request: Request[None, None]) -> ScheduleView:
    """One schedule."""
    return await _named(request)


async def put(request: Request[None, ScheduleWish]) -> ScheduleView:
    """Make a schedule, or say anew what the one of this name does."""
    wish = request.body
    await request.admin.schedules.put(request.path["name"], wish.template, wish.cron, every=wish.every, **_options(wish))
    return await _named(request)


async def update(request: Request[None, ScheduleChange]) -> ScheduleView:
    """Change only what is given."""
    wish = request.body
    template = None if wish.template is UNSET else wish.template
    await request.admin.schedules.update(
        request.path["name"], template=template, cron=wish.cron, every=wish.every, **_options(wish)
    )
    return await _named(request)


async def preview(request: Request[None, PreviewWish]) -> Preview:
    """What a rule will do: in words, its next times, and what happens when clocks are changed."""
    wish = request.body
    count = request.page(wish.count)
    return await request.admin.schedules.preview(wish.rule, tz=wish.tz, count=count, after=wish.after)


async def pause(request: Request[None, None]) -> Switched:
    """Make no more jobs until it is resumed."""
    name = request.path["name"]
    return Switched(name, True, await request.admin.schedules.pause(name))


async def resume(request: Request[None, None]) -> Switched:
    """Go on from now."""
    name = request.path["name"]
    return Switched(name, False, await request.admin.schedules.resume(name))


async def run(request: Request[None, None]) -> Queued:
    """One job now, outside the rhythm."""
    job = await request.admin.schedules.run(request.path["name"])
    return Queued(job.id, job.existed)


async def delete(request: Request[None, None]) -> Gone:
    """The jobs that it made stay."""
    await request.admin.schedules.delete(request.path["name"])
    return Gone(request.path["name"])


def _options(wish: ScheduleChange) -> ScheduleOptions:
    whole(None if wish.params is UNSET else wish.params)
    said = structs.asdict(wish).items()
    return {  # type: ignore[return-value]
        name: value for name, value in said if name not in ("template", "cron", "every") and value is not UNSET
    }


async def _named(request: Request[None, Any]) -> ScheduleView:
    name = request.path["name"]
    for one in (await request.admin.scheduled()).schedules:
        if one.name == name:
            return one
    raise UnknownSchedule(name)
