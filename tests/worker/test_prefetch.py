"""Holding jobs ahead of free slots: only when measured, never too many, in order, and not for careful work."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass import Windlass
from windlass.core.alterations import PutLimit
from windlass.drivers.values import Claim
from windlass.worker import worker as worker_module
from windlass.worker.claimer import Group
from windlass.worker.holdings import Held, Holdings
from windlass.worker.lineup import Lineup
from windlass.worker.pace import HORIZON, Pace

from .stage import PATIENCE, Stage, heard, heeding, on_stage


def claims(stage: Stage) -> list[Claim]:
    return [args[0] for args in stage.store.seen["claim"]]


def test_a_pace_says_none_until_it_has_measured_and_never_more_than_allowed() -> None:
    pace = Pace(7, 1)
    assert pace.prefetch == 0
    pace.finished(99.0, 99.1)
    pace.measure(100.0)
    assert pace.prefetch == 0, "one look is no measurement"
    for n in range(1_000):
        pace.finished(100 + n / 10_000, 100 + (n + 1) / 10_000)
    pace.measure(100.1)
    assert pace.prefetch == 7
    slow = Pace(500, 1)
    slow.measure(0.0)
    slow.finished(0.0, 0.5)
    slow.measure(1.0)
    assert slow.prefetch == int(2 * HORIZON)
    pace.measure(105.0)
    assert pace.prefetch == 0, "an old measurement says nothing"


def test_waiting_for_a_slow_store_does_not_make_quick_handlers_look_slow() -> None:
    pace = Pace(500, 20)
    pace.measure(0.0)
    for n in range(50):  # half a millisecond of work in a tenth of a second
        pace.finished(0.05 + n / 100_000, 0.05 + (n + 1) / 100_000)
    pace.measure(0.1)
    assert pace.prefetch == 500


def test_slow_handlers_that_end_together_do_not_look_quick() -> None:
    pace = Pace(500, 20)
    pace.measure(10.0)
    for n in range(20):  # a second each, all of them at once, and nothing to do afterwards
        pace.finished(9.001, 10.001 + n / 1_000_000)
    pace.measure(10.03)
    assert pace.prefetch == int(20 * HORIZON)


def test_handlers_that_never_wait_share_one_thread() -> None:
    pace = Pace(500, 20)
    pace.measure(0.0)
    for n in range(100):  # a millisecond of computing each, one after the other
        pace.finished(n / 1_000, (n + 1) / 1_000)
    pace.measure(0.1)
    assert pace.prefetch == 1_000 * HORIZON


class Line:
    """A runner with so many jobs in its line."""

    size, free = 20, 3

    def __init__(self, prefetch: int, waiting: int) -> None:
        self.pace = Pace(prefetch, self.size)
        self.waiting = waiting
        self.pace._rate = 1e9

    def accept(self, jobs: Sequence[Held], *, first: bool = False) -> None:
        raise AssertionError("nothing is claimed here")


@pytest.mark.parametrize(
    ("prefetch", "waiting", "room"),
    [(100, 0, 53), (100, 50, 53), (100, 51, 0), (100, 100, 0), (101, 51, 53), (3, 2, 4), (1, 0, 4), (1, 2, 0)],
)  # fmt: skip
def test_one_half_is_claimed_while_the_other_is_worked_off(prefetch: int, waiting: int, room: int) -> None:
    """A claim for all of it could only begin when half of it is done: the store would stand idle until then."""
    app = Windlass("memory://")

    @app.task
    async def quick() -> None: ...

    [wish] = Group(Line(prefetch, waiting), [quick]).wishes(Holdings())
    assert wish.room == room


class RealLine(Lineup):
    def _wake(self) -> None: ...


def in_line(*jobs: str) -> list[Held]:
    """`b5`: of priority 5; `c…` is careful work."""
    return [
        cast(
            "Held",
            SimpleNamespace(
                name=name,
                ended=False,
                job=SimpleNamespace(priority=int(name[1:])),
                task=SimpleNamespace(careful=name[0] == "c"),
            ),
        )
        for name in jobs
    ]


def test_what_is_more_urgent_overtakes_what_already_waits_for_a_handler() -> None:
    line = RealLine(size=1)
    line.accept(in_line("a5", "b0"))
    line.accept(in_line("c0"), first=True)
    for claimed in (["d0", "e0"], ["f9", "g5", "h0", "i0"], []):
        line.accept(in_line(*claimed))
    names = [cast("Any", held).name for held in line.take_back()]
    assert names == ["c0", "f9", "a5", "g5", "b0", "d0", "e0", "h0", "i0"], "and careful work stays where it is"


def test_the_first_claim_asks_for_free_slots_only(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None: ...

        await stage.app.enqueue_many(quick.job() for _ in range(50))
        await stage.drain(concurrency=3)
        first = claims(stage)[0]
        assert (first.limit, first.start) == (3, True)

    on_stage(url, play)


@pytest.mark.parametrize(("queues", "most"), [(1, 500), (500, 500), (700, 700), (1_500, 1_000)])
def test_where_there_are_many_queues_a_claim_brings_as_many_jobs(queues: int, most: int) -> None:
    """It has to look at each of them, however few it brings."""

    async def play(stage: Stage) -> None:
        @stage.app.task(queue="q0")
        async def quick() -> None: ...

        await stage.app.enqueue_many(quick.job() for _ in range(2_000))
        worker = await stage.drain(concurrency=1_200, queues=[f"q{n}" for n in range(queues)])
        assert worker.stats.succeeded == 2_000
        assert max(claim.limit for claim in claims(stage)) == most

    on_stage("memory://", play)


@pytest.mark.parametrize(("prefetch", "kind"), [(5, "async"), (0, "async"), (500, "thread"), (3, "thread")])
def test_never_more_wait_here_than_the_setting_says(prefetch: int, kind: str) -> None:
    async def play(stage: Stage) -> None:
        held: list[int] = []

        def look() -> None:
            runner = worker._runners[0]
            held.append(runner.busy + runner.waiting)

        async def quick() -> None:
            look()

        def blocking() -> None:
            look()

        handler: Any = quick if kind == "async" else blocking
        task = stage.app.task(name="work")(handler)
        await stage.app.enqueue_many(task.job() for _ in range(3_000))
        worker = stage.app.worker(concurrency=2, threads=2)
        async with asyncio.timeout(PATIENCE):
            await worker.run(drain=True)
        assert worker.stats.succeeded == 3_000
        assert max(held) <= worker._runners[0].size + prefetch
        if prefetch:
            assert any(not claim.start for claim in claims(stage)), "nothing was ever prefetched: this proves nothing"

    on_stage("memory://", play, prefetch=prefetch)


def test_order_is_kept_through_prefetching(url: str) -> None:
    async def play(stage: Stage) -> None:
        order: list[int] = []

        @stage.app.task
        async def quick(number: int) -> None:
            order.append(number)

        await stage.app.enqueue_many(quick.job(n) for n in range(300))
        await stage.drain(concurrency=1)
        assert order == list(range(300))
        assert any(not claim.start for claim in claims(stage))

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
@pytest.mark.parametrize("how", ["settlement", "renewal"])
def test_a_prefetched_job_records_when_its_handler_really_began(
    url: str, run: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: 2))

    async def play(stage: Stage) -> None:
        began, go = [0, 0], [threading.Event(), threading.Event()]

        @stage.app.task
        async def waits(number: int) -> None:
            began[number] = stage.clock.now()
            await heard(go[number])

        @stage.app.task
        def blocks(number: int) -> None:
            began[number] = stage.clock.now()
            assert go[number].wait(PATIENCE)

        task: Any = waits if run == "async" else blocks
        first, second = [await task.enqueue(n) for n in (0, 1)]
        if how == "settlement":
            go[1].set()
        async with stage.working(concurrency=1, threads=1):
            await stage.until_state(second.id, "running")
            await stage.until(lambda: began[0] > 0)
            assert (await stage.fetch(second.id)).started_at is None, "claimed, not begun"
            stage.clock.advance("50ms")
            go[0].set()
            await stage.until_state(first.id, "succeeded")
            if how == "renewal":
                await stage.until(lambda: began[1] > 0)
                stage.clock.advance("100ms")

                async def told() -> bool:
                    return (await stage.fetch(second.id)).started_at == began[1]

                await stage.until(told)
                go[1].set()
            row = await stage.until_state(second.id, "succeeded")
            [run_row] = await stage.store.driver.runs(second.id)
            assert row.started_at == run_row.started_at == began[1]
            assert run_row.started_at is not None
            assert run_row.started_at > run_row.claimed_at

    on_stage(url, play)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_what_waits_behind_a_slow_handler_goes_back_to_those_who_have_time(
    url: str, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "WATCH_EVERY", 0.02)
    quick = True
    monkeypatch.setattr(Pace, "prefetch", property(lambda self: 3 if quick else 0))

    async def play(stage: Stage) -> None:
        nonlocal quick
        task, go, _ = heeding(stage, run)
        jobs = await stage.app.enqueue_many(task.job() for _ in range(4))
        async with stage.working(concurrency=1, threads=1) as worker:
            await stage.until_state(jobs[-1].id, "running")
            quick = False
            await asyncio.sleep(0.05)
            assert worker.stats.released == 0, "they have just come"
            stage.clock.advance("1.1s")
            await stage.until(lambda: worker.stats.released == 3)
            for job in jobs[1:]:
                row = await stage.fetch(job.id)
                assert (row.state, row.attempts, row.executions - row.skipped) == ("queued", 0, 0)
            assert (await stage.fetch(jobs[0].id)).state == "running"
            go.set()
            for job in jobs:
                await stage.until_state(job.id, "succeeded")

    on_stage(url, play, lease="30s")


@pytest.mark.parametrize("kind", ["limits", "new_job"])
def test_careful_work_is_not_held_beyond_the_slots(kind: str) -> None:
    async def play(stage: Stage) -> None:
        held, here = list[int](), list[int]()
        options: Any = {"limits": ("k",)} if kind == "limits" else {"retry_mode": "new_job"}

        async def work() -> None:
            [runner] = worker._runners
            here.append(runner.busy + runner.waiting)
            counts = await stage.store.driver.count(now=stage.clock.now())
            held.append(sum(count.jobs for count in counts if count.label in ("claimed", "running")))

        careful: Any = stage.app.task(name="careful", **options)(work)
        await stage.store.driver.alter([PutLimit("key:k", 100)], now=stage.clock.now())
        await stage.app.enqueue_many(careful.job() for _ in range(100))
        worker = stage.app.worker(concurrency=2)
        await worker.run(drain=True)
        assert (worker.stats.succeeded, len(held)) == (100, 100)
        assert max(claim.limit for claim in claims(stage)) <= 2
        assert max(here) <= 2, "one waited for a slot, and kept its permit from others"
        if kind == "new_job":  # its slot is free when it is stored; another's as soon as its handler has ended
            assert max(held) <= 2, "leased at once: what runs, and what is being settled"

    on_stage("memory://", play)


def test_careful_work_does_not_starve_beside_a_flood_of_quick_jobs(url: str) -> None:
    async def play(stage: Stage) -> None:
        done: Counter[str] = Counter()

        @stage.app.task
        async def quick() -> None:
            done["quick"] += 1
            if done["careful"] < 10 and done["quick"] < 10_000:  # the flood ends with the last of the others
                await quick.enqueue()

        @stage.app.task(limits=("k",))
        async def careful() -> None:
            done["careful"] += 1

        await stage.store.driver.alter([PutLimit("key:k", 5)], now=stage.clock.now())
        await stage.app.enqueue_many(quick.job() for _ in range(300))
        await stage.app.enqueue_many(careful.job() for _ in range(10))
        await stage.app.enqueue_many(quick.job() for _ in range(300))
        await stage.drain(concurrency=4)
        assert done["careful"] == 10
        assert done["quick"] < 10_000, "they came when nothing else was left"

    on_stage(url, play, prefetch=500)


def test_looking_in_vain_for_one_kind_of_work_does_not_hold_up_the_other() -> None:
    """In a store with very many jobs of other types, finding that there is none of this one takes long."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def quick() -> None:
            pass

        @stage.app.task
        def blocking() -> None:
            pass

        async def slow_to_find(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            if "blocking" in args[0].types:
                await asyncio.sleep(0.03)
            return await call()

        stage.store.faults["claim"] = slow_to_find
        await stage.app.enqueue_many(quick.job() for _ in range(200))
        await stage.drain(concurrency=1)
        asked = [claim.types for claim in claims(stage)]
        assert asked.count(("quick",)) >= 20, "with one slot and short claims the others were asked for many times"
        assert asked.count(("blocking",)) < asked.count(("quick",)) / 4
        stage.store.seen.clear()
        await quick.enqueue()
        await blocking.enqueue()
        worker = await stage.drain(concurrency=1)
        assert worker.stats.succeeded == 2, "who rests is asked before a drain ends"

    on_stage("memory://", play, prefetch=0, poll="1s")


def test_a_job_that_is_due_by_now_is_looked_for_everywhere() -> None:
    """It stands before what was claimed last, where claims that begin there do not look."""

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def later() -> None: ...

        async with stage.working():
            await stage.until(lambda: "claim" in stage.store.seen)
            job = await later.using(delay="1m").enqueue()
            assert not any(claim.sure for claim in claims(stage)), "a worker that stays is told of what comes"
            stage.clock.advance(60_000_000)
            await stage.until_state(job.id, "succeeded")
        assert any(claim.sure for claim in claims(stage))

    on_stage("memory://", play)


def test_what_was_due_is_looked_for_once_also_while_there_is_other_work() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def again(left: int) -> None:
            if left:
                await again.enqueue(left - 1)

        async with stage.working(concurrency=1):
            await again.using(delay="1m").enqueue(0)
            await stage.until(lambda: "claim" in stage.store.seen)
            stage.clock.advance(60_000_000)
            job = await again.enqueue(50)
            await stage.until_state(job.id, "succeeded")
            await stage.until(lambda: len(claims(stage)) > 40)
        assert not claims(stage)[-1].sure
        assert sum(claim.sure for claim in claims(stage)) < 10

    on_stage("memory://", play)
