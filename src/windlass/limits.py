"""`app.limits`: what bounds the jobs of a key, at run time; and how limits are written down."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from windlass.apart import apart
from windlass.core.alterations import Alteration, PauseLimit, PutLimit, RemoveLimit
from windlass.core.limits import caps, limit_key
from windlass.core.queries import AllLimits
from windlass.errors import InvalidInput
from windlass.types import Limit

if TYPE_CHECKING:
    from windlass.client import Client

_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def per_second(rate: str | float, field: str = "rate") -> float:
    """`"10/s"`, `"100/m"`, `"5000/h"`, or a number per second."""
    if isinstance(rate, str):
        found = _RATE.fullmatch(rate)
        if found is None:
            raise InvalidInput(field, f"must be like '10/s', '100/m' or '5000/h', got {rate!r}")
        return float(found[1]) / _SECONDS[found[2]]
    return rate


def described(
    key: str, most: int | None, *, rate: str | float | None, burst: float | None, weight: float, declared: bool = False
) -> PutLimit:
    name = limit_key(key)
    if most is None and rate is None and weight == 1:
        raise silent(name)
    if most is not None and (type(most) is not int or most < 0):
        raise InvalidInput("limit", f"must be a whole number of at least 0, got {most!r}")
    pace = None if rate is None else per_second(rate)
    return PutLimit(name, most, pace, burst, weight, declared)


def silent(name: str) -> InvalidInput:
    return InvalidInput("limit", f"says nothing of {name!r}: give how many may run, rate='10/s', or weight=2 for an org")


class Limits:
    """Changes take effect with the next claim, on every machine, and stay. A limit that the program declares is obeyed when
    the program says something new of it; what is changed here, or by `windlass limits`, is not undone by a restart."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def set(
        self, key: str, most: int | UnsetType | None = UNSET, *, rate: str | float | UnsetType | None = UNSET,
        burst: float | UnsetType | None = UNSET, weight: float | UnsetType = UNSET,
    ) -> None:  # fmt: skip
        """Bound a key: so many jobs at once, so many per second. What is not said stays as it is; None takes it away."""
        name = limit_key(key)
        if most is rate is burst is weight is UNSET:
            raise silent(name)
        before = next((limit for limit in await self.list() if limit.key == name), Limit(key=name))
        pace = before.per_second if rate is UNSET else rate
        change = described(
            name, before.max_used if most is UNSET else most, rate=pace,
            burst=burst if burst is not UNSET else before.burst if rate is UNSET else None,
            weight=before.weight if weight is UNSET else weight,
        )  # fmt: skip
        await self._alter(change)

    def set_sync(
        self, key: str, most: int | UnsetType | None = UNSET, *, rate: str | float | UnsetType | None = UNSET,
        burst: float | UnsetType | None = UNSET, weight: float | UnsetType = UNSET,
    ) -> None:  # fmt: skip
        """The same, blocking."""
        apart(lambda: self.set(key, most, rate=rate, burst=burst, weight=weight))

    async def list(self) -> builtins.list[Limit]:
        """All limits, sorted by key."""
        return await self._client.driver.read(AllLimits())

    def list_sync(self) -> builtins.list[Limit]:
        """The same, blocking."""
        return apart(self.list)

    async def remove(self, key: str) -> bool:
        """Bound a key no more. False: there was no such limit."""
        return await self._alter(RemoveLimit(limit_key(key))) == "applied"

    def remove_sync(self, key: str) -> bool:
        """The same, blocking."""
        return apart(lambda: self.remove(key))

    async def pause(self, key: str) -> bool:
        """Claim no jobs of a type, an org, a tag or a key; what runs goes on. False: it was paused already."""
        return await self._alter(PauseLimit(pausable(key), True)) == "applied"

    def pause_sync(self, key: str) -> bool:
        """The same, blocking."""
        return apart(lambda: self.pause(key))

    async def resume(self, key: str) -> bool:
        """Claim them again. False: it was not paused."""
        return await self._alter(PauseLimit(pausable(key), False)) == "applied"

    def resume_sync(self, key: str) -> bool:
        """The same, blocking."""
        return apart(lambda: self.resume(key))

    async def _alter(self, change: Alteration) -> str:
        await self._client.ready()
        [answer] = await self._client.driver.alter([change], now=self._client.now())
        return answer


def pausable(key: str) -> str:
    name = limit_key(key)
    if caps(name) and name != "global":
        queue = name.removeprefix("queue:")
        raise InvalidInput("limit", f"{name!r} is a queue; pause it by its name: windlass queues pause {queue}")
    return name
