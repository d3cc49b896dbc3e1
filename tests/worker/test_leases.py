"""Leases: renewed for all that is held, obeyed when lost, given up before anybody else may take the job."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.context import Context
from windlass.core.alterations import Cancel, Revoke
from windlass.core.changes import Release
from windlass.drivers.values import Claim
from windlass.worker import finish, keeper

from .stage import PATIENCE, Stage, heard, heeding, let_lapse, on_stage, sleeping

LEASE = 3 * SECOND // 10
THEIRS = "stolen"


async def steal(stage: Stage, job_id: str) -> None:
    """Somebody hands the job back under its present token, and another worker takes it, before ours can."""
    stage.store.fail("claim")
    await stage.until(lambda: stage.store.under_way["claim"] == 0)
    row = await stage.fetch(job_id)
    assert row.lease_token is not None
    now = stage.clock.now()
    assert await stage.store.driver.settle([Release(handle=job_id, token=row.lease_token, at=now)], now=now) == ["applied"]
    wish = Claim(queues=(row.queue,), limit=1, lease_for=60 * SECOND, worker_id="thief", token=THEIRS, types=(row.type,))
    [claimed] = await stage.store.driver.claim(wish, now=now)
    assert claimed.id == job_id
    del stage.store.faults["claim"]


async def pass_time(stage: Stage, ids: list[str]) -> None:
    """Two leases long, a third of one at a time, and at each step everything held is renewed."""
    for _ in range(6):
        until = stage.clock.advance(LEASE // 3) + LEASE

        async def renewed(until: int = until) -> bool:
            return all(job is not None and job.lease_expires_at == until for job in await stage.store.driver.get(ids))

        await stage.until(renewed)


@pytest.mark.usefixtures("prefetching")
@pytest.mark.parametrize("run", ["async", "thread"])
def test_running_and_prefetched_jobs_are_renewed(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go, go_thread = asyncio.Event(), threading.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        @stage.app.task
        def blocks() -> None:
            assert go_thread.wait(PATIENCE)

        task: Any = waits if run == "async" else blocks
        jobs = await stage.app.enqueue_many(task.job() for _ in range(4))
        ids = [job.id for job in jobs]
        async with stage.working(concurrency=1, threads=1) as worker:
            for job_id in ids:
                await stage.until_state(job_id, "running")
            await pass_time(stage, ids)
            go.set()
            go_thread.set()
            for job_id in ids:
                row = await stage.until_state(job_id, "succeeded")
                assert (row.executions, row.lost) == (1, 0)
            assert (worker.stats.leases_lost, worker.stats.settled_late) == (0, 0)

    on_stage(url, play)


def test_finished_but_unsettled_jobs_are_renewed_until_they_are_stored(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> str:
            return "kept"

        job = await quick.enqueue()
        stage.store.fail("settle")
        async with stage.working() as worker:
            await stage.until(lambda: worker.stats.store_errors > 0)
            await pass_time(stage, [job.id])
            stage.store.mend()
            assert await job.result(timeout=5) == "kept"
            await stage.until(lambda: worker.stats.succeeded > 0)  # it is stored before it is counted
            assert (worker.stats.settled_late, worker.stats.succeeded) == (0, 1)

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_lost_lease_stops_that_handler_only(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        go = threading.Event()
        stopped: list[str] = []

        @stage.app.task(context=True)
        async def waits(ctx: Context) -> str:
            try:
                await heard(go)
            except asyncio.CancelledError:
                stopped.append(ctx.job.id)
                raise
            return "unharmed"

        @stage.app.task(context=True)
        def blocks(ctx: Context) -> str:
            while not go.wait(0.005):
                if ctx.cancelled:
                    stopped.append(ctx.job.id)
                    return "too late"
            return "unharmed"

        task: Any = waits if run == "async" else blocks
        victim, other = await task.enqueue(), await task.enqueue()
        async with stage.working() as worker:
            await stage.until_state(victim.id, "running")
            await stage.until_state(other.id, "running")
            await steal(stage, victim.id)
            stage.clock.advance(LEASE // 3)
            await stage.until(lambda: stopped == [victim.id])
            await stage.until(lambda: worker.stats.settled_late == (1 if run == "thread" else 0))
            assert worker.stats.leases_lost == 1
            go.set()
            assert await other.result(timeout=5) == "unharmed"
            row = await stage.fetch(victim.id)
            assert (row.state, row.lease_token, row.result) == ("running", THEIRS, None), "the thief's, untouched"

    on_stage(url, play)


def test_a_late_settlement_is_refused_counted_and_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def deaf() -> str:
            await go.wait()
            return "too late"

        job = await deaf.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            await steal(stage, job.id)
            go.set()
            await stage.until(lambda: worker.stats.settled_late == 1)
            assert (await stage.fetch(job.id)).lease_token == THEIRS
        assert any(job.id in line and "too late and was refused" in line for line in caplog.messages)

    on_stage(url, play)


def test_a_renewal_that_meets_a_job_which_has_just_ended_is_no_lost_lease(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        async def late(call: Any, args: Any) -> Any:
            go.set()
            await stage.until_state(job.id, "succeeded")
            [answer] = await call()
            assert answer.answer == "not_inflight"
            refused.append(answer)
            return [answer]

        refused: list[Any] = []
        job = await waits.enqueue()
        waits_for_reply, answer_now = stage.store.hold("settle")
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            stage.store.faults["extend"] = late
            stage.clock.advance(LEASE // 3)
            await waits_for_reply.wait()
            await stage.until(lambda: bool(refused))
            await asyncio.sleep(0.02)
            assert worker.stats.leases_lost == 0, "the answer to its settlement counts"
            answer_now.set()
            await stage.until(lambda: worker.stats.succeeded == 1)

    on_stage(url, play)


@pytest.mark.parametrize("how", ["fail", "hang"])
def test_a_worker_that_cannot_renew_stops_its_handlers_before_anybody_may_take_the_job(url: str, how: str) -> None:
    async def play(stage: Stage) -> None:
        waits, stopped_at = sleeping(stage)
        job = await waits.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            getattr(stage.store, how)("extend", "claim")
            await let_lapse(stage, LEASE, stopped_at)
            row = await stage.fetch(job.id)
            assert row.lease_expires_at is not None
            assert stopped_at, "still running when its lease had lapsed"
            assert stopped_at[0] < row.lease_expires_at
            assert (worker.stats.leases_lost, row.state) == (1, "running")
            stage.store.mend()

    on_stage(url, play)


def test_a_lease_that_was_fenced_is_lost_once_also_when_the_job_comes_back_to_the_same_worker(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = threading.Event()

        @stage.app.task
        def deaf() -> None:
            assert go.wait(PATIENCE)

        job = await deaf.enqueue()
        async with stage.working(threads=2) as worker:
            await stage.until_state(job.id, "running")
            stage.store.fail("extend", "claim")
            stage.clock.advance(2 * LEASE // 3)
            await stage.until(lambda: worker.stats.leases_lost == 1)
            [fenced] = worker._holdings
            timer = fenced.timer
            stage.clock.advance(LEASE)
            stage.store.mend()

            async def is_back() -> bool:
                return (await stage.fetch(job.id)).executions == 2

            await stage.until(is_back)
            await stage.until(lambda: fenced not in list(worker._holdings))
            assert (worker.stats.leases_lost, fenced.timer) == (1, timer), "nor has its handler more time to stop"
            go.set()
            await stage.until_state(job.id, "succeeded")

    on_stage(url, play)


def test_a_renewal_that_is_never_answered_is_asked_again_in_time() -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        async def forgets(call: Any, args: Any) -> Any:
            del stage.store.faults["extend"]
            await asyncio.Event().wait()

        job = await waits.enqueue()
        async with stage.working() as worker:
            await stage.until_state(job.id, "running")
            stage.store.faults["extend"] = forgets
            until = stage.clock.advance(LEASE // 3) + LEASE

            async def renewed() -> bool:
                return (await stage.fetch(job.id)).lease_expires_at == until

            await stage.until(renewed)
            go.set()
            await stage.until_state(job.id, "succeeded")
            assert worker.stats.leases_lost == 0

    on_stage("memory://", play)


def test_reads_that_hang_keep_no_lease_from_being_renewed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether somebody is to be cancelled is asked between renewals, and reads may wait behind those of others."""
    monkeypatch.setattr(keeper, "NEWS_EVERY", 20_000)

    async def play(stage: Stage) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @stage.app.task
        async def waits() -> str:
            begun.set()
            await go.wait()
            return "unharmed"

        job = await waits.enqueue()
        stage.store.hang("get")
        async with stage.working() as worker:
            await begun.wait()
            stage.clock.advance(20_000)
            await stage.until(lambda: stage.store.under_way["get"] > 0)
            stage.clock.advance("20s")
            await stage.until(lambda: stage.store.calls["extend"] > 0)
            stage.store.mend()
            go.set()
            assert await job.result(timeout=5) == "unharmed"
            assert worker.stats.leases_lost == 0

    on_stage(url, play, lease="60s")


