"""Rows that others wrote, with the guards switched off: the doctor sees them, says what it would do, and does it."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace

from windlass import Windlass
from windlass.admin import Admin, repair
from windlass.cli.entry import run as windlass
from windlass.core.alterations import PutLimit, PutWebhook
from windlass.core.changes import Ack
from windlass.core.duties import Done, Mend
from windlass.core.events import RECOVERED
from windlass.core.queries import AllEvents, AllLimits
from windlass.core.recovery import CRASH_ERROR
from windlass.core.settle import Failed, Succeeded
from windlass.drivers.values import Claim
from windlass.records import Fault
from windlass.types import Claimed, Job, NewJob, RunStatus

from .desk import LEASE, QUEUE, Desk
from .place import Place, rows, run


@pytest.fixture
def desk(sql_place: Place) -> Desk:
    return Desk(sql_place)


def without_runs(place: Place) -> None:
    """A half of the store was restored."""
    guard = () if place.kind == "postgres" else ("drop trigger runs_delete",)
    place.sql(*guard, "delete from runs", guarded=False)


async def repaired(desk: Desk) -> list[Fault]:
    """What was found. Once more, nothing is."""
    admin = Admin(desk.app.client)
    found = await admin.faults()
    mended = await admin.repair(found)
    assert mended.left == ()
    before = await rows(desk.app)
    again = await admin.repair(await admin.faults())
    assert (again.rows, again.jobs) == (0, 0)
    assert await rows(desk.app) == before
    return found


@pytest.mark.parametrize("lapsed", [False, True], ids=["leased", "lapsed"])
def test_a_running_job_without_a_run_gets_a_failed_one_and_is_retried(desk: Desk, lapsed: bool) -> None:
    """JS-127, JS-129, JS-143, JS-148: whether its lease has lapsed or not; who subscribed hears of it."""

    async def main() -> None:
        driver = desk.app.client.driver
        hook = PutWebhook(webhook_id="h", url="http://127.0.0.1:9/", events=(RECOVERED,), secret="whsec_" + "A" * 32)
        await driver.alter([hook], now=desk.now)
        job = await desk.dispatched()
        without_runs(desk.place)
        desk.place.clock.advance(LEASE if lapsed else 1)
        assert await repaired(desk) == [Fault("missing_run", job.id, "it is running without a run")]
        [only] = await desk.runs(job.id)
        assert (only.status, only.error, only.finished_at) == ("failed", CRASH_ERROR, desk.now)
        old, new = await desk.chain(job.id)
        assert (old.dead_kind, new.state, new.retry_of, new.attempts) == ("superseded", "queued", job.id, 1)
        assert [event.job_id for event in await driver.read(AllEvents())] == [job.id]
        assert await desk.end(job, Succeeded()) == "not_inflight"

    run(main)


def test_a_run_from_before_says_nothing_of_the_one_that_is_missing(desk: Desk) -> None:
    """Nor is it one that has ended under a running job."""

    async def main() -> None:
        await desk.enqueue(retry_mode="same_job")
        [job] = await desk.dispatch()
        await desk.end(job, Failed("boom"))
        desk.place.clock.advance(LEASE)
        [again] = await desk.dispatch()
        assert again.id == job.id
        assert await Admin(desk.app.client).faults() == []
        guard = () if desk.place.kind == "postgres" else ("drop trigger runs_delete",)
        desk.place.sql(*guard, "delete from runs where attempt_no = 2", guarded=False)
        assert await repaired(desk) == [Fault("missing_run", job.id, "it is running without a run")]
        assert [run.status for run in await desk.runs(job.id)] == ["failed", "failed"]

    run(main)


def test_a_running_job_whose_success_would_leave_no_row_needs_none(desk: Desk) -> None:
    """Nothing is missing, and none is written: in its first attempt, and in one that comes after a failed one."""

    async def main() -> None:
        await desk.enqueue(history="failures", retry_mode="same_job", crash_policy="requeue")
        for before in range(2):
            [job] = await desk.dispatch()
            assert await Admin(desk.app.client).faults() == []
            assert await desk.app.client.driver.maintain(Mend(), epoch=None, now=desk.now) == Done(0)
            assert desk.place.sql("select count(*) from runs")[0][0] == before
            await desk.end(job, Failed("boom"))
            desk.place.clock.advance(LEASE)

    run(main)


def test_a_running_job_made_by_hand_ends_like_any_other(desk: Desk) -> None:
    """JS-143: it never was claimed, so nothing of a claim is known."""

    async def main() -> None:
        desk.app.open()
        expires = desk.place.instant(desk.now + LEASE)
        desk.place.sql(
            "insert into jobs (type, position, state, lease_token, lease_expires_at) "
            f"values ('x', 100, 'running', 't', {expires})"
        )
        [fault] = await repaired(desk)
        row = await desk.row(fault.subject)
        [only] = await desk.runs(row.id)
        assert (row.state, row.executions, only.status) == ("queued", 1, "failed")

    run(main)


ENDS: dict[RunStatus, tuple[str, int]] = {"completed": ("succeeded", 1), "failed": ("dead", 2), "skipped": ("cancelled", 1)}


@pytest.mark.parametrize("status", ENDS)
def test_a_running_job_whose_run_has_ended_ends_as_the_run_did(desk: Desk, status: RunStatus) -> None:
    """JS-125, JS-137, JS-139, JS-145: the run stays as it is; a failed one is retried, unless no retry is left."""

    async def main() -> None:
        job = await desk.dispatched()
        ended = desk.place.instant(desk.now)
        desk.place.sql(f"update runs set status = '{status}', error = 'no plot', finished_at = {ended}")
        [before] = await desk.runs(job.id)
        desk.place.clock.advance(1)
        assert await repaired(desk) == [Fault("ended_run", job.id, f"its run is {status}")]
        state, number = ENDS[status]
        after = await rows(desk.app)
        assert (after[0].state, after[0].finished_at, len(after)) == (state, desk.now, number)
        assert await desk.runs(job.id) == [before]

    run(main)


def test_the_last_failed_run_of_a_chain_ends_it(desk: Desk) -> None:
    """JS-140: no retry is left, so the job is dead for good."""

    async def main() -> None:
        [answer] = await desk.app.client.driver.enqueue([replace(desk.job(), max_attempts=1)], now=desk.now)
        await desk.dispatch()
        desk.place.sql(f"update runs set status = 'failed', error = 'x', finished_at = {desk.place.instant(desk.now)}")
        await repaired(desk)
        [row] = await rows(desk.app)
        assert (row.id, row.dead_kind, row.last_error) == (answer.id, "exhausted", "x")

    run(main)


def test_runs_without_a_job_are_deleted(desk: Desk) -> None:
    """JS-150: and nothing else is."""

    async def main() -> None:
        gone = await desk.dispatched()
        await desk.end(gone, Succeeded())
        kept = await desk.dispatched()
        await desk.end(kept, Succeeded())
        desk.place.sql(f"delete from jobs where id = '{gone.id}'", guarded=False)
        [fault] = await repaired(desk)
        assert (fault.kind, fault.subject) == ("orphan_run", gone.run_id)
        assert desk.place.sql("select count(*) from runs")[0][0] == 1
        assert len(await desk.runs(kept.id)) == 1

    run(main)


def test_permits_are_counted_again_and_who_waited_may_run(desk: Desk) -> None:
    """Nobody holds the permits that a limit counts: its jobs would wait for ever."""

    async def main() -> None:
        driver = desk.app.client.driver
        await driver.alter([PutLimit("key:x", 1)], now=desk.now)
        await desk.enqueue(limits=("key:x",))
        desk.place.sql("update limits set used = 1 where key = 'key:x'")
        assert await desk.dispatch() == []
        assert await repaired(desk) == [Fault("permits", "key:x", "1 are counted, 0 are held")]
        assert {limit.used for limit in await driver.read(AllLimits())} == {0}
        assert len(await desk.dispatch()) == 1

    run(main)


def test_a_repair_goes_in_bites_and_ends_when_all_is_right(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of limits that are miscounted, runs without a job, jobs without a run so many at a time: others go on in between."""
    monkeypatch.setattr(repair, "Mend", lambda: Mend(limit=2))

    async def main() -> None:
        driver = desk.app.client.driver

        async def running(number: int) -> list[Claimed]:
            new = [NewJob(id=f"job-{number}-{n}", type="work", queue="wide") for n in range(number)]
            await driver.enqueue(new, now=desk.now)
            wish = Claim(queues=("wide",), limit=number, lease_for=LEASE, worker_id="w", token=f"t{number}")
            return await driver.claim(wish, now=desk.now)

        lost = await running(5)
        without_runs(desk.place)
        gone = await running(3)
        await driver.settle([Ack(handle=job.handle, token=job.token, at=desk.now) for job in gone], now=desk.now)
        for job in gone:
            desk.place.sql(f"delete from jobs where id = '{job.id}'", guarded=False)
        await driver.alter([PutLimit(f"key:{n}", 1) for n in range(3)], now=desk.now)
        desk.place.sql("update limits set used = 1")
        found = await Admin(desk.app.client).faults()
        assert len(found) == len(lost) + len(gone) + 3
        bites = [await driver.maintain(Mend(limit=2), epoch=None, now=desk.now) for _ in range(2)]
        assert bites == [Done(2, more=True), Done(1, more=True)], "limits first, and nothing else while some are wrong"
        desk.place.sql("update limits set used = 1")
        mended = await Admin(desk.app.client).repair(found)
        assert (mended.rows, mended.jobs, mended.left) == (len(found), len(lost), ())

    run(main)


