"""Waiting for what cannot come: a handler for its own job, blocking code for the event loop that it blocks."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from windlass import Context, Retry
from windlass.apart import WouldHang
from windlass.errors import InvalidInput
from windlass.policies import fixed
from worker.stage import Stage, on_stage

ONCE = Retry(max_retries=0)


def test_a_handler_that_waits_for_its_own_job_is_refused_at_once(url: str) -> None:
    async def play(stage: Stage) -> None:
        known: dict[str, Any] = {}

        @stage.app.task(retry=ONCE)
        async def waits() -> object:
            return await known["waits"].result()

        @stage.app.task(retry=ONCE)
        def blocks() -> object:
            return known["blocks"].result_sync()

        known["waits"], known["blocks"] = await waits.enqueue(), await blocks.enqueue()
        await stage.drain()
        for name in ("waits", "blocks"):
            row = await stage.fetch(known[name].id)
            assert (row.state, "WouldHang" in row.last_error) == ("dead", True), row.last_error
            assert "Snooze" in row.last_error

    on_stage(url, play)


def test_a_link_of_a_chain_does_not_wait_for_the_chain_that_it_is(url: str) -> None:
    async def play(stage: Stage) -> None:
        known: list[Any] = []

        @stage.app.task(retry=Retry(max_retries=1, backoff=fixed("0s")), retry_mode="new_job", context=True)
        async def waits(ctx: Context) -> object:
            if ctx.attempt == 1:
                raise ValueError("again")
            return await known[0].result()

        known.append(await waits.enqueue())
        await stage.drain()
        row = await stage.fetch(known[0].id)
        assert row.superseded_by is not None
        assert "WouldHang" in (await stage.fetch(row.superseded_by)).last_error

    on_stage(url, play)


def test_a_member_of_a_group_does_not_wait_for_the_group(url: str) -> None:
    async def play(stage: Stage) -> None:
        known: list[Any] = []

        @stage.app.task(retry=ONCE)
        async def waits() -> None:
            await known[0].wait()

        @stage.app.task
        async def follows() -> str:
            return str((await known[0].wait()).status)

        async with stage.app.group("nightly") as group:
            group.add(waits.job())
            after = group.finish_with(follows.job())
        known.append(group)
        await stage.drain()
        [row] = await known[0].members()
        assert "WouldHang" in row.last_error
        assert "finish_with" in row.last_error
        assert await after.result(timeout=1) == "failed"

    on_stage(url, play)


def test_one_job_may_wait_for_another(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def add(a: int, b: int) -> int:
            return a + b

        @stage.app.task
        async def waits() -> int:
            return await (await add.enqueue(1, 2)).result()

        @stage.app.task
        def blocks() -> int:
            return add.enqueue_sync(1, 2).result_sync()

        first, second = await waits.enqueue(), await blocks.enqueue()
        await stage.drain()
        assert [await first.result(timeout=1), await second.result(timeout=1)] == [3, 3]

    on_stage(url, play)


def test_blocking_for_a_job_where_an_event_loop_runs_says_what_to_write(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        job = work.enqueue_sync()  # which waits for no other code
        with pytest.raises(WouldHang, match=r"await job\.result\(\)"):
            job.result_sync(timeout=1)
        async with stage.app.group("g") as group:
            group.add(work.job())
        with pytest.raises(WouldHang, match=r"await group\.wait\(\)"):
            group.wait_sync(timeout=1)
        with pytest.raises(WouldHang, match=r"await app\.worker\(\)\.run\(\)"):
            stage.app.run(drain=True)
        assert job.fetch_sync().id == job.id

    on_stage(url, play)


def test_blocking_code_in_a_transaction_is_refused_as_async_code_is(url: str) -> None:
    """It held the write lock that it waited for, until the lease was over."""

    async def play(stage: Stage) -> None:
        known: list[Any] = []

        @stage.app.task(context=True, retry=ONCE)
        def work(ctx: Context) -> str:
            with ctx.transaction() as tx:
                for call in (known[0].cancel_sync, known[0].run_now_sync, lambda: known[0].set_priority_sync(3)):
                    with pytest.raises(InvalidInput, match="do it before or after"):
                        call()
                tx.result = "done"
            return "ignored"

        known.append(await work.using(delay="1h").enqueue())
        job = await work.enqueue()
        await stage.drain()
        assert await job.result(timeout=1) == "done"

    on_stage(url, play)


def test_who_holds_the_only_write_lock_does_not_wait_for_what_another_job_would_write(url: str) -> None:
    """It waited until a third of its lease was over, and was rolled back."""

    async def play(stage: Stage) -> None:
        alone = stage.store.driver.capabilities.single_writer
        known: list[Any] = []

        @stage.app.task
        async def other() -> str:
            return "done"

        async def waits(wait: Any) -> str:
            if not alone:
                return str(await wait())
            with pytest.raises(WouldHang, match="before the block"):
                await wait()
            return "refused"

        @stage.app.task(context=True, retry=ONCE)
        async def work(ctx: Context) -> Any:
            async with ctx.transaction() as tx:
                tx.result = [await waits(known[0].result), str(await waits(known[1].wait))]

        @stage.app.task(context=True, retry=ONCE)
        def blocks(ctx: Context) -> Any:
            with ctx.transaction() as tx:
                if alone:
                    with pytest.raises(WouldHang, match="before the block"):
                        known[0].result_sync()
                    with pytest.raises(WouldHang, match="before the block"):
                        known[1].wait_sync()
                tx.result = "went on"

        jobs = [await work.enqueue(), await blocks.enqueue()]
        later = other.using(delay="1h" if alone else 0)
        known.append(await later.enqueue())
        async with stage.app.group("nightly") as group:
            group.add(later.job())
        known.append(group)
        await stage.drain()
        told = await jobs[0].result(timeout=1)
        assert told == ["refused", "refused"] if alone else told[0] == "done"
        assert await jobs[1].result(timeout=1) == "went on"

    on_stage(url, play, lease="30s")


def test_what_has_ended_can_be_asked_for_in_a_transaction(url: str) -> None:
    async def play(stage: Stage) -> None:
        known: list[Any] = []

        @stage.app.task
        async def other() -> str:
            return "done"

        @stage.app.task(context=True, retry=ONCE)
        async def work(ctx: Context) -> Any:
            async with ctx.transaction() as tx:
                tx.result = await known[0].result()

        known.append(await other.enqueue())
        await stage.drain()
        job = await work.enqueue()
        await stage.drain()
        assert await job.result(timeout=1) == "done"

    on_stage(url, play)


def test_a_job_that_is_not_committed_yet_is_not_waited_for(url: str) -> None:
    """It was said that there is no such job."""

    async def play(stage: Stage) -> None:
        known: list[Any] = []

        @stage.app.task
        async def follows() -> None: ...

        @stage.app.task(context=True, retry=ONCE)
        async def work(ctx: Context) -> Any:
            async with ctx.transaction() as tx:
                job = await follows.enqueue()
                with pytest.raises(WouldHang, match="when this block ends"):
                    await job.result()
                async with stage.app.group("after") as group:
                    group.add(follows.job())
                with pytest.raises(WouldHang, match="when this block ends"):
                    await group.wait()
                tx.result = "went on"

        @stage.app.task(context=True, retry=ONCE)
        def blocks(ctx: Context) -> Any:
            with ctx.transaction() as tx:
                job = follows.enqueue_sync()
                with pytest.raises(WouldHang, match="when this block ends"):
                    job.result_sync()
                tx.result = "went on"
            known.append(job)

        jobs = [await work.enqueue(), await blocks.enqueue()]
        await stage.drain()
        assert [await job.result(timeout=1) for job in jobs] == ["went on"] * 2
        assert await known[0].result(timeout=1) is None

    on_stage(url, play, lease="30s")


def test_a_task_that_outlives_its_transaction_waits_as_it_likes(url: str) -> None:
    async def play(stage: Stage) -> None:
        known: list[Any] = []
        later: list[asyncio.Task[Any]] = []
        left = asyncio.Event()

        @stage.app.task
        async def other() -> str:
            return "done"

        async def waits() -> object:
            await left.wait()
            return await known[0].result()

        @stage.app.task(context=True, retry=ONCE)
        async def work(ctx: Context) -> Any:
            async with ctx.transaction():
                later.append(asyncio.get_running_loop().create_task(waits()))
            left.set()

        known.append(await other.using(delay="1h").enqueue())
        await work.enqueue()
        await stage.drain()
        while not stage.app.client.watch()._awaited:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        await known[0].run_now()
        await stage.drain()
        assert await later[0] == "done"

    on_stage(url, play)


def test_a_task_beside_the_handler_may_wait_for_its_job_in_a_context_of_its_own(url: str) -> None:
    """Whether a task outlives its handler nobody can tell, so that it says it."""

    async def play(stage: Stage) -> None:
        later: list[asyncio.Task[Any]] = []
        known: list[Any] = []

        async def waits() -> object:
            return await known[0].result()

        @stage.app.task(retry=ONCE)
        async def work() -> str:
            later.append(asyncio.create_task(waits(), context=contextvars.Context()))
            later.append(asyncio.create_task(waits()))
            with pytest.raises(WouldHang, match=r"context=contextvars\.Context\(\)"):
                await later[1]
            return "done"

        known.append(await work.enqueue())
        await stage.drain()
        assert await later[0] == "done"

    on_stage(url, play)
