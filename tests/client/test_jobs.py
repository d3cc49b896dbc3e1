"""A job as its caller holds it: its result, its end, and what people may do to it. Retry chains are one job."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from windlass import JobCancelled, JobDead, JobHandle, JobNotFound, Reject, Retry, Windlass, fixed
from windlass.core.duties import Done, Prune
from windlass.errors import Refused
from windlass.types import Job
from windlass.words import Words

from .conftest import Place, only, rows


@pytest.fixture
def app(place: Place) -> Windlass:
    return place.app(lease="6s")


@dataclass
class Receipt:
    total: int
    took: timedelta


def failing(app: Windlass, **options: Any) -> Any:
    async def fails(why: str = "no") -> str:
        raise ValueError(why)

    return app.task(retry=Retry(max_retries=2, backoff=fixed("1m")), **options)(fails)


async def drain(app: Windlass, place: Place, minutes: int = 1) -> None:
    """Run what is due, then a minute later again, so that retries have their turn."""
    for _ in range(minutes):
        await app.worker().run(drain=True)
        place.clock.advance("1m")


# ------------------------------------------------------------------------------------------------------------- results


def test_a_result_has_the_type_that_the_function_returns(app: Windlass) -> None:
    @app.task
    async def pay(total: int) -> Receipt:
        return Receipt(total, timedelta(seconds=2))

    @app.task
    def nothing() -> None: ...

    async def main() -> None:
        paid, empty = await pay.enqueue(5), await nothing.enqueue()
        await app.worker().run(drain=True)
        assert await paid.result() == Receipt(5, timedelta(seconds=2))
        for job in (empty, app.job(empty.id)):
            value: object = await job.result()
            assert value is None
        assert await app.job(paid.id).result() == {"total": 5, "took": "PT2S"}  # its task is not known there

    asyncio.run(main())


def test_a_result_can_be_awaited_before_there_is_one(app: Windlass) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async def main() -> None:
        jobs = await app.enqueue_many(double.job(n) for n in range(20))
        waiting = [asyncio.create_task(job.result("10s")) for job in jobs]
        twice = asyncio.create_task(jobs[0].result(10))
        await asyncio.sleep(0)
        async with app.running():
            assert await asyncio.gather(*waiting) == [2 * n for n in range(20)]
            assert await twice == 0

    asyncio.run(main())


def test_the_end_of_a_dead_job_is_told_with_its_error(place: Place, app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue("the disk is on fire")
        await drain(app, place, 3)
        with pytest.raises(JobDead, match=r"ValueError: the disk is on fire.*windlass jobs retry") as dead:
            await job.result(1)
        assert dead.value.job_id == job.id
        row = await job.fetch()
        assert (row.state, row.dead_kind, row.attempts, row.executions) == ("dead", "exhausted", 3, 3)

    asyncio.run(main())


def test_a_rejected_job_is_dead_at_once(app: Windlass) -> None:
    @app.task
    async def refuses() -> None:
        raise Reject("not my kind")

    async def main() -> None:
        job = await refuses.enqueue()
        await app.worker().run(drain=True)
        with pytest.raises(JobDead, match="not my kind"):
            await job.result(1)
        assert (await job.fetch()).dead_kind == "rejected"

    asyncio.run(main())


def test_the_end_of_a_cancelled_job_is_told_with_the_reason(app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue()
        assert await job.cancel("changed my mind") == "cancelled"
        with pytest.raises(JobCancelled, match="changed my mind"):
            await job.result(1)

    asyncio.run(main())


def test_waiting_has_an_end(app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue()
        with pytest.raises(TimeoutError):
            await job.result(timeout="20ms")
        with pytest.raises(TimeoutError):
            await job.result(timeout=0)
        assert (await job.fetch()).state == "queued"

    asyncio.run(main())


def test_event_loops_that_are_closed_are_let_go(app: Windlass) -> None:
    """Tests and scripts call asyncio.run again and again on one app."""

    @app.task
    async def work() -> int:
        return 1

    async def main() -> weakref.ref[asyncio.AbstractEventLoop]:
        job = await work.enqueue()
        async with app.running():
            assert await job.result(10) == 1
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(main()) for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops[:2]] == [None, None]


def test_all_who_wait_are_served_by_one_question_and_nobody_asks_for_nobody(place: Place, app: Windlass) -> None:
    @app.task
    async def works() -> None: ...

    async def main() -> None:
        jobs = await app.enqueue_many(works.job() for _ in range(50))
        asked: list[int] = []
        fifth = asyncio.Event()
        driver, time = app.client.driver, asyncio.get_running_loop().time
        get = driver.get

        async def counted(ids: Sequence[str]) -> list[Job | None]:
            asked.append(len(ids))
            if len(asked) == 5:
                fifth.set()
            return await get(ids)

        driver.get = counted  # type: ignore[method-assign]
        begun, before = time(), asyncio.all_tasks()
        waiting = [asyncio.create_task(job.result()) for job in jobs]
        await fifth.wait()
        assert set(asked) == {50}
        assert time() - begun > 0.1, "the pauses do not grow"
        asked.clear()
        watching = asyncio.all_tasks() - before - set(waiting)
        for one in waiting:
            one.cancel()
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, asyncio.CancelledError)
        await asyncio.wait(watching)  # nobody is awaited, so who asks ends
        assert asked == []

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_pruned_or_deleted_job_is_not_found(place: Place, app: Windlass) -> None:
    @app.task
    async def works() -> int:
        return 1

    async def main() -> None:
        pruned, deleted, alive = [await works.enqueue() for _ in range(3)]
        await app.worker().run(drain=True)
        await deleted.delete()
        with pytest.raises(JobNotFound, match="pruned or deleted"):
            await deleted.result(1)
        assert await pruned.result(1) == 1
        place.clock.advance("1h")
        assert await app.client.driver.maintain(Prune(succeeded=1), epoch=None, now=place.clock.now()) == Done(2)
        for call in (pruned.result, pruned.fetch, pruned.cancel, pruned.retry, alive.delete):
            with pytest.raises(JobNotFound):
                await call()
        with pytest.raises(JobNotFound):
            await app.job("never was").result(1)
        assert await pruned.runs() == []

    asyncio.run(main())


def test_who_waits_for_a_job_that_is_deleted_meanwhile_is_told(app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue()
        waiting = asyncio.create_task(job.result(10))
        await asyncio.sleep(0)
        await job.cancel()
        await job.delete()
        with pytest.raises((JobNotFound, JobCancelled)):
            await waiting

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------------- chains


def test_a_handle_follows_its_chain(place: Place, app: Windlass) -> None:
    seen: list[str] = []

    @app.task(retry_mode="new_job", retry=Retry(max_retries=2, backoff=fixed("1m")))
    async def chained() -> str:
        seen.append("ran")
        if len(seen) < 3:
            raise ValueError(f"failure {len(seen)}")
        return "at last"

    async def main() -> None:
        first = await chained.enqueue()
        waiting = asyncio.create_task(first.result(20))
        await app.worker().run(drain=True)
        head = await app.job(first.id).fetch()
        assert (head.state, head.retry_of, head.attempts) == ("queued", first.id, 1)
        await first.move("top")
        place.clock.advance("1m")
        await drain(app, place, 2)
        assert await waiting == "at last"
        assert await app.job(first.id).result(1) == "at last"
        assert [(run.status, run.error) for run in await first.runs()] == [
            ("failed", "ValueError: failure 1"), ("failed", "ValueError: failure 2"), ("completed", None),
        ]  # fmt: skip
        assert len({run.job_id for run in await first.runs()}) == 3
        await first.delete()
        assert await rows(app) == []

    asyncio.run(main())


def test_cancelling_the_first_link_cancels_the_last(app: Windlass) -> None:
    fails = failing(app, retry_mode="new_job")

    async def main() -> None:
        first = await fails.enqueue()
        await app.worker().run(drain=True)
        assert await first.cancel("enough") == "cancelled"
        with pytest.raises(JobCancelled, match="enough"):
            await first.result(1)
        assert [row.state for row in await rows(app)] == ["dead", "cancelled"]

    asyncio.run(main())


def test_a_dead_chain_is_retried_as_a_manual_child(place: Place, app: Windlass) -> None:
    fails = failing(app, retry_mode="new_job")

    async def main() -> None:
        first = await fails.enqueue()
        await drain(app, place, 3)
        assert len(await rows(app)) == 3
        again = await first.retry()
        row = await again.fetch()
        assert (row.id, row.manual, row.attempts, row.state) == (again.id, True, 0, "queued")
        assert row.retry_of == (await rows(app))[2].id
        assert (await first.fetch()).id == again.id
        with pytest.raises(Refused, match="only dead jobs"):
            await first.retry()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ what people may do


def test_a_dead_job_is_retried_in_place_with_its_whole_allowance(place: Place, app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue()
        await drain(app, place, 3)
        again = await job.retry()
        row = await only(app)
        assert (again.id, row.state, row.attempts) == (job.id, "queued", 0)
        await drain(app, place, 3)
        assert len(await job.runs()) == 6
        assert (await job.fetch()).state == "dead"

    asyncio.run(main())


def test_a_retry_is_refused_while_its_dedupe_key_is_active_elsewhere(place: Place, app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.using(dedupe="k").enqueue()
        await drain(app, place, 3)
        await fails.using(dedupe="k").enqueue()
        with pytest.raises(Refused, match="dedupe key"):
            await job.retry()

    asyncio.run(main())


def test_a_finished_job_cannot_be_cancelled_and_a_cancelled_one_stays_so(app: Windlass) -> None:
    @app.task
    async def works() -> None: ...

    async def main() -> None:
        done, gone = await works.enqueue(), await works.enqueue()
        assert await gone.cancel() == "cancelled"
        assert await gone.cancel() == "cancelled"
        await app.worker().run(drain=True)
        with pytest.raises(Refused, match="it is succeeded; only queued and running jobs"):
            await done.cancel()
        with pytest.raises(Refused, match="only dead jobs"):
            await done.retry()
        with pytest.raises(Refused, match="only queued jobs"):
            await done.move("top")
        with pytest.raises(Refused, match="only queued jobs"):
            await done.run_now()

    asyncio.run(main())


def test_a_running_job_is_asked_to_stop(place: Place, app: Windlass) -> None:
    async def main() -> None:
        begun, stopped = asyncio.Event(), asyncio.Event()

        @app.task
        async def endless() -> None:
            begun.set()
            try:
                await asyncio.sleep(3_600)
            finally:
                stopped.set()

        job = await endless.enqueue()
        async with app.running():
            await asyncio.wait_for(begun.wait(), 10)
            assert await job.cancel("enough") == "requested"
            assert await job.cancel("enough") == "requested"
            place.clock.advance("1500ms")
            with pytest.raises(JobCancelled):
                await job.result(10)
        assert stopped.is_set()
        assert [run.status for run in await job.runs()] == ["skipped"]

    asyncio.run(main())


def test_move_changes_who_is_next(app: Windlass) -> None:
    seen: list[int] = []

    @app.task
    async def note(n: int) -> None:
        seen.append(n)

    async def main() -> None:
        jobs = [await note.enqueue(n) for n in range(4)]
        await jobs[3].move("top")
        await jobs[0].move("bottom")
        await app.worker(concurrency=1).run(drain=True)
        assert seen == [3, 1, 2, 0]

    asyncio.run(main())


def test_a_job_that_waits_is_brought_forward(app: Windlass) -> None:
    @app.task
    async def works() -> int:
        return 1

    async def main() -> None:
        job = await works.using(delay="1d").enqueue()
        await job.run_now()
        await app.worker().run(drain=True)
        assert await job.result(1) == 1

    asyncio.run(main())


def test_a_job_that_is_not_let_go_is_not_deleted_and_it_is_said_why(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    async def works() -> None: ...

    async def main() -> None:
        job = await works.enqueue()
        await app.worker().run(drain=True)
        for answer, why in (("referred", "rows of another table refer to it"), ("busy", "somebody holds its row")):

            async def alter(*_: Any, told: str = answer, **__: Any) -> list[str]:
                return [told]

            with monkeypatch.context() as patched:
                patched.setattr(app.client.driver, "alter", alter)
                with pytest.raises(Refused, match=why):
                    await job.delete()
        await job.delete()

    asyncio.run(main())


def test_only_finished_jobs_are_deleted(app: Windlass) -> None:
    fails = failing(app)

    async def main() -> None:
        job = await fails.enqueue()
        with pytest.raises(Refused, match="cancel it first"):
            await job.delete()
        await job.cancel()
        await job.delete()
        assert await rows(app) == []

    asyncio.run(main())


def test_a_job_is_told_in_the_words_of_each_system(app: Windlass) -> None:
    @app.task
    async def works() -> None: ...

    async def main() -> None:
        now, later = await works.enqueue(), await works.using(delay="1h").enqueue()
        assert await later.words("taskharbor") == Words("scheduled")
        assert await now.words("orchestrator") == Words("pending")
        await app.worker().run(drain=True)
        assert await now.words("harmonyk") == Words("success")
        assert await now.words("scheduler") == Words("RUNNING", "COMPLETED")
        await later.cancel()
        assert await later.words("taskharbor") == Words("dlq", None, "cancelled")

    asyncio.run(main())


def test_two_apps_on_one_file_see_the_same_jobs(file_place: Place) -> None:
    first, second = file_place.app(), file_place.app()

    @first.task(name="shared")
    async def asks(n: int) -> int:
        raise AssertionError

    @second.task(name="shared")
    async def answers(n: int) -> int:
        return n + 1

    async def main() -> None:
        job: JobHandle[int] = await asks.enqueue(1)
        await second.worker().run(drain=True)
        assert await job.result(5) == 2

    asyncio.run(main())
