"""Handlers of both kinds: results, signals, the current job, context variables."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

import windlass
from windlass.context import Context
from windlass.errors import NoCurrentJob
from windlass.signals import Cancel, Reject, RetryAfter, Snooze
from windlass.types import NewJob

from .stage import Stage, on_stage

colour: ContextVar[str] = ContextVar("colour", default="none")


def registered(stage: Stage, run: str, body: Any, **options: Any) -> Any:
    """The body as a task of this kind."""

    async def awaited() -> Any:
        return body()

    return stage.app.task(name="work", **options)(awaited if run == "async" else body)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_result_comes_back(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        job = await registered(stage, run, lambda: {"answer": 42}).enqueue()
        await stage.drain()
        assert await job.result(timeout=1) == {"answer": 42}

    on_stage(url, play)


def test_a_result_that_cannot_be_stored_is_dead_and_not_repeated() -> None:
    class Nasty:
        def __eq__(self, other: object) -> bool:
            raise SystemExit(5)

        __hash__ = None  # type: ignore[assignment]

    async def play(stage: Stage) -> None:
        values = iter([object(), float("nan"), "\ud800", "x" * (2 << 20), Nasty()])

        @stage.app.task
        async def work() -> Any:
            return next(values)

        jobs = [await work.enqueue() for _ in range(5)]
        await stage.drain(concurrency=1)
        for job in [await stage.fetch(one.id) for one in jobs]:
            assert (job.state, job.dead_kind, job.executions) == ("dead", "rejected", 1)
            assert "its return value cannot be stored" in str(job.dead_reason)

    on_stage("memory://", play)


class Unbound:
    """As a proxy that stands for what is not there outside of a request."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("there is none here")


class Clings:
    def __await__(self) -> Any:
        try:
            yield
        finally:
            raise ValueError("it does not let go")


def clinging() -> Any:
    async def work() -> None:
        await Clings()

    begun = work()
    begun.send(None)
    return begun


@pytest.mark.parametrize("run", ["async", "thread"])
@pytest.mark.parametrize("make", [Unbound, clinging])
def test_a_result_of_any_kind_does_not_take_the_slot_with_it(run: str, make: Any) -> None:
    async def play(stage: Stage) -> None:
        values = iter([make, lambda: 42])
        work = registered(stage, run, lambda: next(values)())
        odd, plain = [await work.enqueue() for _ in range(2)]
        await stage.drain(concurrency=1, threads=1)
        row = await stage.fetch(odd.id)
        assert (row.state, row.dead_kind, row.executions) == ("dead", "rejected", 1)
        assert await plain.result(timeout=1) == 42

    on_stage("memory://", play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_signals_pass_through_a_broad_except_and_steer_the_job(url: str, run: str) -> None:
    async def play(stage: Stage) -> None:
        signals = iter([Snooze("1h"), RetryAfter("2h", "later"), Cancel("enough")])

        def body() -> None:
            try:
                raise next(signals)
            except Exception:
                pytest.fail("a signal was swallowed")

        job = await registered(stage, run, body).enqueue()
        await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts, row.skipped, row.run_at) == ("queued", 0, 1, stage.clock.now() + 3_600_000_000)
        stage.clock.advance("1h")
        await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, row.attempts, row.last_error) == ("queued", 1, "later")
        assert row.run_at == stage.clock.now() + 7_200_000_000
        stage.clock.advance("2h")
        worker = await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, row.last_error, worker.stats.cancelled) == ("cancelled", "enough", 1)

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_reject_is_dead_at_once(run: str) -> None:
    def body() -> None:
        raise Reject("never")

    async def play(stage: Stage) -> None:
        job = await registered(stage, run, body).enqueue()
        await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, row.dead_kind, row.dead_reason, row.executions) == ("dead", "rejected", "never", 1)

    on_stage("memory://", play)


def test_a_signal_whose_delay_is_none_does_not_take_the_slot_with_it() -> None:
    class Odd(Snooze):
        def __init__(self) -> None:
            self.delay = "soon"  # type: ignore[assignment]

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def odd() -> None:
            raise Odd

        @stage.app.task
        async def fine() -> None: ...

        one, two = await odd.enqueue(), await fine.enqueue()
        await stage.drain(concurrency=1)
        assert (await stage.fetch(one.id)).dead_kind == "rejected"
        assert (await stage.fetch(two.id)).state == "succeeded"

    on_stage("memory://", play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_context_variables_do_not_leak_into_the_next_job_of_a_slot(run: str) -> None:
    seen: list[str] = []

    def body() -> None:
        seen.append(colour.get())
        colour.set("red")

    async def play(stage: Stage) -> None:
        task = registered(stage, run, body)
        await stage.app.enqueue_many(task.job() for _ in range(3))
        await stage.drain(concurrency=1, threads=1)
        assert seen == ["none"] * 3

    on_stage("memory://", play)


def test_the_current_job_is_known_in_helpers_tasks_and_threads_and_nowhere_else() -> None:
    async def play(stage: Stage) -> None:
        def helper() -> str:
            return windlass.current().job.id

        @stage.app.task
        async def awaited() -> list[str]:
            return [helper(), await asyncio.create_task(asyncio.sleep(0, helper())), await asyncio.to_thread(helper)]

        @stage.app.task
        def blocking() -> str:
            return helper()

        @stage.app.task(context=True)
        def outside(ctx: Context) -> str:
            errors: list[BaseException] = []

            def look() -> None:
                try:
                    helper()
                except NoCurrentJob as error:
                    errors.append(error)

            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return type(errors[0]).__name__

        one, two, three = await awaited.enqueue(), await blocking.enqueue(), await outside.enqueue()
        await stage.drain(threads=1)
        assert await one.result(timeout=1) == [one.id] * 3
        assert await two.result(timeout=1) == two.id
        assert await three.result(timeout=1) == "NoCurrentJob"
        with pytest.raises(NoCurrentJob):
            windlass.current()

    on_stage("memory://", play)


def test_an_undecodable_payload_is_dead_and_names_the_argument(url: str) -> None:
    async def play(stage: Stage) -> None:
        ran: list[int] = []

        @stage.app.task
        async def work(count: int) -> None:
            ran.append(count)

        @stage.app.task
        def blocking(count: int) -> None:
            ran.append(count)

        new = [NewJob(id=name, type=name, payload=b'{"count": "many"}', max_attempts=9) for name in ("work", "blocking")]
        await stage.store.driver.enqueue([*new, NewJob(id="rubbish", type="work", payload=b"\xff{")], now=stage.clock.now())
        good = await work.enqueue(7)
        await stage.drain(concurrency=1)
        for name in ("work", "blocking", "rubbish"):
            job = await stage.fetch(name)
            assert (job.state, job.dead_kind, job.executions) == ("dead", "rejected", 1)
            assert name == "rubbish" or "count" in str(job.dead_reason)
        assert (await stage.fetch(good.id)).state == "succeeded"
        assert ran == [7]

    on_stage(url, play)


def test_handlers_of_both_kinds_run_side_by_side(url: str) -> None:
    """Each waits for the other: neither could end if one kind had to wait for the other's slots."""

    async def play(stage: Stage) -> None:
        from_thread, from_loop = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        @stage.app.task
        async def awaited() -> None:
            from_loop.set()
            await from_thread.wait()

        @stage.app.task
        def blocking() -> None:
            loop.call_soon_threadsafe(from_thread.set)
            assert from_loop.wait(5)

        await stage.app.enqueue_many([awaited.job(), blocking.job()])
        worker = await stage.drain(concurrency=1, threads=1)
        assert worker.stats.succeeded == 2

    on_stage(url, play)
