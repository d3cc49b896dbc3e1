"""Middleware: around every handler, in order; it sees how the handler ends, and cannot keep the end from being stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

import pytest

from windlass import Context, Retry, Snooze, Windlass
from windlass.errors import InvalidInput
from worker.stage import Stage, on_stage

ONCE = Retry(max_retries=0)


def both(stage: Stage, story: list[Any], ending: Any = None) -> tuple[Any, Any]:
    """A task of each kind that ends so."""

    def end() -> str:
        story.append("handler")
        if isinstance(ending, BaseException):
            raise ending
        return "done"

    @stage.app.task(retry=ONCE)
    async def waits() -> str:
        await asyncio.sleep(0)
        return end()

    @stage.app.task(retry=ONCE)
    def blocks() -> str:
        return end()

    return waits, blocks


async def ends(stage: Stage, task: Any) -> tuple[str, str | None]:
    job = await task.enqueue()
    await stage.drain()
    row = await stage.fetch(job.id)
    return row.state, row.last_error


def test_the_first_declared_is_the_outermost_and_each_sees_the_job_and_its_value() -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()
        early, late = both(stage, story)

        @stage.app.middleware
        def outer(ctx: Context) -> Generator[None, Any, None]:
            story.append(ctx.job.type)
            story.append(("outer", (yield)))

        @stage.app.middleware
        def inner(ctx: Context) -> Generator[None, Any, None]:
            story.append("inner")
            story.append(("inner", (yield)))

        for task in (early, late):
            assert await ends(stage, task) == ("succeeded", "")
            assert story == [task.name, "inner", "handler", ("inner", "done"), ("outer", "done")]
            story.clear()
        assert late() == "done", "a plain call is a plain call"
        assert story == ["handler"]

    on_stage("memory://", play)


def test_it_sees_a_failure_and_cannot_make_a_success_of_it() -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()

        @stage.app.middleware
        def swallowing(ctx: Context) -> Iterator[None]:
            try:
                yield
            except ValueError as error:
                story.append(str(error))

        for task in both(stage, [], ValueError("boom")):
            assert await ends(stage, task) == ("dead", "ValueError: boom")
        assert story == ["boom", "boom"]

    on_stage("memory://", play)


@pytest.mark.parametrize("ending", [StopIteration("over"), StopAsyncIteration("over"), SystemExit(3), KeyError("k")])
def test_every_exception_comes_through_as_it_is(ending: BaseException) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.middleware
        def nothing(ctx: Context) -> Iterator[None]:
            yield

        _, blocks = both(stage, [], ending)
        state, error = await ends(stage, blocks)
        assert state == "dead"
        assert (error or "").startswith(type(ending).__name__)

    on_stage("memory://", play)


@pytest.mark.parametrize("when", ["before", "after a return", "instead of an error"])
def test_what_it_raises_is_how_the_job_ends(when: str) -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()

        @stage.app.middleware
        def raising(ctx: Context) -> Iterator[None]:
            if when == "before":
                raise RuntimeError("mine")
            try:
                yield
            finally:
                raise RuntimeError("mine")

        for task in both(stage, story, ValueError("its own") if when == "instead of an error" else None):
            assert await ends(stage, task) == ("dead", "RuntimeError: mine")
        assert len(story) == (0 if when == "before" else 2)

    on_stage("memory://", play)


def test_it_may_steer_with_signals() -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()

        @stage.app.middleware
        def later(ctx: Context) -> Iterator[None]:
            if ctx.job.skipped == 0:
                raise Snooze("1h")
            yield

        waits, _ = both(stage, story)
        job = await waits.enqueue()
        await stage.drain()
        assert ((await stage.fetch(job.id)).state, story) == ("queued", [])
        stage.clock.advance(3_601_000_000)
        await stage.drain()
        assert ((await stage.fetch(job.id)).state, story) == ("succeeded", ["handler"])

    on_stage("memory://", play)


@pytest.mark.parametrize("yields", [0, 2])
@pytest.mark.parametrize("ending", [None, ValueError("its own")])
def test_one_that_does_not_yield_once_fails_the_job_and_is_named(yields: int, ending: Any) -> None:
    async def play(stage: Stage) -> None:
        def clumsy(ctx: Context) -> Iterator[None]:
            for _ in range(yields):
                try:
                    yield
                except ValueError:
                    continue

        async def clumsy_too(ctx: Context) -> AsyncGenerator[None]:
            for _ in range(yields):
                try:
                    yield
                except ValueError:
                    continue

        waits, blocks = both(stage, [], ending)
        stage.app.middleware(clumsy)
        for task in (waits, blocks):
            state, error = await ends(stage, task)
            assert state == "dead"
            assert "clumsy must yield exactly once" in (error or "")
        del stage.app.tasks[blocks.name]
        stage.app.layers.layers.clear()
        stage.app.middleware(clumsy_too)
        state, error = await ends(stage, waits)
        assert "clumsy_too must yield exactly once" in (error or "")

    on_stage("memory://", play)


def test_an_async_one_goes_around_async_handlers_and_sees_how_they_end() -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()

        @stage.app.middleware
        async def around(ctx: Context) -> AsyncGenerator[None, Any]:
            await asyncio.sleep(0)
            try:
                story.append((yield))
            except Exception as error:
                story.append(str(error))
            await asyncio.sleep(0)

        @stage.app.task(retry=ONCE)
        async def work(fails: bool) -> int:
            if fails:
                raise ValueError("boom")
            return 7

        good, bad = await work.enqueue(False), await work.enqueue(True)
        await stage.drain(concurrency=1)
        assert [(await stage.fetch(job.id)).state for job in (good, bad)] == ["succeeded", "dead"]
        assert story == [7, "boom"]

    on_stage("memory://", play)


def test_an_async_one_is_not_silently_left_out_of_threads() -> None:
    app = Windlass("memory://")

    @app.middleware
    async def around(ctx: Context) -> AsyncGenerator[None]:
        yield

    app.command("backup", ["true"])  # no handler: nothing to be around

    @app.task
    async def waits() -> None: ...

    app.worker()

    @app.task
    def blocks() -> None: ...

    with pytest.raises(InvalidInput, match=r"around is async and cannot be around plain functions such as the task blocks"):
        app.worker()


def test_a_timeout_comes_through_it(caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        story = list[Any]()

        @stage.app.middleware
        def around(ctx: Context) -> Iterator[None]:
            try:
                yield
            except BaseException as error:
                story.append(type(error).__name__)
                raise

        @stage.app.task(retry=ONCE, timeout="50ms")
        async def slow() -> None:
            await asyncio.sleep(30)

        state, error = await ends(stage, slow)
        assert state == "dead"
        assert (error or "").startswith("TimeoutError: it ran longer")
        assert story == ["CancelledError"]

    on_stage("memory://", play)


@pytest.mark.parametrize("which", ["plain", "async", "without", "more"])
def test_what_is_no_middleware_is_refused_when_it_is_declared(which: str) -> None:
    app = Windlass("memory://")

    def plain(ctx: Context) -> None: ...

    async def waits(ctx: Context) -> None: ...

    def without() -> Iterator[None]:
        yield

    def more(ctx: Context, other: int) -> Iterator[None]:
        yield

    function: Any = {"plain": plain, "async": waits, "without": without, "more": more}[which]
    with pytest.raises(InvalidInput, match="middleware: "):
        app.middleware(function)
