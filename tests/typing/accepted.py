"""What type checkers must accept, with the types that they must see. Checked by mypy --strict and by pyright."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

from windlass import Context, JobHandle, Retry, Windlass, current
from windlass.tasks import PreparedJob
from windlass.testing import testing
from windlass.types import Job, Run

app = Windlass("memory://", lease="30s", retry=Retry(max_retries=2), concurrency=4)
app.queue("mail", preset="harmonyk")


@app.task
async def bare(to: str, *, subject: str = "Hello") -> int:
    return len(to + subject)


@app.task
def plain(a: int, b: float = 1.5) -> str:
    return str(a * b)


@app.task(queue="mail", retry=Retry(max_retries=5), timeout="30s", priority=3, tags=("a",), name="described")
async def with_options(items: list[str], limit: int | None = None) -> list[str]:
    return items[:limit]


@app.task(run="thread", dedupe=True, ack="sync")
def plain_with_options(path: str, /, *more: int) -> None: ...


@app.task(run="process", context=True)
def in_a_process(ctx: Context, path: str) -> int:
    ctx.log("reads %s", path)
    return len(path)


backup = app.command("backup", ["pg_dump", "--file={path}"], env={"A": "b"}, cwd="/tmp", artifacts=["{path}"], timeout="1h")  # noqa: S108


@app.task(context=True)
async def takes_context(ctx: Context, path: str, *, size: int = 1) -> int:
    ctx.progress(0.5, "half")
    async with ctx.transaction() as tx:
        tx.result = size
    return size


@app.task(context=True, queue="mail", timeout=timedelta(seconds=3))
def plain_with_context(ctx: Context, path: str) -> str:
    with ctx.transaction() as tx:
        tx.result = path
    return ctx.fence


@app.task
async def no_arguments() -> None:
    assert_type(current(), Context)


async def enqueues() -> None:
    assert_type(await bare.enqueue("ada", subject="Hi"), JobHandle[int])
    assert_type(await bare.enqueue(to="ada"), JobHandle[int])
    assert_type(bare.enqueue_sync("ada"), JobHandle[int])
    assert_type(await plain.enqueue(1), JobHandle[str])
    assert_type(await plain.enqueue(1, b=2), JobHandle[str])
    assert_type(plain.enqueue_sync(1, 2.5), JobHandle[str])
    assert_type(await with_options.enqueue(["a"], limit=None), JobHandle[list[str]])
    assert_type(plain_with_options.enqueue_sync("p", 1, 2, 3), JobHandle[None])
    assert_type(await takes_context.enqueue("p", size=2), JobHandle[int])
    assert_type(plain_with_context.enqueue_sync("p"), JobHandle[str])
    assert_type(await no_arguments.enqueue(), JobHandle[None])


async def uses_options(conn: object) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    soon = bare.using(delay="5m", priority=9, idempotency_key="k", org_id="acme", headers={"a": "b"})
    assert_type(await soon.enqueue("ada"), JobHandle[int])
    assert_type(await bare.using(run_at=at).using(limits=("gpu",), dedupe="key").enqueue("ada"), JobHandle[int])
    assert_type(takes_context.using(delay=1.5, id="my-own").enqueue_sync("p"), JobHandle[int])
    assert_type(plain.using(conn=conn, on_duplicate="raise", retry_mode="new_job").enqueue_sync(1), JobHandle[str])


async def enqueues_many() -> None:
    assert_type(plain.job(1), PreparedJob[str])
    assert_type(takes_context.using(priority=1).job("p"), PreparedJob[int])
    assert_type(await app.enqueue_many(bare.job(to) for to in ("ada", "bob")), list[JobHandle[int]])
    assert_type(app.enqueue_many_sync([plain.job(1), plain.using(delay=1).job(2)]), list[JobHandle[str]])


async def has_results() -> None:
    job = await bare.enqueue("ada")
    assert_type(await job.result(timeout=10), int)
    assert_type(await with_options.enqueue_sync([]).result("5s"), list[str])
    assert_type(await (await no_arguments.enqueue()).result(), None)
    assert_type(await job.retry(), JobHandle[int])
    assert_type(await job.fetch(), Job)
    assert_type(await job.runs(), list[Run])
    assert_type(app.job("an-id"), JobHandle[Any])
    assert_type(await app.repository.enqueue("email.send", org_id=None, payload={"to": "ada"}), str)


async def is_still_a_function(ctx: Context) -> None:
    coroutine = bare("ada", subject="Hi")
    await assert_type(coroutine, Coroutine[Any, Any, int])
    assert_type(await bare("ada"), int)
    assert_type(plain(1, b=2), str)
    assert_type(await takes_context(ctx, "p", size=1), int)
    assert_type(plain_with_context(ctx, "p"), str)


async def has_resources(ctx: Context) -> None:
    assert_type(ctx.resource(Path), Path)
    assert_type(app.resource(a_path), Callable[[], Iterator[Path]])


def a_path() -> Iterator[Path]:
    yield Path()


async def tests_its_jobs() -> None:
    with testing(app, now=datetime(2030, 1, 1, tzinfo=UTC)) as test:
        await bare.enqueue("ada")
        test.assert_enqueued(bare, "ada", using={"priority": 0})
        assert_type((await test.drain(retries=True)).succeeded, int)
        assert_type(test.drain_sync().dead, int)
        test.advance("5m")
