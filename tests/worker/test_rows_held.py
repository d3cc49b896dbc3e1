"""Outcomes whose rows somebody holds for long: they wait for that, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.changes import Answer, Settlement
from windlass.drivers.values import Claim, RowsHeld
from windlass.errors import InvalidInput
from windlass.handles import JobHandle
from windlass.testing.faulty import away
from windlass.types import NewJob
from windlass.worker import settler as settling
from windlass.worker.pace import Pace

from .stage import Stage, on_stage

MEMORY = "memory://"
Refuse = Callable[[Sequence[Settlement]], Exception]


class Rows:
    """Somebody holds the rows of these jobs. `tried`: those of which it was tried to store how they ended."""

    def __init__(self, stage: Stage, *ids: str) -> None:
        self.stage = stage
        self.held = set(ids)
        self.tried: set[str] = set()
        stage.store.faults["settle"] = self.fault

    async def fault(self, call: Any, args: tuple[Sequence[Settlement]]) -> list[Answer]:
        units, driver, now = args[0], self.stage.store.driver, self.stage.clock.now()
        rows = {job.seq: job.id for job in await driver.get(sorted(self.held)) if job is not None}
        self.tried |= {rows[unit.handle[0]] for unit in units if unit.handle[0] in rows}
        free = [unit for unit in units if unit.handle[0] not in rows]
        answers = iter(await driver.settle(free, now=now) if free else ())
        told = [None if unit.handle[0] in rows else next(answers) for unit in units]
        if None in told:
            raise RowsHeld("the store", told)
        return [answer for answer in told if answer is not None]


async def ended(stage: Stage, jobs: Sequence[JobHandle[Any]]) -> None:
    for job in jobs:
        await stage.until_state(job.id, "succeeded")


def test_rows_that_are_held_at_different_times_keep_no_other_outcome_waiting() -> None:
    """More of them than there may be batches under way, each of a batch of its own."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        rows, jobs = Rows(stage), []
        async with stage.working() as worker:
            for _ in range(settling.APART + 1):
                [job] = await stage.app.enqueue_many([quick.job()])
                rows.held.add(job.id)
                jobs.append(job)
                await stage.until(lambda job=job: job.id in rows.tried)  # type: ignore[misc]
            await ended(stage, await stage.app.enqueue_many(quick.job() for _ in range(20)))
            assert worker.reachable
            assert {(await stage.fetch(job.id)).state for job in jobs} == {"running"}
            rows.held.discard(jobs[1].id)
            await ended(stage, jobs[1:2])
            rows.held.clear()
            await ended(stage, jobs)
            assert worker.stats.succeeded == len(jobs) + 20

    on_stage(MEMORY, play, lease="60s")


def test_outcomes_that_were_let_go_of_are_stored_together_although_other_rows_are_held_still() -> None:
    """Each try of a held row takes as long as a store waits for it, and there may be many."""

    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        jobs = await stage.app.enqueue_many(waits.job() for _ in range(60))
        rows = Rows(stage, *(job.id for job in jobs))
        async with stage.working(concurrency=60) as worker:
            await stage.until(lambda: worker.stats.claimed == 60)
            go.set()
            await stage.until(lambda: len(rows.tried) == 60)
            before = stage.store.calls["settle"]
            rows.held = {job.id for job in jobs[:30]}
            await ended(stage, jobs[30:])
            assert stage.store.calls["settle"] - before < 10
            rows.held.clear()
            await ended(stage, jobs)

    on_stage(MEMORY, play, lease="60s")


@pytest.mark.parametrize(
    "refuse",
    [lambda units: RowsHeld("the store", [None] * len(units)), lambda units: InvalidInput("result", "no store takes one")],
    ids=["a store that waits for a row stores nothing of the call", "no store takes an outcome of the batch"],
)
def test_a_row_that_is_held_keeps_no_outcome_waiting_that_cannot_be_stored_beside_it(refuse: Refuse) -> None:
    """Such a batch is stored one by one."""

    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def waits() -> None:
            await go.wait()

        jobs = await stage.app.enqueue_many(waits.job() for _ in range(4))
        rows = Rows(stage, jobs[0].id)

        async def fault(call: Any, args: tuple[Sequence[Settlement]]) -> list[Answer]:
            if len(args[0]) > 1:
                raise refuse(args[0])
            return await rows.fault(call, args)

        stage.store.faults["settle"] = fault
        async with stage.working() as worker:
            await stage.until(lambda: worker.stats.claimed == 4)
            go.set()
            await ended(stage, jobs[1:])
            assert (await stage.fetch(jobs[0].id)).state == "running"
            rows.held.clear()
            await ended(stage, jobs)

    on_stage(MEMORY, play, lease="60s")


def test_a_worker_that_stops_still_stores_what_is_let_go_of_meanwhile() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        job = await quick.enqueue()
        rows = Rows(stage, job.id)
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: job.id in rows.tried)
        worker.stop()
        await asyncio.sleep(0.05)
        assert not running.done()
        rows.held.clear()
        await running
        assert (await stage.fetch(job.id)).state == "succeeded"

    on_stage(MEMORY, play, lease="60s", grace="20s")


