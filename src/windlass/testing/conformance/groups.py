"""Groups that come with their members: in a row or side by side, and what the end of one means for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from windlass.core.alterations import Cancel, CancelGroup, PutGroup, PutLimit, Replay, RetryGroup
from windlass.core.dependencies import INLINE
from windlass.core.groups import Progress, progress_of
from windlass.core.queries import AllEvents, GroupMembers, GroupsById, MembersOf, NewestGroups
from windlass.core.settle import Failed, Outcome, Rejected, Succeeded
from windlass.drivers.values import JobQuery
from windlass.errors import DuplicateJob, InvalidInput
from windlass.policies import Retry
from windlass.testing.conformance.dependencies import CHAIN, claimable, row
from windlass.testing.conformance.trial import Suite, Trial, promise
from windlass.types import GroupMode, NewGroup, NewJob, OnFailure

NO = Rejected("no")


def members(t: Trial, mode: GroupMode, on_failure: OnFailure, count: int = 3, **fields: object) -> list[NewJob]:
    group = NewGroup(group_id="g", name="nightly", mode=mode, on_failure=on_failure)
    names = "abcdefgh"[:count]
    return [t.new(id=name, group_id="g", group_seq=n, opens=group, **fields) for n, name in enumerate(names)]


async def start(t: Trial, mode: GroupMode, on_failure: OnFailure, count: int = 3, **fields: object) -> None:
    await t.driver.enqueue(members(t, mode, on_failure, count, **fields), now=t.now)


async def progress(t: Trial) -> Progress:
    [group] = await t.driver.read(GroupsById(ids=("g",)))
    return progress_of(group, await t.driver.read(MembersOf(ids=("g",))))


async def run(t: Trial, ends: Mapping[str, Outcome]) -> list[str]:
    """Claim and end one job after the other until nothing is left; answers their order."""
    order: list[str] = []
    while taken := await t.claim(limit=1):
        order.append(taken[0].id)
        await t.end(taken[0], ends.get(taken[0].id, Succeeded()))
    return order


class GroupPromises(Suite):
    @promise
    async def test_a_group_is_stored_with_all_its_members_or_not_at_all(self, t: Trial) -> None:
        """Its total is their number. A group that is there, a member that is a duplicate, a place that is taken twice: an
        error, and nothing is stored."""
        await start(t, "parallel", "continue")
        assert await progress(t) == Progress(
            status="pending", total=3, succeeded=0, failed=0, skipped=0, cancelled=0, running=0, waiting=3
        )
        with pytest.raises(InvalidInput, match=r"group_id.*already"):
            await t.driver.enqueue([t.new(id="x", group_id="g", opens=NewGroup(group_id="g"))], now=t.now)
        await t.enqueue(dedupe_key="k")
        new = NewGroup(group_id="new", mode="sequential")
        with pytest.raises(DuplicateJob):
            await t.driver.enqueue([t.new(id="x", group_id="new", group_seq=0, dedupe_key="k", opens=new)], now=t.now)
        twice = [t.new(id=name, group_id="new", group_seq=0, opens=new) for name in ("x", "y")]
        for bad, field in ((twice, "group_seq"), ([t.new(id="x", group_id="other", opens=new)], "group_id")):
            with pytest.raises(InvalidInput, match=field):
                await t.driver.enqueue(bad, now=t.now)
        assert await t.driver.get(["x", "y"]) == [None, None]
        assert await t.driver.read(GroupsById(ids=("new",))) == []

    @promise
    async def test_a_sequence_runs_one_after_the_other(self, t: Trial) -> None:
        """By their places, whatever the order in which they were given; a waiting retry of one holds up those behind."""
        jobs = members(t, "sequential", "stop", max_attempts=2)
        await t.driver.enqueue([jobs[2], jobs[0], jobs[1]], now=t.now)
        first = await t.take()
        assert first.id == "a"
        assert await claimable(t) == []
        await t.end(first, Failed("boom", retry_in=60_000_000))
        assert await claimable(t) == []
        t.clock.advance(60_000_000)
        assert await run(t, {}) == ["a", "b", "c"]
        assert (await progress(t)).status == "completed"

    @promise
    async def test_a_sequence_that_stops_skips_the_rest(self, t: Trial) -> None:
        """After the retries of the failing member: the others are cancelled, each with a skipped run "predecessor failed",
        and the group is partial."""
        await start(t, "sequential", "stop")
        assert await run(t, {"b": NO}) == ["a", "b"]
        [skipped] = await t.driver.runs("c")
        assert (skipped.status, skipped.error, skipped.started_at) == ("skipped", "predecessor failed", skipped.finished_at)
        assert await progress(t) == Progress(
            status="partial", total=3, succeeded=1, failed=1, skipped=0, cancelled=1, running=0, waiting=0
        )

    @promise
    async def test_a_sequence_that_continues_is_partial(self, t: Trial) -> None:
        """The next member runs."""
        await start(t, "sequential", "continue")
        assert await run(t, {"b": NO}) == ["a", "b", "c"]
        done = await progress(t)
        assert (done.status, done.succeeded, done.failed) == ("partial", 2, 1)

    @promise
    async def test_a_sequence_that_skips_is_completed(self, t: Trial) -> None:
        """The failed member counts as skipped."""
        await start(t, "sequential", "skip")
        assert await run(t, {"b": NO}) == ["a", "b", "c"]
        done = await progress(t)
        assert (done.status, done.succeeded, done.failed, done.skipped) == ("completed", 2, 0, 1)

    @promise
    async def test_side_by_side_a_failure_stops_those_that_have_not_begun(self, t: Trial) -> None:
        """Running members go on, and other groups too; a group ends only when all of them have ended."""
        stranger = await t.enqueue(queue="other", group_id="h", opens=NewGroup(group_id="h"))
        await start(t, "parallel", "stop", count=4)
        bad, good = await t.claim(limit=2)
        await t.end(bad, NO)
        assert await claimable(t) == []
        assert (await t.job(stranger)).state == "queued"
        assert (await progress(t)).status == "running"
        await t.end(good, Succeeded())
        done = await progress(t)
        assert (done.status, done.succeeded, done.failed, done.cancelled) == ("partial", 1, 1, 2)

    @promise
    async def test_all_dead_is_failed_and_all_cancelled_is_cancelled(self, t: Trial) -> None:
        """Nothing of it was done; partial is anything between."""
        await start(t, "parallel", "continue", count=2)
        assert await run(t, {"a": NO, "b": NO}) == ["a", "b"]
        assert (await progress(t)).status == "failed"
        other = NewGroup(group_id="h")
        await t.driver.enqueue([t.new(id="x", group_id="h", opens=other)], now=t.now)
        assert await t.alter(CancelGroup("h")) == "applied"
        [group] = await t.driver.read(GroupsById(ids=("h",)))
        assert progress_of(group, []).status == "cancelled"

    @promise
    async def test_a_member_that_a_person_cancels_stops_a_sequence_only(self, t: Trial) -> None:
        """Those behind it have lost their predecessor; those beside it go on."""
        await start(t, "sequential", "stop")
        await t.alter(Cancel("a"))
        assert (await progress(t)).cancelled == 3
        other = NewGroup(group_id="h")
        await t.driver.enqueue([t.new(id=name, group_id="h", opens=other) for name in ("x", "y")], now=t.now)
        await t.alter(Cancel("x"))
        assert await claimable(t) == ["y"]

    @promise
    async def test_a_stopped_member_passes_its_permit_on(self, t: Trial) -> None:
        """One that was let through to a limit must not take the turn of those outside the group with it."""
        await t.alter(PutLimit("l", 1))
        holder, group = await t.running(limit_keys=("l",)), NewGroup(group_id="g", on_failure="stop")
        stopped = t.new(id="stopped", group_id="g", opens=group, limit_keys=("l",))
        await t.driver.enqueue([t.new(id="bad", group_id="g", opens=group), stopped], now=t.now)
        outside = await t.enqueue(limit_keys=("l",))
        bad = await t.take()
        assert (bad.id, await t.claim()) == ("bad", [])
        await t.end(holder, Succeeded())
        assert (await t.job("stopped")).ready, "it is let through, and nobody else is"
        await t.end(bad, NO)
        assert await claimable(t) == [outside]

    @promise
    async def test_a_finaliser_runs_once_when_all_members_have_ended(self, t: Trial) -> None:
        """However they ended: it waits for all of them and says `continue`."""
        for ends in ({}, {"a": NO}, {"a": NO, "b": NO, "c": NO}):
            jobs = members(t, "parallel", "stop")
            last = t.new(id="last", after=("a", "b", "c"), after_rule="continue")
            await t.driver.enqueue([last, *jobs], now=t.now)
            order = await run(t, ends)
            assert (order[-1], order.count("last")) == ("last", 1)
            assert await t.prune(succeeded=0, cancelled=0, dead=0) == 4

    # ------------------------------------------------------------------------------------------------ the whole of a group

    @promise
    async def test_cancelling_a_group_ends_what_waits_and_asks_what_runs(self, t: Trial) -> None:
        """`applied` when something was queued, `requested` when only running ones are left, then `unchanged`."""
        await start(t, "parallel", "continue")
        running = await t.take()
        assert await t.alter(CancelGroup("nobody")) == "not_found"
        assert await t.alter(CancelGroup("g", "enough")) == "applied"
        assert ((await row(t, "b")).state, (await row(t, "b")).last_error) == ("cancelled", "enough")
        assert (await row(t, running.id)).cancel_requested_at == t.now
        assert await t.alter(CancelGroup("g")) == "unchanged"
        await t.end(running, Failed("boom", retry_in=0))
        done = await progress(t)
        assert (done.status, done.cancelled) == ("cancelled", 3)

    @promise
    async def test_what_happens_to_a_group_happens_to_no_other(self, t: Trial) -> None:
        """Two are alike, and one of them is retried, cancelled and ended: the other keeps its members and its counts. What
        had ended in the first stays as it was too."""
        for name in "gh":
            group, ids = NewGroup(group_id=name, on_failure="continue"), [f"{name}{n}" for n in range(5)]
            await t.driver.enqueue([t.new(id=id_, queue=name, group_id=name, opens=group) for id_ in ids], now=t.now)
            await t.end(await t.take(name), Succeeded())
            await t.end(await t.take(name), NO)
            await t.alter(Cancel(f"{name}3"))
        running, other = await t.take("g"), await t.take("h")

        async def counts(name: str) -> list[tuple[str, bool, int]]:
            found = await t.driver.read(MembersOf(ids=(name,)))
            assert {count.group_id for count in found} == {name}
            return [(count.state, count.begun, count.jobs) for count in found]

        async def left_alone() -> list[object]:
            groups = await t.driver.read(GroupsById(ids=("h",)))
            jobs = await t.jobs(["g0", *(f"h{n}" for n in range(5))])
            return [*jobs, *groups, await counts("h"), await t.driver.runs("h1")]

        before = await left_alone()
        assert await counts("g") == [
            ("cancelled", False, 1), ("dead", True, 1), ("queued", False, 1), ("running", True, 1), ("succeeded", True, 1),
        ]  # fmt: skip
        assert await t.alter(RetryGroup("g", (("g1", "g1b"), ("g3", "g3b")))) == "applied"
        assert (await left_alone(), (await progress(t)).waiting) == (before, 3)
        assert await counts("g") == [
            ("queued", False, 2), ("queued", True, 1), ("running", True, 1), ("succeeded", True, 1),
        ]  # fmt: skip
        assert await t.alter(CancelGroup("g")) == "applied"
        assert await left_alone() == before
        assert await t.end(running, Failed("boom", retry_in=0)) == "applied"
        assert await left_alone() == before
        done = await progress(t)
        assert (done.status, done.succeeded, done.cancelled, done.waiting) == ("partial", 1, 4, 0)
        assert await t.end(other, Succeeded()) == "applied"
        assert (await t.driver.read(GroupsById(ids=("h",))))[0].remaining == 1

    @promise
    async def test_a_member_too_many_ends_its_group_no_second_time(self, t: Trial) -> None:
        """More jobs name a group than it was declared with: it ended when so many had, and that is told once."""
        await t.alter(PutGroup("g", total=1))
        for _ in range(2):
            await t.enqueue(group_id="g")
        first, second = await t.claim()
        await t.end(first, Succeeded())
        [ended], told = await t.driver.read(GroupsById(ids=("g",))), await t.driver.read(AllEvents())
        assert (ended.remaining, ended.finished_at) == (0, t.now)
        t.clock.advance(5)
        await t.end(second, Succeeded())
        assert await t.driver.read(GroupsById(ids=("g",))) == [ended]
        assert [event.event for event in await t.driver.read(AllEvents())] == [event.event for event in told]

    @promise
    async def test_a_cancelled_group_passes_its_permit_on_and_is_told_to_who_waits_for_it(self, t: Trial) -> None:
        """As with any other end of its members: nobody outside is left behind."""
        await t.alter(PutLimit("l", 1))
        holder, group = await t.running(limit_keys=("l",)), NewGroup(group_id="g", on_failure="continue")
        member = t.new(id="member", group_id="g", opens=group, limit_keys=("l",))
        last = t.new(id="last", after=("member",), after_rule="continue")
        await t.driver.enqueue([member, last], now=t.now)
        outside = await t.enqueue(limit_keys=("l",))
        assert await t.claim() == []
        await t.end(holder, Succeeded())
        assert (await t.job("member")).ready, "it is let through, and nobody else is"
        assert await t.alter(CancelGroup("g")) == "applied"
        assert await claimable(t) == sorted([outside, "last"])

    @promise
    async def test_retrying_a_group_runs_again_what_failed_or_was_skipped(self, t: Trial) -> None:
        """In their order; what succeeded stays. A cancelled row never moves again: another job takes over from it."""
        for mode in ({}, CHAIN):
            await start(t, "sequential", "stop", count=4, **mode)
            await run(t, {"b": NO})
            wish = RetryGroup("g", (("b", "b2"), ("c", "c2"), ("d", "d2"), ("a", "a2")))
            assert await t.alter(wish) == "applied"
            assert (await progress(t)).waiting == 3
            order = await run(t, {})
            assert order == ["b2" if mode else "b", "c2", "d2"]
            assert ((await row(t, "c")).state, (await row(t, "c")).superseded_by) == ("cancelled", "c2")
            assert (await row(t, "c2")).retry_of == "c"
            done = await progress(t)
            assert (done.status, done.succeeded) == ("completed", 4)
            assert await t.alter(wish) == "unchanged"
            assert await t.prune(succeeded=0, cancelled=0, dead=0) == (7 if mode else 6)

    @promise
    async def test_a_member_that_comes_back_as_another_job_forgets_no_field(self, t: Trial) -> None:
        """What was cancelled is copied: how it is retried, limited, kept and told is as it was."""
        fields: dict[str, Any] = {
            "org_id": "acme", "priority": 3, "timeout_ns": 5, "max_attempts": 4, "max_lost": 6, "crash_policy": "fail",
            "on_unknown": "dead", "template_id": "tpl", "template_version": 2, "schedule_id": "s", "limit_keys": ("k",),
            "tags": ("big",), "headers": {"a": "b"}, "codec": "raw", "history": "failures", "payload": b"x",
            "retry_policy": Retry(max_attempts=4).encode(),
        }  # fmt: skip
        await start(t, "parallel", "continue", count=1, **fields)
        assert await t.alter(CancelGroup("g", "no")) == "applied"
        assert await t.alter(RetryGroup("g", (("a", "a2"),))) == "applied"
        before, after = await row(t, "a"), await row(t, "a2")
        for name in fields:
            assert getattr(after, name) == getattr(before, name) == fields[name], name

    @promise
    async def test_those_who_were_not_told_yet_wait_for_the_member_that_takes_over(self, t: Trial) -> None:
        """A group is brought back before all who wait for one of its members heard that it had died."""
        await start(t, "parallel", "continue", count=1, **CHAIN)
        ids = await t.enqueue_all(INLINE + 2, after=("a",), queue="other")
        await run(t, {"a": NO})
        left = [job.id for job in await t.jobs(ids) if job.state == "queued"]
        assert len(left) == 2
        assert await t.alter(RetryGroup("g", (("a", "a2"),))) == "applied"
        await t.driver.expire(now=t.now, limit=100)
        assert await t.claim("other") == []
        assert await run(t, {}) == ["a2"]
        await t.driver.expire(now=t.now, limit=100)
        assert sorted(job.id for job in await t.claim("other")) == sorted(left)

    @promise
    async def test_a_retry_that_fails_again_stops_again(self, t: Trial) -> None:
        """Those behind it were brought back waiting for it."""
        await start(t, "sequential", "stop")
        await run(t, {"a": NO})
        await t.alter(RetryGroup("g", (("a", "a2"), ("b", "b2"), ("c", "c2"))))
        assert (await row(t, "b2")).waiting_on == 1
        assert await run(t, {"a": NO}) == ["a"]
        assert (await row(t, "c2")).state == "cancelled"
        await t.alter(RetryGroup("g", (("a", "a3"), ("b2", "b3"), ("c2", "c3"))))
        assert await run(t, {}) == ["a", "b3", "c3"]
        assert (await progress(t)).status == "completed"

    @promise
    async def test_a_retry_of_a_group_that_is_refused_changes_nothing(self, t: Trial) -> None:
        """A member that vanished or was never one, a group that is not there, a dedupe key that another holds by now."""
        await start(t, "parallel", "continue", count=2)
        await run(t, {"a": NO, "b": NO})
        stranger = await t.enqueue(queue="other")
        for members_ in ((("a", "a2"), ("gone", "g2")), (("a", "a2"), (stranger, "s2"))):
            assert await t.alter(RetryGroup("g", members_)) == "not_found"
        assert await t.alter(RetryGroup("nobody", (("a", "a2"),))) == "not_found"
        with pytest.raises(InvalidInput, match="twice"):
            await t.alter(RetryGroup("g", (("a", "a2"), ("a", "a3"))))
        keyed = NewGroup(group_id="k", on_failure="continue")
        jobs = [t.new(id=name, group_id="k", dedupe_key=name, opens=keyed) for name in ("x", "y")]
        await t.driver.enqueue(jobs, now=t.now)
        await run(t, {"x": NO, "y": NO})
        await t.enqueue(queue="other", dedupe_key="y")
        assert await t.alter(RetryGroup("k", (("x", "x2"), ("y", "y2")))) == "duplicate"
        states = {job.id: job.state for job in (await t.driver.find(JobQuery())).jobs}
        assert {states[name] for name in "abxy"} == {"dead"}

    @promise
    async def test_one_member_may_be_replayed_alone(self, t: Trial) -> None:
        """The others stay as they are, and the group waits for that one."""
        await start(t, "sequential", "stop")
        await run(t, {"b": NO})
        assert await t.alter(Replay("b", "b2")) == "applied"
        assert await run(t, {}) == ["b"]
        done = await progress(t)
        assert (done.status, done.succeeded, done.cancelled) == ("partial", 2, 1)

    @promise
    async def test_a_sequence_cannot_be_declared_without_its_members(self, t: Trial) -> None:
        """Its order would be nobody's."""
        with pytest.raises(InvalidInput, match="mode"):
            await t.alter(PutGroup("g", total=2, mode="sequential"))

    @promise
    async def test_the_first_members_are_read_in_their_order(self, t: Trial) -> None:
        """A member that a person runs again is where it was, and the row that it took over from is left out."""
        await start(t, "parallel", "continue", retry_mode="new_job", crash_policy="fail")
        await run(t, {"b": NO})
        assert await t.driver.alter([RetryGroup("g", (("b", "again"),))], now=t.now) == ["applied"]

        async def first(limit: int) -> list[str]:
            return [job.id for job in await t.driver.read(GroupMembers(group_id="g", limit=limit))]

        assert await first(2) == ["a", "again"]
        assert await first(50) == ["a", "again", "c"]
        assert await t.driver.read(GroupMembers(group_id="none")) == []
        with pytest.raises(InvalidInput):
            await first(0)

    @promise
    async def test_the_newest_groups_are_read_without_the_others(self, t: Trial) -> None:
        """The newest first; of those that were made at once the one with the greatest id."""
        for name in ("m", "z", "a"):
            await t.driver.alter([PutGroup(group_id=name, total=1)], now=t.now)
            t.clock.advance(1 if name == "z" else 0)
        assert [group.group_id for group in await t.driver.read(NewestGroups(limit=2))] == ["a", "z"]
        assert [group.group_id for group in await t.driver.read(NewestGroups())] == ["a", "z", "m"]
        with pytest.raises(InvalidInput):
            await t.driver.read(NewestGroups(limit=0))
