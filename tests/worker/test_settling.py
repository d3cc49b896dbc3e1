"""Outcomes on their way to a store that is slow, away, forgetful or choosy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass.context import Context
from windlass.core.alterations import PutGroup, PutLimit
from windlass.core.changes import Ack
from windlass.core.queries import AllGroups, AllLimits
from windlass.errors import ConstraintViolated, InvalidInput
from windlass.testing.faulty import away
from windlass.types import NewJob
from windlass.worker.pace import Pace

from .stage import PATIENCE, Stage, heard, on_stage


def test_outcomes_gather_while_one_settlement_is_being_written(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick(number: int) -> int:
            return number

        waits, go = stage.store.hold("settle")
        first = await quick.enqueue(0)
        async with stage.working(concurrency=4) as worker:
            await waits.wait()
            others = await stage.app.enqueue_many(quick.job(n) for n in range(1, 11))
            await stage.until(lambda: worker.stats.claimed == 11)
            await asyncio.sleep(0.02)
            go.set()
            assert [await job.result(timeout=5) for job in (first, *others)] == list(range(11))
            sizes = [len(args[0]) for args in stage.store.seen["settle"]]
            assert (sizes[0], sum(sizes), len(sizes) <= 3) == (1, 11, True), sizes

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_while_the_store_is_away_outcomes_wait_and_nothing_new_is_begun(
    url: str, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: min(2, self._most)))

    async def play(stage: Stage) -> None:
        go, began = threading.Event(), 0

        @stage.app.task
        async def waits() -> str:
            nonlocal began
            began += 1
            await heard(go)
            return "done"

        @stage.app.task
        def blocks() -> str:
            nonlocal began
            began += 1
            assert go.wait(PATIENCE)
            return "done"

        task: Any = waits if run == "async" else blocks
        jobs = await stage.app.enqueue_many(task.job() for _ in range(40))
        async with stage.working(concurrency=2, threads=2) as worker:
            await stage.until(lambda: began == 2 and worker.stats.claimed == 4)
            stage.store.fail("settle")
            go.set()
            await stage.until(lambda: worker.stats.store_errors >= 2)
            await stage.store.answered()  # a claim may have been on its way when the store went away
            await asyncio.sleep(0.05)
            before = (stage.store.calls["claim"], began)
            await asyncio.sleep(0.1)
            assert (stage.store.calls["claim"], began) == before, "claimed or begun while nothing can be stored"
            assert began < 40
            stage.store.mend()
            assert [await job.result(timeout=5) for job in jobs] == ["done"] * 40
            for job in jobs:
                row = await stage.fetch(job.id)
                assert (row.executions, row.lost) == (1, 0)
            await stage.until(lambda: worker.stats.succeeded == 40)
            assert worker.stats.settled_late == 0

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_prefetched_job_does_not_begin_while_finished_work_cannot_be_kept(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: 3))

    async def play(stage: Stage) -> None:
        began: list[int] = []
        ends = [threading.Event() for _ in range(4)]

        @stage.app.task
        async def waits(number: int) -> None:
            began.append(number)
            await heard(ends[number])

        @stage.app.task
        def blocks(number: int) -> None:
            began.append(number)
            assert ends[number].wait(PATIENCE)

        task: Any = waits if run == "async" else blocks
        jobs = await stage.app.enqueue_many(task.job(number) for number in range(4))
        async with stage.working(concurrency=1, threads=1) as worker:
            await stage.until_state(jobs[3].id, "running")
            stage.store.fail("settle")
            ends[0].set()
            await stage.until(lambda: worker.stats.store_errors > 0)
            for event in ends:
                event.set()
            await asyncio.sleep(0.1)
            assert began in ([0], [0, 1]), "the second may have begun before it was known that the store is away"
            stage.store.mend()
            for job in jobs:
                await stage.until_state(job.id, "succeeded")
            assert began == [0, 1, 2, 3]

    on_stage("memory://", play)


def test_a_settlement_whose_reply_is_lost_takes_effect_once(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work(fails: bool) -> str:
            if fails:
                raise ValueError("no")
            return "yes"

        good, bad = await work.enqueue(False), await work.enqueue(True)
        stage.store.lose_reply("settle")
        worker = await stage.drain()
        row = await stage.fetch(bad.id)
        assert (row.executions, row.attempts, row.state) == (3, 3, "dead")
        assert (await stage.fetch(good.id)).executions == 1
        assert await good.result(timeout=1) == "yes"
        assert (worker.stats.succeeded, worker.stats.retried, worker.stats.dead, worker.stats.settled_late) == (1, 2, 1, 0)

    on_stage(url, play)


@pytest.mark.parametrize("error", [InvalidInput("result", "no"), ConstraintViolated("no such thing")])
def test_an_outcome_that_cannot_be_stored_does_not_hurt_its_neighbours(url: str, error: Exception) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work(number: int) -> int:
            return number

        async def choosy(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            if any(isinstance(change, Ack) and change.result == b"3" for change in args[0]):
                raise error
            return await call()

        stage.store.faults["settle"] = choosy
        jobs = await stage.app.enqueue_many(work.job(n) for n in range(6))
        worker = await stage.drain()
        states = [(await stage.fetch(job.id)).state for job in jobs]
        assert states == ["succeeded"] * 3 + ["dead"] + ["succeeded"] * 2
        assert "its outcome could not be stored" in str((await stage.fetch(jobs[3].id)).dead_reason)
        assert (worker.stats.succeeded, worker.stats.dead) == (5, 1)

    on_stage(url, play)


def test_a_job_whose_every_end_is_refused_is_left_to_recovery_and_the_rest_goes_on() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(context=True)
        async def work(ctx: Context, number: int) -> int:
            if number == 1:
                cursed.append(ctx.fence)
            return number

        cursed: list[str] = []

        async def choosy(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            if any(change.token in cursed for change in args[0]):
                raise InvalidInput("token", "cursed")
            return await call()

        stage.store.faults["settle"] = choosy
        bad = await work.enqueue(1)
        async with stage.working(concurrency=1) as worker:
            await stage.until(lambda: worker.stats.settled_late == 1)
            good = await work.enqueue(2)
            assert await good.result(timeout=5) == 2
            assert (await stage.fetch(bad.id)).state == "running", "until its lease lapses"
            stage.store.mend()

    on_stage("memory://", play)


def test_a_store_that_was_away_and_then_refuses_an_outcome_for_good_is_asked_for_work_again() -> None:
    """Nothing is left to be stored by which the worker could learn that the store is back."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work(number: int) -> int:
            return number

        async def fault(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            if stage.store.calls["settle"] == 1:
                raise away()
            raise InvalidInput("result", "no store takes this")

        stage.store.faults["settle"] = fault
        await work.enqueue(1)
        async with stage.working(concurrency=1) as worker:
            await stage.until(lambda: worker.stats.settled_late == 1)
            stage.store.mend()
            good = await work.enqueue(2)
            assert await good.result(timeout=5) == 2
            assert worker.reachable

    on_stage("memory://", play, lease="60s")


@pytest.mark.parametrize("run", ["async", "thread"])
@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({}, False),
        ({"crash_policy": "fail"}, True),
        ({"ack": "sync"}, True),
        ({"crash_policy": "fail", "ack": "batched"}, False),
        ({"retry_mode": "new_job"}, True),
    ],
)
def test_never_twice_work_is_stored_before_its_slot_is_free(run: str, options: dict[str, Any], waits: bool) -> None:
    async def play(stage: Stage) -> None:
        began: list[int] = []

        async def awaited(number: int) -> None:
            began.append(number)

        def blocking(number: int) -> None:
            began.append(number)

        handler: Any = awaited if run == "async" else blocking
        task = stage.app.task(name="work", **options)(handler)
        settling, go = stage.store.hold("settle")
        await task.enqueue(1)
        async with stage.working(concurrency=1, threads=1):
            await settling.wait()
            second = await task.enqueue(2)
            if waits:
                await asyncio.sleep(0.08)
                assert began == [1]
            else:
                await stage.until(lambda: began == [1, 2])
            go.set()
            await stage.until_state(second.id, "succeeded")

    on_stage("memory://", play)


def test_group_members_and_permits_are_flushed_at_once(url: str) -> None:
    """A key of one permit: the next job can begin only when the settlement of the one before it is stored."""

    async def play(stage: Stage) -> None:
        running, most = 0, 0

        @stage.app.task(limits=("one",))
        async def limited() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

        @stage.app.task
        async def member() -> None: ...

        await stage.store.driver.alter([PutLimit("key:one", 1), PutGroup("g", 5)], now=stage.clock.now())
        await stage.app.enqueue_many(limited.job() for _ in range(20))
        members = [NewJob(id=f"m{n}", type="member", group_id="g", group_seq=n) for n in range(5)]
        await stage.store.driver.enqueue(members, now=stage.clock.now())
        worker = await stage.drain()
        assert (worker.stats.succeeded, most) == (25, 1)
        limits, groups = await stage.store.driver.read(AllLimits()), await stage.store.driver.read(AllGroups())
        assert [(limit.key, limit.used) for limit in limits] == [("key:one", 0)]
        assert [(group.succeeded, group.remaining) for group in groups] == [(5, 0)]

    on_stage(url, play)
