"""Jobs that wait for other jobs: released once, skipped where a predecessor failed, never forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, Replay, RetryGroup, RunNow
from windlass.core.changes import Ack
from windlass.core.dependencies import INLINE
from windlass.core.eligibility import label_of
from windlass.core.queries import DependantsOf, EdgesOf, ParentsOf
from windlass.core.settle import Failed, Rejected, Succeeded, WasCancelled
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import Job, NewGroup

CHAIN = {"retry_mode": "new_job", "crash_policy": "fail"}


async def row(t: Trial, job_id: str) -> Job:
    [job] = await t.driver.get([job_id])
    assert job is not None
    return job


async def claimable(t: Trial) -> list[str]:
    return sorted(job.id for job in await t.claim())


class DependencyPromises(Suite):
    # ----------------------------------------------------------------------------------------------------- being stored

    @promise
    async def test_a_job_waits_for_all_its_parents(self, t: Trial) -> None:
        """A job that names unfinished parents is blocked: counted, labelled so, and claimed by nobody before the last of
        them has ended."""
        first, second = await t.running(), await t.running()
        child = await t.enqueue(after=(first.id, second.id))
        job = await row(t, child)
        assert (job.waiting_on, job.ready, label_of(job, t.now)) == (2, False, "blocked")
        assert [count.label for count in await t.driver.count(now=t.now)] == ["blocked", "running"]
        await t.end(first, Succeeded())
        assert (await row(t, child)).waiting_on == 1
        assert await claimable(t) == []
        await t.end(second, Succeeded())
        assert await claimable(t) == [child]

    @promise
    async def test_what_becomes_of_one_dependency_becomes_of_no_other(self, t: Trial) -> None:
        """A chain that goes on and a group that is retried leave alone who waits for somebody else."""
        other = await t.running(queue="other")
        waiting = await t.enqueue(queue="other", after=(other.id,))
        edge = await t.driver.read(ParentsOf(job_id=waiting))
        link = await t.running(**CHAIN, max_attempts=2)
        behind = await t.enqueue(after=(link.id,))
        assert [one.job_id for one in await t.driver.read(DependantsOf(job_id=other.id))] == [waiting]
        assert [one.job_id for one in await t.driver.read(DependantsOf(job_id=link.id))] == [behind]
        await t.end(link, Failed("boom", retry_in=0))
        assert await t.driver.read(ParentsOf(job_id=waiting)) == edge
        next_ = await t.take()
        assert [one.parent_id for one in await t.driver.read(ParentsOf(job_id=behind))] == [next_.id]
        group = NewGroup(group_id="g", mode="sequential", on_failure="stop")
        jobs = [t.new(id=name, group_id="g", group_seq=n, opens=group) for n, name in enumerate("ab")]
        await t.driver.enqueue(jobs, now=t.now)
        await t.end(await t.take(), Succeeded())
        await t.end(await t.take(), Rejected("no"))
        assert await t.alter(RetryGroup("g", (("b", "b2"),))) == "applied"
        assert await t.driver.read(ParentsOf(job_id=waiting)) == edge
        assert [one.parent_id for one in await t.driver.read(ParentsOf(job_id="b"))] == ["a"]
        assert await claimable(t) == ["b"]
        await t.end(next_, Succeeded())
        assert await claimable(t) == [behind]
        await t.end(other, Succeeded())
        assert [job.id for job in await t.claim("other")] == [waiting]

    @promise
    async def test_those_who_were_not_told_yet_wait_for_the_job_that_takes_over(self, t: Trial) -> None:
        """A person brings back a job that died before all who wait for it heard of that. To the others it is
        still the dead one that they waited for."""
        parent = await t.running(**CHAIN, max_attempts=1)
        fields = {"after": (parent.id,), "queue": "other"}
        ids = await t.enqueue_all(INLINE + 2, **fields)
        await t.end(parent, Rejected("no"))
        left = [job.id for job in await t.jobs(ids) if job.state == "queued"]
        assert len(left) == 2
        assert await t.alter(Replay(parent.id, "again")) == "applied"
        assert [edge.parent_id for id_ in left for edge in await t.driver.read(ParentsOf(job_id=id_))] == ["again"] * 2
        told = next(id_ for id_ in ids if id_ not in left)
        assert [edge.parent_id for edge in await t.driver.read(ParentsOf(job_id=told))] == [parent.id]
        await t.driver.expire(now=t.now, limit=100)
        assert await t.claim("other") == []
        await t.end(await t.take(), Succeeded())
        await t.driver.expire(now=t.now, limit=100)
        assert sorted(job.id for job in await t.claim("other")) == sorted(left)

    @promise
    async def test_a_job_whose_parents_have_all_ended_still_waits_for_its_time(self, t: Trial) -> None:
        """Whether they ended before it was stored or after."""
        before, after = await t.running(), await t.running()
        await t.end(before, Succeeded())
        first = await t.enqueue(after=(before.id,), run_at=t.now + MINUTE)
        second = await t.enqueue(after=(before.id, after.id), run_at=t.now + MINUTE)
        await t.end(after, Succeeded())
        assert await claimable(t) == []
        t.clock.advance(MINUTE)
        assert [job.id for job in await t.claim()] == [first, second]

    @promise
    async def test_a_parent_that_is_named_twice_is_waited_for_once(self, t: Trial) -> None:
        """Whether it is there already or comes with the batch: its one end releases who waits for it."""
        parent = await t.running()
        child = await t.enqueue(after=(parent.id, parent.id))
        assert (await row(t, child)).waiting_on == 1
        await t.end(parent, Succeeded())
        assert await claimable(t) == [child]
        await t.driver.enqueue([t.new(id="b", after=("a", "a")), t.new(id="a")], now=t.now)
        [first] = await t.claim()
        await t.end(first, Succeeded())
        assert (first.id, await claimable(t)) == ("a", ["b"])

    @promise
    async def test_parents_may_be_of_the_same_batch_in_any_order(self, t: Trial) -> None:
        """A batch stores a small graph as a whole; a job may name one that comes after it."""
        jobs = [t.new(id="d", after=("b", "c")), t.new(id="b", after=("a",)), t.new(id="c", after=("a",)), t.new(id="a")]
        await t.driver.enqueue(jobs, now=t.now)
        order = []
        while taken := await t.claim():
            order.append(sorted(job.id for job in taken))
            await t.settle(*(Ack(handle=job.handle, token=job.token, at=t.now) for job in taken))
        assert order == [["a"], ["b", "c"], ["d"]]

    @promise
    async def test_a_parent_that_succeeded_is_not_waited_for(self, t: Trial) -> None:
        """It counts as done; one that died or was cancelled acts by the job's rule at once."""
        good, bad, gone = await t.running(), await t.running(), await t.enqueue()
        await t.end(good, Succeeded())
        await t.end(bad, Rejected("no"))
        await t.alter(Cancel(gone))
        assert (await row(t, await t.enqueue(after=(good.id,)))).ready
        for parent in (bad.id, gone):
            skipped = await row(t, await t.enqueue(after=(good.id, parent)))
            assert (skipped.state, skipped.last_error, skipped.finished_at) == ("cancelled", "predecessor failed", t.now)
            assert (await row(t, await t.enqueue(after=(parent,), after_rule="continue"))).ready

    @promise
    async def test_an_unknown_parent_stores_nothing(self, t: Trial) -> None:
        """The error names the field; nothing of the batch is there."""
        with pytest.raises(InvalidInput, match=r"after.*'nobody'"):
            await t.driver.enqueue([t.new(id="a"), t.new(id="b", after=("a", "nobody"))], now=t.now)
        assert await t.driver.get(["a", "b"]) == [None, None]

    @promise
    async def test_a_cycle_stores_nothing(self, t: Trial) -> None:
        """Nobody can wait for itself, not by way of others either."""
        for jobs in (
            [t.new(id="a", after=("a",))],
            [t.new(id="a", after=("b",)), t.new(id="b", after=("c",)), t.new(id="c", after=("a",))],
        ):
            with pytest.raises(InvalidInput, match="after"):
                await t.driver.enqueue(jobs, now=t.now)
        bad: list[dict[str, Any]] = [
            {"after": "a"},
            {"after": (1,)},
            {"after": ([],)},
            {"after": ("x" * 2000,)},
            {"after_rule": "odd"},
        ]
        for fields in bad:
            with pytest.raises(InvalidInput, match="after"):
                await t.enqueue(**fields)
        assert (await t.driver.count(now=t.now)) == []

    @promise
    async def test_a_duplicate_parent_of_a_batch_stands_for_the_one_that_holds_its_key(self, t: Trial) -> None:
        """A job waits for the job that answers for its parent, not for one that was never stored."""
        holder = await t.running(dedupe_key="k")
        await t.driver.enqueue([t.new(id="copy", dedupe_key="k"), t.new(id="child", after=("copy",))], now=t.now)
        assert [edge.parent_id for edge in await t.driver.read(ParentsOf(job_id="child"))] == [holder.id]
        assert (await row(t, "child")).waiting_on == 1

    # ------------------------------------------------------------------------------------------------- ends of parents

    @promise
    async def test_the_worker_of_a_parent_need_not_know(self, t: Trial) -> None:
        """A child may come while its parent runs. An ack sent in one batch with others releases it all the same."""
        parent, *others = [await t.running() for _ in range(4)]
        child = await t.enqueue(after=(parent.id,))
        jobs = [others[0], parent, *others[1:]]
        answers = await t.settle(*(Ack(handle=j.handle, token=j.token, at=t.now) for j in jobs))
        assert answers == ["applied"] * 4
        assert not (await row(t, parent.id)).awaited
        assert await claimable(t) == [child]

    @promise
    async def test_parents_that_end_together_release_their_child_once(self, t: Trial) -> None:
        """In one batch, or on two connections at the same instant, no end is lost and none counts twice."""
        for _ in range(3):
            a, b, c, d = [await t.running() for _ in range(4)]
            child = await t.enqueue(after=(a.id, b.id, c.id, d.id))
            other = self.another(t.driver)
            acks = [Ack(handle=job.handle, token=job.token, at=t.now) for job in (a, b, c, d)]
            await asyncio.gather(t.driver.settle(acks[:1], now=t.now), other.settle(acks[1:2], now=t.now))
            assert (await row(t, child)).waiting_on == 2
            await t.settle(*acks[2:])
            assert (await row(t, child)).waiting_on == 0
            await t.end(await t.take(), Succeeded())
            if other is not t.driver:
                await other.close()

    @promise
    async def test_a_repeated_ack_releases_nobody_twice(self, t: Trial) -> None:
        """A lost reply: the second call changes no counter."""
        parent, second = await t.running(), await t.running()
        child = await t.enqueue(after=(parent.id, second.id))
        assert await t.ack(parent) == "applied"
        assert await t.ack(parent) == "repeated"
        assert (await row(t, child)).waiting_on == 1

    @promise
    async def test_a_released_job_keeps_its_own_time(self, t: Trial) -> None:
        """A blocked job that is due later waits for its time when its parents have ended, and is not run early by
        anybody's wish while they have not."""
        parent = await t.running()
        child = await t.enqueue(after=(parent.id,), run_at=t.now + MINUTE)
        early = await t.enqueue(after=(parent.id,), run_at=t.now + MINUTE)
        assert await t.alter(RunNow(early)) == "applied"
        assert await claimable(t) == []
        await t.end(parent, Succeeded())
        assert await claimable(t) == [early]
        t.clock.advance(MINUTE)
        assert child in await claimable(t)

    @promise
    async def test_a_failure_cancels_what_waits_for_it_all_the_way_down(self, t: Trial) -> None:
        """Each is cancelled with a skipped run "predecessor failed" that never began, in the transaction of the end; who
        says `continue` runs instead."""
        for end in (Rejected("no"), WasCancelled("enough")):
            parent = await t.running()
            child = await t.enqueue(after=(parent.id,))
            grandchild = await t.enqueue(after=(child,))
            stubborn = await t.enqueue(after=(grandchild, parent.id), after_rule="continue")
            t.clock.advance(SECOND)
            await t.end(parent, end)
            for job_id in (child, grandchild):
                job, [run] = await row(t, job_id), await t.driver.runs(job_id)
                assert (job.state, job.last_error, job.finished_at) == ("cancelled", "predecessor failed", t.now)
                assert (job.executions, job.skipped, job.awaited) == (1, 1, False)
                assert (run.status, run.error, run.attempt_no) == ("skipped", "predecessor failed", 1)
                assert run.started_at == run.finished_at == t.now
            assert await claimable(t) == [stubborn]

    @promise
    async def test_what_comes_after_a_failure_is_cancelled_with_all_that_comes_after_it(self, t: Trial) -> None:
        """At once, when they are stored together: nothing is left to a sweep."""
        parent = await t.running()
        await t.end(parent, Rejected("no"))
        child = t.new(after=(parent.id,))
        grandchild = t.new(after=(child.id,))
        stubborn = t.new(after=(grandchild.id,), after_rule="continue")
        await t.driver.enqueue([child, grandchild, stubborn], now=t.now)
        assert [job.state for job in await t.jobs([child.id, grandchild.id])] == ["cancelled"] * 2
        assert await claimable(t) == [stubborn.id]

    @promise
    async def test_a_retry_is_not_an_end(self, t: Trial) -> None:
        """Children wait while their parent may still succeed."""
        parent = await t.running(max_attempts=2)
        child = await t.enqueue(after=(parent.id,))
        await t.end(parent, Failed("boom", retry_in=0))
        assert (await row(t, child)).waiting_on == 1
        await t.end(await t.take(), Succeeded())
        assert await claimable(t) == [child]

    @promise
    async def test_the_next_link_of_a_chain_takes_over_who_waits_for_it(self, t: Trial) -> None:
        """Superseded parents do not count: the chain's last link does, for those who wait already and for those who name
        an earlier link later."""
        first = await t.running(max_attempts=3, **CHAIN)
        child = await t.enqueue(after=(first.id,))
        await t.end(first, Failed("boom", retry_in=0))
        second = await t.take()
        late = await t.enqueue(after=(first.id,))
        assert [edge.parent_id for edge in await t.driver.read(ParentsOf(job_id=late))] == [second.id]
        assert [edge.job_id for edge in await t.driver.read(DependantsOf(job_id=second.id))] == [child, late]
        assert not (await row(t, first.id)).awaited
        await t.end(second, Failed("boom", retry_in=0))
        third = await t.take()
        assert (await row(t, child)).waiting_on == (await row(t, late)).waiting_on == 1
        await t.end(third, Succeeded())
        assert await claimable(t) == sorted([child, late])

    @promise
    async def test_a_child_that_is_retried_as_a_chain_remembers_its_parents(self, t: Trial) -> None:
        """Its later links answer for the first one's parents."""
        parent = await t.running()
        child = await t.enqueue(after=(parent.id,), max_attempts=3, **CHAIN)
        await t.ack(parent, result=b"42")
        await t.end(await t.take(), Failed("boom", retry_in=0))
        again = await t.take()
        assert again.id != child
        assert [(edge.parent_id, edge.done) for edge in await t.driver.read(ParentsOf(job_id=again.id))] == [
            (parent.id, True)
        ]

    @promise
    async def test_the_edges_of_a_group_are_those_of_its_members_and_to_them(self, t: Trial) -> None:
        """The oldest job first, then by parents. Edges between strangers are not among them."""
        group = NewGroup(group_id="g", name="g", mode="parallel", on_failure="continue")
        outside = await t.enqueue()
        stranger = await t.enqueue(after=(outside,))
        one, two = "member 2", "member 1"  # the first has the later id
        members = [
            t.new(id=one, group_id="g", group_seq=0, opens=group, after=(outside,)),
            t.new(id=two, group_id="g", group_seq=1, opens=group, after=(one,)),
        ]
        await t.driver.enqueue(members, now=t.now)
        last = await t.enqueue(after=(one, two), after_rule="continue")
        found = await t.driver.read(EdgesOf(group_id="g"))
        assert [(edge.job_id, edge.parent_id) for edge in found] == [
            (one, outside), (two, one), *((last, parent) for parent in (two, one))
        ]  # fmt: skip
        assert [edge.rule for edge in found] == ["cancel", "cancel", "continue", "continue"]
        assert not any(edge.done for edge in found)
        assert stranger not in {edge.job_id for edge in found}
        assert await t.driver.read(EdgesOf(group_id="g", limit=2)) == found[:2]
        of_the_first = await t.driver.read(EdgesOf(group_id="g", members=1))
        assert [(edge.job_id, edge.parent_id) for edge in of_the_first] == [(one, outside), (two, one), (last, one)]
        assert await t.driver.read(EdgesOf(group_id="nobody's")) == []

    @promise
    async def test_a_person_cancelling_a_parent_cancels_its_children(self, t: Trial) -> None:
        """As any other bad end; a blocked job may be cancelled too, and nothing is told to it later."""
        parent, other = await t.enqueue(), await t.running(queue="other")
        child = await t.enqueue(after=(parent, other.id))
        gone = await t.enqueue(after=(other.id,))
        assert await t.alter(Cancel(gone)) == "applied"
        assert await t.driver.runs(gone) == []
        assert await t.alter(Cancel(parent)) == "applied"
        assert (await row(t, child)).state == "cancelled"
        before = await row(t, child), await row(t, gone)
        await t.end(other, Succeeded())
        assert (await row(t, child), await row(t, gone)) == before

    @promise
    async def test_children_of_a_dead_parent_stay_cancelled_when_it_is_replayed(self, t: Trial) -> None:
        """Those who come later wait for the replay."""
        for mode in ({}, CHAIN):
            parent = await t.running(max_attempts=1, **mode)
            child = await t.enqueue(after=(parent.id,))
            await t.end(parent, Failed("boom"))
            assert await t.alter(Replay(parent.id, t.name("again"))) == "applied"
            late = await t.enqueue(after=(parent.id,))
            assert ((await row(t, child)).state, (await row(t, late)).waiting_on) == ("cancelled", 1)
            await t.end(await t.take(), Succeeded())
            assert await claimable(t) == [late]

    @promise
    async def test_a_lost_parent_is_decided_like_any_other(self, t: Trial) -> None:
        """A lease that lapses brings the parent back, and its child goes on waiting."""
        parent = await t.running()
        child = await t.enqueue(after=(parent.id,))
        t.clock.advance(MINUTE)
        again = await t.take()
        assert (again.id, (await row(t, child)).waiting_on) == (parent.id, 1)
        await t.end(again, Succeeded())
        assert await claimable(t) == [child]
