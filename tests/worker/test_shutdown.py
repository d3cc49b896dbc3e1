"""Stopping: nothing more is claimed, what runs may finish, what does not is handed back unharmed."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.context import Context
from windlass.worker import finish
from windlass.worker import worker as worker_module

from .stage import PATIENCE, Stage, heard, heeding, on_stage

LEASE = 3 * SECOND // 10


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "STOPS_WITHIN", 0.2)
    monkeypatch.setattr(worker_module, "STOPS", SECOND // 5)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_stopped_worker_lets_handlers_finish_renews_them_and_claims_nothing(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go = threading.Event()

        @stage.app.task
        async def waits() -> str:
            await heard(go)
            return "finished"

        @stage.app.task
        def blocks() -> str:
            assert go.wait(PATIENCE)
            return "finished"

        task: Any = waits if run == "async" else blocks
        job = await task.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            worker.stop()
            later = await task.enqueue()
            for _ in range(6):
                until = stage.clock.advance(LEASE // 3) + LEASE

                async def renewed(until: int = until) -> bool:
                    return (await stage.fetch(job.id)).lease_expires_at == until

                await stage.until(renewed)
            go.set()
            assert await job.result(timeout=5) == "finished"
        row = await stage.fetch(later.id)
        assert (row.state, row.executions) == ("queued", 0), "claimed after the stop"
        assert (await stage.fetch(job.id)).executions == 1

    on_stage(url, play)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("run", ["async", "async, swallowing", "thread"])
def test_past_the_grace_jobs_are_released_without_spending_an_attempt(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go, begun = threading.Event(), 0

        async def waits() -> None:
            nonlocal begun
            begun += 1
            await heard(go)

        async def swallows() -> None:
            nonlocal begun
            begun += 1
            while not go.is_set():
                try:
                    await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    continue

        def blocks() -> None:
            nonlocal begun
            begun += 1
            assert go.wait(PATIENCE)

        handler: Any = {"async": waits, "thread": blocks}.get(run, swallows)
        job = await stage.app.task(name="work")(handler).enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: begun == 1)
        worker.stop()
        async with asyncio.timeout(3):
            await running
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts, row.executions, row.skipped, row.lost) == ("queued", 0, 1, 1, 0)
        [run_row] = await stage.store.driver.runs(job.id)
        assert (run_row.status, worker.stats.released) == ("skipped", 1)
        go.set()
        other = await stage.drain(worker_id="other")
        row = await stage.fetch(job.id)
        assert (row.state, row.executions - row.skipped, other.stats.succeeded) == ("succeeded", 1, 1)

    on_stage(url, play, grace="20ms")


@pytest.mark.usefixtures("impatient")
def test_a_never_twice_job_that_is_interrupted_goes_through_the_retry_decision(url: str) -> None:
    async def play(stage: Stage) -> None:
        begun = 0

        @stage.app.task(retry_mode="new_job")
        async def waits() -> None:
            nonlocal begun
            begun += 1
            if begun == 1:
                await asyncio.sleep(60)

        job = await waits.enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: begun == 1)
        worker.stop()
        await running
        first = await stage.fetch(job.id)
        assert (first.state, first.dead_kind, first.last_error) == ("dead", "superseded", "interrupted")
        assert first.superseded_by is not None
        assert (await stage.fetch(first.superseded_by)).attempts == 1
        await stage.drain()
        assert (await stage.fetch(first.superseded_by)).state == "succeeded"

    on_stage(url, play, grace="20ms")


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_second_stop_interrupts_at_once(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        began = threading.Event()

        @stage.app.task
        async def waits() -> None:
            began.set()
            await asyncio.sleep(60)

        @stage.app.task(context=True)
        def blocks(ctx: Context) -> None:
            began.set()
            while not ctx.cancelled:
                threading.Event().wait(0.005)

        task: Any = waits if run == "async" else blocks
        job = await task.enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until_state(job.id, "running")
        await asyncio.to_thread(began.wait, 20)
        worker.stop()
        await asyncio.sleep(0.02)
        assert not running.done(), "it has a grace of a minute"
        worker.stop()
        async with asyncio.timeout(20):
            await running
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts) == (("queued", 0) if run == "async" else ("succeeded", 0))

    on_stage(url, play, grace="60s")


@pytest.mark.usefixtures("prefetching")
@pytest.mark.parametrize("run", ["async", "thread"])
def test_prefetched_jobs_are_released_at_once(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        task, go, _ = heeding(stage, run)
        jobs = await stage.app.enqueue_many(task.job() for _ in range(3))
        async with stage.working(concurrency=1, threads=1) as worker:
            await stage.until_state(jobs[2].id, "running")
            worker.stop()
            for job in jobs[1:]:
                row = await stage.until_state(job.id, "queued")
                assert (row.attempts, row.executions, row.skipped) == (0, 1, 1)
            assert (await stage.fetch(jobs[0].id)).state == "running"
            go.set()
        assert (await stage.fetch(jobs[0].id)).state == "succeeded"

    on_stage(url, play)


@pytest.mark.usefixtures("prefetching")
@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_worker_that_is_cancelled_begins_nothing_more(url: str, run: str) -> None:
    """Threads took up what had been prefetched when the worker was gone: nobody renewed it or kept its outcome."""

    async def play(stage: Stage) -> None:
        task, go, began = heeding(stage, run)
        jobs = await stage.app.enqueue_many(task.job() for _ in range(3))
        working = asyncio.create_task(stage.app.worker(concurrency=1, threads=1).run())
        await stage.until_state(jobs[2].id, "running")
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("windlass-handler")]
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        go.set()
        for thread in threads:
            await asyncio.to_thread(thread.join, PATIENCE)
        assert began == [jobs[0].id]

    on_stage(url, play)


@pytest.mark.usefixtures("prefetching")
def test_threads_begin_nothing_while_async_handlers_resist_the_end_of_their_worker(url: str) -> None:
    """It was cancelled: its slots are waited for a moment, in which nobody renews what the threads would take up."""

    async def play(stage: Stage) -> None:
        blocks, go, began = heeding(stage, "thread")
        resists = asyncio.Event()

        @stage.app.task
        async def resisting() -> None:
            try:
                resists.set()
                await asyncio.Event().wait()
            finally:
                go.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await stage.until(lambda: len(began) > 1)

        await resisting.enqueue()
        jobs = await stage.app.enqueue_many(blocks.job() for _ in range(3))
        working = asyncio.create_task(stage.app.worker(concurrency=1, threads=1).run())
        await resists.wait()
        await stage.until_state(jobs[2].id, "running")
        await stage.until(lambda: len(began) == 1)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert began == [jobs[0].id]

    on_stage(url, play)


def test_what_a_claim_in_flight_brings_after_the_stop_is_released(url: str) -> None:
    async def play(stage: Stage) -> None:
        ran: list[str] = []

        @stage.app.task(context=True)
        async def plain(ctx: Context) -> None:
            ran.append(ctx.job.id)

        @stage.app.task(context=True)
        def blocking(ctx: Context) -> None:
            ran.append(ctx.job.id)

        jobs = await stage.app.enqueue_many([plain.job(), blocking.job()])
        waits, go = stage.store.hold("claim")
        async with stage.working() as worker:
            await waits.wait()
            worker.stop()
            await asyncio.sleep(0)
            claims = stage.store.calls["claim"]
            go.set()
            await asyncio.sleep(0)
        assert stage.store.calls["claim"] == claims, "the next group was claimed after the stop"
        assert ran == []
        for job in jobs:
            row = await stage.fetch(job.id)
            assert (row.state, row.attempts, row.executions - row.skipped) == ("queued", 0, 0)

    on_stage(url, play)


def test_a_never_twice_job_that_a_claim_brings_after_the_stop_is_run_instead_of_spent(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(retry_mode="new_job")
        async def once() -> str:
            return "ran"

        job = await once.enqueue()
        waits, go = stage.store.hold("claim")
        async with stage.working() as worker:
            await waits.wait()
            worker.stop()
            await asyncio.sleep(0)
            go.set()
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts) == ("succeeded", 0)

    on_stage(url, play)


@pytest.mark.usefixtures("prefetching")
def test_a_never_twice_job_that_waits_for_its_slot_is_run_instead_of_spent(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        @stage.app.task(retry_mode="new_job")
        async def once() -> None: ...

        async with stage.working(concurrency=1) as worker:
            first = await waits.enqueue()
            await stage.until_state(first.id, "running")
            job = await once.enqueue()
            await stage.until_state(job.id, "running")
            worker.stop()
            await asyncio.sleep(0.05)
            go.set()
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts) == ("succeeded", 0)

    on_stage(url, play)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("call", ["claim", "settle"])
def test_a_store_that_hangs_does_not_keep_a_forced_worker_alive(call: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        await quick.enqueue()
        stage.store.hang(call)
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: stage.store.calls[call] > 0)
        worker.stop()
        worker.stop()
        async with asyncio.timeout(3):
            await running

    on_stage("memory://", play, grace="60s")


def test_a_stop_does_not_wait_for_the_next_try_of_a_store_that_is_away() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        stage.store.fail("claim")
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: stage.store.calls["claim"] >= 5)  # by now it pauses for 0.4 s and more
        worker.stop()
        async with asyncio.timeout(0.2):
            await running

    on_stage("memory://", play)


def test_a_handler_that_goes_on_after_its_own_transaction_has_the_grace_like_any_other(url: str) -> None:
    """Its job has ended, and nothing of it waits to be stored."""

    async def play(stage: Stage) -> None:
        committed, go = asyncio.Event(), asyncio.Event()
        told: list[str] = []

        @stage.app.task(context=True)
        async def works(ctx: Context) -> None:
            async with ctx.transaction():
                pass
            committed.set()
            await go.wait()
            told.append("done")

        await works.enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await committed.wait()
        worker.stop()
        await stage.until(lambda: worker.stopping)
        await asyncio.sleep(0.05)
        go.set()
        await running
        assert told == ["done"]

    on_stage(url, play, grace="20s")


def test_releases_are_stored_even_without_any_grace(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def waits() -> None:
            await asyncio.sleep(60)

        job = await waits.enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until_state(job.id, "running")
        worker.stop()
        await running
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts, row.skipped) == ("queued", 0, 1)

    on_stage(url, play, grace=0)
