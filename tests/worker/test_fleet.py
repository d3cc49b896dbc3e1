"""A worker in its fleet: it registers, leads if nobody else does, leaves when it goes; and none of it is waited for."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from windlass import __version__
from windlass.clock import SECOND
from windlass.coordinator import bites, coordinator
from windlass.core.duties import TellDependants
from windlass.core.queries import AllWorkers
from windlass.records import WorkerInfo
from windlass.testing.faulty import Call
from windlass.worker import worker as worker_module
from windlass.worker.recovering import take_back

from .stage import Stage, on_stage


async def known(stage: Stage) -> dict[str, WorkerInfo]:
    return {row.id: row for row in await stage.store.driver.read(AllWorkers())}


def test_a_worker_is_registered_with_what_it_is_leads_alone_and_leaves(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task(queue="mail")
        async def waits() -> None:
            await go.wait()

        @stage.app.task(queue="slow")
        def blocks() -> None: ...

        await waits.enqueue()
        async with stage.working(concurrency=5, threads=3) as worker:

            async def leads() -> bool:
                row = (await known(stage)).get(worker.id)
                return row is not None and row.is_leader and row.running == 1

            await stage.until(leads)
            row = (await known(stage))[worker.id]
            assert (row.hostname, row.pid) == (socket.gethostname(), os.getpid())
            assert (row.pool_size, row.version) == (8, __version__)
            assert (row.queues, row.types) == (("mail", "slow"), ("blocks", "waits"))
            assert row.wakeups == stage.store.driver.capabilities.wakeups
            assert row.started_at == row.last_heartbeat == stage.clock.now()
            go.set()
        assert await known(stage) == {}

    on_stage(url, play)


def test_two_workers_of_one_store_have_one_leader_and_the_other_takes_over(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async def leader() -> list[str]:
            now = stage.clock.now()
            return [row.id for row in (await known(stage)).values() if row.is_leader and (row.leader_until or 0) > now]

        async def somebody_leads() -> bool:
            return bool(await leader())

        async with stage.working() as first:
            await stage.until(somebody_leads)
            async with stage.working() as second:

                async def both() -> bool:
                    return len(await known(stage)) == 2

                await stage.until(both)
                assert await leader() == [first.id]
                first.stop()

                async def taken_over() -> bool:
                    return await leader() == [second.id]

                await stage.until(taken_over)

    on_stage(url, play, leader_lease="100ms")


def test_what_is_old_is_removed_by_a_worker_that_stays(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        old = await work.enqueue()
        await stage.drain()
        stage.clock.advance("8d")
        fresh = await work.enqueue()
        async with stage.working():

            async def gone() -> bool:
                [row] = await stage.store.driver.get([old.id])
                return row is None

            await stage.until(gone)
            assert (await stage.until_state(fresh.id, "succeeded")).id == fresh.id

    monkeypatch.setattr(bites, "EVERY", SECOND // 50)
    on_stage(url, play)


@pytest.mark.parametrize("hangs", ["beat", "lead", "maintain", "examine"])
def test_a_drain_waits_for_nothing_of_it(hangs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ONE_IN", 1)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        job = await work.enqueue()
        stage.store.hang(hangs)
        hanging = stage.store.faults[hangs]

        async def of_the_fleet(call: Call, args: tuple[Any, ...]) -> Any:
            """What a drain tells those that wait for ended jobs is its own."""
            return await (call() if any(isinstance(arg, TellDependants) for arg in args) else hanging(call, args))

        stage.store.faults[hangs] = of_the_fleet
        worker = await stage.drain()
        assert stage.store.calls[hangs] > 0
        assert (await stage.fetch(job.id)).state == "succeeded"
        assert worker.stats.store_errors == 0
        assert await known(stage) == {}

    on_stage("memory://", play, lease="30s")


def test_a_drain_leaves_the_registry_as_it_was(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        await work.enqueue()
        await stage.drain()
        assert (stage.store.calls["beat"], stage.store.calls["lead"]) == (1, 0)
        assert await known(stage) == {}

    on_stage(url, play, lease="30s")


def test_where_only_drains_come_some_of_them_keep_the_store_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as they get, since nobody waits for it; in memory that is far enough."""
    monkeypatch.setattr(coordinator, "ONE_IN", 5)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        old = await work.enqueue()
        for _ in range(40):
            await stage.drain()
            stage.clock.advance("1d")
        assert 1 <= stage.store.calls["lead"] <= 20
        assert await stage.store.driver.get([old.id]) == [None]

    on_stage("memory://", play)