def test_the_doctor_says_what_it_would_do_and_repairs_when_told(
    sql_place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JS-127, JS-148, JS-150: it prints before it acts; a second time there is nothing to do."""
    desk = Desk(sql_place)
    jobs: list[Job] = []

    async def main() -> None:
        job = await desk.dispatched()
        without_runs(sql_place)
        jobs.append(await desk.row(job.id))
        await desk.app.close()

    asyncio.run(main())
    monkeypatch.setenv("WINDLASS_SCHEMA", sql_place.schema)
    store = ["--store", sql_place.url]
    assert windlass(["doctor", *store]) == 1
    told = capsys.readouterr().out
    assert "1 running jobs without a run" in told
    assert "windlass doctor --repair" in told
    assert windlass(["doctor", "--repair", *store]) == 0
    told = capsys.readouterr().out
    assert f"missing run {jobs[0].id}: it is running without a run; write a failed run, and retry or end the job" in told
    assert windlass(["doctor", "--repair", *store]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    assert windlass(["doctor", "--repair", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out) == {"v": 1, "found": [], "rows": 0, "jobs": 0, "left": []}


def test_a_store_of_nobody_else_has_nothing_to_repair(place: Place) -> None:
    """The engine itself never writes such rows."""

    async def main() -> None:
        app: Windlass = place.app()
        app.queue(QUEUE, preset="scheduler")
        await app.repository.enqueue("t")
        await app.repository.claim()
        admin = Admin(app.client)
        assert await admin.faults() == []
        assert (await admin.repair([])).rows == 0

    run(main)
