"""Turns of orgs in a fair queue, and priorities that grow with waiting."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.duties import AgeJobs, Done, RecountLimits
from windlass.core.settle import Succeeded
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import NewJob


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
    async def test_a_strict_queue_takes_no_turns_however_its_jobs_came(self, t: Trial) -> None:
        """One by one, alike in one call, or together with those of a fair queue: of those who wait for a permit one is let
        through for each that comes back, in dispatch order."""
        await t.alter(PutQueue("fair", order="fair"))
        await t.alter(PutLimit("key:k", 1))
        for way in ("one by one", "alike", "mixed"):
            await t.alter(PutQueue(way, order="strict"))
            new = [t.new(queue=way, org_id=org, limit_keys=("key:k",)) for org in "aab"]
            calls = {"one by one": [new[:1], new[1:2]], "alike": [new[:2]], "mixed": [[t.new(queue="fair"), *new[:2]]]}[way]
            for call in (*calls, new[2:]):
                await t.driver.enqueue(call, now=t.now)
            ids = [job.id for job in new]
            for number, job_id in enumerate(ids, start=1):
                [job] = await t.claim(way)
                assert job.id == job_id
                assert await t.ack(job) == "applied"
                waiting = [other.parked_on for other in await t.jobs(ids[number:])]
                assert waiting == [None, "key:k"][: 3 - number], way

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
    async def test_a_claim_takes_what_it_asks_for_whether_orgs_take_turns_or_not(self, t: Trial) -> None:
        """Of its queues, its types and what is to die without a worker that knows it, and only what is due: one at a time
        or many, also behind a job that finds no permit."""
        await t.alter(PutLimit("key:none", 0))
        wishes: list[dict[str, Any]] = [{}, {"types": ("x",)}, {"unhandled": True}, {"types": ("x",), "unhandled": True}]
        orders: tuple[Literal["fair", "strict"], ...] = ("fair", "strict")
        for number, (wish, limit, parks, order) in enumerate(product(wishes, (1, 2, 7), (False, True), orders)):
            mine, theirs, there = f"m{number}", f"t{number}", list[NewJob]()
            for queue in (mine, theirs):
                await t.alter(PutQueue(queue, order=order))
                if parks:
                    fields = {"queue": queue, "type": "x", "on_unknown": "dead", "priority": 9, "limit_keys": ("key:none",)}
                    await t.enqueue(**fields)
                for org in "abcdefgh" if queue == mine else "ab":
                    for kind, rule in product("yx", ("wait", "dead")):
                        there.append(t.new(queue=queue, type=kind, org_id=org, on_unknown=rule))
                    later = {"run_at": t.now + MINUTE, "priority": 1}
                    there.append(t.new(queue=queue, type="x", org_id=org, on_unknown="dead", **later))
            await t.driver.enqueue(there, now=t.now)
            wanted = {
                job.id for job in there
                if job.queue == mine and job.run_at is None and job.type in wish.get("types", "xy")
                and (job.on_unknown == "dead" or "unhandled" not in wish)
            }  # fmt: skip
            taken = list[str]()
            while jobs := await t.claim(mine, limit=limit, **wish):
                assert len(jobs) == min(limit, len(wanted) - len(taken)), (wish, limit, parks, order)
                taken += [job.id for job in jobs]
            assert (len(taken), set(taken)) == (len(wanted), wanted), (wish, limit, parks, order)

    @promise
    async def test_what_an_org_had_in_one_queue_counts_in_no_other(self, t: Trial) -> None:
        """Each queue has turns of its own, also when those that are past are forgotten, whatever the queues are called."""
        for mine, other in (("q", "other"), ("a", "b")):
            for queue in (mine, other):
                await t.alter(PutQueue(queue, order="fair"))
            for queue, count in ((mine, 3), (other, 9)):
                await t.enqueue_all(count, queue=queue, org_id="a")
                assert len(await t.claim(queue)) == count
            await t.enqueue_all(2, queue=other, org_id="z")
            assert len(await t.claim(other)) == 2
            await t.maintain(RecountLimits())
            for org in "az":
                await t.enqueue_all(4, queue=mine, org_id=org)
            assert [(await t.take(mine)).org_id for _ in range(8)] == list("zazazaza")

    @promise
    async def test_turns_are_kept_behind_a_job_that_finds_no_permit(self, t: Trial) -> None:
        """Whose turn it is comes next, whatever the priority of the others; what runs of it already does not come again."""
        await t.alter(PutQueue("q", order="fair"))
        await t.alter(PutLimit("key:none", 0))
        for org in "abcde":
            await t.enqueue_all(2, queue="q", org_id=org, priority=5 if org == "e" else 0)
        assert [job.org_id for job in await t.claim("q", limit=5)] == list("abcde")
        await t.enqueue(queue="q", limit_keys=("key:none",))
        assert [job.org_id for job in await t.claim("q", limit=1)] == ["a"]

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
    async def test_turns_go_on_within_a_claim_that_has_to_look_again(self, t: Trial) -> None:
        """Where a job had to be parked, the place goes to the org that was offered fewer."""
        await t.alter(PutQueue("q", order="fair"))
        await t.alter(PutLimit("key:full", 0))
        mine = await t.enqueue_all(3, queue="q", org_id="a")
        await t.enqueue(queue="q", org_id="b", limit_keys=("key:full",))
        other = await t.enqueue(queue="q", org_id="b")
        assert [job.id for job in await t.claim("q", limit=3)] == [*mine[:2], other]

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
    async def test_a_free_permit_is_offered_in_each_queue_and_to_each_type(self, t: Trial) -> None:
        """Where orgs take turns too: the first might stand in a queue, or be of a type, that nobody serves."""
        await t.alter(PutLimit("key:gpu", 1))
        for queue in ("p", "q"):
            await t.alter(PutQueue(queue, order="fair"))
        holder = await t.running(queue="before", limit_keys=("key:gpu",))
        ids = {
            (queue, kind): await t.enqueue(queue=queue, type=kind, org_id="a", limit_keys=("key:gpu",))
            for queue in ("p", "q") for kind in ("x", "y")
        }  # fmt: skip
        assert await t.claim("p", "q") == []
        for queue, kind in (("q", "y"), ("q", "x"), ("p", "y"), ("p", "x")):
            await t.end(holder, Succeeded())
            [holder] = await t.claim(queue, types=(kind,))
            assert holder.id == ids[queue, kind]
            assert await t.claim("p", "q") == []

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

    @promise
    async def test_nobody_ages_who_may_not(self, t: Trial) -> None:
        """Not beyond the cap, not in a queue that says nothing of it, and not while others or a time are waited for."""
        for change in (PutQueue("q", age_after=MINUTE, age_to=2), PutQueue("other"), PutLimit("key:none", 0)):
            await t.alter(change)
        parent = await t.running(queue="parents")
        ids, waits = list[str](), {"limit_keys": ("key:none",)}
        for fields in (waits, {}):
            ids += [await t.enqueue(queue="other", **fields)]
            ids += [await t.enqueue(queue="q", priority=n, **fields) for n in (1, 2, 3)]
            if fields:
                assert await t.claim("q", "other") == [], "they wait for a permit from now on"
        ids += [await t.enqueue(queue="q", after=(parent.id,)), await t.enqueue(queue="q", run_at=t.now + MINUTE)]
        t.clock.advance(3 * MINUTE)
        before = {job.id: job.priority for job in await t.jobs(ids)}
        assert await t.maintain(AgeJobs()) == Done(2)
        raised = [job.id for job in await t.jobs(ids) if job.priority != before[job.id]]
        assert raised == [ids[1], ids[5]]

    @promise
    async def test_who_runs_or_is_not_due_stands_in_nobody_s_way(self, t: Trial) -> None:
        """However many come before in the order, under a limit and in a fair queue, where jobs are picked by other ways."""
        await t.alter(PutQueue(name="fair", order="fair"))
        await t.alter(PutLimit("key:k", 1000))
        for queue in ("default", "fair"):
            fields = {"queue": queue, "priority": 9, "org_id": "o"}
            await t.enqueue_all(20, **fields)
            assert len(await t.claim(queue)) == 20
            behind = await t.enqueue(queue=queue, org_id="o", limit_keys=("key:k",))
            assert (await t.take(queue)).id == behind
            await t.enqueue_all(20, run_at=t.now + MINUTE, **fields)
            behind = await t.enqueue(queue=queue, org_id="o", limit_keys=("key:k",))
            assert (await t.take(queue)).id == behind
