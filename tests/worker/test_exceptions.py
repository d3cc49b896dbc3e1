"""Whatever a handler raises is recorded on its job, and the worker goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.policies import Retry
from windlass.signals import Cancel, Reject, RetryAfter, Snooze
from windlass.types import Job
from windlass.worker.failure import describe

from .stage import Stage, on_stage


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class EvilText(str):
    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise RuntimeError("no format")

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no slice")

    def __len__(self) -> int:
        raise RuntimeError("no length")


class SaysEvil(Exception):
    def __str__(self) -> str:
        return EvilText("evil")


class NoName(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "__module__"):
            raise RuntimeError("nameless")
        return super().__getattribute__(name)


class BreaksTracebacks(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("not even notes")


class Unbound(Exception):
    """As a proxy that stands for what is not there."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("there is none here")


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def nested(depth: int) -> BaseException:
    error: Exception = ValueError("innermost")
    for level in range(depth):
        error = ExceptionGroup(f"level {level}", [error])
    return error


def recursing() -> BaseException:
    def fall() -> None:
        fall()

    try:
        fall()
    except RecursionError as error:
        return error
    raise AssertionError("it fell for ever")


RAISED: dict[str, tuple[Any, str]] = {
    "plain": (lambda: ValueError("no luck"), "ValueError: no luck"),
    "base": (lambda: BaseException("rare"), "BaseException: rare"),
    "system exit": (lambda: SystemExit(1), "SystemExit: 1"),
    "keyboard": (lambda: KeyboardInterrupt(), "KeyboardInterrupt"),
    "generator exit": (lambda: GeneratorExit(), "GeneratorExit"),
    "cancelled": (lambda: asyncio.CancelledError("mine"), "CancelledError: mine"),
    "stop async": (lambda: StopAsyncIteration(), "StopAsyncIteration"),
    "endless": (lambda: ValueError("x" * 10_000_000), "ValueError: xxx"),
    "unprintable": (lambda: Unprintable(), "Unprintable: (its text cannot be made: ValueError)"),
    "exits in str": (lambda: Exits(), "Exits: (its text cannot be made: SystemExit)"),
    "evil text": (lambda: SaysEvil(), "SaysEvil"),
    "surrogates": (lambda: ValueError("half \ud800 and \x00 NUL"), "ValueError: half \\ud800 and \\x00 NUL"),
    "group": (lambda: ExceptionGroup("two", [ValueError("a"), OSError("b")]), "ValueError: a; OSError: b"),
    "base group": (lambda: BaseExceptionGroup("b", [SystemExit(2)]), "SystemExit: 2"),
    "deep group": (lambda: nested(5_000), "ExceptionGroup: level 4999"),
    "broken traceback": (lambda: BreaksTracebacks("x"), "BreaksTracebacks: x"),
    "recursion": (recursing, "RecursionError: maximum recursion"),
    "memory": (lambda: MemoryError(), "MemoryError"),
    "unbound": (lambda: Unbound(), "Unbound: (it cannot be told: RuntimeError)"),
    "nameless": (lambda: NoName("Nameless", (Exception,), {})(), "Nameless"),
}  # fmt: skip


async def failed_with(stage: Stage, run: str, make: Any) -> Job:
    """Run one job that raises, thrice, and one that does not, on the same single slot; answer the first."""

    def raises() -> None:
        raise make()

    async def raises_async() -> None:
        raise make()

    async def waits_and_raises() -> None:
        await asyncio.sleep(0)
        raise make()

    def works() -> None: ...

    async def works_async() -> None: ...

    bad: Any = {"thread": raises, "async": raises_async, "async later": waits_and_raises}[run]
    good: Any = works if run == "thread" else works_async
    one = await stage.app.task(name="bad")(bad).enqueue()
    two = await stage.app.task(name="good")(good).enqueue()
    worker = await stage.drain(concurrency=1, threads=1)
    assert (await stage.fetch(two.id)).state == "succeeded"
    assert (worker.stats.retried, worker.stats.dead, worker.stats.succeeded) == (2, 1, 1)
    return await stage.fetch(one.id)


