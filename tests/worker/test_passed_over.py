"""Renewals that met a row which somebody held: a lease that was not renewed is not taken for one that was."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg

from windlass import Windlass
from windlass.clock import SECOND
from windlass.context import Context
from windlass.core.alterations import Cancel
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Extended, JobQuery
from windlass.types import State

from .stage import Stage, let_lapse, on_stage, sleeping

LEASE = 3 * SECOND // 10


def pass_over(stage: Stage, job_id: str) -> None:
    """From now on renewals find this job's row held by somebody: the driver answers with the lease that it has."""

    async def fault(call: Any, args: Any) -> list[Extended]:
        job = await stage.fetch(job_id)
        return [Extended("applied", job.lease_expires_at, job.cancel_requested_at is not None) for _ in args[0]]

    stage.store.faults["extend"] = fault


def test_a_renewal_that_was_passed_over_is_not_taken_for_a_lease(url: str) -> None:
    async def play(stage: Stage) -> None:
        waits, stopped_at = sleeping(stage)
        job = await waits.enqueue()
        async with stage.working() as worker:
            until = (await stage.until_state(job.id, "running")).lease_expires_at
            pass_over(stage, job.id)
            stage.store.fail("claim")
            await let_lapse(stage, LEASE, stopped_at, steps=19)
            assert until is not None
            assert stopped_at, "still running when its lease had lapsed"
            assert stopped_at[0] < until
            assert worker.stats.leases_lost == 1

    on_stage(url, play)


def test_what_a_passed_over_renewal_was_to_tell_is_told_by_the_next(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task(context=True)
        async def tells(ctx: Context) -> None:
            stage.clock.advance(LEASE // 20)  # an expiry of the same instant would look like a renewal
            ctx.progress(0.5, "half")
            await go.wait()

        job = await tells.enqueue()
        pass_over(stage, job.id)
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            await stage.until(lambda: stage.store.calls["extend"] >= 3)
            del stage.store.faults["extend"]

            async def told() -> bool:
                return (await stage.fetch(job.id)).progress == 0.5

            await stage.until(told)
            go.set()
            await stage.until_state(job.id, "succeeded")
            assert worker.stats.leases_lost == 0

    on_stage(url, play)


def test_a_passed_over_renewal_still_tells_of_a_cancellation(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def waits() -> None:
            await asyncio.sleep(60)

        job = await waits.enqueue()
        async with stage.working():
            await stage.until_state(job.id, "running")
            pass_over(stage, job.id)
            stage.store.fail("get")  # the other way to hear of it
            await stage.store.driver.alter([Cancel(job.id)], now=stage.clock.now())
            stage.clock.advance(LEASE // 3)
            assert (await stage.until_state(job.id, "cancelled")).state == "cancelled"

    on_stage(url, play)


def test_a_handler_stops_in_time_when_somebody_holds_its_row_on_postgres(empty_store: tuple[str, str]) -> None:
    """The real thing: another connection has the row locked for longer than the lease lasts."""
    dsn, schema = empty_store
    driver = PostgresDriver(dsn, schema=schema)
    app = Windlass(driver=driver, lease="3s", grace="1s")
    stopped = asyncio.Event()

    @app.task
    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def main() -> None:
        job = await waits.enqueue()
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(20):
            while (await job.fetch()).state != "running":  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            with psycopg.connect(dsn) as somebody:
                somebody.execute(f"select from {schema}.jobs where id = %s for update".encode(), [job.id])
                began = time.monotonic()
                await stopped.wait()
                assert time.monotonic() - began < 3, "its lease had lapsed, and it ran on"
                [row] = await driver.get([job.id])
                assert row is not None
                assert row.lease_expires_at is not None
                assert row.lease_expires_at > driver.clock.now(), "somebody else could have taken it"
            assert worker.stats.leases_lost == 1
            worker.stop()
            await running

    asyncio.run(main())
    asyncio.run(driver.close())


def test_a_row_that_somebody_holds_keeps_no_other_job_of_its_worker_waiting(empty_store: tuple[str, str]) -> None:
    """A forgotten `begin; update ...` in a shell: one outcome waits for it, and is stored once it is over."""
    dsn, schema = empty_store
    driver = PostgresDriver(dsn, schema=schema, timeout=1.0)
    app = Windlass(driver=driver, lease="30s", grace="5s")
    go = asyncio.Event()

    @app.task
    async def waits() -> None:
        await go.wait()

    @app.task
    async def quick() -> None: ...

    async def until(state: State, jobs: int) -> None:
        async with asyncio.timeout(20):
            while len((await driver.find(JobQuery(states=(state,)))).jobs) != jobs:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)

    async def main() -> None:
        job = await waits.enqueue()
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await until("running", 1)
        with psycopg.connect(dsn) as somebody:
            somebody.execute(f"select from {schema}.jobs where id = %s for update".encode(), [job.id])
            go.set()
            await app.enqueue_many(quick.job() for _ in range(20))  # some of them end with it
            await until("succeeded", 20)
            while worker.stats.store_errors == 0:  # noqa: ASYNC110 - the wait for that row has been in vain once
                await asyncio.sleep(0.01)
            await app.enqueue_many(quick.job() for _ in range(20))
            await until("succeeded", 40)
            assert worker.reachable
        await until("succeeded", 41)
        worker.stop()
        await running

    asyncio.run(main())
    asyncio.run(driver.close())
