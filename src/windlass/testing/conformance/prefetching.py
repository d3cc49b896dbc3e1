"""Jobs that were claimed before their handler began: their success brings the true start along, and is fenced as ever."""

from __future__ import annotations

from windlass.core.alterations import PutLimit
from windlass.core.changes import Release
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise
from windlass.types import Claimed, Run


async def two_of_a_claim(t: Trial) -> tuple[Claimed, Claimed, Run]:
    """Two jobs that one claim took ahead; of the first of them there is a run that was released before."""
    await t.enqueue()
    [first] = await t.claim(start=False)
    await t.settle(Release(handle=first.handle, token=first.token, at=t.now))
    released = await t.last_run(first.id)
    await t.enqueue()
    t.clock.advance(5)
    jobs = await t.claim(start=False)
    one, other = jobs if jobs[0].id == first.id else jobs[::-1]
    return one, other, released


class PrefetchPromises(Suite):
    @promise
    async def test_a_success_that_brings_its_start_along_is_fenced_like_any_other(self, t: Trial) -> None:
        """Of a job that was claimed before its handler began: by another token, at the instant of expiry, twice."""
        await t.enqueue()
        job = await t.take(start=False)
        before = await t.job(job.id)
        assert await t.ack(job, started_at=t.now, token="other") == "mismatch"  # noqa: S106
        t.clock.advance(LEASE)
        assert await t.ack(job, started_at=t.now) == "expired"
        assert await t.job(job.id) == before
        t.clock.advance(-1)
        assert await t.ack(job, started_at=t.now) == "applied"
        done, run = await t.job(job.id), await t.last_run(job.id)
        assert await t.ack(job, started_at=t.now + 5, at=t.now + 5) == "repeated"
        assert (await t.job(job.id), await t.last_run(job.id)) == (done, run)

    @promise
    async def test_a_success_that_brings_its_start_along_ends_no_other_job_of_its_claim(self, t: Trial) -> None:
        """Nor its run; nor does it rewrite a run that ended before."""
        one, other, released = await two_of_a_claim(t)
        assert await t.ack(one, started_at=t.now) == "applied"
        assert ((await t.job(other.id)).state, (await t.last_run(other.id)).status) == ("running", None)
        assert (await t.driver.runs(one.id))[0] == released

    @promise
    async def test_a_success_that_brings_its_start_along_tells_others_and_gives_its_permit_back(self, t: Trial) -> None:
        """Who waits for it goes on, and who is parked behind it."""
        await t.alter(PutLimit("k", 1))
        await t.enqueue(limit_keys=("k",))
        parent = await t.take(start=False)
        child, parked = await t.enqueue(after=(parent.id,)), await t.enqueue(limit_keys=("k",))
        assert await t.claim() == []
        assert await t.ack(parent, started_at=t.now) == "applied"
        assert {job.id for job in await t.claim()} == {child, parked}

    @promise
    async def test_a_success_of_which_nobody_told_that_it_began_starts_when_it_ends(self, t: Trial) -> None:
        """Its own run alone: not one that ended before, nor that of another job."""
        one, other, released = await two_of_a_claim(t)
        t.clock.advance(5)
        assert await t.ack(one) == "applied"
        old, run = await t.driver.runs(one.id)
        assert (old, run.started_at, run.finished_at, run.status) == (released, t.now, t.now, "completed")
        assert (await t.last_run(other.id)).status is None
