"""`app.limits`: reads and changes limits while workers run. Also parses what `app.limit` is given."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from windlass.apart import apart
from windlass.core.alterations import Alteration, PauseLimit, PutLimit, RemoveLimit
from windlass.core.limits import caps, limit_key
from windlass.core.queries import AllLimits
from windlass.errors import InvalidInput, shown
from windlass.types import Limit

if TYPE_CHECKING:
    from windlass.client import Client

_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def per_second(rate: str | float) -> float:
    """A rate in jobs per second, from `"10/s"`, `"100/m"`, `"5000/h"`, or a number of jobs per second."""
    if isinstance(rate, str):
        found = _RATE.fullmatch(rate)
        if found is None:
            raise InvalidInput("rate", f"must be like '10/s', '100/m' or '5000/h', got {shown(rate)}")
        return float(found[1]) / _SECONDS[found[2]]
    return rate


def described(
    key: str, most: int | None, *, rate: str | float | None, burst: float | None, weight: float, declared: bool = False
) -> PutLimit:
    name = limit_key(key)
    if most is None and rate is None and weight == 1:
        raise silent(name)
    if most is not None and (type(most) is not int or most < 0):
        raise InvalidInput("limit", f"must be a whole number of at least 0, got {shown(most)}")
    pace = None if rate is None else per_second(rate)
    return PutLimit(name, most, pace, burst, weight, declared)


def silent(name: str) -> InvalidInput:
    return InvalidInput("limit", f"says nothing of {name!r}: give how many may run, rate='10/s', or weight=2 for an org")


class Limits:
    """Reads and changes limits. A change takes effect with the next claim, on every machine.

    A restart of the program does not undo a change that is made here or by `windlass limits`: a limit that the program
    declares is stored only when its declaration has been changed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def set(
        self, key: str, most: int | UnsetType | None = UNSET, *, rate: str | float | UnsetType | None = UNSET,
        burst: float | UnsetType | None = UNSET, weight: float | UnsetType = UNSET,
    ) -> None:  # fmt: skip
        """Set how many jobs of a key run at once (`most`), how many start per time (`rate="10/s"`), how many may start at
        once after a pause (`burst`), or the share of an organisation in fair queues (`weight`). What is left out stays as
        it is; None removes it."""
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
        """The blocking form of `set`."""
        apart(lambda: self.set(key, most, rate=rate, burst=burst, weight=weight))

    async def list(self) -> builtins.list[Limit]:
        """All limits, sorted by key."""
        return await self._client.driver.read(AllLimits())

    def list_sync(self) -> builtins.list[Limit]:
        """The blocking form of `list`."""
        return apart(self.list)

    async def remove(self, key: str) -> bool:
        """Remove the limit of a key. Returns False if there was none."""
        return await self._alter(RemoveLimit(limit_key(key))) == "applied"

    def remove_sync(self, key: str) -> bool:
        """The blocking form of `remove`."""
        return apart(lambda: self.remove(key))

    async def pause(self, key: str) -> bool:
        """Stop claiming jobs of a type, an org, a tag or a key; running ones go on. Returns False if it was paused
        already."""
        return await self._alter(PauseLimit(pausable(key), True)) == "applied"

    def pause_sync(self, key: str) -> bool:
        """The blocking form of `pause`."""
        return apart(lambda: self.pause(key))

    async def resume(self, key: str) -> bool:
        """Claim such jobs again. Returns False if it was not paused."""
        return await self._alter(PauseLimit(pausable(key), False)) == "applied"

    def resume_sync(self, key: str) -> bool:
        """The blocking form of `resume`."""
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
