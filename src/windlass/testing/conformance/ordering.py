"""One total order: priority DESC, position ASC, created_at ASC, seq ASC over due jobs."""

from __future__ import annotations

import random
from typing import Any

from windlass.core.alterations import Cancel, Move, PutLimit, PutQueue, RunNow
from windlass.core.positions import GAP
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise


class OrderPromises(Suite):
    @promise
    async def test_jobs_of_equal_priority_run_in_the_order_they_came(self, t: Trial) -> None:
        """First in, first out, within a batch and across batches."""
        ids = [await t.enqueue() for _ in range(3)]
        ids += [a.id for a in await t.driver.enqueue([t.new() for _ in range(3)], now=t.now)]
        assert [job.id for job in await t.claim()] == ids

    @promise
    async def test_a_job_whose_time_has_come_brings_nobody_along(self, t: Trial) -> None:
        """Neither one that is to run later, nor one that waits for another or for a permit, nor one of another queue, nor
        one that was cancelled. Nor is one that is ready already made so again."""
        await t.alter(PutLimit("k", 0))
        parent = await t.running(queue="parents")
        later = await t.enqueue(run_at=t.now + MINUTE)
        blocked = await t.enqueue(after=(parent.id,), run_at=t.now + 1)
        parked = await t.enqueue(limit_keys=("k",), run_at=t.now)
        cancelled = await t.enqueue(run_at=t.now + 1)
        await t.alter(Cancel(cancelled))
        elsewhere = await t.enqueue(queue="other", run_at=t.now + 1)
        assert await t.claim() == []
        ready = await t.enqueue(run_at=t.now)
        before = [await t.job(job) for job in (later, blocked, parked, elsewhere, cancelled, ready, parent.id)]
        due = await t.enqueue(run_at=t.now + 1, priority=9)
        t.clock.advance(1)
        assert [job.id for job in await t.claim(limit=1)] == [due]
        assert [await t.job(job.id) for job in before] == before

    @promise
    async def test_a_claim_of_some_types_of_several_queues_takes_what_is_ready_there(self, t: Trial) -> None:
        """Nothing that is to run later, nothing of a queue that it did not name."""
        wanted = [await t.enqueue(queue=queue, type="x") for queue in ("a", "b")]
        await t.enqueue(queue="c", type="x")
        await t.enqueue(queue="a", type="x", run_at=t.now + MINUTE)
        await t.enqueue(queue="b", type="y")
        assert [job.id for job in await t.claim("a", "b", types=("x",))] == wanted
        assert await t.claim("a", "b", types=("x",)) == []

    @promise
    async def test_higher_priority_goes_first(self, t: Trial) -> None:
        """Larger numbers are more urgent; negative ones are less."""
        low, high, normal = await t.enqueue(priority=-1), await t.enqueue(priority=5), await t.enqueue()
        assert [job.id for job in await t.claim()] == [high, normal, low]

    @promise
    async def test_reserve_prefers_ready_over_future_scheduled(self, t: Trial) -> None:
        """A job that is not due never stands in the way, however urgent."""
        await t.enqueue(priority=9, run_at=t.now + 1)
        ready = await t.enqueue()
        assert [job.id for job in await t.claim()] == [ready]

    @promise
    async def test_due_retried_and_reclaimed_jobs_compete_in_the_same_order(self, t: Trial) -> None:
        """A job that waited, failed or was lost keeps its place: it is not starved by newer ones."""
        scheduled = await t.enqueue(run_at=t.now + MINUTE)
        retried, lost = await t.running(), await t.running()
        await t.retry(retried, run_at=t.now + MINUTE)
        t.clock.advance(MINUTE)
        fresh = await t.enqueue()
        assert [job.id for job in await t.claim()] == [scheduled, retried.id, lost.id, fresh]

    @promise
    async def test_every_due_job_is_considered_however_many_wait(self, t: Trial) -> None:
        """Thousands that come due at once are all in the order of the next claim, the most urgent first."""
        await t.driver.enqueue([t.new(run_at=t.now + 1) for _ in range(2_500)], now=t.now)
        urgent = await t.enqueue(run_at=t.now + 1, priority=1)
        t.clock.advance(1)
        assert (await t.claim(limit=1))[0].id == urgent

    @promise
    async def test_several_queues_share_one_order(self, t: Trial) -> None:
        """A claim over several queues answers the first jobs of all of them together."""
        a1, b1 = await t.enqueue(queue="a"), await t.enqueue(queue="b", priority=1)
        a2, b2 = await t.enqueue(queue="a", priority=1), await t.enqueue(queue="b")
        assert [job.id for job in await t.claim("b", "a", limit=3)] == [b1, a2, a1]
        assert [job.id for job in await t.claim("a", "b", "a")] == [b2]

    @promise
    async def test_the_order_is_that_of_a_plain_sort(self, t: Trial) -> None:
        """Random mixes of priority, time and queue come out as a sorted list would."""
        dice = random.Random(42)
        jobs = []
        for _ in range(300):
            t.clock.advance(dice.randrange(3))
            priority, wait = dice.choice((0, 0, 0, 1, -1, 7)), dice.choice((None, None, 50, 500))
            job_id = await t.enqueue(priority=priority, run_at=None if wait is None else t.now + wait)
            jobs.append(await t.job(job_id))
        t.clock.advance(1_000)
        expected = sorted(jobs, key=lambda j: (-j.priority, j.position, j.created_at, j.seq))
        taken = []
        while batch := await t.claim(limit=dice.randrange(1, 40)):
            taken += batch
        assert [job.id for job in taken] == [job.id for job in expected]

    @promise
    async def test_many_queues_share_one_order_however_uneven_they_are(self, t: Trial) -> None:
        """Whoever looks at a few of each queue first must look again where one of them holds most."""
        dice = random.Random(7)
        names = [f"q{n}" for n in range(20)]
        crowd = names[:3]
        jobs = [
            t.new(
                queue=dice.choice(dice.choice((crowd, crowd, names))),
                priority=dice.choice((0, 0, 2)),
                type=dice.choice("xy"),
            )
            for _ in range(300)
        ]
        for start in range(0, 300, 100):
            await t.driver.enqueue(jobs[start : start + 100], now=t.now)
        rows = await t.jobs([job.id for job in jobs])
        expected = sorted(rows, key=lambda j: (-j.priority, j.position, j.created_at, j.seq))
        wanted = [job.id for job in expected if job.type == "x"][:30]
        assert [job.id for job in await t.claim(*names, types=("x",), limit=30)] == wanted
        taken: list[str] = []
        while batch := await t.claim(*names, limit=dice.randrange(1, 60)):
            taken += [job.id for job in batch]
        assert taken == [job.id for job in expected if job.id not in wanted]

    @promise
    async def test_the_tail_is_the_tail(self, t: Trial) -> None:
        """A new job stands behind every older one of its priority, also behind those that return to the queue."""
        running = [await t.running() for _ in range(3)]
        last = await t.enqueue()
        for job in running:
            await t.retry(job)
        assert [job.id for job in await t.claim()] == [*[job.id for job in running], last]

    @promise
    async def test_dense_positions_count_from_the_queued_jobs(self, t: Trial) -> None:
        """On a dense queue a job takes the largest position of its priority plus the gap, or the gap when there is none."""
        await t.alter(PutQueue("d", positions="dense"))
        first, second = await t.enqueue(queue="d"), await t.enqueue(queue="d")
        urgent = await t.enqueue(queue="d", priority=5)
        assert [job.position for job in await t.jobs([first, second, urgent])] == [GAP, 2 * GAP, GAP]
        await t.claim("d")
        batch = [t.new(), t.new(queue="d"), t.new(queue="d"), t.new(queue="d", priority=5)]
        ids = [a.id for a in await t.driver.enqueue(batch, now=t.now)]
        assert [job.position for job in (await t.jobs(ids))[1:]] == [GAP, 2 * GAP, GAP]

    @promise
    async def test_a_dense_place_is_behind_all_that_wait_in_its_queue_and_priority(self, t: Trial) -> None:
        """Whatever they wait for; those of another priority or queue have places of their own."""
        for queue in ("d", "e"):
            await t.alter(PutQueue(queue, positions="dense"))
        await t.alter(PutLimit("k", 0))
        parent = await t.running(queue="parents")
        kinds: list[dict[str, Any]] = [
            {"run_at": t.now + MINUTE},
            {"after": (parent.id,)},
            {"limit_keys": ("k",)},
            {"type": "ready"},
        ]
        places = []
        for queue, priority in (("d", 1), ("e", 0), ("d", 0)):
            for fields in kinds:
                job_id = await t.enqueue(queue=queue, priority=priority, **fields)
                assert await t.claim(queue, types=("work",)) == [], "or it is parked only now"
                places.append((await t.job(job_id)).position)
        assert places == [GAP, 2 * GAP, 3 * GAP, 4 * GAP] * 3

    @promise
    async def test_a_duplicate_takes_no_dense_place(self, t: Trial) -> None:
        """The largest position of those that wait, plus the gap: also beside a duplicate in the same batch."""
        await t.alter(PutQueue("d", positions="dense"))
        first = await t.enqueue(queue="d", dedupe_key="k")
        twice, fresh = await t.driver.enqueue([t.new(queue="d", dedupe_key="k"), t.new(queue="d", id="fresh")], now=t.now)
        assert (twice.id, fresh.existed) == (first, False)
        assert [job.position for job in await t.jobs([first, "fresh"])] == [GAP, 2 * GAP]

    @promise
    async def test_a_job_brought_forward_is_due_at_its_place(self, t: Trial) -> None:
        """Run-now makes a waiting job due and leaves its position alone; it refuses what is not queued."""
        waiting = await t.enqueue(run_at=t.now + MINUTE)
        behind = await t.enqueue()
        assert await t.alter(RunNow(waiting)) == "applied"
        assert [job.id for job in await t.claim()] == [waiting, behind]
        assert await t.alter(RunNow(waiting)) == "wrong_state"
        assert await t.alter(RunNow("nobody")) == "not_found"

    @promise
    async def test_a_reclaim_clears_the_time_and_keeps_the_place(self, t: Trial) -> None:
        """An expired job is runnable now, whatever its run_at was, in front of what came after it."""
        await t.enqueue(run_at=t.now + 5)
        t.clock.advance(5)
        lost = await t.take()
        after = await t.enqueue()
        t.clock.advance(LEASE)
        assert [job.id for job in await t.claim()] == [lost.id, after]

    @promise
    async def test_a_job_is_moved_to_either_end_of_its_priority(self, t: Trial) -> None:
        """Before or behind every queued job of its queue and priority; the others are not touched, other priorities and
        queues are not passed."""
        urgent, elsewhere = await t.enqueue(priority=1), await t.enqueue(queue="b")
        ids = [await t.enqueue() for _ in range(4)]
        low = await t.enqueue(priority=-1)
        others = [urgent, elsewhere, ids[0], ids[3], low]
        before, moved = await t.jobs(others), await t.job(ids[2])
        assert await t.alter(Move(ids[2], "top")) == "applied"
        assert await t.alter(Move(ids[1], "bottom")) == "applied"
        assert await t.jobs(others) == before
        after = await t.job(ids[2])
        assert (after.position, after.updated_at > moved.updated_at) == (before[2].position - GAP, True)
        assert (await t.job(ids[1])).position > before[3].position
        assert [job.id for job in await t.claim()] == [urgent, ids[2], ids[0], ids[3], ids[1], low]

    @promise
    async def test_a_move_counts_those_that_wait_too(self, t: Trial) -> None:
        """Jobs that wait for their time or for a permit are passed as well."""
        await t.alter(PutLimit("k", 0))
        parked = await t.enqueue(limit_keys=("k",))
        assert await t.claim() == []
        early, job, late = await t.enqueue(run_at=t.now + MINUTE), await t.enqueue(), await t.enqueue(run_at=t.now + MINUTE)
        assert await t.alter(Move(job, "top")) == "applied"
        assert (await t.job(job)).position < (await t.job(parked)).position
        assert await t.alter(Move(job, "bottom")) == "applied"
        assert (await t.job(job)).position > (await t.job(late)).position
        assert await t.alter(Move(parked, "bottom")) == "applied"
        assert await t.alter(Move(late, "top")) == "applied"
        await t.alter(PutLimit("k", None))
        t.clock.advance(MINUTE)
        assert [job.id for job in await t.claim()] == [late, early, job, parked]

    @promise
    async def test_a_move_that_changes_nothing_says_so(self, t: Trial) -> None:
        """A job that stands there already, or alone, keeps its row; what is not queued is refused."""
        first, last = await t.enqueue(), await t.enqueue()
        alone = await t.enqueue(priority=7)
        before = await t.jobs([first, last, alone])
        for job_id, to in ((first, "top"), (last, "bottom"), (alone, "top"), (alone, "bottom")):
            assert await t.alter(Move(job_id, to)) == "unchanged"  # type: ignore[arg-type]
        assert await t.jobs([first, last, alone]) == before
        running = await t.take()
        assert await t.alter(Move(running.id, "top")) == "wrong_state"
        assert await t.alter(Move("nobody", "top")) == "not_found"
