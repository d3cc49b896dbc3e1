"""Leases: exclusive, renewable, and gone at the instant of expiry."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutLimit, PutQueue, SetPaused
from windlass.core.changes import Release
from windlass.core.queries import AllQueues, LeasedUnder
from windlass.core.rows import OVERTAKEN_BY, run_id_of
from windlass.drivers import singular
from windlass.drivers.values import Claim, Renewal
from windlass.errors import InvalidInput, InvalidLeaseDuration, JobNotInflight, LeaseExpired, LeaseMismatch
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise


class LeasePromises(Suite):
    @promise
    async def test_an_empty_queue_answers_nothing(self, t: Trial) -> None:
        """Nothing runnable is an empty answer, not an error."""
        assert await t.claim() == []
        assert await singular.reserve(t.driver, "default", now=t.now, lease_for=LEASE) is None

    @promise
    async def test_reserve_is_exclusive_during_valid_lease(self, t: Trial) -> None:
        """A job under a valid lease is never answered again."""
        await t.running()
        assert await t.claim() == []
        t.clock.advance(LEASE - 1)
        assert await t.claim() == []

    @promise
    async def test_a_claim_writes_lease_start_and_run_together(self, t: Trial) -> None:
        """The claim is the start: state, lease, executions, started_at and the run row appear in one step."""
        claimed = await t.running(queue="q", org_id="acme")
        job, run = await t.job(claimed.id), await t.last_run(claimed.id)
        assert (job.state, job.executions, job.worker_id) == ("running", 1, "worker")
        assert job.claimed_at == job.started_at == t.now
        assert (job.lease_token, job.lease_expires_at) == (claimed.token, t.now + LEASE)
        assert (run.attempt_no, run.status, run.finished_at, run.run_id) == (1, None, None, claimed.run_id)
        assert (run.queue, run.org_id, run.type, run.worker_id, run.started_at) == (
            "q",
            "acme",
            "work",
            "worker",
            t.now,
        )
        assert run.params == job.payload

    @promise
    async def test_what_a_claim_holds_is_found_by_its_token_and_worker(self, t: Trial) -> None:
        """In dispatch order, up to the limit, while the leases last: for whoever lost the reply."""
        fence = t.name("token")
        late, first = await t.enqueue(priority=1), await t.enqueue(priority=9)
        await t.enqueue(queue="other")
        taken = await t.claim(limit=5, token=fence)
        await t.claim("other", limit=5, token=fence)
        wish = LeasedUnder(token=fence, worker_id="worker", queues=("default",), now=t.now, limit=5)
        held = await t.driver.read(wish)
        assert [job.id for job in held] == [first, late] == [job.id for job in taken]
        assert [run_id_of(fence, job.claimed_at or 0, job.seq) for job in held] == [job.run_id for job in taken]
        assert [job.id for job in await t.driver.read(replace(wish, limit=1))] == [first]
        await t.enqueue(priority=10)
        await t.take()  # by the same worker under another token: it takes up nothing of what may be answered
        assert [job.id for job in await t.driver.read(replace(wish, limit=1))] == [first]
        for other in ({"token": "another"}, {"worker_id": "w"}, {"queues": ("none",)}, {"now": t.now + LEASE}):
            assert await t.driver.read(replace(wish, **other)) == []
        await t.ack(taken[0])
        assert [job.id for job in await t.driver.read(wish)] == [late]

    @promise
    async def test_reserve_with_invalid_lease_duration_returns_err_invalid_lease_duration(self, t: Trial) -> None:
        """lease_for <= 0 is refused by a claim, and nothing is leased."""
        await t.enqueue()
        for lease_for in (0, -1):
            with pytest.raises(InvalidLeaseDuration):
                await t.claim(lease_for=lease_for)
        assert len(await t.claim()) == 1

    @promise
    async def test_extendlease_with_invalid_lease_duration_returns_err_invalid_lease_duration(self, t: Trial) -> None:
        """lease_for <= 0 is refused by an extension, and the lease stays as it was."""
        job = await t.running()
        for lease_for in (0, -1):
            with pytest.raises(InvalidLeaseDuration):
                await t.extend(job, lease_for=lease_for)
        assert (await t.job(job.id)).lease_expires_at == t.now + LEASE

    @promise
    async def test_extendlease_with_correct_token_extends_expiry(self, t: Trial) -> None:
        """The new expiry is now + lease_for, whatever the old one was; it is stored and answered."""
        job = await t.running()
        t.clock.advance(LEASE - 1)
        lease = await singular.extend_lease(t.driver, job.id, job.token, now=t.now, lease_for=LEASE)
        assert lease.expires_at == t.now + LEASE == (await t.job(job.id)).lease_expires_at
        assert lease.token == job.token
        assert (await t.extend(job, lease_for=5)).expires_at == t.now + 5 == (await t.job(job.id)).lease_expires_at

    @promise
    async def test_a_renewal_that_was_overtaken_shortens_nothing(self, t: Trial) -> None:
        """The network may hold a message for so long that its sender has given up, and renewed by another."""
        job = await t.running()
        asked = t.now
        t.clock.advance(LEASE // 2)
        renewed = await t.extend(job)
        assert renewed.expires_at == t.now + LEASE
        [late] = await t.driver.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=asked)
        assert late.expires_at == renewed.expires_at == (await t.job(job.id)).lease_expires_at

    @promise
    async def test_a_renewal_that_is_hardly_late_counts_as_it_is(self, t: Trial) -> None:
        """Clocks of machines differ a little: one that says less than what is known is no old one for that."""
        job = await t.running()
        t.clock.advance(LEASE // 2)
        await t.extend(job, progress=0.5, progress_note="half")
        late = (await t.job(job.id)).updated_at - OVERTAKEN_BY
        renewal = Renewal(job.handle, job.token, None, 0.1, "begun")
        [answer] = await t.driver.extend([renewal], lease_for=LEASE, now=late)
        after = await t.job(job.id)
        assert answer.expires_at == late + LEASE == after.lease_expires_at
        assert (after.progress, after.progress_note) == (0.1, "begun")

    @promise
    async def test_progress_that_was_overtaken_is_not_told(self, t: Trial) -> None:
        """What a late renewal says of a job's progress is older than what is known. Where nothing is, it is news."""
        job, asked = await t.running(), t.now
        t.clock.advance(LEASE // 2)
        await t.extend(job)
        late = [Renewal(job.handle, job.token, None, 0.1, "begun")]
        await t.driver.extend(late, lease_for=LEASE, now=asked)
        assert ((await t.job(job.id)).progress, (await t.job(job.id)).progress_note) == (0.1, "begun")
        await t.driver.extend([Renewal(job.handle, job.token, None, 0.5, "half")], lease_for=LEASE, now=t.now)
        await t.driver.extend(late, lease_for=LEASE, now=asked)
        assert ((await t.job(job.id)).progress, (await t.job(job.id)).progress_note) == (0.5, "half")

    @promise
    async def test_extendlease_with_wrong_token_returns_lease_mismatch(self, t: Trial) -> None:
        """Another token extends nothing."""
        job = await t.running()
        with pytest.raises(LeaseMismatch):
            await singular.extend_lease(t.driver, job.id, "other", now=t.now, lease_for=LEASE * 2)
        assert (await t.job(job.id)).lease_expires_at == t.now + LEASE

    @promise
    async def test_extendlease_after_expiry_returns_lease_expired(self, t: Trial) -> None:
        """The instant of expiry is already expired."""
        job = await t.running()
        before = await t.job(job.id)
        t.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await singular.extend_lease(t.driver, job.id, job.token, now=t.now, lease_for=LEASE)
        assert await t.job(job.id) == before

    @promise
    async def test_extendlease_when_not_inflight_returns_job_not_inflight(self, t: Trial) -> None:
        """Queued, finished and unknown jobs have no lease to extend."""
        queued = await t.enqueue(queue="elsewhere")
        done = await t.running()
        await t.ack(done)
        for job_id, token in ((queued, "x"), (done.id, done.token), ("nobody", "x")):
            with pytest.raises(JobNotInflight):
                await singular.extend_lease(t.driver, job_id, token, now=t.now, lease_for=LEASE)

    @promise
    async def test_expired_beats_mismatch(self, t: Trial) -> None:
        """When a lease is both expired and another's, the answer is expired."""
        job = await t.running()
        t.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await singular.ack(t.driver, job.id, "other", now=t.now)

    @promise
    async def test_a_batch_of_renewals_is_answered_one_by_one(self, t: Trial) -> None:
        """A refused renewal does not disturb its neighbours."""
        first, second, third = [await t.running() for _ in range(3)]
        await t.ack(second)
        renewals = [
            Renewal(first.handle, first.token), Renewal(second.handle, second.token), Renewal(third.handle, "other"),
            Renewal(third.handle, third.token), Renewal("nobody", "x"),
        ]  # fmt: skip
        answers = await t.driver.extend(renewals, lease_for=2 * LEASE, now=t.now)
        assert [a.answer for a in answers] == ["applied", "not_inflight", "mismatch", "applied", "not_inflight"]
        assert (await t.job(third.id)).lease_expires_at == t.now + 2 * LEASE

    @promise
    async def test_an_extension_moves_the_lease_that_it_names_and_no_other_of_its_claim(self, t: Trial) -> None:
        """Jobs of one claim have one token, and each its own lease."""
        await t.enqueue()
        await t.enqueue()
        first, second = await t.claim()
        assert first.token == second.token
        assert (await t.extend(first, lease_for=2 * LEASE)).expires_at == t.now + 2 * LEASE
        assert (await t.job(second.id)).lease_expires_at == t.now + LEASE

    @promise
    async def test_a_claim_tells_since_when_a_job_was_due(self, t: Trial) -> None:
        """From its enqueue, or from its time where it had one: what a wait is measured from. A retry waits anew."""
        queued = t.now
        await t.enqueue()
        t.clock.advance(7 * SECOND)
        job = await t.take()
        assert job.due_at == queued
        await t.retry(job, run_at=t.now + SECOND)
        t.clock.advance(5 * SECOND)
        assert (await t.take()).due_at == queued + 8 * SECOND

    @promise
    async def test_a_prefetched_job_begins_when_its_handler_does(self, t: Trial) -> None:
        """start=False leaves started_at empty; the next extension that knows it writes it, once, and to no other run."""
        await t.enqueue_all(2)
        job, other = await t.claim(start=False)
        assert (await t.job(job.id)).started_at is None
        t.clock.advance(5)
        await t.extend(job, started_at=t.now)
        assert (await t.extend(other)).answer == "applied"
        began = t.now
        t.clock.advance(5)
        await t.extend(job, started_at=t.now)
        assert (await t.job(job.id)).started_at == (await t.last_run(job.id)).started_at == began
        assert (await t.job(other.id)).started_at is (await t.last_run(other.id)).started_at is None

    @promise
    async def test_settlement_writes_the_true_start_of_a_prefetched_job(self, t: Trial) -> None:
        """Without an extension in between, the settlement brings the start along."""
        for change in (t.ack, t.retry, t.fail):
            await t.enqueue()
            job = await t.take(start=False)
            t.clock.advance(10)
            await change(job, started_at=t.now - 3)
            run = await t.last_run(job.id)
            assert (await t.job(job.id)).started_at == run.started_at == t.now - 3
            assert run.finished_at == t.now
            if change == t.retry:
                await t.ack(await t.take())

    @promise
    async def test_a_run_that_never_began_starts_when_it_ends(self, t: Trial) -> None:
        """A run without execution has started_at = finished_at; the job itself never started."""
        await t.enqueue()
        job = await t.take(start=False)
        t.clock.advance(9)
        await t.settle(Release(handle=job.handle, token=job.token, at=t.now))
        run = await t.last_run(job.id)
        assert run.started_at == run.finished_at == t.now
        assert (await t.job(job.id)).started_at is None

    @promise
    async def test_progress_travels_with_the_heartbeat(self, t: Trial) -> None:
        """Progress and its note are stored by an extension, kept by the next, and cleared by the next claim."""
        job = await t.running()
        await t.extend(job, progress=0.25, progress_note="reading")
        await t.extend(job)
        stored = await t.job(job.id)
        assert (stored.progress, stored.progress_note) == (0.25, "reading")
        for nonsense in (-0.1, 1.1, float("nan")):
            with pytest.raises(InvalidInput):
                await t.extend(job, progress=nonsense)
        await t.retry(job)
        await t.take()
        assert (await t.job(job.id)).progress is None

    @promise
    async def test_a_heartbeat_learns_of_a_cancellation(self, t: Trial) -> None:
        """cancel_requested is answered from the moment somebody asked."""
        job = await t.running()
        assert not (await t.extend(job)).cancel_requested
        assert await t.alter(Cancel(job.id)) == "requested"
        assert (await t.extend(job)).cancel_requested

    @promise
    async def test_a_claim_takes_only_the_types_it_names(self, t: Trial) -> None:
        """And of them what is due. Other types stay queued, in their order."""
        await t.enqueue(type="b", run_at=t.now + MINUTE)
        await t.enqueue(type="a")
        wanted = await t.enqueue(type="b")
        await t.enqueue(type="c")
        assert [job.id for job in await t.claim(types=("b", "x"))] == [wanted]
        assert [job.type for job in await t.claim()] == ["a", "c"]

    @promise
    async def test_types_and_queues_together_keep_the_one_order(self, t: Trial) -> None:
        """A claim over one queue or several, with types, answers the first of all wanted jobs, limited or not."""
        ids = []
        for number in range(12):
            priority = number % 3
            job_id = await t.enqueue(
                queue=f"q{number % 2}", type="ab"[number % 4 > 1], priority=priority, limit_keys=("k",)
            )
            ids.append((-priority, number, job_id, "ab"[number % 4 > 1], f"q{number % 2}"))
        wanted = [job_id for _, _, job_id, kind, _ in sorted(ids) if kind == "a"]
        assert [job.id for job in await t.claim("q1", "q0", types=("a",), limit=2)] == wanted[:2]
        single = [job_id for _, _, job_id, kind, queue in sorted(ids) if (kind, queue) == ("a", "q0")]
        rest = [job_id for job_id in single if job_id not in wanted[:2]]
        assert [job.id for job in await t.claim("q0", types=("a",), limit=1)] == rest[:1]
        await t.alter(PutLimit("k", 5))
        left = [job_id for job_id in wanted[2:] if job_id != rest[0]]
        assert [job.id for job in await t.claim("q0", "q1", types=("a", "zzz"))] == left[:2]

    @promise
    async def test_a_claim_for_unhandled_types_takes_only_what_is_to_die(self, t: Trial) -> None:
        """unhandled=True leaves alone every job that waits for a worker which knows its type."""
        await t.enqueue(type="x")
        dying = await t.enqueue(type="x", on_unknown="dead")
        await t.enqueue(type="y", on_unknown="dead")
        elsewhere = await t.enqueue(type="x", on_unknown="dead", queue="b")
        await t.enqueue(type="x", queue="b")
        assert [job.id for job in await t.claim(types=("x",), unhandled=True)] == [dying]
        assert [job.id for job in await t.claim("default", "b", types=("x",), unhandled=True)] == [elsewhere]
        assert [job.type for job in await t.claim("default", "b", unhandled=True)] == ["y"]
        await t.alter(PutLimit("k", 1))
        assert await t.claim("default", "b", types=("x",), unhandled=True) == []
        assert [job.on_unknown for job in await t.claim("default", "b")] == ["wait", "wait"]

    @promise
    async def test_a_paused_queue_gives_nothing(self, t: Trial) -> None:
        """A paused queue is skipped until it is resumed; pausing survives as stored data."""
        await t.enqueue(queue="p")
        other = await t.enqueue(queue="o")
        assert await t.alter(SetPaused("p", True)) == "applied"
        assert await t.claim("p") == []
        assert [job.id for job in await t.claim("p", "o")] == [other]
        [queue] = await t.driver.read(AllQueues())
        assert queue.paused_at == t.now
        assert await t.alter(SetPaused("p", False)) == "applied"
        assert len(await t.claim("p")) == 1

    @promise
    async def test_pausing_and_settings_leave_each_other_alone(self, t: Trial) -> None:
        """A pause keeps the queue's settings, new settings keep the pause and its beginning, and saying it again changes
        nothing. A queue that nobody declared can be paused; resuming one declares nothing."""
        assert await t.alter(SetPaused("unknown", False)) == "unchanged"
        assert await t.driver.read(AllQueues()) == []
        await t.alter(PutQueue("q", positions="dense", preset="mail", settings="{}"))
        [before] = await t.driver.read(AllQueues())
        assert await t.alter(SetPaused("q", False)) == "unchanged"
        assert await t.alter(SetPaused("q", True)) == "applied"
        since = t.now
        t.clock.advance(MINUTE)
        assert await t.alter(SetPaused("q", True)) == "unchanged"
        [paused] = await t.driver.read(AllQueues())
        assert (paused.positions, paused.preset, paused.settings, paused.paused_at) == ("dense", "mail", "{}", since)
        await t.alter(PutQueue("q", preset="other"))
        [changed] = await t.driver.read(AllQueues())
        assert (changed.positions, changed.preset, changed.settings, changed.paused_at) == ("tail", "other", None, since)
        await t.alter(PutQueue("q", positions="dense", preset="mail", settings="{}"))
        assert await t.alter(SetPaused("q", False)) == "applied"
        assert await t.driver.read(AllQueues()) == [before]

    @promise
    async def test_a_claim_needs_queues_and_a_sane_limit(self, t: Trial) -> None:
        """No queue, a blank queue or a limit outside 1 to 10,000 is an error that names the field."""

        def wish(queues: tuple[str, ...], limit: int) -> Claim:
            return Claim(queues=queues, limit=limit, lease_for=LEASE, worker_id="w", token="t")  # noqa: S106

        for bad in (wish((), 1), wish((" ",), 1), wish(("q",), 0), wish(("q",), -1), wish(("q",), 10_001)):
            with pytest.raises(InvalidInput):
                await t.driver.claim(bad, now=t.now)
        for odd in ("", "\ud800", "a\nb"):
            with pytest.raises(InvalidInput):
                await t.claim("q", worker_id=odd)
            with pytest.raises(InvalidInput):
                await t.driver.claim(Claim(queues=("q",), limit=1, lease_for=LEASE, worker_id="w", token=odd), now=t.now)
        for nonsense in (-1, 2**63, 1.5):
            with pytest.raises(InvalidInput):
                await t.driver.claim(wish(("q",), 1), now=nonsense)  # type: ignore[arg-type]

    @promise
    async def test_a_lease_may_be_long(self, t: Trial) -> None:
        """A lease of a year is a lease."""
        year = 365 * 24 * 60 * MINUTE
        await t.enqueue()
        job = await t.take(lease_for=year)
        assert job.lease_expires_at == t.now + year
