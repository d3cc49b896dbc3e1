"""What a change leaves alone: other rows, what has ended, and what the instant does not allow yet."""

from __future__ import annotations

from typing import Any

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutLimit, PutQueue, Replay, Revoke, RunNow, SetPaused, SetPriority
from windlass.core.changes import Release, Retry
from windlass.core.positions import GAP
from windlass.core.queries import AllLimits, AllQueues
from windlass.core.settle import Failed, Released, Snoozed, Succeeded
from windlass.testing.conformance.chains import CHAIN
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise


class GuardPromises(Suite):
    # ------------------------------------------------------------------------------------------------ claim and settle

    @promise
    async def test_a_claim_for_unhandled_types_need_not_name_any(self, t: Trial) -> None:
        """Of every type it takes what is to die, from one queue and from several, and nothing else."""
        for queue in ("a", "b"):
            await t.enqueue(queue=queue)
        one, other = [await t.enqueue(queue=queue, on_unknown="dead") for queue in ("a", "b")]
        assert [job.id for job in await t.claim("a", unhandled=True)] == [one]
        assert [job.id for job in await t.claim("a", "b", unhandled=True)] == [other]

    @promise
    async def test_who_ended_a_job_stays_on_its_row_and_who_gave_it_back_does_not(self, t: Trial) -> None:
        """However it ended; a job that waits is nobody's."""
        for outcome in (Succeeded(), Succeeded(b"1"), Failed("no")):
            job = await t.running(max_attempts=1)
            await t.end(job, outcome)
            assert (await t.job(job.id)).worker_id == "worker"
        for back in (Failed("again"), Snoozed(MINUTE), Released()):
            job = await t.running()
            await t.end(job, back)
            assert (await t.job(job.id)).worker_id is None
            await t.alter(Cancel(job.id))

    @promise
    async def test_of_a_batch_each_keeps_its_own_end_in_whatever_order_they_are_told(self, t: Trial) -> None:
        """Also where one claim took them all."""
        ids = await t.enqueue_all(3)
        retries = [
            Retry(handle=job.handle, token=job.token, at=t.now, run_at=None, attempts=n, error=f"no {n}")
            for n, job in enumerate(await t.claim(), 1)
        ]
        assert await t.settle(*retries[::-1]) == ["applied"] * 3
        assert [(job.attempts, job.last_error) for job in await t.jobs(ids)] == [(n, f"no {n}") for n in (1, 2, 3)]

    @promise
    async def test_a_job_that_is_given_back_before_its_time_waits_for_it(self, t: Trial) -> None:
        """A clock that went back: what is not due any more is not ready, at the very instant it is, and an end says nothing
        of it."""
        for earlier in (1, 0):
            await t.enqueue(run_at=t.now + SECOND)
            t.clock.advance(SECOND)
            job = await t.take()
            t.clock.advance(-earlier)
            await t.settle(Release(handle=job.handle, token=job.token, at=t.now))
            assert (await t.job(job.id)).ready is (earlier == 0)
            assert [back.id for back in await t.claim()] == ([] if earlier else [job.id])
            t.clock.advance(earlier)
            await t.claim()
        await t.enqueue(run_at=t.now + SECOND)
        t.clock.advance(SECOND)
        job = await t.take()
        t.clock.advance(-1)
        await t.fail(job)
        assert (await t.job(job.id)).ready

    @promise
    async def test_a_limit_that_came_after_a_claim_counts_it_until_it_ends(self, t: Trial) -> None:
        """Also when the success brings its start along, and its worker never heard of a permit."""
        for key, start in (("told", True), ("begun", False)):
            await t.enqueue(limit_keys=(key,))
            job = await t.take(start=start)
            await t.alter(PutLimit(key, 1))
            assert {limit.key: limit.used for limit in await t.driver.read(AllLimits())}[key] == 1
            assert await t.ack(job, started_at=None if start else t.now) == "applied"
            assert [limit.used for limit in await t.driver.read(AllLimits()) if limit.used] == []

    @promise
    async def test_a_lost_job_that_has_allowance_left_comes_back_by_itself(self, t: Trial) -> None:
        """With fewer losses and executions than allowed: to a claim and to the sweep, and nobody has to decide."""
        kinds: list[dict[str, Any]] = [{"max_lost": 3}, {"max_attempts": 3}, {"max_lost": 3, "max_attempts": 3}]
        for fields in kinds:
            job_id = (await t.running(**fields)).id
            t.clock.advance(LEASE)
            assert [back.id for back in await t.claim()] == [job_id]
            t.clock.advance(LEASE)
            assert await t.driver.expire(now=t.now, limit=10) == (1, [])
            assert ((await t.job(job_id)).state, (await t.job(job_id)).lost) == ("queued", 2)
            await t.alter(Cancel(job_id))

    @promise
    async def test_at_the_instant_of_expiry_there_is_nothing_to_revoke(self, t: Trial) -> None:
        """The lease has ended by itself, and its row is not written again."""
        job = await t.running()
        t.clock.advance(LEASE)
        before = await t.job(job.id)
        assert await t.alter(Revoke("worker")) == "unchanged"
        assert await t.job(job.id) == before

    # ---------------------------------------------------------------------------------------------------------- places

    @promise
    async def test_what_has_ended_keeps_no_dense_place(self, t: Trial) -> None:
        """Whatever it waited for when it was cancelled, or whether it ran: the next one stands behind those that wait."""
        await t.alter(PutQueue("d", positions="dense"))
        await t.alter(PutLimit("k", 0))
        parent = await t.running(queue="parents")
        kinds: list[dict[str, Any]] = [{"run_at": t.now + MINUTE}, {"after": (parent.id,)}, {"limit_keys": ("k",)}, {}]
        for fields in kinds:
            first = await t.enqueue(queue="d", run_at=t.now + MINUTE)
            ended = await t.enqueue(queue="d", type="ends", **fields)
            for job in await t.claim("d", types=("ends",)):
                await t.ack(job)
            await t.alter(Cancel(ended))
            following = await t.enqueue(queue="d", run_at=t.now + MINUTE)
            assert [job.position for job in await t.jobs([first, following])] == [GAP, 2 * GAP]
            for job_id in (first, following):
                await t.alter(Cancel(job_id))

    @promise
    async def test_a_job_that_is_brought_forward_waits_for_all_but_its_time(self, t: Trial) -> None:
        """One that is parked stays parked until there is room."""
        await t.alter(PutLimit("k", 1))
        first = await t.running(limit_keys=("k",))
        parked = await t.enqueue(limit_keys=("k",))
        assert await t.claim() == []
        assert await t.alter(RunNow(parked)) == "applied"
        assert (await t.job(parked)).ready is False
        await t.ack(first)
        assert [job.id for job in await t.claim()] == [parked]

    # ------------------------------------------------------------------------------------------------- turns of queues

    @promise
    async def test_the_next_link_of_a_chain_has_a_turn_in_a_fair_queue(self, t: Trial) -> None:
        """By a failure and by a replay, whatever other queues do; so has a dead job that is brought back to a queue that
        became fair meanwhile."""
        await t.alter(PutQueue("other"))
        job = await t.running(**CHAIN, queue="q", org_id="a")
        plain = await t.running(queue="q", org_id="a")
        await t.fail(plain)
        await t.alter(PutQueue("q", order="fair"))
        await t.end(job, Failed("no"), child_id="child")
        t.clock.advance(MINUTE)
        child = await t.take("q")
        assert child.id == "child"
        await t.fail(child)
        assert await t.alter(Replay("child", "manual")) == "applied"
        assert await t.alter(Replay(plain.id, "unused")) == "applied"
        assert {job.id for job in await t.claim("q")} == {"manual", plain.id}

    @promise
    async def test_what_comes_back_to_a_strict_queue_takes_no_turns(self, t: Trial) -> None:
        """A next link and a replayed job are let through in the order of dispatch, whichever org they belong to and
        whatever another queue does."""
        await t.alter(PutQueue("fair", order="fair"))
        await t.alter(PutQueue("q"))
        await t.alter(PutLimit("k", 1))
        for kind in (CHAIN, {}):
            ids = []
            for org in ("b", "a"):
                job = await t.running(**kind, queue="q", org_id=org, limit_keys=("k",))
                await t.fail(job)
                ids.append(t.name("link") if kind else job.id)
                assert await t.alter(Replay(job.id, ids[-1])) == "applied"
                await t.alter(SetPriority(ids[-1], -1))
            first = await t.running(queue="first", limit_keys=("k",))
            assert await t.claim("q") == []
            await t.ack(first)
            for expected in ids:
                [job] = await t.claim("q")
                assert job.id == expected
                await t.ack(job)

    @promise
    async def test_a_queue_becomes_fair_whatever_the_others_are(self, t: Trial) -> None:
        """Those that wait in it have their turns."""
        await t.alter(PutQueue("a", order="fair"))
        await t.alter(PutQueue("b"))
        waiting = await t.enqueue(queue="b")
        await t.alter(PutQueue("b", order="fair"))
        assert [job.id for job in await t.claim("b")] == [waiting]

    @promise
    async def test_resuming_one_queue_declares_none_beside_others(self, t: Trial) -> None:
        """A queue without a row is not paused, however many have one."""
        await t.alter(PutQueue("a"))
        assert await t.alter(SetPaused("b", False)) == "unchanged"
        assert [queue.name for queue in await t.driver.read(AllQueues())] == ["a"]

    # --------------------------------------------------------------------------------------------------------- replays

    @promise
    async def test_a_replay_supersedes_the_link_that_it_names_and_no_other(self, t: Trial) -> None:
        """Another dead link keeps its kind of death, and may be replayed after it."""
        one, other = [await t.running(**CHAIN) for _ in range(2)]
        for job in (one, other):
            await t.fail(job)
        before = await t.job(other.id)
        assert await t.alter(Replay(one.id, "again")) == "applied"
        assert await t.job(other.id) == before
        assert await t.alter(Replay(other.id, "too")) == "applied"

    @promise
    async def test_a_replay_resets_all_counters_or_none(self, t: Trial) -> None:
        """Failures, losses and skipped runs: each as it was, or as of a job that has its whole allowance."""
        for reset in (False, True):
            job = await t.running()
            await t.settle(Release(handle=job.handle, token=job.token, at=t.now))
            await t.take()
            t.clock.advance(LEASE)
            await t.fail(await t.take(), attempts=2)
            assert await t.alter(Replay(job.id, "unused", reset_attempts=reset)) == "applied"
            back = await t.job(job.id)
            assert (back.attempts, back.lost, back.skipped) == ((0, 0, 3) if reset else (2, 1, 1))
            await t.alter(Cancel(job.id))

    # ------------------------------------------------------------------------------------------------------------ keys

    @promise
    async def test_a_duplicate_does_not_replace_what_has_ended_before_it_ever_ran(self, t: Trial) -> None:
        """Its key is still taken, and the row stays as it ended."""
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        first = await t.enqueue(**key, payload=b"1")
        await t.alter(Cancel(first))
        before = await t.job(first)
        t.clock.advance(SECOND)
        again = await t.answer(**key, payload=b"2", on_duplicate="replace")
        assert (again.id, again.existed) == (first, True)
        assert await t.job(first) == before
