"""In-process hooks: after the commit, in the worker that settled, at most once, in nobody's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from windlass import Reject, Retry, fixed
from windlass.clock import SECOND
from windlass.core.events import CANCELLED, DEAD, RETRIED, SUCCEEDED
from windlass.drivers.memory import MemoryDriver
from windlass.errors import InvalidInput
from windlass.hooks import HookRunner, Hooks, JobEvent, WorkerEvent
from worker.stage import Stage, on_stage


def test_a_hook_hears_of_what_its_worker_settled(url: str) -> None:
    async def play(stage: Stage) -> None:
        app = stage.app
        heard: list[tuple[str, str, str | None]] = []

        @app.task(retry=Retry(max_retries=1, backoff=fixed(0)))
        async def work(n: int) -> None:
            if n == 1:
                raise ValueError("boom")
            if n == 2:
                raise Reject("never")

        for event in (SUCCEEDED, RETRIED, DEAD):

            @app.on(event)
            async def note(told: JobEvent) -> None:
                row = await stage.fetch(told.job_id)
                assert row.last_outcome is not None, "it is not stored yet"
                heard.append((told.event, told.job_id, told.error))

        good, bad, never = [await work.enqueue(n) for n in range(3)]
        await stage.drain()
        assert sorted(heard, key=repr) == sorted([
            (SUCCEEDED, good.id, None), (RETRIED, bad.id, "ValueError: boom"), (DEAD, bad.id, "ValueError: boom"),
            (DEAD, never.id, "never"),
        ], key=repr)  # fmt: skip

    on_stage(url, play)


def test_a_plain_function_runs_beside_the_event_loop(url: str) -> None:
    async def play(stage: Stage) -> None:
        threads: list[threading.Thread] = []

        @stage.app.task
        async def work() -> None: ...

        @stage.app.on(SUCCEEDED)
        def note(told: JobEvent) -> None:
            threads.append(threading.current_thread())

        await work.enqueue()
        await stage.drain()
        assert len(threads) == 1
        assert threads[0] is not threading.main_thread()

    on_stage(url, play)


def test_an_object_whose_call_is_async_is_awaited(url: str) -> None:
    class Note:
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def __call__(self, told: JobEvent) -> None:
            await asyncio.sleep(0)
            self.heard.append(told.event)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        note = Note()
        stage.app.on(SUCCEEDED)(note)
        await work.enqueue()
        await stage.drain()
        assert note.heard == [SUCCEEDED]

    on_stage(url, play)


def test_a_hook_that_fails_or_hangs_harms_nobody(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.worker.worker.STOPS", SECOND // 5)  # that it has at the end, and will not use

    async def play(stage: Stage) -> None:
        calls: list[str] = []

        @stage.app.task
        async def work() -> None: ...

        @stage.app.on(SUCCEEDED)
        async def broken(told: JobEvent) -> None:
            calls.append(told.job_id)
            raise RuntimeError("of its own making")

        @stage.app.on(SUCCEEDED)
        async def endless(told: JobEvent) -> None:
            await asyncio.sleep(3_600)

        jobs = [await work.enqueue() for _ in range(20)]
        async with stage.working():
            for job in jobs:
                await stage.until_state(job.id, "succeeded")
            await stage.until(lambda: len(calls) == 8)  # as many at once, and the others wait
        assert "a hook of job.succeeded failed" in caplog.text

    on_stage(url, play)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_hook_that_raises_what_is_no_exception_harms_nobody(
    caplog: pytest.LogCaptureFixture, kind: str, error: BaseException
) -> None:
    """`sys.exit()` in a hook ended the process; a cancellation of its own making kept others from being called."""

    async def play(stage: Stage) -> None:
        calls: list[str] = []

        @stage.app.task
        async def work() -> None: ...

        def plain(told: JobEvent) -> None:
            raise error

        async def awaited(told: JobEvent) -> None:
            raise error

        stage.app.on(SUCCEEDED)(plain if kind == "plain" else awaited)

        @stage.app.on(SUCCEEDED)
        async def note(told: JobEvent) -> None:
            calls.append(told.job_id)

        jobs = await stage.app.enqueue_many(work.job() for _ in range(20))
        await stage.drain()
        assert sorted(calls) == sorted(job.id for job in jobs)
        assert caplog.text.count("a hook of job.succeeded failed") == len(jobs)

    on_stage("memory://", play)


def test_a_hook_that_exits_when_it_is_stopped_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """Its `sys.exit()` went through the event loop, and ended the process."""

    async def main() -> None:
        hooks, begun = Hooks(), asyncio.Event()

        async def stubborn(told: WorkerEvent) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise SystemExit(3)

        hooks.add("worker.started", stubborn)
        runner = HookRunner(hooks, MemoryDriver)
        runner.happened(WorkerEvent(event="worker.started", worker_id="w", queues=()))
        await begun.wait()
        runner.stop()
        await runner.idle()

    asyncio.run(main())
    assert caplog.text.count("a hook of worker.started failed") == 1


def test_an_outcome_that_was_refused_is_not_heard_of(url: str) -> None:
    async def play(stage: Stage) -> None:
        heard: list[str] = []
        begun, go = asyncio.Event(), asyncio.Event()

        @stage.app.task
        async def work() -> None:
            begun.set()
            await go.wait()

        stage.app.on(SUCCEEDED)(lambda told: heard.append(told.job_id))
        job = await work.enqueue()
        async with stage.working():
            await begun.wait()
            stage.store.fail("extend")
            stage.clock.advance(stage.app.client.settings.lease + 1)
            assert (await stage.store.driver.expire(now=stage.clock.now(), limit=10))[0] == 1
            go.set()
            await asyncio.sleep(0.05)
        assert heard.count(job.id) <= 1

    on_stage(url, play)


def test_only_what_one_worker_settles_can_be_heard_of(url: str) -> None:
    async def play(stage: Stage) -> None:
        for event in ("job.recovered", "group.finished", "queue.unhealthy", "job.died"):
            with pytest.raises(InvalidInput, match=r"job\.succeeded, job\.retried, job\.dead, job\.cancelled"):
                stage.app.on(event)(print)
        with pytest.raises(InvalidInput, match="function"):
            stage.app.on(CANCELLED)("no function")  # type: ignore[type-var]

    on_stage(url, play)


def test_a_worker_tells_of_its_start_and_of_its_end_before_its_resources_close(url: str) -> None:
    async def play(stage: Stage) -> None:
        story: list[object] = []

        @stage.app.resource
        def text() -> Iterator[str]:
            story.append("opens")
            yield "x"
            story.append("closes")

        @stage.app.task
        async def work() -> None:
            story.append("job")

        @stage.app.on("worker.started")
        async def begins(told: WorkerEvent) -> None:
            story.append(told)

        @stage.app.on("worker.stopped")
        def ends(told: WorkerEvent) -> None:
            story.append(told)

        await work.enqueue()
        worker = await stage.drain()
        about = {"worker_id": worker.id, "queues": ("default",)}
        started, stopped = WorkerEvent(event="worker.started", **about), WorkerEvent(event="worker.stopped", **about)  # type: ignore[arg-type]
        assert story == ["opens", started, "job", stopped, "closes"]

    on_stage(url, play)
