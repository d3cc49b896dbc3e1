"""Turns of orgs in a fair queue, and priorities that grow with waiting."""

from __future__ import annotations

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.duties import AgeJobs, Done
from windlass.core.settle import Succeeded
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class FairnessPromises(Suite):
    @promise
    async def test_orgs_take_turns_in_a_fair_queue(self, t: Trial) -> None:
        """One job each, whoever enqueued more and earlier; jobs without an org are one org."""
        await t.alter(PutQueue("q", order="fair"))
        many = [await t.enqueue(queue="q", org_id="a") for _ in range(4)]
        few = [await t.enqueue(queue="q", org_id="b") for _ in range(2)]
        none = [await t.enqueue(queue="q") for _ in range(2)]
        assert [job.id for job in await t.claim("q")] == [none[0], many[0], few[0], none[1], many[1], few[1], *many[2:]]

    @promise
    async def test_turns_go_on_from_claim_to_claim(self, t: Trial) -> None:
        """What an org had in one claim counts in the next, also when each takes a single job."""
        await t.alter(PutQueue("q", order="fair"))
        for org in ("a", "b", "c"):
            for _ in range(3):
                await t.enqueue(queue="q", org_id=org)
        orgs = [(await t.take("q")).org_id for _ in range(9)]
        assert orgs == ["a", "b", "c"] * 3

    @promise
    async def test_an_org_is_served_by_its_weight(self, t: Trial) -> None:
        """Twice the weight, twice the jobs, over any stretch of claims."""
        await t.alter(PutQueue("q", order="fair"))
        await t.alter(PutLimit("org:big", weight=2.0))
        for _ in range(12):
            await t.enqueue(queue="q", org_id="big")
            await t.enqueue(queue="q", org_id="small")
        orgs = [(await t.take("q")).org_id for _ in range(9)]
        assert (orgs.count("big"), orgs.count("small")) == (6, 3)
        orgs = [job.org_id for job in await t.claim("q", limit=9)]
        assert (orgs.count("big"), orgs.count("small")) == (6, 3)

    @promise
    async def test_who_was_idle_saved_up_nothing(self, t: Trial) -> None:
        """An org that comes late shares what is there from then on; it does not get what it missed."""
        await t.alter(PutQueue("q", order="fair"))
        for _ in range(10):
            await t.enqueue(queue="q", org_id="early")
        assert len(await t.claim("q", limit=6)) == 6
        for _ in range(4):
            await t.enqueue(queue="q", org_id="late")
        orgs = [job.org_id for job in await t.claim("q", limit=4)]
        assert (orgs.count("early"), orgs.count("late")) == (2, 2)

    @promise
    async def test_one_that_enqueues_a_job_at_a_time_does_not_starve_the_others(self, t: Trial) -> None:
        """Coming back at once after every job gives no more than a share."""
        await t.alter(PutQueue("q", order="fair"))
        for _ in range(5):
            await t.enqueue(queue="q", org_id="z")
        orgs = []
        for _ in range(6):
            await t.enqueue(queue="q", org_id="a")
            orgs.append((await t.take("q")).org_id)
        assert orgs.count("z") == 3

    @promise
    async def test_within_an_org_the_order_is_the_usual_one(self, t: Trial) -> None:
        """Priority, then place; and nobody waits while there is work: alone, an org gets everything."""
        await t.alter(PutQueue("q", order="fair"))
        low, high = await t.enqueue(queue="q", org_id="a"), await t.enqueue(queue="q", org_id="a", priority=3)
        assert [job.id for job in await t.claim("q")] == [high, low]

    @promise
    async def test_a_job_that_is_parked_costs_its_org_no_turn(self, t: Trial) -> None:
        """An org whose cap is reached is passed over, and is served again as soon as there is room."""
        await t.alter(PutQueue("q", order="fair"))
        await t.alter(PutLimit("org:a", 1))
        mine = [await t.enqueue(queue="q", org_id="a") for _ in range(3)]
        others = [await t.enqueue(queue="q", org_id="b") for _ in range(2)]
        jobs = await t.claim("q")
        assert [job.id for job in jobs] == [mine[0], *others]
        await t.end(jobs[0], Succeeded())
        assert [job.id for job in await t.claim("q")] == [mine[1]]

    @promise
    async def test_an_org_whose_job_is_let_through_in_a_claim_has_its_weight(self, t: Trial) -> None:
        """None of its jobs was ready when the claim began; what it is charged is what its weight says."""
        await t.alter(PutQueue("q", order="fair"))
        for change in (PutLimit("org:x", weight=4.0), PutLimit("key:a", 1), PutLimit("key:b", 1)):
            await t.alter(change)
        holds_a, holds_b = await t.running(limit_keys=("key:a",)), await t.running(limit_keys=("key:b",))
        await t.enqueue(queue="q", org_id="m", limit_keys=("key:b", "key:a"), priority=9)
        first = await t.enqueue(queue="q", org_id="x", limit_keys=("key:b",))
        assert await t.claim("q") == []  # both wait for b
        await t.end(holds_b, Succeeded())  # m is let through, finds a full, and passes b on to x
        assert [job.id for job in await t.claim("q")] == [first]
        await t.end(holds_a, Succeeded())
        await t.alter(PutLimit("key:a", 9))
        await t.alter(PutLimit("key:b", 9))
        for org in ("x", "y"):
            for _ in range(4):
                await t.enqueue(queue="q", org_id=org)
        orgs = [job.org_id for job in await t.claim("q", limit=4)]
        assert orgs == ["m", "y", "x", "x"]

    @promise
    async def test_a_permit_goes_to_the_org_whose_turn_it_is(self, t: Trial) -> None:
        """The backlog of one behind a limited key does not keep another waiting for it; with weights, and by several."""
        await t.alter(PutQueue("q", order="fair"))
        await t.alter(PutLimit("key:gpu", 1))
        await t.alter(PutLimit("org:heavy", weight=2.0))
        for org, count in (("heavy", 9), ("light", 3)):
            for _ in range(count):
                await t.enqueue(queue="q", org_id=org, limit_keys=("key:gpu",))
        orgs: list[str | None] = []
        while jobs := await t.claim("q", limit=2):
            assert len(jobs) == 1
            orgs.append(jobs[0].org_id)
            await t.end(jobs[0], Succeeded())
            if len(orgs) == 6:
                break
        assert (orgs.count("heavy"), orgs.count("light")) == (4, 2)
        await t.alter(PutLimit("key:gpu", 3))
        later = [job.org_id for job in await t.claim("q")]
        assert (later.count("heavy"), later.count("light")) == (2, 1)

    @promise
    async def test_a_queue_may_become_fair_and_strict_again(self, t: Trial) -> None:
        """What waits takes part at once, in both directions; nothing is forgotten."""
        first = [await t.enqueue(queue="q", org_id="a") for _ in range(3)]
        other = await t.enqueue(queue="q", org_id="b")
        last = [await t.enqueue(queue="q", org_id="a") for _ in range(2)]
        await t.alter(PutQueue("q", order="fair"))
        assert [job.id for job in await t.claim("q", limit=2)] == [first[0], other]
        await t.alter(PutQueue("q"))
        assert [job.id for job in await t.claim("q")] == [*first[1:], *last]

    @promise
    async def test_a_fair_queue_stands_beside_others(self, t: Trial) -> None:
        """In a claim of several queues the fair one offers whose turn it is, in the one order with the others."""
        await t.alter(PutQueue("q", order="fair"))
        mine = [await t.enqueue(queue="q", org_id="a") for _ in range(2)]
        plain = await t.enqueue(queue="p", priority=5)
        other = await t.enqueue(queue="q", org_id="b")
        assert [job.id for job in await t.claim("q", "p")] == [plain, mine[0], other, mine[1]]

    @promise
    async def test_waiting_raises_a_priority_step_by_step(self, t: Trial) -> None:
        """By one for as long as the queue says, up to its cap; the place stays, and nobody is raised twice at once."""
        await t.alter(PutQueue("q", age_after=MINUTE, age_to=2))
        old = await t.enqueue(queue="q")
        place = (await t.job(old)).position
        t.clock.advance(MINUTE - 1)
        assert await t.maintain(AgeJobs()) == Done(0)
        t.clock.advance(1)
        young = await t.enqueue(queue="q", priority=1)
        assert await t.maintain(AgeJobs()) == Done(1)
        assert await t.maintain(AgeJobs()) == Done(0)
        job = await t.job(old)
        assert (job.priority, job.position, job.aged_at) == (1, place, t.now)
        assert [one.id for one in await t.claim("q", limit=1)] == [old]
        for _ in range(3):
            t.clock.advance(MINUTE)
            await t.maintain(AgeJobs())
        assert (await t.job(young)).priority == 2

    @promise
    async def test_a_job_that_waits_for_a_permit_ages_too(self, t: Trial) -> None:
        """It is due, and has not begun; those of a bite are the first in dispatch order of all that wait."""
        await t.alter(PutQueue("q", age_after=MINUTE, age_to=2))
        await t.alter(PutLimit("key:gpu", 1))
        await t.enqueue(queue="q", limit_keys=("key:gpu",))
        old = await t.enqueue(queue="q", limit_keys=("key:gpu",))
        assert len(await t.claim("q")) == 1
        ready = await t.enqueue(queue="q")
        t.clock.advance(MINUTE)
        assert await t.maintain(AgeJobs(limit=1)) == Done(1, more=True)
        assert [job.priority for job in await t.jobs([old, ready])] == [1, 0]
        assert await t.maintain(AgeJobs(limit=9)) == Done(1)
        assert [job.priority for job in await t.jobs([old, ready])] == [1, 1]
        assert (await t.job(old)).parked_on == "key:gpu"

    @promise
    async def test_only_what_is_due_ages(self, t: Trial) -> None:
        """A job that waits for its time does not grow old meanwhile; other queues are left alone."""
        await t.alter(PutQueue("q", age_after=MINUTE, age_to=9))
        later = await t.enqueue(queue="q", run_at=t.now + MINUTE)
        other = await t.enqueue(queue="p")
        t.clock.advance(MINUTE + SECOND)
        assert await t.claim("q", limit=1, types=("nothing",)) == []  # promotes what is due
        assert await t.maintain(AgeJobs()) == Done(0)
        t.clock.advance(MINUTE)
        assert await t.maintain(AgeJobs()) == Done(1)
        assert [job.priority for job in await t.jobs([later, other])] == [1, 0]
