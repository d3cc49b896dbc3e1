"""Reading, counting and forgetting."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.alterations import Cancel, Move, PutGroup, PutLimit, SetPaused
from windlass.core.queries import JobsAhead, LimitUses
from windlass.core.settle import Failed, Succeeded
from windlass.drivers.values import Count, JobQuery, WaitingType
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import LimitUse

CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 2}
KEEP_NOTHING: dict[str, Any] = {"succeeded": 0, "cancelled": 0, "dead": 0}


class InspectionPromises(Suite):
    @promise
    async def test_get_answers_in_the_order_asked(self, t: Trial) -> None:
        """None where there is none, twice where asked twice."""
        first, second = await t.enqueue(), await t.enqueue()
        found = await t.driver.get([second, "nobody", first, second])
        assert [job and job.id for job in found] == [second, None, first, second]

    @promise
    async def test_runs_are_the_whole_history(self, t: Trial) -> None:
        """One row per execution, first to last, with its own outcome and the parameters it was given."""
        job_id = await t.enqueue(payload=b"[7]", max_attempts=3)
        for text in ("one", "two"):
            await t.end(await t.take(), Failed(text))
            t.clock.advance(MINUTE)
        await t.end(await t.take(), Succeeded())
        runs = await t.driver.runs(job_id)
        assert [(r.attempt_no, r.status, r.error) for r in runs] == [
            (1, "failed", "one"), (2, "failed", "two"), (3, "completed", None),
        ]  # fmt: skip
        assert {r.params for r in runs} == {b"[7]"}
        assert {r.job_id for r in runs} == {job_id}
        assert len({r.run_id for r in runs}) == 3
        assert await t.driver.runs("nobody") == []

    @promise
    async def test_runs_are_read_in_pages_from_the_newest(self, t: Trial) -> None:
        """However often a job was executed, a call answers with so many; `before` leads on, also past a run that has no
        row."""
        for history in ("full", "failures"):
            job_id = await t.enqueue(queue=history, history=history, max_attempts=0)
            for _ in range(4):
                await t.retry(await t.take(history))
            await t.take(history)

            async def page(before: int | None = None, limit: int = 1_000, job_id: str = job_id) -> list[int]:
                return [run.attempt_no for run in await t.driver.runs(job_id, before=before, limit=limit)]

            assert await page() == await page(limit=5) == [1, 2, 3, 4, 5]
            assert await page(limit=2) == [4, 5]
            assert await page(limit=2, before=4) == [2, 3]
            assert await page(limit=2, before=2) == [1]
            assert await page(before=1) == []
            assert await page(limit=1) == await page(limit=1, before=6) == [5]
            for before, limit, field in ((None, 0, "limit"), (None, 10**6, "limit"), (0, 5, "before"), (-1, 5, "before")):
                with pytest.raises(InvalidInput) as refused:
                    await page(before, limit)
                assert refused.value.field == field

    @promise
    async def test_a_run_knows_how_long_its_job_had_waited(self, t: Trial) -> None:
        """wait_us counts from the moment the job was due, not from its enqueueing."""
        scheduled = await t.enqueue(run_at=t.now + MINUTE)
        at_once = await t.enqueue()
        t.clock.advance(MINUTE + 7)
        await t.claim()
        assert (await t.last_run(scheduled)).wait_us == 7
        assert (await t.last_run(at_once)).wait_us == MINUTE + 7

    @promise
    async def test_jobs_ahead_are_those_that_a_claim_would_take_first(self, t: Trial) -> None:
        """Ready jobs of the same queue, by priority and place; up to a bound, and only for a queued job."""
        later = await t.enqueue(run_at=t.now + MINUTE, priority=9)
        ids = [await t.enqueue(priority=priority) for priority in (0, 1, 0, 2)]
        await t.enqueue(queue="other")
        ahead = {job_id: await t.driver.read(JobsAhead(job_id=job_id)) for job_id in (*ids, later)}
        assert [ahead[job_id] for job_id in ids] == [[2], [1], [3], [0]]
        assert ahead[later] == [0], "those that wait for their time are not ahead, but may be waited for"
        assert await t.driver.read(JobsAhead(job_id=ids[2], most=2)) == [2]
        assert await t.alter(Move(ids[2], "top")) == "applied"
        assert await t.driver.read(JobsAhead(job_id=ids[2])) == [2]
        await t.claim(limit=1)
        assert await t.driver.read(JobsAhead(job_id=ids[3])) == []
        assert await t.driver.read(JobsAhead(job_id="nobody")) == []

    @promise
    async def test_the_holders_of_a_permit_are_named(self, t: Trial) -> None:
        """Running jobs that hold one, first to last, up to a bound; waiting ones hold none."""
        await t.alter(PutLimit("k", 2))
        ids = [await t.enqueue(limit_keys=("k",)) for _ in range(3)]
        await t.enqueue(limit_keys=("other",))
        await t.claim(limit=4)
        assert await t.driver.read(LimitUses(keys=("k",))) == [LimitUse(key="k", waiting=1, holders=tuple(ids[:2]))]
        [first] = await t.driver.read(LimitUses(keys=("k",), limit=1))
        assert first.holders == (ids[0],)
        [nobody] = await t.driver.read(LimitUses(keys=("nobody's",)))
        assert nobody.holders == ()

    @promise
    async def test_find_filters_and_pages(self, t: Trial) -> None:
        """Newest first, by any mix of filters; the cursor continues where the page ended."""
        ids = [await t.enqueue(queue=f"q{n % 2}", type=f"t{n % 3}", org_id="acme" if n < 3 else None) for n in range(7)]
        page = await t.driver.find(JobQuery(limit=3))
        assert [job.id for job in page.jobs] == ids[:3:-1]
        rest = await t.driver.find(JobQuery(limit=10, before=page.cursor))
        assert [job.id for job in rest.jobs] == ids[3::-1]
        assert rest.cursor is None
        assert [job.id for job in (await t.driver.find(JobQuery(queues=("q0",), types=("t0", "t1")))).jobs] == [
            ids[6], ids[4], ids[0],
        ]  # fmt: skip
        assert len((await t.driver.find(JobQuery(org_id="acme", states=("queued",)))).jobs) == 3
        assert (await t.driver.find(JobQuery(states=("dead",)))).jobs == ()
        assert (await t.driver.find(JobQuery(queues=("'; drop table jobs; --",)))).jobs == ()
        for limit in (0, -1, 100_000):
            with pytest.raises(InvalidInput):
                await t.driver.find(JobQuery(limit=limit))

    @promise
    async def test_find_leaves_superseded_links_out_unless_asked(self, t: Trial) -> None:
        """A chain shows as its last link; its links are found by retry_of."""
        job = await t.running(**CHAIN)
        await t.end(job, Failed("boom"), child_id="child")
        assert [j.id for j in (await t.driver.find(JobQuery())).jobs] == ["child"]
        assert [j.id for j in (await t.driver.find(JobQuery(superseded=True))).jobs] == ["child", job.id]
        assert [j.id for j in (await t.driver.find(JobQuery(retry_of=job.id))).jobs] == ["child"]

    @promise
    async def test_count_is_exact_by_label(self, t: Trial) -> None:
        """Every label of every queue; superseded rows and successes are not counted."""
        await t.alter(PutLimit("k", 0))
        await t.enqueue(queue="b", limit_keys=("k",))
        await t.claim("b")
        await t.ack(await t.running())
        await t.fail(await t.running())
        await t.end(await t.running(**CHAIN), Failed("boom"))
        await t.running()
        await t.enqueue(type="later", run_at=t.now + 3 * MINUTE)
        for _ in range(2):
            await t.enqueue()
        assert await t.driver.count(now=t.now) == [
            Count("b", "parked", 1), Count("default", "dead", 1), Count("default", "queued", 2),
            Count("default", "running", 1), Count("default", "scheduled", 2),
        ]  # fmt: skip
        assert Count("default", "queued", 4) in await t.driver.count(now=t.now + 3 * MINUTE)

    @promise
    async def test_waiting_types_are_those_at_the_front(self, t: Trial) -> None:
        """Of each queue the first `limit` ready jobs in dispatch order, by type and on_unknown; not paused queues, not jobs
        that wait, run or have ended."""
        assert await t.driver.waiting_types(None, limit=10) == []
        for kind in ("b", "a", "b", "c"):
            await t.enqueue(queue="q", type=kind)
        await t.enqueue(queue="q", type="a", priority=1, on_unknown="dead")
        for queue in ("other", "paused", "r"):
            await t.enqueue(queue=queue, type="x")
        await t.enqueue(queue="later", type="x", run_at=t.now + MINUTE)
        await t.running(queue="busy")
        await t.alter(SetPaused("paused", True))
        q = [WaitingType("q", "a", "dead", 1), WaitingType("q", "a", "wait", 1), WaitingType("q", "b", "wait", 2)]
        assert await t.driver.waiting_types(["q"], limit=4) == q
        assert await t.driver.waiting_types(["q", "paused", "later", "none", "q"], limit=2) == [
            q[0],
            WaitingType("q", "b", "wait", 1),
        ]
        everything = [
            WaitingType("other", "x", "wait", 1),
            *q,
            WaitingType("q", "c", "wait", 1),
            WaitingType("r", "x", "wait", 1),
        ]
        assert await t.driver.waiting_types(None, limit=10) == everything
        for nonsense in ((["q"], 0), ([], 1), ([""], 1), (None, 10_001)):
            with pytest.raises(InvalidInput):
                await t.driver.waiting_types(nonsense[0], limit=nonsense[1])

    @promise
    async def test_what_has_ended_or_runs_is_counted_nowhere_else(self, t: Trial) -> None:
        """However it waited before: among those that wait, of a type that waits, or before another."""
        await t.alter(PutLimit("key:none", 0))
        assert await t.driver.waiting_types(None, limit=10) == []
        parent = await t.running(queue="p")
        for fields in ({"run_at": t.now + MINUTE}, {"after": (parent.id,)}, {"limit_keys": ("key:none",)}):
            gone = await t.enqueue(queue="q", **fields)
            assert await t.claim("q") == []
            await t.alter(Cancel(gone))
        assert await t.driver.count(now=t.now) == [Count("p", "running", 1)]
        await t.ack(await t.running(queue="q"))
        await t.running(queue="q")
        assert await t.driver.waiting_types(None, limit=10) == []
        for queue in ("other", "z"):
            await t.enqueue(queue=queue)
        first, last = await t.enqueue(queue="q"), await t.enqueue(queue="q")
        for job_id, ahead in ((first, 0), (last, 1)):
            assert await t.driver.read(JobsAhead(job_id=job_id)) == [ahead]
        assert await t.driver.waiting_types(None, limit=10) == [
            WaitingType("other", "work", "wait", 1), WaitingType("q", "work", "wait", 2),
            WaitingType("z", "work", "wait", 1),
        ]  # fmt: skip

    @promise
    async def test_prune_deletes_what_is_old_enough_with_its_runs(self, t: Trial) -> None:
        """By state, from finished_at on, oldest first, at most `limit`; what has not ended is never touched."""
        ended = {}
        for end in ("ack", "fail", "cancel"):
            job_id = await t.enqueue()
            if end == "cancel":
                await t.alter(Cancel(job_id))
            else:
                await getattr(t, end)(await t.take())
            ended[end] = job_id
        waiting, running = await t.enqueue(run_at=t.now + 9 * MINUTE), await t.running()
        t.clock.advance(MINUTE - 1)
        retention = {"succeeded": MINUTE, "dead": 2 * MINUTE}
        assert await t.prune(**retention) == 0
        t.clock.advance(1)
        assert await t.prune(**retention) == 1
        assert await t.driver.get([ended["ack"]]) == [None]
        assert await t.driver.runs(ended["ack"]) == []
        t.clock.advance(MINUTE)
        assert await t.prune(**retention) == 1
        assert await t.prune(**KEEP_NOTHING) == 1
        assert [job.id for job in (await t.driver.find(JobQuery())).jobs] == [running.id, waiting]

    @promise
    async def test_prune_takes_at_most_its_limit(self, t: Trial) -> None:
        """Oldest first."""
        ids = []
        for _ in range(5):
            job = await t.running()
            t.clock.advance(1)
            await t.ack(job)
            ids.append(job.id)
        assert await t.prune(**KEEP_NOTHING, limit=2) == 2
        assert [job and job.id for job in await t.driver.get(ids)] == [None, None, *ids[2:]]

    @promise
    async def test_a_chain_is_pruned_as_one(self, t: Trial) -> None:
        """By its last link's rule and date: none of it goes while the last link is young or alive."""
        job = await t.running(**CHAIN)
        await t.end(job, Failed("boom"), child_id="child")
        t.clock.advance(MINUTE)
        assert await t.prune(**KEEP_NOTHING) == 0
        await t.end(await t.take(), Succeeded())
        retention = {"succeeded": MINUTE, "dead": 0}
        assert await t.prune(**retention) == 0
        t.clock.advance(MINUTE)
        assert await t.prune(**retention) == 2
        assert await t.driver.get([job.id, "child"]) == [None, None]

    @promise
    async def test_a_group_is_kept_while_one_member_must_be(self, t: Trial) -> None:
        """Members go only when all of them may."""
        done = await t.running(group_id="g")
        await t.ack(done)
        alive = await t.enqueue(group_id="g")
        assert await t.prune(**KEEP_NOTHING) == 0
        await t.alter(Cancel(alive))
        assert await t.prune(succeeded=0) == 0
        assert await t.prune(**KEEP_NOTHING) == 2

    @promise
    async def test_a_group_that_still_waits_for_members_is_kept(self, t: Trial) -> None:
        """What has ended of it stays until the group is complete."""
        await t.alter(PutGroup("g", total=2))
        await t.end(await t.running(group_id="g"), Succeeded())
        assert await t.prune(**KEEP_NOTHING) == 0
        await t.end(await t.running(group_id="g"), Succeeded())
        assert await t.prune(**KEEP_NOTHING) == 2

    @promise
    async def test_a_pruned_job_can_be_settled_no_more(self, t: Trial) -> None:
        """A late call about a job that is gone is not inflight."""
        job = await t.running()
        await t.ack(job)
        await t.prune(**KEEP_NOTHING)
        assert await t.ack(job) == "not_inflight"
        fresh = await t.running()
        assert await t.ack(job) == "not_inflight"
        assert (await t.job(fresh.id)).state == "running"
