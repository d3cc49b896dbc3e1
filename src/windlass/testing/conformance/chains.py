"""Retry chains: on `new_job` rows a retry is a new job, and no id ever runs twice."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.alterations import Cancel, PutGroup, PutQueue, Replay
from windlass.core.changes import Ack, Release, Snooze
from windlass.core.queries import AllGroups
from windlass.core.settle import Failed, Rejected, Released, Snoozed, Succeeded
from windlass.drivers import singular
from windlass.drivers.values import JobQuery
from windlass.errors import NeverTwice
from windlass.policies import Retry, fixed
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise

CHAIN: dict[str, Any] = {
    "retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 3, "retry_policy": Retry(backoff=fixed(60)).encode(),
}  # fmt: skip


class ChainPromises(Suite):
    @promise
    async def test_the_next_link_stands_behind_all_that_came_before_it(self, t: Trial) -> None:
        """Also behind what comes back later to a place of its own, in a queue where nobody else stands; whatever other
        queues do with their places."""
        await t.alter(PutQueue("dense", positions="dense"))
        await t.alter(PutQueue("default", positions="tail"))
        await t.enqueue(queue="dense")
        first, second = await t.running(), await t.running(**CHAIN)
        await t.end(second, Failed("boom"), child_id="child")
        await t.settle(Release(handle=first.handle, token=first.token, at=t.now))
        assert await t.order() == [first.id, "child"]

    @promise
    async def test_a_failure_supersedes_the_job_and_inserts_its_child(self, t: Trial) -> None:
        """In one step: run failed, parent dead and superseded, child queued at the tail with the parent's work."""
        job = await t.running(
            **CHAIN, priority=3, payload=b"[1]", headers={"a": "b"}, tags=("x",), org_id="acme", template_id="tpl",
            template_version=2, group_id="g", group_seq=4, timeout_ns=9, max_lost=5,
        )  # fmt: skip
        neighbour = await t.job(await t.enqueue())
        await t.end(job, Failed("boom"), child_id="child")
        parent, child = await t.job(job.id), await t.job("child")
        assert (parent.state, parent.dead_kind, parent.superseded_by, parent.attempts) == (
            "dead",
            "superseded",
            "child",
            1,
        )
        assert (child.state, child.retry_of, child.manual) == ("queued", job.id, False)
        assert (child.attempts, child.executions) == (1, 0)
        same = (
            "type", "queue", "org_id", "payload", "headers", "codec", "priority", "tags", "template_id", "template_version",
            "group_id", "group_seq", "timeout_ns", "max_attempts", "max_lost", "retry_mode", "crash_policy", "retry_policy",
        )  # fmt: skip
        assert {f: getattr(child, f) for f in same} == {f: getattr(parent, f) for f in same}
        assert child.position > neighbour.position
        assert (child.run_at, child.created_at) == (t.now + MINUTE, t.now)
        assert await t.claim("default", types=("x",)) == []

    @promise
    async def test_attempts_equal_the_failed_links_of_the_chain(self, t: Trial) -> None:
        """The stored counter of a link is the number of failures before it; the last link is dead, exhausted."""
        job = await t.running(**CHAIN)
        chain = [job.id]
        for n in (1, 2):
            await t.end(job, Failed(f"boom {n}"), child_id=f"link-{n}")
            t.clock.advance(MINUTE)
            job = await t.take()
            chain.append(job.id)
            assert job.attempts == n == len([j for j in await t.jobs(chain) if j.state == "dead"])
        await t.end(job, Failed("boom 3"))
        last = await t.job(job.id)
        assert (last.dead_kind, last.attempts, last.superseded_by) == ("exhausted", 3, None)
        assert [len(await t.driver.runs(link)) for link in chain] == [1, 1, 1]

    @promise
    async def test_snooze_continues_the_chain_without_an_attempt(self, t: Trial) -> None:
        """The run is skipped, the row superseded, the continuation has the same attempts."""
        job = await t.running(**CHAIN)
        await t.end(job, Snoozed(MINUTE), child_id="later")
        assert (await t.last_run(job.id)).status == "skipped"
        later = await t.job("later")
        assert (later.attempts, later.retry_of, later.run_at) == (0, job.id, t.now + MINUTE)
        assert (await t.job(job.id)).last_error == ""

    @promise
    async def test_release_counts_as_an_interruption(self, t: Trial) -> None:
        """A never-twice job that a stopping worker hands back has failed 'interrupted' and goes on as its child."""
        job = await t.running(**CHAIN)
        await t.end(job, Released(), child_id="next")
        assert (await t.last_run(job.id)).error == "interrupted"
        assert (await t.job("next")).attempts == 1

    @promise
    async def test_success_and_rejection_end_the_chain(self, t: Trial) -> None:
        """No child follows."""
        good, bad = await t.running(**CHAIN), await t.running(**CHAIN)
        await t.end(good, Succeeded(b"1"))
        await t.end(bad, Rejected("no"))
        assert len((await t.driver.find(JobQuery(superseded=True))).jobs) == 2

    @promise
    async def test_a_cancelled_job_has_no_child(self, t: Trial) -> None:
        """Asked to cancel while it ran, then failed: the job is cancelled and the chain ends."""
        job = await t.running(**CHAIN)
        await t.alter(Cancel(job.id))
        assert await t.end(job, Failed("boom"), child_id="never") == "applied"
        assert (await t.job(job.id)).state == "cancelled"
        assert await t.driver.get(["never"]) == [None]

    @promise
    async def test_replay_makes_a_manual_child(self, t: Trial) -> None:
        """A dead link stays dead and is superseded by a manual child; replaying it again is refused."""
        job = await t.running(**{**CHAIN, "max_attempts": 1})
        await t.end(job, Failed("boom"))
        assert await t.alter(Replay(job.id, "again")) == "applied"
        parent, child = await t.job(job.id), await t.job("again")
        assert (parent.state, parent.dead_kind, parent.superseded_by) == ("dead", "superseded", "again")
        assert (child.retry_of, child.manual, child.attempts, child.run_at) == (job.id, True, 0, None)
        assert await t.alter(Replay(job.id, "twice")) == "wrong_state"

    @promise
    async def test_a_superseded_member_is_not_counted_in_its_group(self, t: Trial) -> None:
        """Only the last link of a chain ends a group's member."""
        await t.alter(PutGroup("g", total=1))
        job = await t.running(**CHAIN, group_id="g")
        await t.end(job, Failed("boom"))
        assert (await t.driver.read(AllGroups()))[0].remaining == 1
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Succeeded())
        [group] = await t.driver.read(AllGroups())
        assert (group.remaining, group.succeeded, group.failed, group.finished_at) == (0, 1, 0, t.now)

    @promise
    async def test_a_child_on_a_dense_queue_takes_a_dense_place(self, t: Trial) -> None:
        """The tail of a dense queue is the largest queued position plus the gap."""
        await t.alter(PutQueue("d", positions="dense"))
        job = await t.running(**CHAIN, queue="d")
        waiting = await t.enqueue(queue="d", **CHAIN)
        await t.end(job, Failed("boom"), child_id="child")
        assert [j.position for j in await t.jobs([waiting, "child"])] == [100, 200]

    @promise
    async def test_a_never_twice_row_is_not_brought_back_by_anyone(self, t: Trial) -> None:
        """Retry, snooze and release in place are refused on new_job rows; their neighbours in the batch are not."""
        job, other = await t.running(**CHAIN), await t.running()
        before = await t.job(job.id)
        told = {"handle": job.handle, "token": job.token, "at": t.now}
        answers = await t.settle(
            Snooze(**told, run_at=t.now), Release(**told), Ack(handle=other.handle, token=other.token, at=t.now)
        )
        assert answers == ["never_twice", "never_twice", "applied"]
        assert await t.retry(job) == "never_twice"
        assert await t.job(job.id) == before
        with pytest.raises(NeverTwice):
            await singular.retry(t.driver, job.id, job.token, singular.RetryUpdate(attempts=1), now=t.now)

    @promise
    async def test_a_lease_of_a_chain_link_is_fenced_like_any_other(self, t: Trial) -> None:
        """A late settlement of a superseded link is refused and inserts no second child."""
        job = await t.running(**CHAIN)
        t.clock.advance(LEASE)
        assert await t.end(job, Failed("late"), child_id="late") == "expired"
        assert await t.driver.get(["late"]) == [None]
