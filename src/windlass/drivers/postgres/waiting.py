"""Waiting for work: told of it where that can be heard, else by looking, less and less often while there is nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from windlass.clock import ticking
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.listening import Listener
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.wakeups import Notifier, Wakeups
from windlass.errors import StoreError

FIRST_LOOK: Final = 0.02
LONGEST_LOOK: Final = 0.5
SHORTEST_LOOK: Final = 0.1  # seconds that a look may take
VERDICT_WITHIN: Final = 10.0


class Waiting:
    """`look` answers the store's pulse, what moves when work arrives, within so many seconds."""

    def __init__(
        self, place: Place, watch: Watch, wakeups: Wakeups, notifier: Notifier,
        look: Callable[[float], Awaitable[tuple[int, bool]]],
    ) -> None:  # fmt: skip
        self._place, self._watch, self._wakeups, self._notifier = place, watch, wakeups, notifier
        self._look = look
        self._pulse = (0, False)  # when we last looked
        self._look_after = FIRST_LOOK
        self._listener: Listener | None = None

    @property
    def pushed(self) -> bool:
        """Whether news is pushed to us, as far as is known."""
        return not self._place.pooled and (self._listener is None or self._listener.healthy)

    @property
    def mode(self) -> str:
        """How we hear of work at present, and how long it took at the last test."""
        listener = self._listener
        if listener is None or not listener.healthy or listener.latency is None:
            return "poll"
        return f"push, {listener.latency * 1000:.1f} ms"

    def look_soon(self) -> None:
        """Look again soon: where there was work, there is often more."""
        self._look_after = FIRST_LOOK

    async def wait(self, timeout: float) -> bool:
        listener = self._listen()
        if listener is None or (listener.settled and not listener.healthy):
            return await self._look_for_news(ticking() + timeout)
        listener.hear_on(asyncio.get_running_loop())
        return await self._wakeups.wait(timeout)

    async def _look_for_news(self, until: float) -> bool:
        while True:
            with suppress(StoreError):  # it is away: whoever claims is told
                before, self._pulse = self._pulse, await self._look(max(until - ticking(), SHORTEST_LOOK))
                if self._pulse[0] != before[0] or (self._pulse[1] and not before[1]):
                    return True
            left = until - ticking()
            if left <= 0:
                return False
            pause, self._look_after = self._look_after, min(self._look_after * 1.5, LONGEST_LOOK)
            if await self._wakeups.wait(min(pause, left)):
                return True

    async def latency(self) -> float | None:
        """How many seconds a message to ourselves took; None if none arrived."""
        listener = self._listen()
        if listener is None:
            return None
        for _ in range(round(VERDICT_WITHIN / FIRST_LOOK)):  # its thread knows no event loop
            if listener.settled:
                break
            await asyncio.sleep(FIRST_LOOK)
        return listener.latency if listener.healthy else None

    def _listen(self) -> Listener | None:
        if self._listener is None and not self._place.pooled:
            self._listener = Listener(self._place, self._watch, self._wakeups.tell, self._notifier)
        return self._listener

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
