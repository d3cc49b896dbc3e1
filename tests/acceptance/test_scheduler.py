"""Job Scheduler: jobs and runs, their words and times, retry chains, the order of the queue, one dispatch at a time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from windlass.core.alterations import Move
from windlass.core.changes import Report
from windlass.core.eligibility import dispatch_order
from windlass.core.settle import Failed, Snoozed, Succeeded, WasCancelled
from windlass.errors import DuplicateId, StoreError
from windlass.types import State
from windlass.words import Words, vocabulary
from windlass.worker.recovering import recover_lapsed

from .desk import LEASE, QUEUE, Desk
from .place import Place, rows, run


@pytest.fixture
def desk(any_place: Place) -> Desk:
    return Desk(any_place)


# ---------------------------------------------------------------------------------------------------- jobs and their runs


def test_a_job_is_created_queued_and_dispatched_with_its_run(desk: Desk) -> None:
    """JS-055, JS-056, JS-072, JS-118, JS-173: RUNNING, started_at and a run without a status, in one step."""

    async def main() -> None:
        job_id = await desk.enqueue()
        assert (await desk.words(job_id), await desk.runs(job_id)) == (Words("QUEUED"), [])
        desk.place.clock.advance(5)
        [job] = await desk.dispatch()
        row, [only] = await desk.row(job_id), await desk.runs(job_id)
        assert (job.id, await desk.words(job_id), row.started_at) == (job_id, Words("RUNNING"), desk.now)
        assert (only.started_at, only.status, only.finished_at) == (desk.now, None, None)

    run(main)


def test_a_completed_job_stays_running_in_words_and_its_run_tells_the_outcome(desk: Desk) -> None:
    """JS-046, JS-057, JS-064, JS-067, JS-070, JS-073: finished_at on both; COMPLETED with what it produced."""

    async def main() -> None:
        job = await desk.dispatched()
        desk.place.clock.advance(5)
        await desk.end(job, Succeeded(), Report(exit_code=0, log_path="logs/1", artifacts=("a.md", "b.md")))
        row, [only] = await desk.row(job.id), await desk.runs(job.id)
        assert (await desk.words(job.id), row.finished_at) == (Words("RUNNING", "COMPLETED"), desk.now)
        assert (only.status, only.finished_at, only.artifacts) == ("completed", desk.now, ("a.md", "b.md"))
        assert (only.exit_code, only.log_path) == (0, "logs/1")
        assert set(vocabulary("scheduler")) == {"QUEUED", "RUNNING", "CANCELLED", "COMPLETED", "FAILED", "SKIPPED"}

    run(main)


def test_a_failed_run_keeps_its_error(desk: Desk) -> None:
    """JS-068, JS-074: FAILED, finished_at, error."""

    async def main() -> None:
        job = await desk.dispatched()
        desk.place.clock.advance(5)
        await desk.end(job, Failed("no plot"))
        [only] = await desk.runs(job.id)
        assert (only.status, only.finished_at, only.error) == ("failed", desk.now, "no plot")

    run(main)


def test_a_queued_job_is_cancelled_without_a_run_and_a_running_one_skips_its_run(desk: Desk) -> None:
    """JS-058, JS-075: CANCELLED; SKIPPED with finished_at; nothing is deleted."""

    async def main() -> None:
        queued = await desk.enqueue()
        await desk.app.job(queued).cancel()
        running = await desk.dispatched()
        await desk.app.job(running.id).cancel()
        await desk.end(running, WasCancelled())
        assert (await desk.words(queued), await desk.runs(queued)) == (Words("CANCELLED"), [])
        assert await desk.words(running.id) == Words("CANCELLED", "SKIPPED")
        [only] = await desk.runs(running.id)
        assert (only.status, only.finished_at) == ("skipped", desk.now)

    run(main)


def test_the_run_shows_the_parameters_it_was_given(desk: Desk) -> None:
    """JS-062, JS-063: a snapshot, whatever becomes of the template."""

    async def main() -> None:
        job = await desk.dispatched(params=b'{"tone":"dark"}')
        [only] = await desk.runs(job.id)
        assert (only.params, only.template_id) == (b'{"tone":"dark"}', None)

    run(main)


# ------------------------------------------------------------------------------------------------------------ retry chains


def test_a_chain_is_one_original_and_three_retries(desk: Desk) -> None:
    """JS-032, JS-090, JS-091, JS-092, JS-136, JS-139, JS-140, JS-154, JS-177: each a new job that names the one before it;
    the attempt of a job is the number of links behind it; ten seconds doubled between them; then nothing follows."""

    async def main() -> None:
        job = await desk.dispatched()
        first, pauses = job.id, []
        while True:
            await desk.end(job, Failed("no plot"))
            last = (await desk.chain(first))[-1]
            if last.id == job.id:
                break
            assert last.run_at is not None, "the decision is stored with the failure"
            pauses.append((last.run_at - desk.now) // 1_000_000)
            desk.place.clock.advance(last.run_at - desk.now)
            [job] = await desk.dispatch()
        chain = await desk.chain(first)
        assert pauses == [10, 20, 40]
        assert [link.retry_of for link in chain] == [None, *(link.id for link in chain[:-1])]
        assert [link.attempts - 1 for link in chain] == [0, 1, 2, 3]
        assert len({link.id for link in chain}) == 4
        assert [[one.status for one in await desk.runs(link.id)] for link in chain] == [["failed"]] * 4
        assert [link.dead_kind for link in chain] == ["superseded"] * 3 + ["exhausted"]
        assert await desk.dispatch() == []

    run(main)


def test_attempts_are_the_failed_links_also_when_a_link_was_skipped(desk: Desk) -> None:
    """JS-092: a snooze makes a link, and spends nothing."""

    async def main() -> None:
        job = await desk.dispatched()
        await desk.end(job, Snoozed(1))
        desk.place.clock.advance(1)
        [again] = await desk.dispatch()
        await desk.end(again, Failed("no plot"))
        chain = await desk.chain(job.id)
        failed = [one for link in chain for one in await desk.runs(link.id) if one.status == "failed"]
        assert (len(chain), chain[-1].attempts, len(failed)) == (3, 1, 1)

    run(main)


def test_two_recoverers_make_one_retry_job(desk: Desk) -> None:
    """JS-093, JS-128, JS-138, JS-141: whoever comes second finds it there, at once or later."""

    async def main() -> None:
        job = await desk.dispatched()
        desk.place.clock.advance(LEASE)
        await asyncio.gather(recover_lapsed(desk.app.client), recover_lapsed(desk.app.client))
        after = await rows(desk.app)
        assert [row.retry_of for row in after] == [None, job.id]
        await recover_lapsed(desk.app.client)
        assert await rows(desk.app) == after

    run(main)


# ------------------------------------------------------------------------------------------------------------------- order


def test_a_job_is_put_a_hundred_behind_the_last_of_its_priority(desk: Desk) -> None:
    """JS-106, JS-107: of the QUEUED jobs; a hundred when there is none."""

    async def main() -> None:
        made = [await desk.enqueue(priority=priority) for priority in (0, 0, 5, 0, 5)]
        assert [(await desk.row(one)).position for one in made] == [100, 200, 100, 300, 200]
        await desk.dispatch_all()
        assert (await desk.row(await desk.enqueue())).position == 100

    run(main)


@pytest.mark.parametrize("draw", range(4))
def test_the_order_is_a_function_of_what_is_stored(any_place: Place, draw: int) -> None:
    """JS-019, JS-105, JS-155, JS-156, JS-157, JS-175: priority, position, created_at over QUEUED jobs; gaps mean nothing;
    another program on the same store sees the same."""
    desk, random = Desk(any_place), Random(draw)

    async def main() -> None:
        made = []
        for _ in range(20):
            made.append(await desk.enqueue(priority=random.choice([0, 1, 2])))
            desk.place.clock.advance(random.choice([0, 1]))
        for _ in range(6):
            await desk.app.client.driver.alter([Move(random.choice(made), random.choice(["top", "bottom"]))], now=desk.now)
        expected = [row.id for row in sorted(await rows(desk.app), key=dispatch_order)]
        if any_place.kind != "memory":
            query = "select id from jobs where state = 'queued' order by priority desc, position, created_at, seq"
            assert [row[0] for row in any_place.sql(query)] == expected
            desk.app = Desk(any_place).app  # after a restart
        assert await desk.dispatch_all() == expected

    run(main)


def test_a_changed_position_changes_nothing_else(desk: Desk) -> None:
    """JS-030, JS-059: one transaction, and the others keep their places."""

    async def main() -> None:
        made = [await desk.enqueue() for _ in range(3)]
        before = {row.id: row.position for row in await rows(desk.app)}
        assert await desk.app.client.driver.alter([Move(made[2], "top")], now=desk.now) == ["applied"]
        after = {row.id: row.position for row in await rows(desk.app)}
        assert {one for one in made if before[one] != after[one]} == {made[2]}
        assert await desk.dispatch_all() == [made[2], made[0], made[1]]
        assert await desk.app.client.driver.alter([Move(made[0], "top")], now=desk.now) == ["wrong_state"]

    run(main)


# ---------------------------------------------------------------------------------------------------------------- dispatch


def test_one_of_two_dispatchers_gets_the_job(any_place: Place) -> None:
    """JS-151, JS-153: the claim is conditional on QUEUED; the other one gets nothing, and the job ran once."""
    desk = Desk(any_place)

    async def main() -> None:
        job_id = await desk.enqueue()
        answers = await asyncio.gather(*(desk.dispatch() for _ in range(5)))
        assert sorted(len(jobs) for jobs in answers) == [0, 0, 0, 0, 1]
        assert len(await desk.runs(job_id)) == 1

    run(main)


def test_a_job_that_has_been_running_is_never_dispatched_again(desk: Desk) -> None:
    """JS-124, JS-126, JS-130, JS-144, JS-151, JS-152, JS-154: a lapsed lease makes a FAILED run and a new job, by the sweep
    and never by a claim."""

    async def main() -> None:
        job = await desk.dispatched()
        desk.place.clock.advance(LEASE)
        assert await desk.dispatch() == [], "a claim takes nothing back here"
        assert await recover_lapsed(desk.app.client) == 1
        [only] = await desk.runs(job.id)
        assert (only.status, only.error) == ("failed", "Scheduler crash recovery")
        old, new = await desk.chain(job.id)
        assert (old.dead_kind, new.state, new.retry_of) == ("superseded", "queued", job.id)
        assert await desk.end(job, Succeeded()) == "not_inflight", "the one that was thought dead comes too late"

    run(main)


def test_nothing_lives_in_memory_only(sql_place: Place) -> None:
    """JS-005, JS-023, JS-024, JS-029, JS-031, JS-174: each step is seen whole by a program that was opened after it."""
    desk = Desk(sql_place)

    async def main() -> None:
        async def states() -> list[State]:
            return [row.state for row in await rows(sql_place.app())]

        job_id = await desk.enqueue()
        assert await states() == ["queued"]
        [job] = await desk.dispatch()
        assert await states() == ["running"]
        await desk.end(job, Failed("no plot"))
        assert await states() == ["dead", "queued"]
        assert [one.status for one in await sql_place.app().client.driver.runs(job_id)] == ["failed"]

    run(main)


def test_an_insert_that_fails_leaves_no_job_and_tells_the_caller(desk: Desk) -> None:
    """JS-114: also nothing of the batch that it came with."""

    async def main() -> None:
        taken = await desk.enqueue()
        with pytest.raises(DuplicateId):
            await desk.app.client.driver.enqueue([desk.job(), desk.job(id=taken)], now=desk.now)
        assert [row.id for row in await rows(desk.app)] == [taken]

    run(main)


REFUSE = {
    "sqlite": "create trigger {0} before {1} on {2} begin select raise(abort, 'the disk is broken'); end",
    "postgres": "create trigger {0} before {1} on {2} for each row execute function refuse('the disk is broken')",
}


def test_a_run_that_cannot_be_written_leaves_the_job_queued(sql_place: Place) -> None:
    """JS-115, JS-116, JS-118, JS-147: the whole dispatch is undone, and tried again it works."""
    desk = Desk(sql_place)

    async def main() -> None:
        job_id = await desk.enqueue()
        before = await desk.row(job_id)
        sql_place.sql(REFUSE[sql_place.kind].format("broken", "insert", "runs"))
        with pytest.raises(StoreError):
            await desk.dispatch()
        assert (await desk.row(job_id), await desk.runs(job_id)) == (before, [])
        sql_place.sql(f"drop trigger broken{' on runs' if sql_place.kind == 'postgres' else ''}")
        assert [job.id for job in await desk.dispatch()] == [job_id]

    run(main)


def test_an_outcome_that_cannot_be_written_is_written_when_it_is_tried_again(sql_place: Place) -> None:
    """JS-117: until then the job runs on under its lease, with its run open."""
    desk = Desk(sql_place)

    async def main() -> None:
        job = await desk.dispatched()
        sql_place.sql(REFUSE[sql_place.kind].format("broken", "update", "runs"))
        with pytest.raises(StoreError):
            await desk.end(job, Succeeded())
        assert (await desk.row(job.id)).state == "running"
        sql_place.sql(f"drop trigger broken{' on runs' if sql_place.kind == 'postgres' else ''}")
        assert await desk.end(job, Succeeded()) == "applied"

    run(main)


def test_the_queue_goes_on_after_a_restart_where_it_was(sql_place: Place) -> None:
    """JS-004, JS-008, JS-122, JS-123, JS-142: the same jobs, in the same order, and none of them touched."""
    desk = Desk(sql_place)

    async def main() -> None:
        made = [await desk.enqueue(priority=n % 2) for n in range(6)]
        [job] = await desk.dispatch()
        await desk.end(job, Succeeded())
        before = await rows(desk.app)
        await desk.app.close()
        desk.app = sql_place.app()
        desk.app.queue(QUEUE, preset="scheduler")
        await recover_lapsed(desk.app.client)
        assert await rows(desk.app) == before
        rest = [made[1], made[3], made[5], made[0], made[2], made[4]]
        assert await desk.dispatch_all() == [one for one in rest if one != job.id]

    run(main)


def test_the_file_is_in_wal_mode(file_place: Place) -> None:
    """JS-007, JS-012, JS-022: SQLite, with its write-ahead log."""
    file_place.app().open()
    assert file_place.sql("pragma journal_mode")[0][0] == "wal"