def test_a_worker_that_stops_waits_for_its_handlers_and_then_for_what_is_to_be_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An outcome of a row that is held is no job that runs: the grace is not spent on it."""
    waits_for_store = asyncio.Event()
    idle = settling.Settler.idle

    async def watched(self: settling.Settler) -> None:
        waits_for_store.set()
        await idle(self)

    monkeypatch.setattr(settling.Settler, "idle", watched)

    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def quick() -> None: ...

        @stage.app.task
        async def slow() -> None:
            await go.wait()

        job, other = await quick.enqueue(), await slow.enqueue()
        rows = Rows(stage, job.id)
        worker = stage.app.worker()
        running = asyncio.create_task(worker.run())
        await stage.until(lambda: job.id in rows.tried and worker.stats.claimed == 2)
        worker.stop()
        await stage.until(lambda: "stopping: 1 job is running" in caplog.text)
        assert not waits_for_store.is_set()
        go.set()
        await stage.until(waits_for_store.is_set)
        assert not running.done()
        rows.held.clear()
        await running
        assert [(await stage.fetch(one.id)).state for one in (job, other)] == ["succeeded"] * 2

    with caplog.at_level("INFO", "windlass.worker"):
        on_stage(MEMORY, play, lease="60s", grace="10m")


def test_after_a_batch_that_took_long_outcomes_gather_as_before() -> None:
    """It is left to itself; what comes after it is written one batch at a time once more."""

    async def play(stage: Stage) -> None:
        at_once, most = 0, 0

        @stage.app.task
        async def quick() -> None:
            await asyncio.sleep(0.01)

        async def slow(call: Any, args: tuple[Sequence[Settlement]]) -> Any:
            nonlocal at_once, most
            first = stage.store.calls["settle"] == 1
            at_once += 1
            most = max(most, at_once) if stage.store.calls["settle"] > 15 else 0  # the first has ended by then
            await asyncio.sleep(settling.LONG + 0.1 if first else 0.02)
            at_once -= 1
            return await call()

        stage.store.faults["settle"] = slow
        await stage.app.enqueue_many(quick.job() for _ in range(500))
        await stage.drain(concurrency=4)
        assert stage.store.calls["settle"] > 20
        assert most == 1, "batches are halved, and take twice the connections, as long as there is work"

    on_stage(MEMORY, play, lease="60s")


def test_a_bug_while_a_batch_is_left_to_itself_ends_the_worker_at_once() -> None:
    """Nobody waits for that batch any more, and nothing else may come to be stored."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        async def broken(call: Any, args: tuple[Sequence[Settlement]]) -> Any:
            await asyncio.sleep(settling.LONG + 0.2)
            raise RuntimeError("a bug")

        stage.store.faults["settle"] = broken
        await quick.enqueue()
        with pytest.raises(RuntimeError, match="a bug"):
            async with asyncio.timeout(5):
                await stage.app.worker().run()

    on_stage(MEMORY, play, lease="60s")


def test_nobody_spins_while_one_batch_is_refused_and_another_finds_the_store_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are under way at once: the end of the one says nothing of the store, and nothing is begun."""
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: min(4, self._most)))

    async def play(stage: Stage) -> None:
        began = list[str]()
        go, refuse = asyncio.Event(), asyncio.Event()

        @stage.app.task
        async def works(name: str) -> None:
            began.append(name)
            if name == "long":
                await go.wait()

        async def fault(call: Any, args: tuple[Sequence[Settlement]]) -> Any:
            if args[0][0].handle[0] != 1:
                raise away()
            await refuse.wait()
            raise InvalidInput("result", "no store takes this")

        stage.store.faults["settle"] = fault
        await works.enqueue("refused")
        async with stage.working(concurrency=1) as worker:
            await stage.until(lambda: stage.store.calls["settle"] == 1)
            await stage.app.enqueue_many(works.job(name) for name in ("kept", "long", "waits"))
            await stage.until(lambda: not worker.reachable and worker.stats.claimed == 4)
            refuse.set()
            await stage.until(lambda: worker.stats.settled_late == 1)
            go.set()
            await asyncio.sleep(0.1)
            assert began == ["refused", "kept", "long"]
            stage.store.mend()
            await stage.until(lambda: worker.stats.succeeded == 3)
            assert began == ["refused", "kept", "long", "waits"]

    on_stage(MEMORY, play, lease="60s")


def test_a_lapsed_job_whose_row_is_held_keeps_no_other_from_being_recovered() -> None:
    """Nor does it keep the sweep from what comes after the recovery."""

    async def play(stage: Stage) -> None:
        @stage.app.task(crash_policy="fail")
        async def lost() -> None: ...

        jobs = await stage.app.enqueue_many(lost.job() for _ in range(3))
        driver = stage.store.driver
        wish = Claim(queues=("default",), limit=9, lease_for=SECOND, worker_id="gone", token="t", types=(lost.name,))
        assert len(await driver.claim(wish, now=stage.clock.now())) == 3
        stage.clock.advance("2s")
        await driver.enqueue([NewJob(id="strange", type="strange", on_unknown="dead")], now=stage.clock.now())
        rows = Rows(stage, jobs[0].id)
        async with stage.working() as worker:
            for name in (jobs[1].id, jobs[2].id, "strange"):
                await stage.until(lambda name=name: has_run(stage, name))  # type: ignore[misc]
            assert (await stage.fetch(jobs[0].id)).last_outcome is None
            assert worker.stats.recovered == 2
            rows.held.clear()
            await stage.until(lambda: has_run(stage, jobs[0].id))

    on_stage(MEMORY, play)


async def has_run(stage: Stage, job_id: str) -> bool:
    return (await stage.fetch(job_id)).last_outcome is not None
