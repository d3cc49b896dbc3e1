"""What ended jobs owe to those that wait for them: told in bites, never twice, and kept while it is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.core.alterations import Delete, Replay
from windlass.core.changes import Ack
from windlass.core.dependencies import INLINE, SWEPT
from windlass.core.duties import Done, TellDependants
from windlass.core.settle import Failed, Rejected, Succeeded
from windlass.errors import InvalidInput
from windlass.testing.conformance.dependencies import row
from windlass.testing.conformance.retention import ALL_THAT_ENDED, ended, pruned
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise

CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 3}


class OwingPromises(Suite):
    @promise
    async def test_a_fan_out_that_does_not_fit_one_transaction_is_finished_by_the_sweep(self, t: Trial) -> None:
        """The end of a parent tells a bounded number of its children; the parent owes the rest, which any sweep pays, also
        after a crash. Nobody is told twice."""
        for end, after in ((Succeeded(), "queued"), (Rejected("no"), "cancelled")):
            parent = await t.running()
            children = [t.new(after=(parent.id,)) for _ in range(INLINE + 20)]
            await t.driver.enqueue(children, now=t.now)
            await t.end(parent, end)
            rows = [job for job in await t.driver.get([job.id for job in children]) if job is not None]
            assert sum(job.ready or job.state == "cancelled" for job in rows) == INLINE
            assert (await row(t, parent.id)).awaited
            assert await t.alter(Delete(parent.id)) == "wrong_state"
            await t.driver.expire(now=t.now, limit=10)
            rows = [job for job in await t.driver.get([job.id for job in children]) if job is not None]
            assert {(job.state, job.ready) for job in rows} == {(after, after == "queued")}
            assert not (await row(t, parent.id)).awaited
            for job in await t.claim(limit=10_000):
                await t.ack(job)

    @promise
    async def test_a_sweep_pays_more_than_one_bite(self, t: Trial) -> None:
        """One call tells all the children of a parent with very many, in transactions that others need not wait for."""
        parent = await t.running()
        children = [t.new(after=(parent.id,)) for _ in range(INLINE + SWEPT + 20)]
        await t.driver.enqueue(children, now=t.now)
        await t.end(parent, Succeeded())
        assert await t.driver.expire(now=t.now, limit=1) == (0, [])
        assert not (await row(t, parent.id)).awaited
        taken = await t.claim(limit=10_000)
        assert len(taken) == len(children)
        await t.settle(*(Ack(handle=job.handle, token=job.token, at=t.now) for job in taken))
        parent = await t.running()
        await t.driver.enqueue([t.new(after=(parent.id,)) for _ in range(INLINE + 1)], now=t.now)
        await t.end(parent, Succeeded())
        await t.driver.expire(now=t.now, limit=1)
        assert not (await row(t, parent.id)).awaited, "those who owe nothing do not stand in its way"

    @promise
    async def test_what_is_owed_is_told_without_taking_a_lease_back(self, t: Trial) -> None:
        """`TellDependants` tells as many as it is asked to, says whether there may be more, and leaves lapsed leases alone:
        for whoever does not trust the clock."""
        lapses, parent = await t.running(), await t.running()
        children = [t.new(after=(parent.id,)) for _ in range(INLINE + 3)]
        await t.driver.enqueue(children, now=t.now)
        await t.end(parent, Succeeded())
        t.clock.advance(2 * LEASE)
        assert await t.maintain(TellDependants(limit=2)) == Done(2, more=True)
        assert (await row(t, parent.id)).awaited
        assert await t.maintain(TellDependants(limit=2)) == Done(1)
        assert await t.maintain(TellDependants(limit=2)) == Done(0)
        assert not (await row(t, parent.id)).awaited
        assert (await row(t, lapses.id)).state == "running"
        with pytest.raises(InvalidInput, match="limit"):
            await t.maintain(TellDependants(limit=0))

    @promise
    async def test_what_is_owed_wakes_those_who_wait_for_work(self, t: Trial) -> None:
        """Who drains pays what is owed, and the sweep that would wake others finds nothing more to tell."""
        parent = await t.running()
        await t.driver.enqueue([t.new(after=(parent.id,)) for _ in range(INLINE + 3)], now=t.now)
        await t.end(parent, Succeeded())
        await t.quiet()
        waiter = asyncio.ensure_future(t.driver.wait(timeout=30))
        await asyncio.sleep(0.01)
        assert await t.maintain(TellDependants()) == Done(3)
        assert await asyncio.wait_for(waiter, 5) is True

    @promise
    async def test_two_parents_who_owe_tell_their_common_child_once_each(self, t: Trial) -> None:
        """What the one has told already is not told again when the sweep pays for both."""
        one, two = await t.running(), await t.running()
        before = [t.new(after=(two.id,)) for _ in range(INLINE)]
        after = [t.new(after=(one.id,)) for _ in range(INLINE)]
        common = t.new(after=(one.id, two.id))
        await t.driver.enqueue([*before, common, *after], now=t.now)
        await t.end(one, Succeeded())
        await t.end(two, Succeeded())
        assert (await row(t, common.id)).waiting_on == 1
        await t.driver.expire(now=t.now, limit=10)
        job = await row(t, common.id)
        assert (job.waiting_on, job.ready) == (0, True)
        assert len(await t.claim(limit=10_000)) == 2 * INLINE + 1

    @promise
    async def test_a_member_that_is_needed_keeps_its_group(self, t: Trial) -> None:
        """By a job of no group, until that has ended; in bites of any size."""
        members = [await t.running(group_id="g") for _ in range(3)]
        child = await t.enqueue(after=(members[1].id,))
        for job in members:
            await t.end(job, Succeeded())
        for limit in (1, 9):
            assert await t.prune(succeeded=0, limit=limit) == 0
        await t.end(await t.take(), Succeeded())
        assert await t.prune(succeeded=0, limit=2) == 2
        assert await t.prune(succeeded=0, limit=9) == 2
        assert await t.driver.get([child, *(job.id for job in members)]) == [None] * 4

    @promise
    async def test_what_unfinished_jobs_need_is_not_pruned(self, t: Trial) -> None:
        """A parent is kept while a job that has waited for it has not ended; then it goes like any other."""
        parent, other = await t.running(), await t.running()
        child = await t.enqueue(after=(parent.id, other.id))
        await t.end(parent, Succeeded())
        assert await t.prune(succeeded=0) == 0
        await t.end(other, Succeeded())
        assert await t.prune(succeeded=0) == 0
        await t.end(await t.take(), Succeeded())
        assert await t.prune(succeeded=0) == 3
        assert await t.driver.get([child]) == [None]
        with pytest.raises(InvalidInput, match="pruned"):
            await t.enqueue(after=(parent.id,))

    @promise
    async def test_a_parent_is_kept_until_the_last_link_of_its_child_has_ended(self, t: Trial) -> None:
        """Each link reads the results anew; alone and as a member of a group, which stays as a whole. Others
        keep nothing."""
        await t.enqueue(queue="unfinished", after=(await ended(t),))
        for group in (None, "g"):
            parent, other = [await t.running(group_id=group) for _ in range(2)]
            links = [await t.enqueue(**CHAIN, after=(parent.id,))]
            for job in (parent, other):
                await t.end(job, Succeeded())
            kept = [parent.id, other.id] if group else [parent.id]
            for following in (f"{links[0]}-2", f"{links[0]}-3"):
                await t.end(await t.take(), Failed("boom", retry_in=0), child_id=following)
                links.append(following)
                assert await pruned(t, kept, **ALL_THAT_ENDED) == set()
            await t.end(await t.take(), Succeeded())
            assert await pruned(t, [*kept, *links], **ALL_THAT_ENDED) == {*kept, *links}

    @promise
    async def test_a_chain_is_kept_while_somebody_needs_one_of_its_links(self, t: Trial) -> None:
        """Who went on when it had failed reads what came of it since, and so does each later link of theirs; alone and as a
        member of a group. Others keep nothing."""
        await t.enqueue(queue="unfinished", after=(await ended(t),))
        for group in (None, "g"):
            parent = await t.running(**{**CHAIN, "max_attempts": 1}, group_id=group)
            child = await t.enqueue(**CHAIN, after=(parent.id,), after_rule="continue")
            await t.end(parent, Failed("boom"))
            running = await t.take()
            assert running.id == child
            again = f"{parent.id}-2"
            assert await t.alter(Replay(parent.id, again)) == "applied"
            await t.end(await t.take(), Succeeded())
            ids = [parent.id, again]
            assert await pruned(t, ids, **ALL_THAT_ENDED) == set()
            await t.end(running, Failed("boom", retry_in=0), child_id=f"{child}-2")
            assert await pruned(t, ids, **ALL_THAT_ENDED) == set()
            await t.end(await t.take(), Succeeded())
            assert await pruned(t, ids, **ALL_THAT_ENDED) == {*ids}
