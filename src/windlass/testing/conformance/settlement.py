"""Ending an execution: who may, what is written, and what a repeated call is told."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT
from windlass.core.alterations import Cancel
from windlass.core.changes import Ack, AddEvent, Cancelled, Release, Report, Retry, Settlement, Snooze
from windlass.core.queries import AllEvents
from windlass.core.settle import Execution, Failed
from windlass.core.settle import settle as decide
from windlass.drivers import singular
from windlass.drivers.singular import RetryUpdate
from windlass.errors import JobNotInflight, LeaseExpired, LeaseMismatch
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise
from windlass.types import Claimed


class SettlementPromises(Suite):
    # ------------------------------------------------------------------------------------------------------------ ack

    @promise
    async def test_ack_with_correct_token_marks_done_and_is_idempotent(self, t: Trial) -> None:
        """An acked job is succeeded, holds no lease, and is never answered again; the same ack again is a success."""
        job = await t.running()
        t.clock.advance(5)
        assert await singular.ack(t.driver, job.id, job.token, now=t.now, result=b"42") == "applied"
        done = await t.job(job.id)
        assert (done.state, done.lease_token, done.lease_expires_at, done.result) == ("succeeded", None, None, b"42")
        assert (done.finished_at, done.last_token, done.last_outcome) == (t.now, job.token, "ack")
        assert await singular.ack(t.driver, job.id, job.token, now=t.now) == "repeated"
        assert await t.job(job.id) == done
        t.clock.advance(LEASE * 10)
        assert await t.claim() == []

    @promise
    async def test_ack_with_wrong_token_returns_lease_mismatch(self, t: Trial) -> None:
        """A stale token cannot settle, and changes nothing."""
        job = await t.running()
        before = await t.job(job.id)
        with pytest.raises(LeaseMismatch):
            await singular.ack(t.driver, job.id, "other", now=t.now)
        assert await t.job(job.id) == before

    @promise
    async def test_ack_after_expiry_returns_lease_expired(self, t: Trial) -> None:
        """An ack at the instant of expiry is too late, and changes nothing."""
        job = await t.running()
        before = await t.job(job.id)
        t.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await singular.ack(t.driver, job.id, job.token, now=t.now)
        assert await t.job(job.id) == before

    @promise
    async def test_ack_when_not_inflight_returns_job_not_inflight(self, t: Trial) -> None:
        """Queued and unknown jobs cannot be acked."""
        job_id = await t.enqueue()
        for name in (job_id, "nobody"):
            with pytest.raises(JobNotInflight):
                await singular.ack(t.driver, name, "token", now=t.now)

    # ---------------------------------------------------------------------------------------------------------- retry

    @promise
    async def test_retry_persists_failure_metadata_and_respects_run_at_schedule(self, t: Trial) -> None:
        """A retry stores what it is given and the job waits for its new time, at its old place."""
        job = await t.running()
        place = (await t.job(job.id)).position
        update = RetryUpdate(attempts=3, last_error="boom", run_at=t.now + MINUTE, failed_at=t.now - 1)
        await singular.retry(t.driver, job.id, job.token, update, now=t.now)
        stored = await t.job(job.id)
        assert (stored.state, stored.attempts, stored.last_error) == ("queued", 3, "boom")
        assert (stored.failed_at, stored.run_at, stored.position) == (t.now - 1, t.now + MINUTE, place)
        assert (stored.lease_token, stored.lease_expires_at, stored.worker_id) == (None, None, None)
        t.clock.advance(MINUTE - 1)
        assert await t.claim() == []
        t.clock.advance(1)
        assert (await t.take()).attempts == 3

    @promise
    async def test_retry_with_zero_run_at_makes_job_runnable_immediately(self, t: Trial) -> None:
        """A retry without a time is runnable at once, under a new token."""
        job = await t.running()
        await singular.retry(t.driver, job.id, job.token, RetryUpdate(attempts=1), now=t.now)
        again = await t.take()
        assert again.id == job.id
        assert again.token != job.token
        assert again.executions == 2

    @promise
    async def test_retry_with_wrong_token_returns_err_lease_mismatch(self, t: Trial) -> None:
        """Another token retries nothing."""
        job = await t.running()
        before = await t.job(job.id)
        with pytest.raises(LeaseMismatch):
            await singular.retry(t.driver, job.id, "other", RetryUpdate(attempts=9), now=t.now)
        assert await t.job(job.id) == before

    @promise
    async def test_retry_after_expiry_returns_err_lease_expired(self, t: Trial) -> None:
        """A retry at the instant of expiry is too late."""
        job = await t.running()
        t.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await singular.retry(t.driver, job.id, job.token, RetryUpdate(attempts=9), now=t.now)
        assert (await t.job(job.id)).attempts == 0

    @promise
    async def test_retry_when_not_inflight_returns_err_job_not_inflight(self, t: Trial) -> None:
        """A queued job cannot be retried."""
        job_id = await t.enqueue()
        with pytest.raises(JobNotInflight):
            await singular.retry(t.driver, job_id, "token", RetryUpdate(attempts=1), now=t.now)

    @promise
    async def test_retry_after_done_returns_err_job_not_inflight(self, t: Trial) -> None:
        """A finished job is never retried, not even by the token that finished it."""
        for end in (t.ack, t.fail):
            job = await t.running()
            await end(job)
            with pytest.raises(JobNotInflight):
                await singular.retry(t.driver, job.id, job.token, RetryUpdate(attempts=1), now=t.now)

    # ----------------------------------------------------------------------------------------------------------- fail

    @promise
    async def test_fail_moves_job_to_dlq_and_it_is_not_reservable(self, t: Trial) -> None:
        """A failed job is dead, with reason and time, never answered again; the same fail again is a success."""
        job = await t.running()
        assert await singular.fail(t.driver, job.id, job.token, "no more", now=t.now) == "applied"
        dead = await t.job(job.id)
        assert (dead.state, dead.dead_kind, dead.dead_reason, dead.dead_at) == ("dead", "exhausted", "no more", t.now)
        assert (dead.finished_at, dead.last_error, dead.failed_at) == (t.now, "no more", t.now)
        assert await singular.fail(t.driver, job.id, job.token, "no more", now=t.now) == "repeated"
        assert await t.job(job.id) == dead
        t.clock.advance(LEASE * 10)
        assert await t.claim() == []

    @promise
    async def test_fail_with_wrong_token_returns_err_lease_mismatch(self, t: Trial) -> None:
        """Another token fails nothing."""
        job = await t.running()
        with pytest.raises(LeaseMismatch):
            await singular.fail(t.driver, job.id, "other", "x", now=t.now)
        assert (await t.job(job.id)).state == "running"

    @promise
    async def test_fail_after_expiry_returns_err_lease_expired(self, t: Trial) -> None:
        """A fail at the instant of expiry is too late."""
        job = await t.running()
        t.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await singular.fail(t.driver, job.id, job.token, "x", now=t.now)
        assert (await t.job(job.id)).state == "running"

    @promise
    async def test_fail_when_not_inflight_returns_err_job_not_inflight(self, t: Trial) -> None:
        """A queued job cannot be failed; a blank reason becomes a word."""
        job_id = await t.enqueue()
        with pytest.raises(JobNotInflight):
            await singular.fail(t.driver, job_id, "token", "x", now=t.now)
        job = await t.take()
        await singular.fail(t.driver, job.id, job.token, "  ", now=t.now)
        assert (await t.job(job.id)).dead_reason == "failed"

    # -------------------------------------------------------------------------------------- snooze, release, cancelled

    @promise
    async def test_snooze_spends_no_attempt(self, t: Trial) -> None:
        """A snoozed job waits for its time; the run is skipped and counted, no failure is recorded."""
        job = await t.running()
        await t.settle(Snooze(handle=job.handle, token=job.token, at=t.now, run_at=t.now + MINUTE))
        stored = await t.job(job.id)
        assert (stored.state, stored.attempts, stored.executions, stored.skipped) == ("queued", 0, 1, 1)
        assert (stored.run_at, stored.last_error, stored.failed_at) == (t.now + MINUTE, "", None)
        assert (await t.last_run(job.id)).status == "skipped"

    @promise
    async def test_release_hands_back_at_once_and_spends_no_attempt(self, t: Trial) -> None:
        """A released job is runnable at once, also when it had waited for a time that has come."""
        due = t.now + MINUTE
        await t.enqueue(run_at=due)
        t.clock.advance(MINUTE)
        job = await t.take()
        await t.settle(Release(handle=job.handle, token=job.token, at=t.now))
        stored = await t.job(job.id)
        assert (stored.state, stored.ready, stored.attempts, stored.skipped, stored.run_at) == (
            "queued",
            True,
            0,
            1,
            due,
        )
        assert (await t.take()).id == job.id

    @promise
    async def test_a_cancelled_execution_ends_the_job(self, t: Trial) -> None:
        """Cancelled closes the run as skipped and ends the job; nothing is deleted."""
        job = await t.running()
        await t.settle(Cancelled(handle=job.handle, token=job.token, at=t.now, reason="by hand"))
        stored, run = await t.job(job.id), await t.last_run(job.id)
        assert (stored.state, stored.finished_at, stored.last_error, stored.dead_kind) == (
            "cancelled",
            t.now,
            "by hand",
            None,
        )
        assert (run.status, run.error) == ("skipped", "by hand")

    # -------------------------------------------------------------------------------------------------------- repeats

    @promise
    async def test_a_lost_reply_is_answered_by_the_same_call(self, t: Trial) -> None:
        """Every outcome repeated with its token is `repeated` and changes nothing, wherever the job is by then."""
        job = await t.running()
        at = {"handle": job.handle, "token": job.token, "at": t.now}
        snooze, release = Snooze(**at, run_at=t.now), Release(**at)
        assert await t.retry(job) == "applied"
        queued = await t.job(job.id)
        assert await t.retry(job) == "repeated"
        assert await t.job(job.id) == queued
        again = await t.take()
        assert await t.retry(job) == "repeated"
        for other in (snooze, release):
            assert await t.settle(other) == ["mismatch"]
        await t.ack(again)
        assert await t.retry(job) == "not_inflight"
        assert await t.retry(again) == "not_inflight"

    @promise
    async def test_fail_after_ack_is_a_repeat_but_ack_after_fail_is_not(self, t: Trial) -> None:
        """Fail after ack succeeds without change (the job is done); ack after fail is not inflight (it is dead)."""
        job = await t.running()
        await t.ack(job)
        done = await t.job(job.id)
        assert await t.fail(job) == "repeated"
        assert await t.job(job.id) == done
        dead = await t.running()
        await t.fail(dead)
        assert await t.ack(dead) == "not_inflight"

    @promise
    async def test_snooze_and_release_repeat_too(self, t: Trial) -> None:
        """A repeated snooze or release does not move the job again."""
        for make in (self._snooze, self._release):
            job = await t.running()
            assert await t.settle(make(job, t)) == ["applied"]
            stored = await t.job(job.id)
            t.clock.advance(1)
            assert await t.settle(make(job, t)) == ["repeated"]
            assert await t.job(job.id) == stored
            t.clock.advance(MINUTE)
            await t.ack(await t.take())

    @staticmethod
    def _snooze(job: Claimed, t: Trial) -> Snooze:
        return Snooze(handle=job.handle, token=job.token, at=t.now, run_at=t.now + 30)

    @staticmethod
    def _release(job: Claimed, t: Trial) -> Release:
        return Release(handle=job.handle, token=job.token, at=t.now)

    # -------------------------------------------------------------------------------------------------------- batches

    @promise
    async def test_what_a_wish_to_cancel_has_turned_repeats_as_it_was_sent(self, t: Trial) -> None:
        """Its worker knows nothing of the wish: it sends the same call again after a lost reply, and it took effect. One
        with another token did not."""
        for name in ("retry", "snooze", "release", "superseded"):
            links = {"retry_mode": "new_job", "crash_policy": "fail"} if name == "superseded" else {}
            job = await t.running(max_attempts=3, **links)
            await t.alter(Cancel(job.id, "enough"))
            said = {"handle": job.handle, "token": job.token, "at": t.now}
            changes: dict[str, Settlement] = {
                "retry": Retry(**said, run_at=None, attempts=1, error="boom"),
                "snooze": Snooze(**said, run_at=t.now + MINUTE), "release": Release(**said),
                "superseded": decide(job, Failed("no"), Execution(at=t.now, child_id="next")),
            }  # fmt: skip
            assert await t.settle(changes[name]) == ["applied"], name
            ended = await t.job(job.id)
            assert ended.state == "cancelled"
            assert await t.settle(changes[name]) == ["repeated"], name
            assert await t.settle(replace(changes[name], token=t.name("token"))) == ["not_inflight"], name
            assert await t.job(job.id) == ended

    @promise
    async def test_units_of_a_batch_are_independent(self, t: Trial) -> None:
        """Of a mixed batch the good units are applied, the refused ones and their riders leave no trace."""
        good, stale, gone = [await t.running() for _ in range(3)]
        await t.ack(gone)
        event = (AddEvent("job.done", "x", None, "{}"),)
        answers = await t.settle(
            Ack(handle=good.handle, token=good.token, at=t.now, riders=event),
            Ack(handle=stale.handle, token="other", at=t.now, riders=event),  # noqa: S106
            Ack(handle=gone.handle, token="other", at=t.now, riders=event),  # noqa: S106
            Ack(handle="nobody", token="other", at=t.now, riders=event),  # noqa: S106
        )
        assert answers == ["applied", "mismatch", "not_inflight", "not_inflight"]
        assert len(await t.driver.read(AllEvents())) == 1
        assert (await t.job(stale.id)).state == "running"

    @promise
    async def test_a_refused_success_spoils_no_other_of_its_claim(self, t: Trial) -> None:
        """Of jobs that one claim took and one call settles, those that hold end as if they came alone: with their runs."""
        for start in (True, False):
            await t.enqueue_all(3)
            jobs = await t.claim(start=start)
            told: dict[str, Any] = {} if start else {"started_at": t.now}
            await t.ack(jobs[1], **told)
            t.clock.advance(5)
            acks = [Ack(handle=j.handle, token=j.token, at=t.now - n, **told) for n, j in enumerate(jobs)]
            assert await t.settle(*acks) == ["applied", "repeated", "applied"]
            for n in (0, 2):
                run = await t.last_run(jobs[n].id)
                assert (run.status, run.finished_at) == ("completed", t.now - n)

    @promise
    async def test_a_lapsed_settlement_needs_a_lapsed_lease(self, t: Trial) -> None:
        """Whatever its outcome, a settlement marked lapsed is refused while the lease is valid."""
        job = await t.running()
        assert await t.ack(job, lapsed=True) == "not_lapsed"
        assert await t.fail(job, lapsed=True) == "not_lapsed"
        assert (await t.job(job.id)).state == "running"

    @promise
    async def test_one_job_twice_in_a_batch_is_as_if_sent_twice(self, t: Trial) -> None:
        """The second unit for a job sees what the first one did."""
        job = await t.running()
        ack = Ack(handle=job.handle, token=job.token, at=t.now)
        retry = Snooze(handle=job.id, token=job.token, at=t.now, run_at=t.now)
        assert await t.settle(ack, ack, retry) == ["applied", "repeated", "not_inflight"]

    @promise
    async def test_each_settlement_keeps_its_own_time(self, t: Trial) -> None:
        """`at` is when the handler ended; the batch's now only guards the lease."""
        jobs = [await t.running() for _ in range(3)]
        start = t.now
        t.clock.advance(10)
        await t.settle(*[Ack(handle=j.handle, token=j.token, at=start + n) for n, j in enumerate(jobs)])
        assert [(await t.job(j.id)).finished_at for j in jobs] == [start, start + 1, start + 2]
        assert [(await t.last_run(j.id)).finished_at for j in jobs] == [start, start + 1, start + 2]

    @promise
    async def test_a_large_batch_is_settled_whole(self, t: Trial) -> None:
        """Five hundred jobs of mixed outcomes in one call."""
        ids = [a.id for a in await t.driver.enqueue([t.new() for _ in range(500)], now=t.now)]
        jobs = await t.claim(limit=500)
        assert [job.id for job in jobs] == ids
        changes = [
            Ack(handle=j.handle, token=j.token, at=t.now) if n % 3 else Release(handle=j.handle, token=j.token, at=t.now)
            for n, j in enumerate(jobs)
        ]
        assert set(await t.settle(*changes)) == {"applied"}
        assert len(await t.claim(limit=500)) == len(range(0, 500, 3))

    @promise
    async def test_updated_at_strictly_increases(self, t: Trial) -> None:
        """Every write makes updated_at larger, under a clock that stands still or runs back."""
        job = await t.running()
        seen = [(await t.job(job.id)).updated_at]
        await t.extend(job)
        seen.append((await t.job(job.id)).updated_at)
        t.clock.advance(-5)
        await t.retry(job)
        seen.append((await t.job(job.id)).updated_at)
        await t.take()
        seen.append((await t.job(job.id)).updated_at)
        assert seen == sorted(set(seen))

    @promise
    async def test_any_error_text_can_be_stored(self, t: Trial) -> None:
        """Surrogates, NULs and megabytes of text in an error never keep a job from being settled."""
        for text in ("\ud800 broken", "a\x00b", "x" * 1_000_000, "ünï ✓ 🙂", "'; drop table jobs; --"):
            job = await t.running()
            report = Report(text, exit_code=-9, cpu_us=5, peak_rss=7, log_path=text[:9], artifacts=("out.txt", text[:9]))
            assert await t.fail(job, reason=text, report=report) == "applied"
            stored, run = await t.job(job.id), await t.last_run(job.id)
            assert stored.last_error
            assert len(stored.last_error) <= 70_000
            assert (run.exit_code, run.cpu_us, run.peak_rss) == (-9, 5, 7)
            assert run.artifacts[0] == "out.txt"
            assert run.traceback
            assert run.log_path

    @promise
    async def test_an_endless_delay_is_bounded_not_refused(self, t: Trial) -> None:
        """A snooze of a million years, or a number that is not whole, never keeps a batch from being settled."""
        odd, good = await t.running(), await t.running()
        snooze = Snooze(handle=odd.handle, token=odd.token, at=t.now, run_at=2**70, report=Report(peak_rss=1.5))  # type: ignore[arg-type]
        assert await t.settle(snooze, Ack(handle=good.handle, token=good.token, at=t.now)) == ["applied", "applied"]
        assert (await t.job(odd.id)).run_at == LAST_INSTANT
