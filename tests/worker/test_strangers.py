"""Jobs of types that this worker does not have, and jobs that somebody cancels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from windlass.context import Context
from windlass.errors import JobCancelled
from windlass.types import NewJob
from windlass.worker import keeper, sweeper
from windlass.worker.pace import Pace

from .stage import Stage, heard, heeding, on_stage


def test_jobs_of_an_unknown_type_wait_untouched_and_a_hint_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        strange = [NewJob(id=f"s{n}", type="strange") for n in range(3)]
        await stage.store.driver.enqueue(strange, now=stage.clock.now())
        job = await known.enqueue()
        async with stage.working():
            await stage.until_state(job.id, "succeeded")
            await stage.until(lambda: stage.store.calls["waiting_types"] >= 3)
        row = await stage.fetch("s0")
        assert (row.state, row.executions, row.attempts) == ("queued", 0, 0)
        hints = [line for line in caplog.messages if "'strange'" in line]
        assert len(hints) == 1, "one hint, not one per look"
        assert "import the module that declares it" in hints[0]

    on_stage(url, play)


def test_names_that_somebody_invents_are_not_all_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sweeper, "HINTS", 3)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        def hints() -> int:
            return sum("import the module that declares it" in line for line in caplog.messages)

        async with stage.working() as worker:
            await stage.until(lambda: stage.store.calls["waiting_types"] >= 1)
            strange = [NewJob(id=f"s{n}", type=f"strange-{n}") for n in range(9)]
            await stage.store.driver.enqueue(strange, now=stage.clock.now())
            await stage.until(lambda: hints() > 0)
            looks = stage.store.calls["waiting_types"]
            await stage.until(lambda: stage.store.calls["waiting_types"] > looks + 1)
            assert (hints(), len(worker._sweeper._hinted)) == (3, 3)
            stage.clock.advance(sweeper.HINT_EVERY)
            await stage.until(lambda: hints() == 6)
            assert len(worker._sweeper._hinted) == 3

    on_stage("memory://", play)


def test_jobs_that_say_so_are_dead_when_nobody_here_handles_them(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        new = [NewJob(id="dies", type="strange", on_unknown="dead"), NewJob(id="waits", type="strange")]
        await stage.store.driver.enqueue(new, now=stage.clock.now())
        async with stage.working() as worker:
            row = await stage.until_state("dies", "dead")
            assert (row.dead_kind, "no task is called 'strange'" in str(row.dead_reason)) == ("rejected", True)
            assert (await stage.fetch("waits")).executions == 0
            await stage.until(lambda: worker.stats.dead == 1)

    on_stage(url, play)


def test_a_job_of_an_unknown_type_whose_end_is_refused_is_not_counted_as_dead() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        async def late(call: Any, args: tuple[Sequence[Any]]) -> Any:
            """By then somebody else has ended it."""
            await stage.store.driver.settle(args[0], now=stage.clock.now())
            return ["not_inflight" for _ in args[0]]

        stage.store.faults["settle"] = late
        await stage.store.driver.enqueue([NewJob(id="dies", type="strange", on_unknown="dead")], now=stage.clock.now())
        async with stage.working() as worker:
            await stage.until_state("dies", "dead")
            await known.enqueue()
            await stage.until(lambda: worker.stats.settled_late == 1)
            assert worker.stats.dead == 0

    on_stage("memory://", play)


# --------------------------------------------------------------------------------------------------------- cancelling


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "NEWS_EVERY", 20_000)


def test_a_queued_job_that_is_cancelled_never_runs(url: str) -> None:
    async def play(stage: Stage) -> None:
        ran: list[str] = []

        @stage.app.task(context=True)
        async def work(ctx: Context) -> None:
            ran.append(ctx.job.id)

        one, two = await work.enqueue(), await work.enqueue()
        assert await one.cancel("not wanted") == "cancelled"
        await stage.drain()
        assert ran == [two.id]
        with pytest.raises(JobCancelled, match="not wanted"):
            await one.result(timeout=1)

    on_stage(url, play)


@pytest.mark.usefixtures("watchful")
@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_running_job_is_interrupted_soon_after_it_was_cancelled(url: str, run: str) -> None:
    """Also when more jobs run than are asked about at once, and long before the next renewal."""

    async def play(stage: Stage) -> None:
        stop, stopped = threading.Event(), []

        @stage.app.task(context=True)
        async def waits(ctx: Context) -> None:
            try:
                await heard(stop)
            except asyncio.CancelledError:
                stopped.append(ctx.job.id)
                raise

        @stage.app.task(context=True)
        def blocks(ctx: Context) -> None:
            while not ctx.cancelled and not stop.wait(0.01):
                pass
            if ctx.cancelled:
                stopped.append(ctx.job.id)
                raise RuntimeError("stopped half-way")

        task: Any = waits if run == "async" else blocks
        number = 150 if run == "async" else 2
        jobs = await stage.app.enqueue_many(task.job() for _ in range(number))
        async with stage.working(concurrency=number, threads=number) as worker:
            await stage.until_state(jobs[-1].id, "running")
            assert await jobs[-1].cancel() == "requested"
            stage.clock.advance("1s")
            row = await stage.until_state(jobs[-1].id, "cancelled")
            assert (stopped, row.attempts, worker.stats.cancelled) == ([jobs[-1].id], 0, 1)
            [run_row] = await stage.store.driver.runs(row.id)
            assert run_row.status == "skipped"
            stop.set()
            await stage.until(lambda: worker.stats.succeeded == number - 1)
            assert stage.store.calls["extend"] == 0, "no renewal was due"

    on_stage(url, play, lease="30s")


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_prefetched_job_that_is_cancelled_never_begins(url: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: 2))

    async def play(stage: Stage) -> None:
        task, go, began = heeding(stage, run)
        first, second = await task.enqueue(), await task.enqueue()
        async with stage.working(concurrency=1, threads=1) as worker:
            await stage.until_state(second.id, "running")
            await second.cancel()
            stage.clock.advance("100ms")
            await stage.until(lambda: any(held.why == "cancel" for held in worker._holdings))
            go.set()
            await stage.until_state(second.id, "cancelled")
            assert began == [first.id]

    on_stage(url, play)


def test_a_job_that_was_cancelled_while_it_failed_does_not_come_back(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def fails() -> None:
            await go.wait()
            raise ValueError("no")

        job = await fails.enqueue()
        async with stage.working():
            await stage.until_state(job.id, "running")
            await job.cancel()
            go.set()
            assert (await stage.until_state(job.id, "cancelled")).executions == 1

    on_stage(url, play, lease="30s")
