"""Lost leases: taken back when that needs no decision, left to core when it does. Recovery twice changes nothing."""

from __future__ import annotations

from typing import Any

from windlass.core.alterations import Cancel, PutGroup, PutLimit, Revoke
from windlass.core.changes import Settlement
from windlass.core.queries import AllGroups, AllLimits
from windlass.core.recovery import CRASH_ERROR, recover
from windlass.core.settle import Execution, Failed, Released, Snoozed
from windlass.policies import Retry, fixed
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise

CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail"}


async def sweep(t: Trial) -> tuple[int, list[str]]:
    """One pass of recovery, as a worker or the leader does it."""
    taken_back, undecided = await t.driver.expire(now=t.now, limit=100)
    changes: list[Settlement] = [recover(job, Execution(at=t.now, child_id=t.name("link"))) for job in undecided]
    return taken_back, list(await t.driver.settle(changes, now=t.now))


class RecoveryPromises(Suite):
    @promise
    async def test_expired_lease_is_reclaimed_and_job_is_reservable_again(self, t: Trial) -> None:
        """At the instant of expiry the job is answered again, under a new token; the loss is counted, no failure is."""
        job = await t.running()
        t.clock.advance(LEASE - 1)
        assert await t.claim() == []
        t.clock.advance(1)
        again = await t.take()
        assert (again.id, again.lost, again.attempts, again.executions) == (job.id, 1, 0, 2)
        assert again.token != job.token

    @promise
    async def test_reclaim_clears_run_at_job_becomes_runnable_now(self, t: Trial) -> None:
        """A reclaimed job has no not-before time any more."""
        await t.enqueue(run_at=t.now + 1)
        t.clock.advance(1)
        job = await t.take()
        t.clock.advance(LEASE)
        await t.take()
        assert (await t.job(job.id)).run_at is None

    @promise
    async def test_the_run_of_a_lost_lease_is_closed_as_failed(self, t: Trial) -> None:
        """Its history says what happened; the next run is a row of its own."""
        job = await t.running()
        t.clock.advance(LEASE)
        await t.take()
        first, second = await t.driver.runs(job.id)
        assert (first.status, first.error, first.finished_at) == ("failed", "lease expired", t.now)
        assert (second.attempt_no, second.status) == (2, None)

    @promise
    async def test_a_zombie_is_refused(self, t: Trial) -> None:
        """The old owner's settlement, renewal and failure change nothing once the job was taken back."""
        zombie = await t.running()
        t.clock.advance(LEASE)
        owner = await t.take()
        before = await t.job(owner.id)
        assert await t.ack(zombie) == "mismatch"
        assert await t.retry(zombie) == "mismatch"
        assert await t.fail(zombie) == "mismatch"
        assert (await t.extend(zombie)).answer == "mismatch"
        assert await t.job(owner.id) == before
        assert await t.ack(owner) == "applied"
        assert await t.ack(zombie) == "not_inflight"

    @promise
    async def test_a_claim_may_be_told_to_take_nothing_back(self, t: Trial) -> None:
        """reclaim=False leaves expired leases alone."""
        await t.running()
        t.clock.advance(LEASE)
        assert await t.claim(reclaim=False) == []
        assert len(await t.claim()) == 1

    @promise
    async def test_the_sweep_takes_back_in_every_queue(self, t: Trial) -> None:
        """Expire covers all queues, at most `limit` jobs at a time, and says how many."""
        for n in range(5):
            await t.running(queue=f"q{n}")
        t.clock.advance(LEASE)
        assert await t.driver.expire(now=t.now, limit=3) == (3, [])
        assert await t.driver.expire(now=t.now, limit=3) == (2, [])
        assert await t.driver.expire(now=t.now, limit=3) == (0, [])
        assert len(await t.claim(*[f"q{n}" for n in range(5)])) == 5

    @promise
    async def test_the_sweep_hands_over_only_what_needs_a_decision(self, t: Trial) -> None:
        """A job that simply goes back is left to the next pass where this one has taken back all that it may."""
        for bounds in ({}, {"max_lost": 2}, {"max_attempts": 2}):
            await t.enqueue_all(2, **bounds)
            assert len(await t.claim(limit=2)) == 2
            t.clock.advance(LEASE)
            assert await t.driver.expire(now=t.now, limit=1) == (1, []), bounds
            assert await t.driver.expire(now=t.now, limit=1) == (1, []), bounds
            for job in await t.claim():
                await t.ack(job)

    @promise
    async def test_what_needs_no_decision_is_taken_back_behind_what_does(self, t: Trial) -> None:
        """However few at a time: what core decides stands in nobody's way."""
        for bounds in (CHAIN, {"max_lost": 1}, {"max_attempts": 1}):
            first = await t.running(**bounds)
            t.clock.advance(1)
            await t.running()
            t.clock.advance(LEASE)
            taken_back, undecided = await t.driver.expire(now=t.now, limit=1)
            assert (taken_back, [job.id for job in undecided]) == (1, [first.id]), bounds
            await sweep(t)
            for job in await t.claim(limit=9):
                await t.ack(job)

    @promise
    async def test_a_bare_job_is_reclaimed_for_ever(self, t: Trial) -> None:
        """Without max_attempts and max_lost a job is taken back however often it is lost."""
        job_id = await t.enqueue()
        for _ in range(10):
            await t.take()
            t.clock.advance(LEASE)
        assert (await t.job(job_id)).lost == 9

    @promise
    async def test_a_job_that_kills_its_workers_is_dead_at_max_lost(self, t: Trial) -> None:
        """The last allowed loss is left to the sweep, which makes the job dead, kind lost; it never starts again."""
        job_id = await t.enqueue(max_lost=3)
        for _ in range(2):
            await t.take()
            t.clock.advance(LEASE)
        await t.take()
        t.clock.advance(LEASE)
        assert await t.claim() == []
        assert await sweep(t) == (0, ["applied"])
        job = await t.job(job_id)
        assert (job.state, job.dead_kind, job.lost, job.executions) == ("dead", "lost", 3, 3)
        assert (await t.last_run(job_id)).status == "failed"
        assert await sweep(t) == (0, [])

    @promise
    async def test_max_attempts_bounds_executions_that_were_lost(self, t: Trial) -> None:
        """max_attempts=1 starts once: a loss is final, unless the policy does not count losses."""
        strict = await t.running(max_attempts=1)
        lenient = await t.running(max_attempts=1, retry_policy=Retry(count_lost=False, backoff=fixed(1)).encode())
        t.clock.advance(LEASE)
        assert await t.claim() == []
        assert await sweep(t) == (0, ["applied", "applied"])
        assert (await t.job(strict.id)).dead_kind == "lost"
        assert (await t.take()).id == lenient.id

    @promise
    async def test_a_loss_counts_on_top_of_recorded_failures(self, t: Trial) -> None:
        """A loss is final at attempts + 1 too, where failures were recorded by somebody else."""
        job = await t.running(attempts=2, max_attempts=3)
        t.clock.advance(LEASE)
        assert await t.claim() == []
        assert await sweep(t) == (0, ["applied"])
        assert (await t.job(job.id)).dead_kind == "lost"

    @promise
    async def test_skipped_runs_do_not_count_against_the_maximum(self, t: Trial) -> None:
        """Snoozes and releases leave the whole allowance: a failure after them is the first."""
        await t.enqueue(max_attempts=2)
        for outcome in (Snoozed(0), Released(), Snoozed(0), Released()):
            await t.end(await t.take(), outcome)
        await t.end(await t.take(), Failed("one"))
        t.clock.advance(MINUTE)
        job = await t.take()
        assert (job.attempts, job.executions, job.skipped) == (1, 6, 4)
        await t.end(job, Failed("two"))
        assert (await t.job(job.id)).state == "dead"

    @promise
    async def test_a_never_twice_job_is_not_reclaimed(self, t: Trial) -> None:
        """crash_policy=fail: the claim leaves it alone; recovery closes the run, supersedes the job, makes one child."""
        job = await t.running(**CHAIN, max_attempts=4)
        t.clock.advance(LEASE)
        assert await t.claim() == []
        assert await sweep(t) == (0, ["applied"])
        parent = await t.job(job.id)
        assert (parent.state, parent.dead_kind, parent.executions, parent.lost) == ("dead", "superseded", 1, 1)
        run = await t.last_run(job.id)
        assert (run.status, run.error) == ("failed", CRASH_ERROR)
        child = await t.job(str(parent.superseded_by))
        assert (child.retry_of, child.attempts, child.state) == (job.id, 1, "queued")
        assert await sweep(t) == (0, [])

    @promise
    async def test_two_recoverers_make_one_child(self, t: Trial) -> None:
        """Both saw the lapsed job; the second one's settlement changes nothing."""
        job = await t.running(**CHAIN, max_attempts=4)
        t.clock.advance(LEASE)
        _, seen = await t.driver.expire(now=t.now, limit=10)
        _, seen_too = await t.driver.expire(now=t.now, limit=10)
        first = await t.settle(*[recover(j, Execution(at=t.now, child_id="a")) for j in seen])
        second = await t.settle(*[recover(j, Execution(at=t.now, child_id="b")) for j in seen_too])
        assert (first, second) == (["applied"], ["repeated"])
        assert (await t.job(job.id)).superseded_by == "a"
        assert await t.driver.get(["b"]) == [None]

    @promise
    async def test_recovery_is_refused_while_the_lease_holds(self, t: Trial) -> None:
        """A worker that renewed in time keeps its job, whoever wanted to recover it."""
        job = await t.running(**CHAIN)
        t.clock.advance(LEASE)
        _, [seen] = await t.driver.expire(now=t.now, limit=10)
        t.clock.advance(-1)
        await t.extend(job)
        t.clock.advance(1)
        assert await t.settle(recover(seen, Execution(at=t.now, child_id="x"))) == ["not_lapsed"]
        assert await t.ack(job) == "applied"

    @promise
    async def test_a_cancelled_job_does_not_come_back_from_a_crash(self, t: Trial) -> None:
        """Asked to cancel, then lost: the sweep ends it as cancelled, and its group counts it so."""
        await t.alter(PutGroup("g", total=1))
        job = await t.running(group_id="g")
        await t.alter(Cancel(job.id))
        t.clock.advance(LEASE)
        assert await t.claim() == []
        assert await sweep(t) == (0, ["applied"])
        assert (await t.job(job.id)).state == "cancelled"
        [group] = await t.driver.read(AllGroups())
        assert (group.remaining, group.cancelled) == (0, 1)

    @promise
    async def test_a_loss_frees_the_permit(self, t: Trial) -> None:
        """Expiry gives the permit back in the same step, by the claim and by the sweep."""
        await t.alter(PutLimit("key:x", 1))
        await t.enqueue(limit_keys=("key:x",))
        await t.enqueue(limit_keys=("key:x",))
        for _ in range(3):
            assert len(await t.claim()) == 1
            t.clock.advance(LEASE)
        await t.driver.expire(now=t.now, limit=10)
        [limit] = await t.driver.read(AllLimits())
        assert limit.used == 0

    @promise
    async def test_the_leases_of_a_dead_worker_end_at_once(self, t: Trial) -> None:
        """Revoking changes nothing but the expiry, which is now: the next claim or sweep takes the jobs back, and the
        worker, should it live, is told that its lease has expired. Other workers keep theirs."""
        for number in range(3):
            await t.enqueue(queue=f"q{number}")
        mine, undecided = await t.take("q0", worker_id="w1"), await t.take("q1", worker_id="w1")
        other = await t.take("q2", worker_id="w2")
        before, kept = await t.job(mine.id), await t.job(other.id)
        await t.alter(Cancel(undecided.id))
        assert await t.alter(Revoke("w1")) == "applied"
        after = await t.job(mine.id)
        assert (after.lease_expires_at, after.updated_at > before.updated_at) == (t.now, True)
        same = ("state", "lease_token", "worker_id", "executions", "lost", "attempts", "started_at")
        assert [getattr(after, field) for field in same] == [getattr(before, field) for field in same]
        assert await t.job(other.id) == kept
        assert await t.ack(mine) == "expired"
        assert await sweep(t) == (1, ["applied"])
        back = await t.take("q0", worker_id="w2")
        assert (back.id, back.lost) == (mine.id, 1)
        assert (await t.job(undecided.id)).state == "cancelled"
        assert await t.ack(other) == "applied"

    @promise
    async def test_revoking_nothing_changes_nothing(self, t: Trial) -> None:
        """A worker without valid leases: `unchanged`, and a lease that lapsed earlier keeps its date."""
        job = await t.running()
        assert await t.alter(Revoke("stranger")) == "unchanged"
        t.clock.advance(LEASE + 5)
        before = await t.job(job.id)
        assert await t.alter(Revoke("worker")) == "unchanged"
        assert await t.job(job.id) == before
