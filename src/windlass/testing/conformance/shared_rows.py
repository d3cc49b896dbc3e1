"""Rows that jobs share: groups, permits, the outbox. Deltas, never values from an earlier read."""

from __future__ import annotations

import asyncio

from windlass.core.changes import Ack, AddEvent, Cancel, CountMember, PutGroup, PutLimit, Release
from windlass.core.settle import Failed, Rejected, Succeeded, WasCancelled
from windlass.testing.conformance.trial import Suite, Trial, promise


class SharedRowPromises(Suite):
    # --------------------------------------------------------------------------------------------------------- groups

    @promise
    async def test_members_that_end_together_all_count(self, t: Trial) -> None:
        """In one batch or on two connections at once, every ending is counted and the last one finishes the group."""
        await t.alter(PutGroup("g", total=4))
        jobs = [await t.running(group_id="g") for _ in range(4)]
        other = self.another(t.driver)
        rider = (CountMember("g", "succeeded"),)
        acks = [Ack(handle=j.handle, token=j.token, at=t.now, riders=rider) for j in jobs]
        await asyncio.gather(t.driver.settle(acks[:1], now=t.now), other.settle(acks[1:2], now=t.now))
        [group] = (await t.driver.shared()).groups
        assert (group.total, group.remaining, group.succeeded, group.finished_at) == (4, 2, 2, None)
        await t.settle(*acks[2:])
        [group] = (await t.driver.shared()).groups
        assert (group.remaining, group.succeeded, group.finished_at) == (0, 4, t.now)
        if other is not t.driver:
            await other.close()

    @promise
    async def test_every_ending_is_counted_as_what_it_was(self, t: Trial) -> None:
        """Succeeded, failed and cancelled members add up to the total; a retry counts nothing."""
        await t.alter(PutGroup("g", total=4))
        for outcome in (Succeeded(), Rejected("no"), WasCancelled()):
            await t.end(await t.running(group_id="g"), outcome)
        retried = await t.running(group_id="g")
        await t.end(retried, Failed("boom"))
        assert (await t.driver.shared()).groups[0].remaining == 1
        await t.alter(Cancel(retried.id))
        [group] = (await t.driver.shared()).groups
        assert (group.remaining, group.succeeded, group.failed, group.cancelled) == (0, 1, 1, 2)

    @promise
    async def test_a_finished_group_is_not_counted_further(self, t: Trial) -> None:
        """A member too many leaves the counters alone."""
        await t.alter(PutGroup("g", total=1))
        jobs = [await t.running(group_id="g") for _ in range(2)]
        for job in jobs:
            await t.end(job, Succeeded())
        [group] = (await t.driver.shared()).groups
        assert (group.total, group.remaining, group.succeeded) == (1, 0, 1)
        assert await t.alter(PutGroup("g", total=9)) == "unchanged"

    # -------------------------------------------------------------------------------------------------------- permits

    @promise
    async def test_a_limit_bounds_valid_leases(self, t: Trial) -> None:
        """Never more than the maximum; the others are parked and run, in order, as permits come back."""
        await t.alter(PutLimit("key:x", 2))
        ids = [await t.enqueue(limit_keys=("key:x",)) for _ in range(5)]
        free = await t.enqueue()
        running = await t.claim()
        assert [job.id for job in running] == [*ids[:2], free]
        assert [job.parked_on for job in await t.jobs(ids[2:])] == ["key:x"] * 3
        assert await t.claim() == []
        await t.end(running[1], Succeeded())
        assert [job.id for job in await t.claim()] == [ids[2]]
        await t.end(running[0], Failed("boom"))
        assert [job.id for job in await t.claim()] == [ids[3]]
        [limit] = (await t.driver.shared()).limits
        assert limit.used == 2

    @promise
    async def test_every_ending_gives_the_permit_back(self, t: Trial) -> None:
        """Success, failure, release and cancellation free one permit each; never below zero."""
        await t.alter(PutLimit("key:x", 1))
        for outcome in (Succeeded(), Rejected("no"), WasCancelled()):
            await t.end(await t.running(limit_keys=("key:x",)), outcome)
        job = await t.running(limit_keys=("key:x",))
        await t.settle(*[Release(handle=job.handle, token=job.token, at=t.now)] * 2)
        [limit] = (await t.driver.shared()).limits
        assert limit.used == 1, "a release without its rider keeps the permit; core always sends the rider"

    @promise
    async def test_a_job_takes_all_its_permits_or_none(self, t: Trial) -> None:
        """A job that lacks one of two permits is parked on that key and holds neither."""
        await t.alter(PutLimit("a", 1))
        await t.alter(PutLimit("b", 1))
        both = await t.running(limit_keys=("a", "b"))
        second = await t.enqueue(limit_keys=("b", "a"))
        only_a = await t.enqueue(limit_keys=("a",))
        assert await t.claim() == []
        assert [job.parked_on for job in await t.jobs([second, only_a])] == ["b", "a"]
        await t.end(both, Succeeded())
        [job] = await t.claim()
        assert job.id == second
        assert {limit.key: limit.used for limit in (await t.driver.shared()).limits} == {"a": 1, "b": 1}

    @promise
    async def test_a_freed_permit_is_not_lost_on_a_job_that_cannot_use_it(self, t: Trial) -> None:
        """When the first waiting job lacks another permit, the next one that can run is let through."""
        await t.alter(PutLimit("a", 1))
        await t.alter(PutLimit("b", 1))
        holds_a, holds_b = await t.running(limit_keys=("a",)), await t.running(limit_keys=("b",))
        first = await t.enqueue(limit_keys=("a", "b"))
        next_ = await t.enqueue(limit_keys=("a",))
        assert await t.claim() == []
        await t.end(holds_a, Succeeded())
        assert [job.id for job in await t.claim()] == [next_]
        assert (await t.job(first)).parked_on == "b"
        await t.end(holds_b, Succeeded())
        assert await t.claim() == []
        assert (await t.job(first)).parked_on == "a"

    @promise
    async def test_cancelling_a_waiting_job_lets_the_next_one_through(self, t: Trial) -> None:
        """A permit that was meant for a job which is cancelled goes to the next in line."""
        await t.alter(PutLimit("a", 1))
        holder = await t.running(limit_keys=("a",))
        first, second = await t.enqueue(limit_keys=("a",)), await t.enqueue(limit_keys=("a",))
        assert await t.claim() == []
        await t.end(holder, Succeeded())
        await t.alter(Cancel(first))
        assert [job.id for job in await t.claim()] == [second]

    @promise
    async def test_a_new_limit_counts_those_who_hold_it_already(self, t: Trial) -> None:
        """A limit set while jobs run starts from what is in use; raising or lifting it lets the waiting through."""
        await t.running(limit_keys=("a",))
        await t.alter(PutLimit("a", 1))
        ids = [await t.enqueue(limit_keys=("a",)) for _ in range(4)]
        assert await t.claim() == []
        await t.alter(PutLimit("a", 2))
        assert [job.id for job in await t.claim()] == ids[:1]
        await t.alter(PutLimit("a", None))
        assert [job.id for job in await t.claim()] == ids[1:]

    # --------------------------------------------------------------------------------------------------------- outbox

    @promise
    async def test_an_event_is_written_with_its_change_or_not_at_all(self, t: Trial) -> None:
        """The outbox row of an applied unit is there, that of a refused or repeated one is not."""
        job = await t.running(org_id="acme")
        event = AddEvent("job.succeeded", job.id, "acme", '{"n": 1}')
        ack = Ack(handle=job.handle, token=job.token, at=t.now, riders=(event,))
        assert await t.settle(ack) == ["applied"]
        assert await t.settle(ack) == ["repeated"]
        [row] = (await t.driver.shared()).outbox
        assert (row.event, row.job_id, row.org_id, row.body, row.created_at) == (
            "job.succeeded", job.id, "acme", '{"n": 1}', t.now,
        )  # fmt: skip
