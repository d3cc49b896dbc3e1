"""Who comes for a moment only leaves nothing that could run: neither what is owed to those that wait for an ended job."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from windlass.app import Windlass
from windlass.clock import SECOND
from windlass.core.alterations import PutLimit
from windlass.core.dependencies import INLINE
from windlass.core.duties import TellDependants
from windlass.drivers.values import Claim, JobQuery
from windlass.signals import Reject
from windlass.testing import testing
from windlass.testing.faulty import Call, away
from windlass.types import NewJob

from .stage import PATIENCE, Stage, on_stage

CHILDREN = INLINE + 5  # more than the transaction of their parent's end tells
SELDOM: Final[dict[str, Any]] = {"lease": "1h", "concurrency": 50}  # no sweep comes while it drains


async def fan_out(app: Windlass, *, fails: bool = False) -> None:
    """A job, many that wait for it, and one that waits for the last of those however that ends."""

    @app.task
    async def part(n: int) -> None:
        if fails and n == 0:
            raise Reject("not this one")

    parent = await part.enqueue(0)
    then = part.using(after=[parent], on_failure="cancel")
    middle = await app.enqueue_many([then.job(n) for n in range(1, CHILDREN)])
    await part.using(after=[middle[-1]], on_failure="continue").enqueue(CHILDREN)


async def states(app: Windlass) -> Counter[str]:
    page = await app.client.driver.find(JobQuery(limit=2 * CHILDREN))
    return Counter(job.state for job in page.jobs)


@pytest.mark.parametrize("fails", [False, True])
def test_a_drain_runs_all_that_wait_for_a_job_with_many_children(url: str, fails: bool) -> None:
    async def play(stage: Stage) -> None:
        await fan_out(stage.app, fails=fails)
        await stage.drain()
        ended = {"dead": 1, "cancelled": CHILDREN - 1, "succeeded": 1} if fails else {"succeeded": CHILDREN + 1}
        assert await states(stage.app) == ended

    on_stage(url, play, **SELDOM)


def test_ticks_come_to_all_that_wait_for_a_job_with_many_children(url: str) -> None:
    async def play(stage: Stage) -> None:
        await fan_out(stage.app)
        assert (await stage.app.tick(limit=2 * CHILDREN)).claimed == CHILDREN + 1
        assert await states(stage.app) == {"succeeded": CHILDREN + 1}

    on_stage(url, play, **SELDOM)


def test_the_drain_of_a_test_runs_them_too() -> None:
    app = Windlass("memory://", **SELDOM)
    with testing(app) as test:

        async def main() -> None:
            await fan_out(app)
            await test.drain()
            assert await states(app) == {"succeeded": CHILDREN + 1}

        asyncio.run(main())


def test_a_drain_whose_store_is_away_at_the_end_ends(url: str) -> None:
    """What is owed is then left to the next sweep of anybody."""

    async def play(stage: Stage) -> None:
        await fan_out(stage.app)

        async def away_then(call: Call, args: tuple[Any, ...]) -> Any:
            if isinstance(args[0], TellDependants):
                raise away()
            return await call()

        stage.store.faults["maintain"] = away_then
        worker = await stage.drain()
        assert worker.stats.store_errors == 1
        assert (await states(stage.app))["succeeded"] == INLINE + 1

    on_stage(url, play, **SELDOM)


def test_a_drain_does_not_wait_for_a_token_that_only_jobs_of_others_wait_for(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def ours() -> None: ...

        store, now = stage.store.driver, stage.app.client.now()
        await store.alter([PutLimit("type:theirs", per_second=0.001, burst=1)], now=now)
        await store.enqueue([NewJob(id=f"theirs-{n}", type="theirs") for n in range(3)], now=now)
        wish = Claim(queues=("default",), limit=9, lease_for=3_600 * SECOND, worker_id="another", token="t")
        assert len(await store.claim(wish, now=now)) == 1
        job = await ours.enqueue()
        async with asyncio.timeout(PATIENCE):
            await stage.drain()
        assert (await stage.fetch(job.id)).state == "succeeded"

    on_stage(url, play)
