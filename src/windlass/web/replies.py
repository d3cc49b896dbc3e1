"""A claim that is said again, after a lost reply, is answered with the jobs that it holds.

The store knows these, so it does not matter which server of it heard the claim first, or whether that one still runs. While
a claim is under way here, the same claim waits for it; one that another server is about to store takes jobs that nobody
will hear of, and their leases lapse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeAlias

from windlass.core.queries import LeasedUnder
from windlass.core.rows import as_claimed, run_id_of
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim
from windlass.types import Claimed, Job, Micros

Answer: TypeAlias = "asyncio.Task[list[Claimed]]"
Ask: TypeAlias = Callable[[], Coroutine[Any, Any, list[Claimed]]]


class Replies:
    def __init__(self) -> None:
        self._under_way: dict[tuple[Hashable, Claim], Answer] = {}  # by who asked, and what for

    async def once(self, who: Hashable, claim: Claim, ask: Ask) -> list[Claimed]:
        """It goes on when whoever asked is gone."""
        key = (who, claim)
        answer = self._under_way.get(key)
        if answer is None:
            answer = self._under_way[key] = asyncio.create_task(ask(), name="windlass-claim")
            answer.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(answer)

    def _ended(self, key: tuple[Hashable, Claim], done: Answer) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # whoever asked may be gone


async def taken(driver: Driver, claim: Claim, now: Micros) -> list[Claimed]:
    """What this claim holds when it was said before; else what it takes now."""
    held = await driver.read(
        LeasedUnder(token=claim.token, worker_id=claim.worker_id, queues=claim.queues, now=now, limit=claim.limit)
    )
    return [_claimed(job) for job in held] or await driver.claim(claim, now=now)


def _claimed(job: Job) -> Claimed:
    assert job.claimed_at is not None, "leased without claimed_at"
    return as_claimed(job, run_id_of(job.lease_token or "", job.claimed_at, job.seq), job.id)
