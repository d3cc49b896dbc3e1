"""Resources: opened once before the first job, closed after the last, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from windlass import Context, Retry, Windlass, current
from windlass.errors import InvalidInput, NoSuchResource, ResourceUnavailable, WindlassError
from windlass.testing import testing
from worker.stage import Stage, on_stage

T = TypeVar("T")


class Pool:
    pass


class Mailer:
    pass


class Book:
    pass


class Box(Generic[T]):
    pass


def test_they_are_opened_once_in_order_and_closed_in_the_opposite_one_after_the_last_job() -> None:
    async def play(stage: Stage) -> None:
        app, story = stage.app, list[str]()
        seen: set[int] = set()

        @app.resource
        async def pool() -> AsyncIterator[Pool]:
            story.append("pool opens")
            async with asyncio.TaskGroup():  # left by another task than entered it, this raises
                yield Pool()
            story.append("pool closes")

        @app.resource
        def mailer() -> Iterator[Mailer]:
            story.append("mailer opens")
            yield Mailer()
            story.append("mailer closes")

        @app.task(context=True)
        async def waits(ctx: Context) -> None:
            seen.add(id(ctx.resource(Pool)))
            story.append("job")

        @app.task
        def blocks() -> None:
            seen.add(id(current().resource(Pool)))
            assert isinstance(current().resource(Mailer), Mailer)
            story.append("job")

        for _ in range(3):
            await waits.enqueue()
            await blocks.enqueue()
        worker = await stage.drain()
        assert worker.stats.succeeded == 6
        assert story == ["pool opens", "mailer opens", *["job"] * 6, "mailer closes", "pool closes"]
        assert len(seen) == 1

    on_stage("memory://", play)


def test_a_worker_whose_resource_does_not_open_says_so_and_claims_nothing() -> None:
    async def play(stage: Stage) -> None:
        app, story = stage.app, list[str]()

        @app.resource
        def mailer() -> Iterator[Mailer]:
            yield Mailer()
            story.append("mailer closes")

        @app.resource
        async def pool() -> AsyncIterator[Pool]:
            raise ConnectionRefusedError("nobody at home")
            yield Pool()

        @app.task
        async def work() -> None: ...

        job = await work.enqueue()
        with pytest.raises(ResourceUnavailable, match=r"pool cannot be opened: ConnectionRefusedError: nobody at home"):
            await stage.drain()
        assert story == ["mailer closes"]
        assert (await stage.fetch(job.id)).executions == 0
        with pytest.raises(ResourceUnavailable):
            async with app.running():
                story.append("the block begins")
        assert story == ["mailer closes"] * 2

    on_stage("memory://", play)


def test_one_that_does_not_close_harms_neither_the_others_nor_the_work(caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: Stage) -> None:
        app, story = stage.app, list[str]()

        @app.resource
        def mailer() -> Iterator[Mailer]:
            yield Mailer()
            story.append("mailer closes")

        @app.resource
        async def pool() -> AsyncIterator[Pool]:
            yield Pool()
            raise OSError("stuck")

        @app.task
        async def work() -> None: ...

        await work.enqueue()
        assert (await stage.drain()).stats.succeeded == 1
        assert story == ["mailer closes"]
        assert "pool was not closed" in caplog.text

    on_stage("memory://", play)


@pytest.mark.parametrize(("is_over", "cancels"), [(True, 1), (False, 1), (False, 3)])
def test_all_are_closed_however_often_somebody_cancels(is_over: bool, cancels: int) -> None:
    async def main() -> None:
        app, story, closing, over = Windlass("memory://"), list[str](), asyncio.Event(), asyncio.Event()

        def add(kind: type[T]) -> None:
            async def slow() -> AsyncIterator[T]:
                yield kind()
                closing.set()
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0 if len(story) >= cancels else 60)
                finally:
                    story.append(kind.__name__)

            slow.__annotations__["return"] = AsyncIterator[kind]  # type: ignore[valid-type]
            app.resource(slow)

        for kind in (Pool, Mailer, Box, Book):
            add(kind)

        async def hold() -> None:
            async with app.resources.opened():
                await over.wait()

        task = asyncio.ensure_future(hold())
        await asyncio.sleep(0)
        over.set() if is_over else task.cancel()
        for _ in range(cancels):  # of each that is being closed
            await closing.wait()
            closing.clear()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert story == ["Book", "Box", "Mailer", "Pool"]

    asyncio.run(main())


def test_asking_for_what_nobody_gives_fails_the_job_with_a_hint() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.resource
        def mailer() -> Iterator[Mailer]:
            yield Mailer()

        @stage.app.task(context=True, retry=Retry(max_retries=0))
        async def work(ctx: Context) -> None:
            ctx.resource(Pool)

        job = await work.enqueue()
        await stage.drain()
        error = (await stage.fetch(job.id)).last_error or ""
        assert error.startswith(NoSuchResource.__name__)
        assert "no resource gives a Pool; there are: Mailer" in error
        assert "@app.resource" in error

    on_stage("memory://", play)


def test_context_managers_of_all_kinds_are_resources() -> None:
    app = Windlass("memory://")

    @app.resource
    @asynccontextmanager
    async def pool() -> AsyncIterator[Pool]:
        yield Pool()

    @app.resource
    @contextmanager
    def mailer() -> Iterator[Mailer]:
        yield Mailer()

    @app.resource
    def boxed() -> AbstractContextManager[Box[int]]:
        return nullcontext(Box[int]())

    @app.resource
    def path() -> AbstractAsyncContextManager[Path]:
        return nullcontext(Path("/"))

    @app.task(context=True)
    def work(ctx: Context) -> list[str]:
        kinds: list[Any] = [ctx.resource(Pool), ctx.resource(Mailer), ctx.resource(Box[int]), ctx.resource(Path)]
        return [type(kind).__name__ for kind in kinds]

    async def story() -> None:
        with testing(app) as test:
            job = await work.enqueue()
            await test.drain()
            assert await job.result(timeout=1) == ["Pool", "Mailer", "Box", "PosixPath"]

    asyncio.run(story())


@pytest.mark.parametrize("which", ["coroutine", "class", "bare", "untyped", "nothing", "parameters", "twice"])
def test_what_is_no_resource_is_refused_when_it_is_declared(which: str) -> None:
    app = Windlass("memory://")

    async def coroutine() -> Pool:
        return Pool()

    def bare() -> Pool:
        return Pool()

    def untyped():  # type: ignore[no-untyped-def]
        yield Pool()

    def nothing() -> Iterator[None]:
        yield

    def parameters(url: str) -> Iterator[Pool]:
        yield Pool()

    def twice() -> Iterator[Pool]:
        yield Pool()

    if which == "twice":
        app.resource(twice)
    function: Any = Pool if which == "class" else locals()[which]
    with pytest.raises(InvalidInput, match="resource: "):
        app.resource(function)


def test_a_child_process_opens_its_own(tmp_path: Path) -> None:
    from worker.sharing import app, pid_of_opener

    with testing(app, store="sqlite") as test:
        first, second = pid_of_opener.enqueue_sync(), pid_of_opener.enqueue_sync()
        test.drain_sync()
        rows = {job.id: job for job in test.jobs()}
        results = [rows[job.id].result for job in (first, second)]
        assert results == [b'["child","around"]'] * 2, [row.last_error for row in rows.values()]


def test_a_child_process_whose_resource_does_not_open_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.sharing import app, pid_of_opener

    monkeypatch.setenv("POOL_OPENS_ONLY_IN", str(os.getpid()))
    monkeypatch.setattr("windlass.worker.processes.runner.HOPELESS", 1)
    with testing(app, store="sqlite") as test:
        job = pid_of_opener.enqueue_sync()
        with pytest.raises(WindlassError, match=r"cannot begin: the resource pool cannot be opened: OSError: broken"):
            test.drain_sync()
        assert next(row for row in test.jobs() if row.id == job.id).state == "queued"
