"""A job on its last chance runs alone: what kills workers takes no neighbours along."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.clock import SECOND
from windlass.drivers.values import Claim
from windlass.tasks import Task
from windlass.worker import suspects

from .stage import Stage, on_stage


async def lose_all(stage: Stage, times: int) -> None:
    """Every job is claimed and its worker dies, so many times."""
    for turn in range(times):
        wish = Claim(queues=("default",), limit=100, lease_for=1, worker_id="gone", token=f"gone-{turn}")
        await stage.store.driver.claim(wish, now=stage.clock.now())
        stage.clock.advance(10)
        await stage.store.driver.expire(now=stage.clock.now(), limit=100)


def crowd(stage: Stage) -> tuple[Task[..., None], list[int]]:
    """A task that tells how many of it run at once."""
    running: list[int] = [0]
    seen: list[int] = []

    @stage.app.task
    async def work() -> None:
        running[0] += 1
        await asyncio.sleep(0.002)
        seen.append(running[0])
        await asyncio.sleep(0.002)
        running[0] -= 1

    return work, seen


def until_told(stage: Stage) -> tuple[Task[..., None], asyncio.Event]:
    """A task that does not end before the event is set."""
    go = asyncio.Event()

    @stage.app.task
    async def endless() -> None:
        await go.wait()

    return endless, go


@pytest.mark.parametrize(("lost", "alone"), [(0, False), (1, False), (2, True)])
def test_only_a_job_on_its_last_chance_runs_alone(url: str, lost: int, alone: bool) -> None:
    async def play(stage: Stage) -> None:
        work, seen = crowd(stage)
        jobs = await stage.app.enqueue_many(work.job() for _ in range(12))
        await lose_all(stage, lost)
        worker = await stage.drain(concurrency=4)
        assert worker.stats.succeeded == 12
        assert (max(seen) == 1) is alone, seen
        runs = [len(await job.runs()) for job in jobs]
        assert max(runs) <= lost + 2, "handed back once at most, when the first of them was met"

    on_stage(url, play, max_lost=3, prefetch=0)


def test_others_that_run_are_waited_for_before_a_suspect_begins() -> None:
    async def play(stage: Stage) -> None:
        work, seen = crowd(stage)
        await work.enqueue()
        await lose_all(stage, 2)
        await stage.app.enqueue_many(work.using(priority=1).job() for _ in range(3))
        worker = await stage.drain(concurrency=4)
        assert worker.stats.succeeded == 4
        assert seen == [3, 3, 3, 1]

    on_stage("memory://", play, max_lost=3, prefetch=0)


def test_a_suspect_beside_a_job_that_does_not_end_is_put_off_and_keeps_nobody_waiting() -> None:
    async def play(stage: Stage) -> None:
        work, _ = crowd(stage)
        endless, go = until_told(stage)
        suspect = await work.enqueue()
        await lose_all(stage, 2)
        await endless.using(priority=2).enqueue()
        async with stage.app.running(concurrency=4):
            await stage.until(lambda: stage.store.calls["settle"] >= 1)
            row = await suspect.fetch()
            assert (row.state, row.attempts, row.lost) == ("queued", 0, 2)
            assert row.run_at is not None, "it comes back later"
            assert await stage.app.job((await work.enqueue()).id).result(timeout=5) is None, "others run meanwhile"
            go.set()
            stage.clock.advance("1s")
            await suspect.result(timeout=5)

    on_stage("memory://", play, max_lost=3, lease="600ms")


async def keep_time(stage: Stage) -> None:
    """The clock goes on as this test does."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    while True:
        await asyncio.sleep(0.005)
        before, passed = loop.time(), loop.time() - before
        stage.clock.advance(int(passed * SECOND))


