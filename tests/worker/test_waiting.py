"""Waiting for what cannot come: a handler for its own job, blocking code for the event loop that it blocks."""

from __future__ import annotations

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
