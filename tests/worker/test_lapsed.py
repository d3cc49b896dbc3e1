"""Leases that lapsed before anybody noticed: in a claim's answer, before a slot, under a handler that still runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.context import Context
from windlass.drivers.values import Claim
from windlass.worker.holdings import Held

from .stage import Stage, on_stage

LEASE = 3 * SECOND // 10


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_claim_that_is_answered_after_its_leases_lapsed_does_not_end_all_claiming(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        async def awaited() -> None: ...

        def blocking() -> None: ...

        handler: Any = awaited if run == "async" else blocking
        task = stage.app.task(name="work")(handler)
        jobs = await stage.app.enqueue_many(task.job() for _ in range(4))
        waits, go = stage.store.hold("claim")
        async with stage.working(concurrency=2, threads=2) as worker:
            await waits.wait()
            stage.clock.advance(LEASE)
            go.set()
            for job in jobs:
                row = await stage.until_state(job.id, "succeeded")
                assert row.lost <= 1
            assert (worker.stats.succeeded, worker.stats.settled_late) == (4, 0)

    on_stage(url, play)


def test_a_job_that_is_lost_while_it_waits_for_its_slot_makes_room_for_another() -> None:
    async def play(stage: Stage) -> None:
        told: list[str] = []

        @stage.app.task
        async def work() -> None: ...

        async with stage.working(concurrency=1, queues=["elsewhere"]) as worker:
            await stage.until(lambda: stage.store.calls["claim"] > 0)
            await work.enqueue()
            wish = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id=worker.id, token="t")
            [job] = await stage.store.driver.claim(wish, now=stage.clock.now())
            held = Held(stage.app.client, job, work, begun=False)
            slots = worker._runners[0]
            slots._on_free = lambda: told.append("free")
            slots.accept([held])
            worker._finisher.lose(held)  # before the slot wakes up
            await stage.until(lambda: told == ["free"])
            assert slots.free == 1

    on_stage("memory://", play)


def test_a_job_that_comes_back_to_the_same_worker_does_not_run_twice_there(url: str) -> None:
    """Its lease lapsed unnoticed (the process slept) and the next claim brings it again: the old handler is stopped."""

    async def play(stage: Stage) -> None:
        events: list[str] = []

        @stage.app.task(context=True)
        async def waits(ctx: Context) -> str:
            if ctx.attempt > 1:
                await stage.until(lambda: events == ["stopped"])
                return "second"
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                events.append("stopped")
                raise
            return "first"

        job = await waits.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            stage.clock.advance("31s")  # the keeper looks once a second, the claimer fifty times
            assert await job.result(timeout=0.8) == "second"
            assert (worker.stats.leases_lost, worker.stats.settled_late) == (1, 0)

    on_stage(url, play, lease="30s")


def test_who_was_robbed_by_a_clock_that_is_ahead_rests_before_the_next_claim() -> None:
    """Otherwise the two would pass the job to and fro as fast as they can: the robber cannot run it, and takes it back at
    each look."""

    async def play(stage: Stage) -> None:
        go = asyncio.Event()
        begun: list[None] = []

        @stage.app.task
        async def long() -> None:
            begun.append(None)
            await go.wait()

        job = await long.enqueue()
        async with stage.working(concurrency=3) as worker:
            await stage.until(lambda: len(begun) == 1)
            await stage.store.driver.expire(now=stage.clock.now() + 2 * LEASE, limit=10)
            worker._claimer.changed()
            await stage.until(lambda: len(begun) == 2)
            claims = stage.store.calls["claim"]
            await stage.store.driver.expire(now=stage.clock.now() + 2 * LEASE, limit=10)
            for _ in range(20):
                worker._claimer.changed()
                await asyncio.sleep(0.002)
            assert stage.store.calls["claim"] == claims, "it rests"
            assert (await stage.fetch(job.id)).lost == 2
            go.set()  # and to be told to stop ends its rest

    on_stage("memory://", play, poll="1h")
