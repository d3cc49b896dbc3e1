"""Jobs whose workers are gone: found behind others that cannot be helped, ended when they make no sense."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import PutGroup
from windlass.core.changes import CountMember, RetryChild
from windlass.core.queries import AllGroups
from windlass.drivers.values import Claim
from windlass.errors import ConstraintViolated
from windlass.types import NewJob
from windlass.worker import recovering, sweeper
from worker.stage import Stage, on_stage

LEASE = 3 * SECOND // 10


async def lost(stage: Stage, *jobs: NewJob) -> None:
    """Claimed by a worker that is gone, longer ago than their leases last; those that were named first lapsed first."""
    for job in jobs:
        await stage.store.driver.enqueue([job], now=stage.clock.now())
        wish = Claim(queues=(job.queue,), limit=1, lease_for=LEASE, worker_id="gone", token=f"of {job.id}")
        assert [one.id for one in await stage.store.driver.claim(wish, now=stage.clock.now())] == [job.id]
        stage.clock.advance(1)
    stage.clock.advance(LEASE)


@pytest.mark.parametrize("strangers", [3, 7])
def test_a_page_of_jobs_that_cannot_be_decided_hides_none_behind_it(
    url: str, strangers: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovering, "BITE", 3)

    async def play(stage: Stage) -> None:
        def job(name: str) -> NewJob:
            return NewJob(id=name, type="work", max_attempts=1, max_lost=9)

        async def newer(call: Any, args: Any) -> Any:
            """As if a newer version had written policies that this one does not know."""
            taken, jobs = await call()
            odd = '{"backoff":{"type":"quantum"}}'
            return taken, [replace(one, retry_policy=odd) if one.id.startswith("odd") else one for one in jobs]

        fine = [job(f"fine {n}") for n in range(5)]
        await lost(stage, *[job(f"odd {n}") for n in range(strangers)], *fine)
        stage.store.faults["expire"] = newer
        assert await recovering.recover_lapsed(stage.app.client) == len(fine)
        assert {(await stage.fetch(one.id)).dead_kind for one in fine} == {"lost"}
        assert (await stage.fetch("odd 0")).state == "running", "a newer worker will know"
        told = [record for record in caplog.records if "cannot be decided" in record.message]
        assert len(told) == strangers, "each is told of once, however often one looks"

    on_stage(url, play)


def test_a_lapsed_job_that_nobody_can_decide_is_dead_after_a_day(url: str) -> None:
    """By then there is no newer worker that knows its policy."""

    async def play(stage: Stage) -> None:
        async def newer(call: Any, args: Any) -> Any:
            taken, jobs = await call()
            return taken, [replace(one, retry_policy='{"backoff":{"type":"quantum"}}') for one in jobs]

        await lost(stage, NewJob(id="odd", type="work", max_attempts=1, max_lost=9))
        stage.store.faults["expire"] = newer
        assert await recovering.recover_lapsed(stage.app.client) == 0
        stage.clock.advance("24h")
        assert await recovering.recover_lapsed(stage.app.client) == 1
        row = await stage.fetch("odd")
        assert (row.state, row.dead_kind) == ("dead", "rejected")
        assert "cannot be decided" in str(row.dead_reason)

    on_stage(url, play)


@pytest.mark.parametrize(("refused", "counted"), [((RetryChild,), 1), ((RetryChild, CountMember), 0)])
def test_a_lapsed_job_whose_end_is_refused_with_all_that_rides_along_ends_without(
    url: str, refused: tuple[type, ...], counted: int
) -> None:
    """It would run for ever. It is counted in its group if that can be stored."""

    async def play(stage: Stage) -> None:
        async def choosy(call: Any, args: Any) -> Any:
            if any(isinstance(rider, refused) for change in args[0] for rider in change.riders):
                raise ConstraintViolated("the schema refused a row")
            return await call()

        await stage.store.driver.alter([PutGroup("g", 1)], now=stage.clock.now())
        member: dict[str, Any] = {"group_id": "g", "retry_mode": "new_job", "crash_policy": "fail"}
        await lost(stage, NewJob(id="poison", type="work", max_attempts=3, **member), NewJob(id="fine", type="work"))
        stage.store.faults["settle"] = choosy
        await recovering.recover_lapsed(stage.app.client)
        row = await stage.fetch("poison")
        assert (row.state, row.dead_kind) == ("dead", "rejected")
        assert "its end could not be stored" in str(row.dead_reason)
        [group] = await stage.store.driver.read(AllGroups())
        assert group.failed == counted
        assert (await stage.fetch("fine")).state == "queued"

    on_stage(url, play)


async def refuses_poison(call: Any, args: Any) -> Any:
    """As if a hand had written a row that stands where the end of these jobs would write one."""
    if any(change.token.startswith("of poison") for change in args[0]):
        raise ConstraintViolated("the schema refused a row")
    return await call()


@pytest.mark.parametrize("poisoned", [1, 7])
def test_a_job_whose_end_no_store_takes_keeps_no_other_from_recovery(
    url: str, poisoned: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovering, "BITE", 3)

    async def play(stage: Stage) -> None:
        def job(name: str) -> NewJob:
            return NewJob(id=name, type="work", max_attempts=1, max_lost=9)

        poison = [job(f"poison {n}") for n in range(poisoned)]
        fine = [job(f"fine {n}") for n in range(5)]
        await lost(stage, *poison, *fine)
        stage.store.faults["settle"] = refuses_poison
        assert await recovering.recover_lapsed(stage.app.client) == len(fine)
        assert {(await stage.fetch(one.id)).dead_kind for one in fine} == {"lost"}
        assert {(await stage.fetch(one.id)).state for one in poison} == {"running"}, "it is tried again at the next sweep"
        told = [record for record in caplog.records if "its end cannot be stored" in record.message]
        assert [record.args[0] for record in told if isinstance(record.args, tuple)] == [one.id for one in poison]

    on_stage(url, play)


def test_the_sweep_goes_on_behind_a_job_whose_end_no_store_takes(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        await lost(stage, NewJob(id="poison", type="known", max_attempts=1, max_lost=9))
        new = [NewJob(id=f"dies {n}", type="stranger", on_unknown="dead") for n in range(3)]
        await stage.store.driver.enqueue(new, now=stage.clock.now())
        stage.store.faults["settle"] = refuses_poison
        async with stage.working() as worker:
            for one in new:
                assert (await stage.until_state(one.id, "dead")).dead_kind == "rejected"
            assert (await stage.fetch("poison")).state == "running"
            await stage.until(lambda: worker.stats.dead == 3)

    on_stage(url, play)


def test_a_head_of_jobs_that_wait_for_another_worker_hides_none_that_is_to_die(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "HEAD", 3)

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def known() -> None: ...

        waits = [NewJob(id=f"waits {n}", type="strange") for n in range(20)]
        dies = NewJob(id="dies", type="stranger", on_unknown="dead")
        await stage.store.driver.enqueue([*waits, dies], now=stage.clock.now())
        async with stage.working():
            assert (await stage.until_state("dies", "dead")).dead_kind == "rejected"
            assert (await stage.fetch("waits 0")).executions == 0

    on_stage(url, play, lease="1m")


def test_a_lost_job_whose_arguments_make_no_sense_ends_and_does_not_come_back(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work(number: int) -> None: ...

        await lost(stage, NewJob(id="odd", type="work", payload=b'{"number":"x"', max_lost=9))
        for _ in range(2):
            await stage.drain()
        row = await stage.fetch("odd")
        assert (row.state, row.dead_kind, row.lost, row.executions) == ("dead", "rejected", 1, 2)

    on_stage(url, play)


def test_a_job_that_is_deleted_while_it_runs_stops_nobody(tmp_path: Path) -> None:
    """By hand, past all that keeps running jobs from being deleted: its end is refused, those beside it are stored."""

    async def play(stage: Stage) -> None:
        go = asyncio.Event()

        @stage.app.task
        async def work(number: int) -> int:
            await go.wait()
            return number

        jobs = await stage.app.enqueue_many(work.job(n) for n in range(4))
        async with stage.working(concurrency=4) as worker:
            await stage.until(lambda: worker.stats.claimed == 4)
            delete(tmp_path / "jobs.db", jobs[1].id)
            go.set()
            for job in (jobs[0], jobs[2], jobs[3]):
                await stage.until_state(job.id, "succeeded")
            after = await work.enqueue(9)
            assert await after.result(timeout=30) == 9
            assert await stage.store.driver.get([jobs[1].id]) == [None]

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play, lease="1m")


def delete(file: Path, job_id: str) -> None:
    connection = apsw.Connection(str(file))
    try:
        connection.set_busy_timeout(10_000)
        guards = [name for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'")]
        connection.execute("begin immediate; " + "".join(f'drop trigger "{name}";' for name in guards))
        connection.execute("delete from runs where job_seq = (select seq from jobs where id = ?)", (job_id,))
        connection.execute("delete from jobs where id = ?", (job_id,))
        connection.execute("commit")
    finally:
        connection.close()
