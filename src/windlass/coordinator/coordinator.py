"""A worker's part in its fleet: every duty in its loop, in the order in which one needs the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator.bites import upkeep
from windlass.coordinator.burial import Burial
from windlass.coordinator.election import Election
from windlass.coordinator.firing import Firing, LookOver
from windlass.coordinator.forgetting import Forgetting
from windlass.coordinator.registry import Registry
from windlass.coordinator.sampling import Sampling
from windlass.coordinator.ticking import Counts, Ticks, keep_ticking
from windlass.coordinator.watch import Watch
from windlass.records import WorkerInfo

PASSES_BY: Final = 1 * SECOND  # a worker that comes for a moment only stands for election when it is still there then
ONE_IN: Final = 50  # of those stands at once: where only such workers come, somebody has to keep the store in order


class Coordinator:
    """Nothing here is waited for by anybody: a worker that ends soon takes part as far as it gets."""

    def __init__(
        self, client: Client, counts: Counts, about: WorkerInfo, *, running: Callable[[], int],
        recover: Callable[[], Awaitable[None]], trusts: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._client = client
        self._counts = counts
        self.registry = Registry(client, about, running)
        self.election = election = Election(client, about.id)
        self.duties: list[Ticks] = [
            Burial(client, election, recover=recover, trusts=trusts), *upkeep(client, election),
            Sampling(client, election), Watch(client, election), Firing(client, election), LookOver(client, election),
            Forgetting(client, election),
        ]  # fmt: skip

    def parts(self, *, stays: bool) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Loops for the worker to run, by name. Only who is registered may lead, and only who leads has duties."""
        yield self.registry.name, self._loop(self.registry)
        yield self.election.name, self._stand(at_once=stays or self._client.ids.random.random() * ONE_IN < 1)
        for duty in self.duties:
            yield duty.name, self._loop(duty, once=self.election.won)

    def _loop(self, part: Ticks, once: asyncio.Event | None = None) -> Coroutine[Any, Any, None]:
        return keep_ticking(part, self._client, self._counts, once=once)

    async def _stand(self, *, at_once: bool) -> None:
        if not at_once:
            await asyncio.sleep(PASSES_BY / SECOND)
        await self._loop(self.election, once=self.registry.registered)

    async def leave(self) -> None:
        """Once its loops have ended."""
        self.election.resign()
        await self.registry.leave()