def test_a_store_that_is_away_keeps_no_worker_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: stage.store.calls["lead"] > 0)
        stage.store.hang("alter")
        worker.stop()
        await asyncio.wait_for(running, 1)
        assert worker.id in await known(stage), "others will notice that it is silent"

    monkeypatch.setattr(worker_module, "LEAVES", SECOND // 20)
    on_stage("memory://", play)


@pytest.mark.parametrize("fails", ["beat", "lead", "maintain", "examine"])
def test_a_bug_in_a_duty_ends_the_worker(fails: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        stage.store.fail(fails, error=ZeroDivisionError("a bug"))
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(stage.app.worker().run(), 5)

    on_stage("memory://", play)


@pytest.mark.parametrize("fails", ["beat", "lead", "maintain", "examine"])
def test_an_error_of_the_store_in_a_duty_is_counted_and_jobs_go_on(fails: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        stage.store.fail(fails)
        async with stage.working() as worker:
            await stage.until(lambda: worker.stats.store_errors >= 2)
            job = await work.enqueue()
            await stage.until_state(job.id, "succeeded")

    on_stage("memory://", play)


def test_a_worker_that_cannot_say_that_it_lives_stops_its_handlers_before_it_counts_as_dead(url: str) -> None:
    """Its leases are renewed all the while: but the leader goes by the registry."""

    async def play(stage: Stage) -> None:
        stopped = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()

        job = await waits.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            await stage.until(lambda: stage.store.calls["lead"] > 0)
            stage.store.hang("beat")
            silent_since = stage.clock.now()

            async def renewed_or_stopped() -> bool:
                row = await stage.fetch(job.id)
                return stopped.is_set() or row.lease_expires_at == stage.clock.now() + SECOND

            while not stopped.is_set():
                stage.clock.advance(SECOND // 3)
                await stage.until(renewed_or_stopped)
            assert 2 * SECOND <= stage.clock.now() - silent_since < 3 * SECOND
            assert worker.stats.leases_lost == 1
            assert (await stage.fetch(job.id)).state == "running"

    on_stage(url, play, lease="1s", leader_lease="3s", worker_timeout="3s")


def test_nothing_is_claimed_by_a_worker_that_was_silent_before_it_is_heard_again(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async with stage.working() as worker:
            await stage.until(lambda: stage.store.calls["lead"] > 0 and stage.store.calls["claim"] > 0)
            stage.store.fail("beat")
            stage.clock.advance("21s")  # a third of what makes it dead
            job = await work.enqueue()
            await stage.until(lambda: worker.stats.store_errors >= 2)
            assert (await stage.fetch(job.id)).state == "queued"
            stage.store.mend()
            await stage.until_state(job.id, "succeeded")

    on_stage(url, play, lease="30s")


def test_a_dead_child_leaves_the_registry_when_its_jobs_are_taken_back(url: str) -> None:
    async def play(stage: Stage) -> None:
        info = WorkerInfo(
            id="child", hostname="h", pid=1, pool_size=1, version="v", queues=("q",), types=(), wakeups="poll", running=0,
            started_at=0,
        )  # fmt: skip
        await stage.store.driver.beat(info, now=stage.clock.now())
        await take_back(stage.app.client, "child")
        assert await known(stage) == {}

    on_stage(url, play)


def test_an_app_that_only_enqueues_is_no_worker(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        job: Any = await work.enqueue()
        await job.fetch()
        assert await known(stage) == {}
        assert stage.store.calls["beat"] == stage.store.calls["lead"] == 0

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play)
