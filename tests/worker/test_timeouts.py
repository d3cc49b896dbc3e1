"""A handler whose time is over: interrupted, retried, and never doubled while it does not stop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.context import Context
from windlass.worker import finish

from .stage import PATIENCE, Stage, on_stage


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "STOPS_WITHIN", 0.05)


def test_an_async_handler_is_interrupted_and_retried_by_policy(url: str) -> None:
    async def play(stage: Stage) -> None:
        ends: list[str] = []

        @stage.app.task(timeout="20ms")
        async def slow() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ends.append("interrupted")
                raise

        job = await slow.enqueue()
        worker = await stage.drain(concurrency=1)
        row = await stage.fetch(job.id)
        assert (row.state, row.dead_kind, row.executions, worker.stats.stuck) == ("dead", "exhausted", 3, 0)
        assert row.last_error == "TimeoutError: it ran longer than its timeout of 0.02 s"
        assert ends == ["interrupted"] * 3

    on_stage(url, play)


def test_an_async_handler_that_swallows_its_interruption_keeps_its_slot_until_it_ends() -> None:
    async def play(stage: Stage) -> None:
        go, begun = asyncio.Event(), 0

        @stage.app.task(timeout="20ms")
        async def stubborn() -> None:
            nonlocal begun
            begun += 1
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue

        @stage.app.task
        async def other() -> None: ...

        job = await stubborn.enqueue()
        async with stage.working(concurrency=1) as worker:
            await stage.until(lambda: worker.stats.retried == 1)
            assert ((await stage.fetch(job.id)).attempts, worker.stats.stuck) == (1, 1)
            behind = await other.enqueue()
            await asyncio.sleep(0.1)
            assert (begun, (await stage.fetch(behind.id)).executions) == (1, 0), "the only slot is taken"
            go.set()
            await stage.until_state(behind.id, "succeeded")
            assert worker.stats.stuck == 0
            assert worker.stats.settled_late == 0

    on_stage("memory://", play)


def test_a_thread_is_told_and_after_a_while_its_run_ends_without_it(url: str) -> None:
    async def play(stage: Stage) -> None:
        told, go = threading.Event(), threading.Event()

        @stage.app.task(context=True, timeout="20ms")
        def slow(ctx: Context) -> None:
            while not ctx.cancelled:
                go.wait(0.002)
            told.set()
            assert go.wait(PATIENCE)

        job = await slow.enqueue()
        async with stage.working(threads=2) as worker:
            await stage.until(told.is_set)
            await stage.until(lambda: worker.stats.retried >= 1)
            assert worker.stats.stuck >= 1
            runs = await stage.store.driver.runs(job.id)
            assert (runs[0].status, "TimeoutError" in str(runs[0].error)) == ("failed", True)
            go.set()
            row = await stage.until_state(job.id, "succeeded")
            assert row.executions in (2, 3)
            await stage.until(lambda: worker.stats.stuck == 0)

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_worker_whose_every_slot_is_stuck_ends(run: str) -> None:
    async def play(stage: Stage) -> None:
        release = threading.Event()

        @stage.app.task(timeout="20ms", name="stubborn")
        def blocks() -> None:
            release.wait(PATIENCE)

        async def swallows() -> None:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue

        if run == "async":
            del stage.app.tasks["stubborn"]
            stage.app.task(timeout="20ms", name="stubborn")(swallows)
        task = stage.app.find_task("stubborn")
        jobs = [await task.enqueue() for _ in range(2)]
        worker = stage.app.worker(concurrency=2, threads=2)
        async with asyncio.timeout(5):
            await worker.run()
        release.set()
        assert worker.all_stuck
        for job in jobs:
            row = await stage.fetch(job.id)
            assert (row.state, row.attempts, row.lost) == ("queued", 1, 0), "recorded, and left for a better process"

    on_stage("memory://", play)


def test_a_handler_that_ends_well_after_its_time_has_done_its_work() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(timeout="10ms")
        async def tidy() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "done all the same"
            return "never"

        job = await tidy.enqueue()
        await stage.drain()
        assert await job.result(timeout=1) == "done all the same"

    on_stage("memory://", play)


def test_an_interruption_hits_only_the_handler_it_is_meant_for() -> None:
    """The next job of the slot, and its neighbours, are not touched by a timeout that came at the last moment."""

    async def play(stage: Stage) -> None:
        @stage.app.task(timeout="10ms")
        async def on_the_edge() -> None:
            await asyncio.sleep(0.01)

        @stage.app.task
        async def plain() -> None:
            await asyncio.sleep(0.001)

        await stage.app.enqueue_many([*(on_the_edge.job() for _ in range(20)), *(plain.job() for _ in range(20))])
        async with asyncio.timeout(PATIENCE):
            worker = stage.app.worker(concurrency=2)
            await worker.run(drain=True)
        counts = await stage.store.driver.count(now=stage.clock.now())
        assert {count.label for count in counts} <= {"dead"}
        assert worker.stats.succeeded >= 20

    on_stage("memory://", play)