def test_a_handler_that_is_being_cancelled_is_not_interrupted_once_more_by_a_look_that_was_slower() -> None:
    """The renewal has told it meanwhile, and it puts things in order."""

    async def play(stage: Stage) -> None:
        events = list[str]()

        @stage.app.task
        async def waits() -> None:
            events.append("begun")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                events.append("cancelled")
                await asyncio.sleep(0.2)
                events.append("in order")
                raise

        asked, wanted, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(call: Any, args: Any) -> Any:
            asked.set()
            await wanted.wait()
            answer = await call()
            await go.wait()
            return answer

        job = await waits.enqueue()
        async with stage.working():
            await stage.until(lambda: events == ["begun"])
            stage.store.faults["get"] = slow
            stage.clock.advance("1s")
            await asked.wait()
            await stage.store.driver.alter([Cancel(job.id)], now=stage.clock.now())
            wanted.set()
            stage.clock.advance("1s")
            await stage.until(lambda: len(events) == 2)
            go.set()
            await stage.until_state(job.id, "cancelled")
            assert events == ["begun", "cancelled", "in order"]

    on_stage("memory://", play, lease="3s")


def test_a_look_that_is_never_answered_is_given_up_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper, "NEWS_EVERY", 20_000)
    monkeypatch.setattr(keeper, "LOOK_WITHIN", 0.02)

    async def play(stage: Stage) -> None:
        begun = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            begun.set()
            await asyncio.sleep(60)

        job = await waits.enqueue()
        async with stage.working() as worker:
            await begun.wait()
            assert await job.cancel() == "requested"
            stage.store.hang("get")
            stage.clock.advance(20_000)
            await stage.until(lambda: worker.stats.store_errors >= 2)
            assert caplog.text.count("who is to be cancelled is told late") == 1, "once, not at each look"
            stage.store.mend()
            await stage.until_state(job.id, "cancelled")
            assert stage.store.calls["extend"] == 0, "no renewal was due"

    on_stage("memory://", play, lease="30s")