def test_many_suspects_beside_a_job_that_does_not_end_keep_nobody_waiting(url: str) -> None:
    """Each is put off for a lease, and another third of it is waited each time: of four or more the next one would always
    be due, and nothing else would ever be claimed."""

    async def play(stage: Stage) -> None:
        work, seen = crowd(stage)
        endless, go = until_told(stage)
        suspects = await stage.app.enqueue_many(work.using(priority=1).job() for _ in range(6))
        await lose_all(stage, 2)
        await endless.using(priority=2).enqueue()
        async with stage.app.running(concurrency=4):
            time = asyncio.create_task(keep_time(stage))
            await stage.until(lambda: stage.store.calls["settle"] >= 1)
            others = await stage.app.enqueue_many(work.job() for _ in range(20))
            for job in others:
                await stage.until_state(job.id, "succeeded")
            for job in suspects:
                assert (await stage.fetch(job.id)).state != "succeeded", "it would not have been alone"
            seen.clear()
            go.set()
            for job in suspects:
                await stage.until_state(job.id, "succeeded")
            assert max(seen) == 1
            time.cancel()

    on_stage(url, play, max_lost=3, lease="900ms")


PROGRAM = """
import os, signal, sys, time
from windlass import Windlass
from windlass.clock import SECOND
app = Windlass("sqlite:///" + sys.argv[1], max_lost=3, lease="1s", concurrency=8)
@app.task
async def work(n: int) -> None:
    import asyncio
    await asyncio.sleep(0.05)
    if n == 5:
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    app.run(drain=True)
"""


def test_a_job_that_kills_its_workers_dies_alone(tmp_path: Path) -> None:
    """Real processes: eight slots, one poison job, its neighbours die with it twice and are safe the third time."""
    program, store = tmp_path / "poison.py", tmp_path / "jobs.db"
    program.write_text(PROGRAM)
    app = Windlass(f"sqlite:///{store}", max_lost=3, lease="1s")

    @app.task
    async def work(n: int) -> None: ...

    jobs = app.enqueue_many_sync(work.job(n) for n in range(20))

    async def states() -> list[str]:
        return [(await job.fetch()).state for job in jobs]

    killed = 0
    for _ in range(60):
        found = asyncio.run(states())
        if "queued" not in found and "running" not in found:
            break
        done = subprocess.run([sys.executable, str(program), str(store)], capture_output=True, timeout=60)
        killed += done.returncode == -signal.SIGKILL
        if done.returncode == 0:  # what the last one held has not lapsed yet
            asyncio.run(asyncio.sleep(0.1))
    asyncio.run(app.close())
    assert killed == 3
    assert [n for n, state in enumerate(found) if state == "dead"] == [5], found
    assert found.count("succeeded") == 19


def test_a_suspect_whose_lease_is_lost_while_it_waits_keeps_nobody_waiting() -> None:
    async def play(stage: Stage) -> None:
        work, _ = crowd(stage)
        slow, go = until_told(stage)
        suspect = await work.enqueue()
        await lose_all(stage, 2)
        await slow.using(priority=2).enqueue()
        async with stage.app.running(concurrency=4) as worker:
            await stage.until(lambda: len(getattr(worker, "_holdings", ())) == 2)
            held = worker._holdings.get(suspect.id)
            assert held is not None
            worker._finisher.lose(held)
            go.set()
            await (await work.using(priority=3).enqueue()).result(timeout=5)

    on_stage("memory://", play, max_lost=3, lease="60s")


def test_a_suspect_beside_a_job_that_does_not_end_runs_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "PATIENCE", 3)

    async def play(stage: Stage) -> None:
        work, _ = crowd(stage)
        endless, go = until_told(stage)
        suspect = await work.enqueue()
        await lose_all(stage, 2)
        longest = await endless.using(priority=2).enqueue()
        async with stage.app.running(concurrency=4):
            time = asyncio.create_task(keep_time(stage))
            await stage.until_state(suspect.id, "succeeded")
            row = await suspect.fetch()
            assert (row.executions - 2, row.skipped) == (4, 3), "it was put off three times before"
            assert (await longest.fetch()).state == "running"
            time.cancel()
            go.set()

    on_stage("memory://", play, max_lost=3, lease="600ms")
