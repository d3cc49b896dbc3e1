"""What survives: a driver that says `durable` and `shared` keeps these too."""

from __future__ import annotations

from windlass.core.queries import StoreId
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise


class DurabilityPromises(Suite):
    @promise
    async def test_everything_is_there_after_closing_and_opening_again(self, t: Trial) -> None:
        """Jobs, leases, runs, keys and order come back as they were."""
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        running = await t.running(**key)
        ids = [await t.enqueue(priority=n % 3, run_at=t.now + MINUTE if n % 4 == 0 else None) for n in range(12)]
        before = await t.driver.get([running.id, *ids])
        runs = await t.driver.runs(running.id)
        again = self.another(t.driver)
        await t.driver.close()
        try:
            assert await again.get([running.id, *ids]) == before
            assert await again.runs(running.id) == runs
            t.driver = again
            assert (await t.answer(**key)).existed
            assert (await t.extend(running)).answer == "applied"
            t.clock.advance(MINUTE + LEASE)
            expected = sorted((j for j in before if j), key=lambda j: (-j.priority, j.position))
            assert [job.id for job in await t.claim()] == [job.id for job in expected]
        finally:
            await again.close()

    @promise
    async def test_a_store_is_told_from_all_others(self, t: Trial) -> None:
        """`StoreId` is the same for whoever opens the store, also after it was closed, and whatever else it keeps
        of itself."""
        await t.prune(succeeded=0)
        other = self.another(t.driver)
        try:
            [known] = await t.driver.read(StoreId())
            assert known
            assert await other.read(StoreId()) == [known]
        finally:
            await other.close()

    @promise
    async def test_what_one_driver_commits_the_others_see(self, t: Trial) -> None:
        """Two driver objects on one store are one queue."""
        other = self.another(t.driver)
        job_id = await t.enqueue()
        assert (await other.get([job_id])) == await t.driver.get([job_id])
        job = await t.take()
        assert await other.settle([], now=t.now) == []
        mine, t.driver = t.driver, other
        assert await t.ack(job) == "applied"
        t.driver = mine
        assert (await t.job(job_id)).state == "succeeded"
        await other.close()