@pytest.mark.parametrize("run", ["async", "async later", "thread"])
@pytest.mark.parametrize("what", RAISED)
def test_any_exception_is_recorded_and_the_slot_goes_on(what: str, run: str) -> None:
    make, words = RAISED[what]

    async def play(stage: Stage) -> None:
        job = await failed_with(stage, run, make)
        assert (job.state, job.dead_kind, job.executions) == ("dead", "exhausted", 3)
        assert words in job.last_error
        assert len(job.last_error) < 5_000
        runs = await stage.store.driver.runs(job.id)
        assert [run.status for run in runs] == ["failed"] * 3
        assert all(run.traceback for run in runs)

    on_stage("memory://", play)


def test_any_exception_can_be_described() -> None:
    assert all(describe(make()) for make, _ in RAISED.values())


@pytest.mark.parametrize("what", ["endless", "surrogates", "deep group", "generator exit"])
def test_a_real_file_keeps_nasty_texts_too(what: str, tmp_path: Any) -> None:
    make, words = RAISED[what]

    async def play(stage: Stage) -> None:
        assert words in (await failed_with(stage, "async", make)).last_error

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_a_handler_that_raises_stop_iteration_fails_like_any_other(run: str) -> None:
    async def play(stage: Stage) -> None:
        job = await failed_with(stage, run, lambda: StopIteration(7))
        assert "StopIteration" in job.last_error

    on_stage("memory://", play)


def test_a_handler_that_cancels_its_own_task_does_not_take_the_slot_with_it() -> None:
    """At its next await, or, when it returns before that, at the next await of whoever comes after it."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def cancels_and_waits() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        @stage.app.task
        async def cancels_and_returns() -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return "done"

        @stage.app.task
        async def innocent() -> None:
            await asyncio.sleep(0)

        first, second = await cancels_and_waits.enqueue(), await cancels_and_returns.enqueue()
        others = [await innocent.enqueue() for _ in range(3)]
        await stage.drain(concurrency=1)
        assert "CancelledError" in (await stage.fetch(first.id)).last_error
        assert (await stage.fetch(second.id)).state == "succeeded"
        for job in [await stage.fetch(other.id) for other in others]:
            assert (job.state, job.executions, job.lost) == ("succeeded", 1, 0)

    on_stage("memory://", play)


@pytest.mark.parametrize("signal", [Cancel, Reject, lambda reason: RetryAfter(0, reason)])
def test_a_signal_with_an_unprintable_reason_is_still_obeyed(signal: Any) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None:
            raise signal(NoRepr())

        job = await work.enqueue()
        await stage.drain(concurrency=1)
        assert (await stage.fetch(job.id)).state in ("cancelled", "dead")

    on_stage("memory://", play)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_signal_from_a_child_task_is_obeyed(depth: int) -> None:
    """A task group wraps it; the handler's wish is the same."""

    async def play(stage: Stage) -> None:
        async def child(left: int) -> None:
            if left == 0:
                raise Snooze("1h")
            async with asyncio.TaskGroup() as group:
                group.create_task(child(left - 1))

        @stage.app.task
        async def later() -> None:
            await child(depth)

        job = await later.enqueue()
        worker = await stage.drain()
        assert (worker.stats.snoozed, worker.stats.retried, (await stage.fetch(job.id)).attempts) == (1, 0, 0)
        assert [run.traceback for run in await job.runs()] == [None]

    on_stage("memory://", play)


def test_a_signal_beside_an_error_is_a_failure() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(retry=Retry(max_retries=0))
        async def both() -> None:
            raise BaseExceptionGroup("two", [Snooze("1h"), ValueError("no")])

        job = await both.enqueue()
        await stage.drain()
        row = await stage.fetch(job.id)
        assert (row.state, "ValueError: no" in row.last_error) == ("dead", True)

    on_stage("memory://", play)