@pytest.mark.usefixtures("prefetching")
@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_prefetched_job_whose_lease_is_lost_never_starts_here(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        task, go, began = heeding(stage, run)
        first, second, third = [await task.enqueue() for _ in range(3)]
        async with stage.working(concurrency=1, threads=1) as worker:
            await stage.until_state(third.id, "running")
            await steal(stage, second.id)
            stage.clock.advance(LEASE // 3)
            await stage.until(lambda: worker.stats.leases_lost == 1)
            go.set()
            await stage.until_state(third.id, "succeeded")
            assert began == [first.id, third.id]
            assert worker.stats.settled_late == 0

    on_stage(url, play)


@pytest.mark.usefixtures("prefetching")
def test_a_process_that_slept_through_its_lease_begins_nothing() -> None:
    async def play(stage: Stage) -> None:
        began: list[str] = []

        @stage.app.task(context=True)
        async def sleeps(ctx: Context) -> None:
            began.append(ctx.job.id)
            stage.clock.advance(LEASE)  # the event loop was blocked, or the whole process stopped

        jobs = await stage.app.enqueue_many(sleeps.job() for _ in range(3))
        async with stage.working(concurrency=1) as worker:
            await stage.until(lambda: worker.stats.settled_late >= 1)
            assert began[0] == jobs[0].id
            for job in jobs[1:]:
                assert began.count(job.id) <= (await stage.fetch(job.id)).executions - 1

    on_stage("memory://", play)


def test_a_revoked_worker_loses_everything_at_its_next_renewal(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def waits() -> None:
            await asyncio.sleep(60)

        jobs = [await waits.enqueue() for _ in range(3)]
        async with stage.working(worker_id="doomed") as worker:
            for job in jobs:
                await stage.until_state(job.id, "running")
            stage.store.fail("claim", "expire")
            await stage.store.driver.alter([Revoke("doomed")], now=stage.clock.now())
            stage.clock.advance(LEASE // 3)
            await stage.until(lambda: worker.stats.leases_lost == 3)
            await stage.until(lambda: not len(worker._holdings))

    on_stage(url, play)


def test_a_handler_that_does_not_stop_when_its_lease_is_lost_is_shown_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "STOPS_WITHIN", 0.05)

    async def play(stage: Stage) -> None:
        go = threading.Event()

        @stage.app.task
        def deaf() -> None:
            assert go.wait(PATIENCE)

        job = await deaf.enqueue()
        async with stage.working(threads=2) as worker:
            await stage.until_state(job.id, "running")
            await steal(stage, job.id)
            stage.clock.advance(LEASE // 3)
            await stage.until(lambda: worker.stats.stuck == 1)
            assert not len(worker._holdings), "the job is another's"
            go.set()
            await stage.until(lambda: worker.stats.stuck == 0)
            assert (await stage.fetch(job.id)).lease_token == THEIRS

    on_stage("memory://", play)
