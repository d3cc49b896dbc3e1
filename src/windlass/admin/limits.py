"""Limits as people see them: what bounds a key, how much of it is used, who holds it and how many wait."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct

from windlass.client import Client
from windlass.clock import moment
from windlass.core.limits import has_rate, limit_key, tokens_at
from windlass.core.queries import AllLimits, LimitUses
from windlass.errors import InvalidInput
from windlass.limits import Limits
from windlass.types import Limit, LimitUse, Micros
from windlass.words import did_you_mean

HOLDERS = 10


class LimitView(Struct, frozen=True, kw_only=True):
    """One limit. `holders` are the ids of running jobs, the oldest first, at most ten."""

    key: str
    used: int
    most: int | None
    per_second: float | None
    burst: float | None
    tokens: float | None
    weight: float
    paused_at: datetime | None
    waiting: int
    holders: tuple[str, ...]


class LimitList(Struct, frozen=True, kw_only=True):
    at: datetime
    limits: tuple[LimitView, ...]


async def listed(client: Client) -> LimitList:
    now = client.now()
    limits = await client.driver.read(AllLimits())
    keys = tuple(limit.key for limit in limits)
    uses = {use.key: use for use in await client.driver.read(LimitUses(keys=keys, limit=HOLDERS))} if keys else {}
    return LimitList(at=moment(now), limits=tuple(_view(limit, uses[limit.key], now) for limit in limits))


def _view(limit: Limit, use: LimitUse, now: Micros) -> LimitView:
    return LimitView(
        key=limit.key, used=limit.used, most=limit.max_used, per_second=limit.per_second, burst=limit.burst,
        tokens=tokens_at(limit, now) if has_rate(limit) else None, weight=limit.weight,
        paused_at=None if limit.paused_at is None else moment(limit.paused_at), waiting=use.waiting, holders=use.holders,
    )  # fmt: skip


async def set_limit(
    client: Client, key: str, most: int | Literal["none"] | None, rate: str | None, burst: float | None,
    weight: float | None,
) -> str:  # fmt: skip
    """What is not said stays as it is; "none" takes a number or a rate away. Answers the key."""
    await Limits(client).set(
        key, UNSET if most is None else None if most == "none" else most,
        rate=UNSET if rate is None else None if rate == "none" else rate,
        burst=UNSET if burst is None else burst, weight=UNSET if weight is None else weight,
    )  # fmt: skip
    return limit_key(key)


async def remove(client: Client, key: str) -> str:
    name = limit_key(key)
    if not await Limits(client).remove(name):
        known = [limit.key for limit in await client.driver.read(AllLimits())]
        hint = did_you_mean(name, known)
        raise InvalidInput("limit", f"there is no limit {name!r} in this store{hint}; known: {', '.join(known) or '-'}")
    return name
