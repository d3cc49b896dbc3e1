"""`/api/limits`: how many jobs of a queue, a type, an organisation, a tag or a key run at once, or begin per second."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.limits import LimitList, LimitView
from windlass.web.api.asking import Gone, Switched
from windlass.web.request import Request


class LimitWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    most: Annotated[int | None, Meta(description="valid leases at once")] = None
    rate: Annotated[str | None, Meta(description="such as 10/s or 600/m; none takes it away")] = None
    burst: float | None = None
    weight: Annotated[float | None, Meta(description="of an organisation, in fair queues")] = None


async def listed(request: Request[None, None]) -> LimitList:
    """Every limit with how much of it is used, who holds it and how many wait."""
    return await request.admin.limits()


async def put(request: Request[None, LimitWish]) -> LimitView:
    """Make a limit, or change what is said of it. `gpu` stands for `key:gpu`."""
    said = request.body
    key = await request.admin.set_limit(request.path["key"], said.most, said.rate, said.burst, said.weight)
    return next(limit for limit in (await request.admin.limits()).limits if limit.key == key)


async def remove(request: Request[None, None]) -> Gone:
    """Take a limit away: who waits for it goes on."""
    return Gone(await request.admin.remove_limit(request.path["key"]))


async def pause(request: Request[None, None]) -> Switched:
    """Stop claims of a type, an organisation, a tag or a key."""
    key, changed = await request.admin.pause_limit(request.path["key"], True)
    return Switched(key, True, changed)


async def resume(request: Request[None, None]) -> Switched:
    """Let them begin again."""
    key, changed = await request.admin.pause_limit(request.path["key"], False)
    return Switched(key, False, changed)
