"""Rows that jobs share: groups, permits, the outbox. Deltas, never values from an earlier read."""

from __future__ import annotations

import asyncio

from windlass.core.alterations import Cancel, PutGroup, PutLimit, PutQueue, RemoveLimit, Replay, SetPaused
from windlass.core.changes import Ack, AddEvent, CountMember
from windlass.core.queries import AllEvents, AllGroups, AllLimits
from windlass.core.settle import Failed, Rejected, Released, Snoozed, Succeeded, WasCancelled
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


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
        [group] = await t.driver.read(AllGroups())
        assert (group.total, group.remaining, group.succeeded, group.finished_at) == (4, 2, 2, None)
        await t.settle(*acks[2:])
        [group] = await t.driver.read(AllGroups())
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
        assert (await t.driver.read(AllGroups()))[0].remaining == 1
        await t.alter(Cancel(retried.id))
        [group] = await t.driver.read(AllGroups())
        assert (group.remaining, group.succeeded, group.failed, group.cancelled) == (0, 1, 1, 2)

    @promise
    async def test_a_member_that_is_replayed_is_counted_again(self, t: Trial) -> None:
        """Replay takes the failure back: the group waits for that member once more, in place and as a chain."""
        chain = {"retry_mode": "new_job", "crash_policy": "fail"}
        for n, mode in enumerate(({}, chain)):
            await t.alter(PutGroup(f"g{n}", total=2))
            bad, other = await t.running(group_id=f"g{n}", **mode), await t.running(group_id=f"g{n}", **mode)
            await t.end(bad, Rejected("no"))
            assert await t.alter(Replay(bad.id, f"again-{n}")) == "applied"
            await t.end(await t.take(), Succeeded())
            group = (await t.driver.read(AllGroups()))[n]
            assert (group.remaining, group.succeeded, group.failed, group.finished_at) == (1, 1, 0, None)
            await t.end(other, Succeeded())
            group = (await t.driver.read(AllGroups()))[n]
            assert (group.remaining, group.succeeded, group.finished_at) == (0, 2, t.now)

    @promise
    async def test_a_finished_group_is_not_counted_further(self, t: Trial) -> None:
        """A member too many leaves the counters alone."""
        await t.alter(PutGroup("g", total=1))
        jobs = [await t.running(group_id="g") for _ in range(2)]
        for job in jobs:
            await t.end(job, Succeeded())
        [group] = await t.driver.read(AllGroups())
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
        [limit] = await t.driver.read(AllLimits())
        assert limit.used == 2

    @promise
    async def test_every_ending_gives_the_permit_back(self, t: Trial) -> None:
        """Success, failure, release, snooze and cancellation free one permit each, once; never below zero."""
        await t.alter(PutLimit("key:x", 1))
        for outcome in (Succeeded(), Rejected("no"), WasCancelled(), Failed("boom"), Snoozed(MINUTE), Released()):
            job = await t.running(limit_keys=("key:x",))
            assert (await t.driver.read(AllLimits()))[0].used == 1
            assert await t.end(job, outcome) == "applied"
            assert await t.end(job, outcome) in ("repeated", "not_inflight")
            assert (await t.driver.read(AllLimits()))[0].used == 0
            await t.alter(Cancel(job.id))

    @promise
    async def test_a_permit_is_not_lost_on_a_job_that_nobody_will_claim(self, t: Trial) -> None:
        """A waiting job of a queue or type that is not served, or of a paused queue, does not stop the others."""
        await t.alter(PutLimit("k", 1))
        holder = await t.running(limit_keys=("k",))
        await t.enqueue(queue="unserved", limit_keys=("k",))
        await t.enqueue(type="unknown", limit_keys=("k",))
        await t.enqueue(queue="paused", limit_keys=("k",))
        await t.alter(SetPaused("paused", True))
        mine = await t.enqueue(limit_keys=("k",))
        assert await t.claim("default", "unserved", types=("work", "unknown")) == []
        await t.end(holder, Succeeded())
        assert [job.id for job in await t.claim("default", "paused", types=("work",))] == [mine]

    @promise
    async def test_a_waiting_job_that_is_put_off_lets_the_next_one_through(self, t: Trial) -> None:
        """Replacing the time of a parked job keeps it from running early, and does not keep its permit from others."""
        await t.alter(PutLimit("k", 1))
        holder = await t.running(limit_keys=("k",))
        key = {"idempotency_scope": "s", "idempotency_key": "x", "limit_keys": ("k",)}
        first, second = await t.enqueue(**key), await t.enqueue(limit_keys=("k",))
        assert await t.claim() == []
        await t.end(holder, Succeeded())
        await t.answer(**key, run_at=t.now + MINUTE, on_duplicate="replace")
        [job] = await t.claim()
        assert job.id == second
        await t.end(job, Succeeded())
        assert await t.claim() == []
        t.clock.advance(MINUTE)
        assert [job.id for job in await t.claim()] == [first]

    @promise
    async def test_those_who_wait_for_a_permit_are_let_through_in_dispatch_order(self, t: Trial) -> None:
        """Priority first, then place."""
        await t.alter(PutLimit("k", 1))
        job = await t.running(limit_keys=("k",))
        low, high = await t.enqueue(limit_keys=("k",)), await t.enqueue(limit_keys=("k",), priority=5)
        assert await t.claim() == []
        order = []
        for _ in range(2):
            await t.end(job, Succeeded())
            [job] = await t.claim()
            order.append(job.id)
        assert order == [high, low]

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
        assert {limit.key: limit.used for limit in (await t.driver.read(AllLimits()))} == {"a": 1, "b": 1}

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

    @promise
    async def test_who_waits_for_a_worker_that_knows_him_is_left_alone_beside_limits(self, t: Trial) -> None:
        """By who takes unhandled jobs: in strict queues and in fair ones, also behind those who find no permit."""
        await t.alter(PutLimit("key:full", 0))
        await t.alter(PutLimit("type:work", 99))
        waits, dies = await t.enqueue(), await t.enqueue(on_unknown="dead")
        assert [job.id for job in await t.claim(unhandled=True)] == [dies]
        assert [job.id for job in await t.claim()] == [waits]
        for unhandled in (True, False):
            queue = await self._fair_queue_of_busy_orgs(t)
            await t.enqueue(queue=queue, org_id="a", limit_keys=("key:full",), on_unknown="dead")
            waits = await t.enqueue(queue=queue, org_id="b")
            dies = await t.enqueue(queue=queue, org_id="c", on_unknown="dead")
            for org, priority in (("d", 0), ("e", 9)):
                await t.enqueue(queue=queue, org_id=org, priority=priority)
            assert (await t.take(queue, unhandled=unhandled)).id == (dies if unhandled else waits)

    async def _fair_queue_of_busy_orgs(self, t: Trial) -> str:
        queue = t.name("queue")
        await t.alter(PutQueue(queue, order="fair"))
        for org in "bcde":
            await t.enqueue(queue=queue, org_id=org, priority=5)
        assert len(await t.claim(queue)) == 4
        return queue

    @promise
    async def test_a_limit_that_is_set_again_counts_each_holder_once(self, t: Trial) -> None:
        """Those who held a permit of the one that was removed go on holding it, and give one back."""
        await t.alter(PutLimit("a", 2))
        holder, _ = [await t.running(limit_keys=("a",)) for _ in range(2)]
        await t.alter(RemoveLimit("a"))
        await t.alter(PutLimit("a", 2))
        await t.ack(holder)
        assert [limit.used for limit in await t.driver.read(AllLimits())] == [1]

    @promise
    async def test_what_a_claim_has_taken_counts_when_it_passes_a_permit_on(self, t: Trial) -> None:
        """A job that was let through to a permit, and has to wait for another one, leaves its place to the next one, but
        not those of jobs that the same claim has taken before it."""
        await t.alter(PutLimit("key:k", 3))
        await t.alter(PutLimit("key:full", 1))
        await t.running(limit_keys=("key:full",))
        held = [await t.running(limit_keys=("key:k",)) for _ in range(3)]
        both = await t.enqueue(limit_keys=("key:k", "key:full"))
        waiting = await t.enqueue_all(3, limit_keys=("key:k",))
        assert await t.claim() == []
        await t.ack(held[0])  # lets the one through that finds the other key full
        await t.ack(held[1])
        first = await t.enqueue(limit_keys=("key:k",), priority=1)
        assert [job.id for job in await t.claim()] == [first, waiting[0]]
        assert {limit.key: limit.used for limit in (await t.driver.read(AllLimits()))} == {"key:k": 3, "key:full": 1}
        assert [job.parked_on for job in await t.jobs([both, *waiting[1:]])] == ["key:full", "key:k", "key:k"]

    # --------------------------------------------------------------------------------------------------------- outbox

    @promise
    async def test_an_event_is_written_with_its_change_or_not_at_all(self, t: Trial) -> None:
        """The outbox row of an applied unit is there, that of a refused or repeated one is not."""
        job = await t.running(org_id="acme")
        event = AddEvent("job.succeeded", job.id, "acme", '{"n": 1}')
        ack = Ack(handle=job.handle, token=job.token, at=t.now, riders=(event,))
        assert await t.settle(ack) == ["applied"]
        assert await t.settle(ack) == ["repeated"]
        [row] = await t.driver.read(AllEvents())
        assert (row.event, row.job_id, row.org_id, row.body, row.created_at) == (
            "job.succeeded", job.id, "acme", '{"n": 1}', t.now,
        )  # fmt: skip
