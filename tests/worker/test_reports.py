"""What a handler tells while it runs and when it ends: progress, artifacts, its own transaction, its result."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from windlass.app import Windlass
from windlass.clock import SECOND
from windlass.context import Context, Running
from windlass.errors import InvalidInput, JobCancelled, JobDead, JobNotFound
from windlass.policies import Retry
from windlass.signals import Cancel
from windlass.worker import keeper

from .stage import PATIENCE, Stage, heard, on_stage

LEASE = 3 * SECOND // 10


@pytest.mark.parametrize("run", ["async", "thread"])
def test_progress_is_stored_while_the_handler_runs_and_artifacts_when_it_ends(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go = threading.Event()

        @stage.app.task(context=True)
        async def waits(ctx: Context) -> None:
            ctx.progress(0.25, "half \ud800 a character")
            ctx.artifact("\udcff-made")
            await heard(go)

        @stage.app.task(context=True)
        def blocks(ctx: Context) -> None:
            ctx.progress(0.25, "half \ud800 a character")
            ctx.artifact("\udcff-made")
            assert go.wait(PATIENCE)
            raise ValueError("artifacts are kept when it fails, too")

        task: Any = waits if run == "async" else blocks
        job = await task.enqueue()
        async with stage.working():

            async def told() -> bool:
                return (await stage.fetch(job.id)).progress == 0.25

            await stage.until(told)
            assert (await stage.fetch(job.id)).progress_note == "half \\ud800 a character"
            go.set()
            await stage.until_state(job.id, "succeeded", "dead")
            first = (await stage.store.driver.runs(job.id))[0]
            assert first.artifacts == ("\\udcff-made",)

    on_stage(url, play)


@pytest.mark.parametrize(
    ("fraction", "told"),
    [(-0.1, "-0.1"), (1.1, "1.1"), (float("nan"), "nan"), (True, "True"), ("half", "'half'"), (None, "None"),
     (2**14_000, "a number of 14001 bits")],
)  # fmt: skip
def test_progress_that_is_none_is_refused_and_says_so_in_few_words(fraction: Any, told: str) -> None:
    context = Context(cast("Running", None))  # which is not asked for this
    with pytest.raises(InvalidInput, match=f"^progress: must be a number between 0 and 1, got {told}$"):
        context.progress(fraction)
    assert context.progressed is None


def test_progress_is_written_about_once_a_second_however_often_it_is_told() -> None:
    """With a lease of half a minute the keeper looks once a second; here a second lasts fifty milliseconds."""

    async def play(stage: Stage) -> None:
        done = asyncio.Event()

        @stage.app.task(context=True)
        async def chatty(ctx: Context) -> None:
            for step in range(200):
                ctx.progress(step / 200)
                await asyncio.sleep(0.001)
            done.set()

        await chatty.enqueue()
        async with stage.working():
            await done.wait()
            assert 2 <= stage.store.calls["extend"] <= 12

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "NEWS_EVERY", SECOND // 20)
        on_stage("memory://", play, lease="30s")


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_transaction_ends_its_job_and_a_renewal_beside_it_is_no_lost_lease(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go, settled = threading.Event(), threading.Event()

        @stage.app.task
        async def follow_up() -> None: ...

        @stage.app.task(context=True)
        async def waits(ctx: Context) -> str:
            async with ctx.transaction() as tx:
                tx.result = "from the transaction"
                await follow_up.enqueue()
            settled.set()
            await heard(go)
            raise ValueError("what happens afterwards changes nothing")

        @stage.app.task(context=True)
        def blocks(ctx: Context) -> str:
            with ctx.transaction() as tx:
                tx.result = "from the transaction"
                follow_up.enqueue_sync()
            settled.set()
            assert go.wait(PATIENCE)
            raise ValueError("what happens afterwards changes nothing")

        task: Any = waits if run == "async" else blocks
        job = await task.enqueue()
        async with stage.working() as worker:
            await stage.until(settled.is_set)
            row = await stage.fetch(job.id)
            assert (row.state, row.result) == ("succeeded", b'"from the transaction"')
            await stage.until(lambda: worker.stats.succeeded == 1)
            for _ in range(4):
                stage.clock.advance(LEASE)
                await asyncio.sleep(0.03)
            go.set()
            await stage.until(lambda: worker.stats.succeeded == 2)
            assert (worker.stats.leases_lost, worker.stats.settled_late, worker.stats.retried) == (0, 0, 0)
            assert (await stage.fetch(job.id)).executions == 1

    on_stage(url, play)


def test_a_transaction_of_a_handler_whose_lease_is_lost_leaves_nothing_behind(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def follow_up() -> None: ...

        @stage.app.task(context=True)
        async def late(ctx: Context) -> str | None:
            if ctx.attempt == 1:
                async with ctx.transaction() as tx:
                    tx.result = "never"
                    await follow_up.enqueue()
                    stage.clock.advance(2 * LEASE)
            return None

        job = await late.enqueue()
        async with stage.working() as worker:
            row = await stage.until_state(job.id, "succeeded")
            assert (row.result, row.executions, row.lost) == (None, 2, 1)
            await asyncio.sleep(0.05)
            assert worker.stats.succeeded == 1, "no follow-up job was stored"

    on_stage(url, play)


def test_being_interrupted_twice_while_a_transaction_begins_does_not_keep_the_write_lock(tmp_path: Any) -> None:
    """The lock of the file is taken by a stranger; the handler waits for it in a thread and is interrupted meanwhile."""
    import apsw

    async def play(stage: Stage) -> None:
        waiting, go = asyncio.Event(), asyncio.Event()

        @stage.app.task(context=True, retry=Retry(max_attempts=1))
        async def writes(ctx: Context) -> None:
            waiting.set()
            await go.wait()
            async with ctx.transaction():
                await asyncio.sleep(60)

        @stage.app.task
        async def other() -> None: ...

        job = await writes.enqueue()
        stranger = apsw.Connection(f"{tmp_path}/jobs.db")
        stranger.set_busy_timeout(2_000)
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            await waiting.wait()
            stranger.execute("begin immediate")
            go.set()
            held = next(iter(worker._holdings))
            await asyncio.sleep(0.05)
            held.interrupt("timeout")
            await asyncio.sleep(0.02)
            held.interrupt("timeout")
            await asyncio.sleep(0.02)
            stranger.execute("rollback")
            await asyncio.sleep(0.3)  # until the one that waits has tried again and got the lock
            await (await other.enqueue()).result(timeout=5)
        stranger.close()

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play, lease="30s")


# ------------------------------------------------------------------------------------------------------------- results


def test_a_result_in_the_same_process_is_told_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from windlass import results

    monkeypatch.setattr(results, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(results, "LONGEST_PAUSE", 60.0)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def slow() -> str:
            await asyncio.sleep(0.05)
            return "told"

        @stage.app.task(context=True)
        async def transacts(ctx: Context) -> str:
            await asyncio.sleep(0.05)
            async with ctx.transaction() as tx:
                tx.result = "told"
            return "not this"

        async with stage.working():
            for job in (await slow.enqueue(), await transacts.enqueue()):
                assert await job.result(timeout=3) == "told"

    on_stage(url, play)


def test_a_result_from_another_process_is_found_by_looking(tmp_path: Any) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work(how: str) -> str:
            if how == "dies":
                raise ValueError("no")
            if how == "stops":
                raise Cancel("enough")
            return how

        elsewhere = Windlass(stage.url, clock=stage.clock)  # as another process would open it
        ids = [(await work.enqueue(how)).id for how in ("works", "dies", "stops")]
        waiting = [asyncio.create_task(elsewhere.job(job_id).result(timeout=5)) for job_id in (*ids, "nobody")]
        await asyncio.sleep(0.02)
        await stage.drain()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert answers[0] == "works"
        assert [type(answer) for answer in answers[1:]] == [JobDead, JobCancelled, JobNotFound]
        with pytest.raises(TimeoutError):
            await elsewhere.job((await work.enqueue("later")).id).result(timeout=0.05)
        await elsewhere.close()

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play)
