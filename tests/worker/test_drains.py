"""Who comes for a moment only leaves nothing that could run: neither what is owed to those that wait for an ended job."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from windlass.app import Windlass
from windlass.core.dependencies import INLINE
from windlass.drivers.values import JobQuery
from windlass.signals import Reject
from windlass.testing import testing
from windlass.testing.faulty import Call, away

from .stage import Stage, on_stage

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
        begun = asyncio.Event()

        async def away_later(call: Call, args: tuple[Any, ...]) -> Any:
            if begun.is_set():
                raise away()
            begun.set()
            return await call()

        stage.store.faults["expire"] = away_later
        worker = await stage.drain()
        assert worker.stats.store_errors == 1
        assert (await states(stage.app))["succeeded"] == INLINE + 1

    on_stage(url, play, **SELDOM)
