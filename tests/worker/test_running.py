"""Ways to run a worker: until nothing is due, for a few jobs, inside another loop, several on one store; and the ways in
which it ends when a part of it fails."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from windlass.app import Windlass
from windlass.clock import SECOND, ManualClock, moment
from windlass.core.queries import NextRefill
from windlass.drivers import open_driver
from windlass.drivers.values import Claim
from windlass.errors import AppClosed, DriverClosed, InvalidInput, StoreUnavailable
from windlass.policies import Retry, fixed
from windlass.types import Claimed, NewJob
from windlass.worker import Worker

from .stage import PATIENCE, Stage, on_stage


def test_a_drain_also_runs_what_its_jobs_enqueue(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def spawns(depth: int) -> None:
            if depth:
                await asyncio.sleep(0.001)
                await spawns.enqueue(depth - 1)

        await spawns.enqueue(30)
        later = await spawns.using(delay="1h").enqueue(0)
        worker = await stage.drain()
        assert worker.stats.succeeded == 31
        assert (await stage.fetch(later.id)).state == "queued", "it is not due"

    on_stage(url, play)


def test_a_drain_waits_for_the_tokens_of_a_rate_but_a_tick_does_not(url: str) -> None:
    async def play(stage: Stage) -> None:
        await stage.app.limits.set("api", rate="50/s", burst=1)

        @stage.app.task(limits=("api",))
        async def asks() -> None: ...

        for _ in range(6):
            await asks.enqueue()
        ticked = await stage.app.tick(limit=6)
        assert ticked.succeeded < 6, "it answers soon, whatever is left"
        drained = await drain_while_time_passes(stage)
        assert ticked.succeeded + drained.stats.succeeded == 6

    on_stage(url, play, lease="1h")


def test_a_drain_does_not_wait_for_what_a_rate_keeps_from_other_workers(url: str) -> None:
    async def play(stage: Stage) -> None:
        await stage.app.limits.set("api", rate="50/s", burst=1)
        new = [NewJob(id=name, type="unknown", limit_keys=("key:api",), max_attempts=1) for name in ("a", "b")]
        await stage.app.client.driver.enqueue(new, now=stage.app.client.now())
        theirs = Claim(
            queues=("default",), limit=2, lease_for=SECOND * 60, worker_id="other", token="t", types=("unknown",)
        )
        assert len(await stage.app.client.driver.claim(theirs, now=stage.app.client.now())) == 1, "the other is parked"

        @stage.app.task
        async def known() -> None: ...

        await known.enqueue()
        assert (await drain_while_time_passes(stage)).stats.succeeded == 1

    on_stage(url, play, lease="1h")


def test_a_drain_does_not_wait_for_a_rate_of_queues_that_it_does_not_serve(url: str) -> None:
    async def play(stage: Stage) -> None:
        await stage.app.limits.set("type:slow", rate="1/h", burst=1)

        @stage.app.task(queue="b")
        async def slow() -> None: ...

        @stage.app.task(queue="a")
        async def quick() -> None: ...

        await stage.app.enqueue_many(slow.job() for _ in range(2))
        assert (await drain_while_time_passes(stage, queues=["b"], max_jobs=2)).stats.succeeded == 1, "the other is parked"
        await quick.enqueue()
        assert (await stage.drain(queues=["a"])).stats.succeeded == 1

    on_stage(url, play, lease="1h")


def test_a_token_that_is_said_to_be_there_and_is_not_is_not_looked_for_without_pause() -> None:
    """Whatever the store answers, a worker that finds nothing is idle; and it hears of new work as before."""

    async def play(stage: Stage) -> None:
        async def always_there(call: Any, args: Any) -> Any:
            return [stage.clock.now() - SECOND] if isinstance(args[0], NextRefill) else await call()

        @stage.app.task
        async def work() -> None: ...

        stage.store.faults["read"] = always_there
        async with stage.working() as worker:
            await stage.until(lambda: stage.store.calls["claim"] >= 3)
            looks = stage.store.calls["claim"]
            await asyncio.sleep(0.2)
            assert stage.store.calls["claim"] - looks <= 4
            await work.enqueue()
            await asyncio.wait_for(stage.until(lambda: worker.stats.succeeded == 1), 5)

    on_stage("memory://", play, poll="1h", lease="1h")


async def drain_while_time_passes(stage: Stage, **options: Any) -> Worker:
    draining = asyncio.create_task(stage.drain(**options))
    while not draining.done():
        stage.clock.advance("20ms")
        await asyncio.sleep(0.001)
    return await draining


def test_a_drain_does_not_end_on_an_answer_that_is_older_than_its_last_job(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def last() -> None: ...

        @stage.app.task
        async def spawns() -> None:
            await go.wait()
            await last.enqueue()

        first = await spawns.enqueue()
        worker = stage.app.worker(concurrency=2)
        running = asyncio.create_task(worker.run(drain=True))
        await stage.until_state(first.id, "running")
        waits, answer_now = stage.store.hold("claim")
        await waits.wait()  # a claim has found nothing, and its answer is on its way
        go.set()
        await stage.until(lambda: worker.stats.succeeded == 1)
        answer_now.set()
        async with asyncio.timeout(PATIENCE):
            await running
        assert worker.stats.succeeded == 2

    on_stage(url, play)


def test_a_tick_takes_no_more_than_its_limit(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        @stage.app.task
        def blocking() -> None: ...

        await stage.app.enqueue_many([*(quick.job() for _ in range(5)), *(blocking.job() for _ in range(5))])
        assert (await stage.app.tick(3)).claimed == 3
        assert (await stage.app.tick(3)).succeeded == 3
        assert (await stage.app.tick(100)).succeeded == 4
        assert (await stage.app.tick(100)).claimed == 0
        with pytest.raises(InvalidInput, match="limit"):
            await stage.app.tick(0)

    on_stage(url, play)


def test_only_who_ends_when_nothing_is_left_asks_to_be_sure_of_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stays looks again; a store may spare it a look at everything each time (`Claim.sure`)."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        asked: list[bool] = []
        claim = stage.store.driver.claim

        async def remembered(wish: Claim, *, now: int) -> list[Claimed]:
            if not wish.unhandled:
                asked.append(wish.sure)
            return await claim(wish, now=now)

        monkeypatch.setattr(stage.store.driver, "claim", remembered)
        await work.enqueue()
        await stage.drain()
        await stage.app.tick(1)
        assert set(asked) == {True}
        asked.clear()
        async with stage.working():
            job = await work.enqueue()
            await stage.until_state(job.id, "succeeded")
        assert set(asked) == {False}

    on_stage(url, play)


def test_a_tick_decides_about_what_a_dead_worker_left(url: str) -> None:
    """Where cron is all there is, nobody else would."""

    async def play(stage: Stage) -> None:
        @stage.app.task(retry_mode="new_job", retry=Retry(max_retries=1, backoff=fixed("0s")))
        async def never_twice() -> None: ...

        for n in range(5):
            job = await never_twice.enqueue()
            wish = Claim(queues=("default",), limit=1, lease_for=SECOND, worker_id="dead", token=f"dead-{n}")
            assert await stage.store.driver.claim(wish, now=stage.clock.now())
            stage.clock.advance(2 * SECOND)
            await stage.app.tick()
            assert (await stage.fetch(job.id)).superseded_by is not None
            await stage.app.tick()

    on_stage(url, play)


def test_a_worker_that_cannot_open_its_store_says_so_before_the_block(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/nowhere/jobs.db")

    @app.task
    async def work() -> None: ...

    async def main() -> None:
        async with app.running():
            entered.append("a program would now believe that its jobs are being run")

    entered: list[str] = []
    with pytest.raises(StoreUnavailable, match="mkdir"):
        asyncio.run(main())
    assert entered == []


def test_a_worker_runs_inside_another_event_loop(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def double(number: int) -> int:
            return 2 * number

        async with stage.app.running(concurrency=2):
            jobs = [await double.enqueue(n) for n in range(10)]
            assert [await job.result(timeout=5) for job in jobs] == [2 * n for n in range(10)]
        waiting = await double.enqueue(1)
        await asyncio.sleep(0.05)
        assert (await stage.fetch(waiting.id)).state == "queued"

    on_stage(url, play)


def test_leaving_the_block_early_leaves_no_task_behind() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def swallows() -> None:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue

        before = asyncio.all_tasks()
        job = await swallows.enqueue()
        worker = stage.app.worker(concurrency=2)
        running = asyncio.create_task(worker.run())
        await stage.until_state(job.id, "running")
        running.cancel()
        await asyncio.wait({running})
        assert {task.get_name() for task in asyncio.all_tasks() - before} == set()

    on_stage("memory://", play)


def test_several_workers_share_one_store_in_one_process(url: str) -> None:
    async def play(stage: Stage) -> None:
        ran: list[int] = []

        @stage.app.task
        async def work(number: int) -> None:
            ran.append(number)
            await asyncio.sleep(0)

        await stage.app.enqueue_many(work.job(n) for n in range(200))
        workers = [stage.app.worker(concurrency=2) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(worker.run(drain=True) for worker in workers))
        assert sorted(ran) == list(range(200))
        assert sum(worker.stats.succeeded for worker in workers) == 200
        assert len({worker.id for worker in workers}) == 3

    on_stage(url, play)


def test_a_delayed_job_is_picked_up_when_its_time_comes_not_at_the_next_poll() -> None:
    """Also when something else woke the worker in between."""

    async def main() -> None:
        app = Windlass("memory://", poll="30s", concurrency=2)
        loop = asyncio.get_running_loop()

        @app.task
        async def work() -> float:
            return loop.time()

        async with app.running():
            await asyncio.sleep(0.02)
            asked = loop.time()
            job = await work.using(delay="150ms").enqueue()
            await (await work.enqueue()).result(timeout=5)
            ran = await job.result(timeout=5)
            assert 0.1 < ran - asked < 1.5
        await app.close()

    asyncio.run(main())


def test_enqueueing_a_delayed_job_from_a_thread_does_not_hurt_anybody(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        def blocking(number: int) -> None:
            if number:
                due = moment(stage.clock.now()) + timedelta(microseconds=2)
                blocking.using(run_at=due).enqueue_sync(number - 1)
            stage.clock.advance(2)

        await blocking.enqueue(60)
        async with stage.working() as worker:
            await stage.until(lambda: worker.stats.succeeded == 61)
            assert worker.stats.retried == 0

    on_stage(url, play)


# ------------------------------------------------------------------------------------------------------ when parts fail


@pytest.mark.parametrize("call", ["claim", "extend", "settle", "expire"])
@pytest.mark.parametrize("grace", ["60s"])
def test_a_part_that_fails_ends_the_worker_loudly_and_soon(call: str, grace: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def waits() -> None:
            await asyncio.sleep(60)

        @stage.app.task
        async def quick() -> None: ...

        job = await waits.enqueue()
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until_state(job.id, "running")
        stage.store.fail(call, error=RuntimeError("a bug"))
        await quick.enqueue()
        stage.clock.advance("100ms")
        async with asyncio.timeout(4):
            with pytest.raises(RuntimeError, match="a bug"):
                await running
        assert "has failed; this worker ends" in caplog.text
        if call != "settle":
            row = await stage.fetch(job.id)
            assert (row.state, row.attempts) == ("queued", 0), "what it held was handed back"

    on_stage("memory://", play, grace=grace)


@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("what", ["app", "driver"])
def test_a_worker_on_a_closed_store_ends_with_a_clear_error(url: str, when: str, what: str) -> None:
    async def main() -> None:
        driver = open_driver(url)
        app = Windlass(url, driver=driver, clock=ManualClock(), random=Random(1), poll="20ms", lease="300ms")

        @app.task
        async def quick() -> None: ...

        async def close() -> None:
            await (app.close() if what == "app" else driver.close())

        worker = app.worker()
        if when == "before":
            await close()
        running = asyncio.create_task(worker.run())
        if when == "while":
            await asyncio.sleep(0.05)
            await close()
        async with asyncio.timeout(4):
            with pytest.raises(AppClosed if what == "app" else DriverClosed, match="closed"):
                await running
        await driver.close()

    asyncio.run(main())


def test_a_slot_that_somebody_cancels_from_outside_ends_the_worker_loudly() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await (await quick.enqueue()).result(timeout=5)
        next(task for task in asyncio.all_tasks() if task.get_name() == "windlass-slot-0").cancel()
        async with asyncio.timeout(4):
            with pytest.raises(RuntimeError, match="cancelled from outside"):
                await running

    on_stage("memory://", play)


def test_a_store_that_cannot_be_listened_to_is_polled_not_hammered() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        stage.store.fail("wait")
        async with stage.working():
            await (await quick.enqueue()).result(timeout=5)
            before = stage.store.calls["claim"]
            await asyncio.sleep(0.2)
            assert stage.store.calls["claim"] - before <= 20

    on_stage("memory://", play, poll="20ms")


def test_a_lapsed_job_whose_policy_cannot_be_read_does_not_stop_recovery(url: str) -> None:
    async def play(stage: Stage) -> None:
        from windlass.drivers.values import Claim

        @stage.app.task
        async def quick() -> None: ...

        now = stage.clock.now()
        odd = NewJob(
            id="odd",
            type="quick",
            queue="q",
            max_attempts=1,
            max_lost=9,
            retry_policy='{"backoff":{"type":"fixed","pause":1}}',
        )
        fine = NewJob(id="fine", type="quick", queue="q", max_attempts=1, max_lost=9)
        await stage.store.driver.enqueue([odd, fine], now=now)
        wish = Claim(queues=("q",), limit=2, lease_for=1_000, worker_id="gone", token="t")
        assert len(await stage.store.driver.claim(wish, now=now)) == 2

        async def newer(call: Any, args: Any) -> Any:
            """As if a newer version had written a policy that this one does not know."""
            taken, jobs = await call()
            return taken, [strange(job) for job in jobs]

        def strange(job: Any) -> Any:
            from msgspec.structs import replace

            return replace(job, retry_policy='{"backoff":{"type":"quantum"}}') if job.id == "odd" else job

        stage.store.faults["expire"] = newer
        stage.clock.advance("1s")
        async with stage.working(queues=["other"]):
            row = await stage.until_state("fine", "dead")
            assert (row.dead_kind, (await stage.fetch("odd")).state) == ("lost", "running")

    on_stage(url, play)


def test_a_worker_that_cannot_open_its_store_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/nowhere/jobs.db")

    @app.task
    async def work() -> None: ...

    with pytest.raises(StoreUnavailable, match="mkdir"):
        asyncio.run(app.worker().run(drain=True))
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
