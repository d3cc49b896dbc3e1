"""Workers beside outages, floods of news, slow neighbours and odd signals."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from windlass.backoff import Backoff
from windlass.clock import SECOND
from windlass.core.alterations import PutLimit
from windlass.drivers import postgres
from windlass.policies import Retry, fixed
from windlass.signals import Snooze
from windlass.types import NewJob
from windlass.worker.pace import Pace
from worker.stage import Stage, on_stage

ONCE = Retry(max_attempts=1, backoff=fixed("0s"))


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_snooze_of_no_length_is_no_failure(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        turns = iter(range(5))

        def body() -> str:
            if next(turns) < 4:
                raise Snooze(0)
            return "done"

        async def awaited() -> str:
            return body()

        handler: Any = awaited if run == "async" else body
        job = await stage.app.task(name="work", retry=ONCE)(handler).enqueue()
        worker = await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts, row.skipped, row.executions) == ("succeeded", 0, 4, 5)
        assert (row.last_error, row.failed_at, worker.stats.dead) == ("", None, 0)
        assert [one.status for one in await stage.store.driver.runs(job.id)] == ["skipped"] * 4 + ["completed"]

    on_stage(url, play)


@pytest.mark.parametrize("said", ["task", "job"])
def test_what_is_serial_stays_so_in_a_worker_that_takes_work_ahead(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time and in order, however many slots there are and however much would be taken ahead."""
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: min(8, self._most)))

    async def play(stage: Stage) -> None:
        await stage.app.client.driver.alter([PutLimit("key:serial", 1)], now=stage.clock.now())
        order, at_once = list[int](), list[int]()
        inside = 0

        @stage.app.task(limits=("serial",) if said == "task" else ())
        async def work(number: int) -> None:
            nonlocal inside
            inside += 1
            at_once.append(inside)
            order.append(number)
            await asyncio.sleep(0)
            inside -= 1

        @stage.app.task
        async def other() -> None: ...

        chosen = work.using() if said == "task" else work.using(limits=("serial",))
        await stage.app.enqueue_many(job for n in range(25) for job in (chosen.job(n), other.job()))
        worker = await stage.drain(concurrency=8)
        assert (order, set(at_once), worker.stats.succeeded) == (list(range(25)), {1}, 50)

    on_stage(url, play, lease="1m")


def test_a_slow_job_holds_up_nobody_who_was_claimed_with_it(url: str) -> None:
    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def slow() -> None:
            await go.wait()

        @stage.app.task
        async def quick(number: int) -> None: ...

        await stage.app.enqueue_many([slow.job(), *[quick.job(n) for n in range(30)]])
        async with stage.working(concurrency=4) as worker:
            await stage.until(lambda: worker.stats.succeeded == 30)
            go.set()
            await stage.until(lambda: worker.stats.succeeded == 31)

    on_stage(url, play, lease="1m")


@pytest.mark.parametrize("call", ["claim", "settle"])
def test_an_outage_of_any_length_ends_no_worker_and_spends_no_attempt(
    url: str, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def no_pause(self: Backoff, until: asyncio.Event | None = None) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(Backoff, "pause", no_pause)
    caplog.set_level("CRITICAL")

    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task(retry=ONCE)
        async def work() -> str:
            await go.wait()
            return "done"

        begun = [await work.enqueue()] if call == "settle" else []
        async with stage.working(concurrency=2) as worker:
            for job in begun:
                await stage.until_state(job.id, "running")
            stage.store.fail("claim", "settle", "expire", "wait", "beat", "lead", "maintain", "examine", "waiting_types")
            go.set()
            meanwhile = await work.enqueue()
            before = stage.store.calls[call]
            await stage.until(lambda: stage.store.calls[call] - before >= 500)
            stage.store.mend()
            for job in (*begun, meanwhile):
                row = await stage.until_state(job.id, "succeeded")
                assert (row.executions, row.attempts, row.lost) == (1, 0, 0)
            await stage.until(lambda: worker.stats.succeeded == len(begun) + 1)

    on_stage(url, play, lease="1m")


def test_a_stream_of_news_of_others_keeps_no_worker_from_its_own_work(url: str) -> None:
    """The store says all the time that there may be something; what another process stored for later is still found."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async def always(call: Any, args: Any) -> bool:
            await asyncio.sleep(0)
            return True

        later = NewJob(id="later", type="work", run_at=stage.clock.now() + SECOND)
        await stage.store.driver.enqueue([later], now=stage.clock.now())
        stage.store.faults["wait"] = always
        async with stage.working(concurrency=1):
            await stage.until(lambda: stage.store.calls["wait"] > 50)
            assert (await stage.fetch("later")).state == "queued"
            stage.clock.advance(SECOND)
            await stage.until_state("later", "succeeded")

    on_stage(url, play, lease="1m", poll="1h")


def test_files_and_threads_do_not_grow_with_the_jobs_that_ran(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def awaited() -> None: ...

        @stage.app.task
        def blocking() -> None:
            asyncio.run(asyncio.sleep(0))  # a loop of its own, as coroutines in threads have

        async def some() -> tuple[int, int]:
            await stage.app.enqueue_many(task.job() for task in (awaited, blocking) for _ in range(25))
            assert (await stage.drain()).stats.succeeded == 50
            return len(os.listdir("/dev/fd")), threading.active_count()

        files, threads = await some()
        for _ in range(3):
            more, others = await some()
        assert more - files < 25
        assert others - threads < 25, "one that has done its work may take a moment to end"

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play, lease="1m")


def test_no_call_waits_for_a_lock_that_a_dead_session_may_have_left() -> None:
    """Advisory locks that outlive a transaction are for migrating alone, and no claim asks for one of any kind."""
    place = Path(postgres.__file__).parent
    texts = {path.name: path.read_text() for path in (*place.glob("*.py"), *place.glob("sql/*.sql"))}
    lasting = re.compile(r"pg_(try_)?advisory_lock(_shared)?\(")
    assert {name for name, text in texts.items() if lasting.search(text)} == {"migrating.py"}
    claims = {"leases.sql", "limits.sql", "leases.py", "claiming.py", "limits.py", "settle.sql", "settlement.py"}
    assert claims <= set(texts)
    assert not [name for name in claims if "advisory" in texts[name]]
