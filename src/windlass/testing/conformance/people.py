"""What people ask for: cancel, replay and delete, each guarded by the state of the row."""

from __future__ import annotations

import pytest

from windlass.core.alterations import (
    Cancel,
    Delete,
    Move,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    Revoke,
    SetPaused,
)
from windlass.core.queries import AllLimits
from windlass.core.settle import Failed, Released, Snoozed, Succeeded, WasCancelled
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class PeoplePromises(Suite):
    @promise
    async def test_a_queued_job_is_cancelled_at_once(self, t: Trial) -> None:
        """It ends as cancelled, with the reason, keeps its row, and is never answered."""
        job_id = await t.enqueue(run_at=t.now + MINUTE)
        assert await t.alter(Cancel(job_id, "not needed")) == "applied"
        job = await t.job(job_id)
        assert (job.state, job.finished_at, job.last_error, job.executions) == ("cancelled", t.now, "not needed", 0)
        assert await t.alter(Cancel(job_id)) == "unchanged"
        t.clock.advance(MINUTE)
        assert await t.claim() == []

    @promise
    async def test_a_running_job_is_asked_and_never_comes_back(self, t: Trial) -> None:
        """After the request a failure, snooze or release ends the job as cancelled instead of bringing it back."""
        for outcome in (Failed("boom"), Snoozed(5), Released()):
            job = await t.running()
            assert await t.alter(Cancel(job.id)) == "requested"
            assert await t.alter(Cancel(job.id)) == "unchanged"
            assert (await t.job(job.id)).state == "running"
            assert await t.end(job, outcome) == "applied"
            ended = await t.job(job.id)
            assert (ended.state, ended.finished_at) == ("cancelled", t.now)
            assert (await t.last_run(job.id)).status == "skipped"
            t.clock.advance(MINUTE)
            assert await t.claim() == []

    @promise
    async def test_the_reason_of_whoever_cancelled_is_kept(self, t: Trial) -> None:
        """Also when a worker ends the job later, who was not told why; a handler that says why itself is heard."""
        for outcome, kept in ((WasCancelled(), "no longer wanted"), (Failed("boom"), "no longer wanted"),
                              (WasCancelled("not today"), "not today")):  # fmt: skip
            job = await t.running()
            await t.alter(Cancel(job.id, "no longer wanted"))
            assert await t.end(job, outcome) == "applied"
            assert (await t.job(job.id)).last_error == kept

    @promise
    async def test_a_success_that_was_asked_to_cancel_is_a_success(self, t: Trial) -> None:
        """The work was done; the request came too late."""
        job = await t.running()
        await t.alter(Cancel(job.id))
        assert await t.ack(job) == "applied"
        assert (await t.job(job.id)).state == "succeeded"

    @promise
    async def test_finished_and_unknown_jobs_cannot_be_cancelled(self, t: Trial) -> None:
        """Nothing changes."""
        done = await t.running()
        await t.ack(done)
        before = await t.job(done.id)
        assert await t.alter(Cancel(done.id)) == "wrong_state"
        assert await t.job(done.id) == before
        assert await t.alter(Cancel("nobody")) == "not_found"

    @promise
    async def test_replay_brings_a_dead_job_back_with_its_whole_allowance(self, t: Trial) -> None:
        """Queued again at its place, counters reset, history kept; the allowed number of executions starts over."""
        job = await t.running(max_attempts=1)
        await t.end(job, Failed("boom"))
        behind = await t.enqueue()
        assert await t.alter(Replay(job.id, "unused")) == "applied"
        back = await t.job(job.id)
        assert (back.state, back.attempts, back.dead_kind, back.finished_at) == ("queued", 0, None, None)
        assert back.cancel_requested_at is None
        again, other = await t.claim()
        assert (again.id, other.id) == (job.id, behind)
        assert [run.attempt_no for run in await t.driver.runs(job.id)] == [1, 2]
        await t.end(again, Failed("boom again"))
        assert (await t.job(job.id)).dead_kind == "exhausted"

    @promise
    async def test_replay_may_keep_the_counters(self, t: Trial) -> None:
        """With reset_attempts=False the next failure is the last again."""
        job = await t.running(max_attempts=2)
        await t.end(job, Failed("one"))
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Failed("two"))
        assert await t.alter(Replay(job.id, "unused", reset_attempts=False)) == "applied"
        assert (await t.job(job.id)).attempts == 2

    @promise
    async def test_nonsense_is_refused_before_anything_is_written(self, t: Trial) -> None:
        """Negative limits and totals, blank names: an error that names the field, and nothing changed."""
        for bad in (
            PutLimit("k", -1), PutLimit("k", 2**64), PutLimit("", 1), PutGroup("g", total=-1), PutGroup("g", total=0),
            PutGroup(" ", total=1), PutQueue(""), PutQueue("q", positions="odd"), PutGroup("g", total=1, mode="odd"),  # type: ignore[arg-type]
            Move("j", "middle"), Revoke(" "), SetPaused("", True), SetPaused("q", "yes"),  # type: ignore[arg-type]
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await t.driver.alter([PutLimit("good", 1), bad], now=t.now)
        assert await t.driver.read(AllLimits()) == []

    @promise
    async def test_only_dead_jobs_are_replayed(self, t: Trial) -> None:
        """Queued, running, succeeded and unknown jobs are refused."""
        queued = await t.enqueue(run_at=t.now + 1)
        running = await t.running()
        done = await t.running()
        await t.ack(done)
        for job_id in (queued, running.id, done.id):
            assert await t.alter(Replay(job_id, "unused")) == "wrong_state"
        assert await t.alter(Replay("nobody", "unused")) == "not_found"

    @promise
    async def test_a_finished_job_is_deleted_with_its_runs(self, t: Trial) -> None:
        """It is gone, its neighbours stay, and its idempotency key stays taken; what has not finished is refused."""
        done = await t.running(idempotency_scope="s", idempotency_key="k")
        await t.ack(done)
        dead = await t.running()
        await t.fail(dead)
        queued, running = await t.enqueue(run_at=t.now + MINUTE), await t.running()
        for job_id in (queued, running.id):
            assert await t.alter(Delete(job_id)) == "wrong_state"
        assert await t.alter(Delete("nobody")) == "not_found"
        assert await t.alter(Delete(done.id)) == "applied"
        assert await t.alter(Delete(done.id)) == "not_found"
        assert await t.driver.get([done.id]) == [None]
        assert await t.driver.runs(done.id) == []
        assert [len(await t.driver.runs(job_id)) for job_id in (dead.id, running.id)] == [1, 1]
        assert None not in await t.driver.get([dead.id, queued, running.id])
        assert (await t.answer(idempotency_scope="s", idempotency_key="k")).existed
        assert await t.ack(done) == "not_inflight"

    @promise
    async def test_a_chain_is_deleted_as_one(self, t: Trial) -> None:
        """Whichever link is named, all of them go, manual ones too; none of them while one has not finished."""
        for named in range(3):
            first = await t.running(retry_mode="new_job", crash_policy="fail", max_attempts=2, group_id="g")
            await t.end(first, Failed("one"), child_id=f"second-{named}")
            t.clock.advance(MINUTE)
            await t.end(await t.take(), Failed("two"))
            assert await t.alter(Replay(f"second-{named}", f"third-{named}")) == "applied"
            chain = [first.id, f"second-{named}", f"third-{named}"]
            before = await t.jobs(chain)
            assert {await t.alter(Delete(job_id)) for job_id in chain} == {"wrong_state"}
            assert await t.jobs(chain) == before
            await t.end(await t.take(), Succeeded())
            assert await t.alter(Delete(chain[named])) == "applied"
            assert await t.driver.get(chain) == [None, None, None]
            assert [await t.driver.runs(job_id) for job_id in chain] == [[], [], []]
