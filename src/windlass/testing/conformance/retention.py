"""What retention lets go, in bites of any size: each reason to stay is one's own, or one's chain's or group's, and nobody
else's.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from windlass.core.alterations import Cancel, PutGroup, Replay
from windlass.core.duties import Prune, RollUpUsage
from windlass.core.queries import AllGroups
from windlass.core.settle import Failed, Rejected, Succeeded
from windlass.core.usage import LATE
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import State

ALL_THAT_ENDED: dict[str, Any] = {"succeeded": 0, "cancelled": 0, "dead": 0}
LEAN: dict[str, Any] = {"history": "failures"}
CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 2}
ENDS: tuple[State, ...] = ("succeeded", "cancelled", "dead")


async def pruned(t: Trial, ids: list[str], **rules: Any) -> set[str]:
    """Which of these go by these rules, in bites until nothing is left to do: the same for large ones and small ones."""
    there = {job.id for job in await t.driver.get(ids) if job is not None}
    for _ in range(10 * len(ids) + 100):
        done = await t.maintain(Prune(limit=3, **rules))
        assert done is not None
        if not done.more:
            return there - {job.id for job in await t.driver.get(ids) if job is not None}
    raise AssertionError("it does not come to an end")


async def ended(t: Trial, state: State = "succeeded", **fields: Any) -> str:
    """A job that ends now, in this state; to be cancelled it need not run."""
    if state == "cancelled":
        job_id = await t.enqueue(**fields)
        await t.alter(Cancel(job_id))
        return job_id
    job = await t.running(**fields)
    await t.end(job, Succeeded() if state == "succeeded" else Rejected("no"))
    return job.id


async def group(t: Trial, name: str, members: int) -> dict[str, Any]:
    await t.alter(PutGroup(name, total=members, on_failure="continue"))
    return {"group_id": name}


class RetentionPromises(Suite):
    @promise
    async def test_each_state_is_kept_for_its_own_time_alone_and_in_groups(self, t: Trial) -> None:
        """To the instant, whichever is kept longest; and a group for as long as any of its members."""
        for turn, order in enumerate(permutations(ENDS)):
            minutes = {state: len(ENDS) - n for n, state in enumerate(order)}
            names = [f"{turn}-{state}-{late}" for state in order for late in (0, 1)]
            members = {name: [await ended(t, **await group(t, name, 2))] for name in names}
            for state in order:
                for late in (0, 1):
                    name = f"{turn}-{state}-{late}"
                    members[name] += [await ended(t, state, group_id=name), await ended(t, state)]
                    t.clock.advance(1 - late)
                t.clock.advance(MINUTE - 1)
            t.clock.advance(-1)
            ids = [job_id for those in members.values() for job_id in those]
            old = {job_id for name, those in members.items() for job_id in those if name.endswith("0")}
            rules = {state: kept * MINUTE for state, kept in minutes.items()}
            assert await pruned(t, ids, **rules) == set(), order
            t.clock.advance(1)
            for state in ENDS:
                kept_for_ever = {**rules, state: None}
                others = {job_id for name in names if state not in name for job_id in members[name]}
                if state == "succeeded":
                    others -= {those[0] for those in members.values()}
                    others -= {those[1] for those in members.values()}
                assert await pruned(t, ids, **kept_for_ever) == others & old, (order, state)
                old -= others
            assert await pruned(t, ids, **rules) == old, order
            assert await pruned(t, ids, **rules) == set(), order
            t.clock.advance(MINUTE)
            await pruned(t, ids, **rules)
            assert await t.driver.read(AllGroups()) == []

    @promise
    async def test_a_job_that_others_need_keeps_its_group_and_nobody_else(self, t: Trial) -> None:
        """Until they have ended, whatever else has not."""
        await t.enqueue(queue="unfinished")
        for name in ("needed", "free"):
            await group(t, name, 2)
        kept = [await ended(t, group_id="needed") for _ in range(2)]
        free = [await ended(t, group_id="free") for _ in range(2)]
        alone, needed, also_free = [await ended(t) for _ in range(3)]
        for parent in (free[0], also_free):
            await ended(t, after=(parent,))
        waiting = [await t.enqueue(queue="later", after=(parent,)) for parent in (kept[1], needed)]
        ids = [*kept, *free, alone, needed, also_free]
        assert await pruned(t, ids, **ALL_THAT_ENDED) == {*free, alone, also_free}
        assert [row.group_id for row in await t.driver.read(AllGroups())] == ["needed"]
        assert await pruned(t, ids, **ALL_THAT_ENDED) == set()
        for job_id, gone in zip(waiting, ({*kept}, {needed}), strict=True):
            await t.alter(Cancel(job_id))
            assert await pruned(t, ids, **ALL_THAT_ENDED) == gone

    @promise
    async def test_who_begins_to_need_a_member_keeps_what_is_left_of_its_group(self, t: Trial) -> None:
        """At once, also when the group has begun to go, and no other."""
        members: list[str] = []
        for name in ("one", "other"):
            await group(t, name, 6)
            members += [await ended(t, group_id=name) for _ in range(6)]
        assert await t.prune(**ALL_THAT_ENDED, limit=2) == 2
        await t.enqueue(queue="later", after=(members[5],))
        assert await pruned(t, members, **ALL_THAT_ENDED) == set(members[6:])

    @promise
    async def test_what_is_not_counted_keeps_its_chain_and_its_group_and_nobody_else(self, t: Trial) -> None:
        """By a run, or by an end that left none; to the instant up to which was counted."""
        await t.maintain(RollUpUsage(until=t.now - LATE))
        names = ("full", "lean", "counted", "counted-lean", "never-ran")
        for name in names:
            await group(t, name, 2)
        before = [await ended(t, group_id=name) for name in ("full", "lean", "counted", "counted-lean", "never-ran")]
        counted = [
            await ended(t, group_id="counted"), await ended(t, group_id="counted-lean", **LEAN), await ended(t, **LEAN),
            await ended(t),
        ]  # fmt: skip
        links = []
        for _ in range(2):
            first = await t.running(**CHAIN)
            await t.end(first, Failed("boom"), child_id=f"{first.id}-again")
            links.append([first.id, f"{first.id}-again"])
        t.clock.advance(MINUTE)
        [again, last] = await t.claim()
        await t.end(again, Succeeded())
        until = t.now
        t.clock.advance(1)
        uncounted = [await ended(t, group_id="full"), await ended(t, group_id="lean", **LEAN)]
        between = t.now
        t.clock.advance(1)
        uncounted += [await ended(t, **LEAN), await ended(t)]
        await t.end(last, Succeeded())
        idle = [await ended(t, "cancelled", **LEAN, group_id="never-ran"), await ended(t, "cancelled", **LEAN)]
        t.clock.advance(LATE)
        await t.maintain(RollUpUsage(until=until))
        ids = [*before, *counted, *uncounted, *idle, *links[0], *links[1]]
        assert await pruned(t, ids, **ALL_THAT_ENDED) == {*before[2:], *counted, *idle, *links[0]}
        assert await pruned(t, ids, **ALL_THAT_ENDED) == set()
        await t.maintain(RollUpUsage(until=between))
        assert await pruned(t, ids, **ALL_THAT_ENDED) == {*before[:2], *uncounted[:2]}
        await t.maintain(RollUpUsage(until=t.now))
        assert await pruned(t, ids, **ALL_THAT_ENDED) == {*uncounted[2:], *links[1]}

    @promise
    async def test_a_group_goes_when_what_kept_it_does_so_no_more(self, t: Trial) -> None:
        """Whatever else that has become: another link has run instead, or nobody needs it who never ran."""
        await t.maintain(RollUpUsage(until=t.now - LATE))
        for name in ("chain", "needed"):
            await group(t, name, 2)
        ids = [await ended(t, group_id=name) for name in ("chain", "needed")]
        t.clock.advance(LATE)
        await t.maintain(RollUpUsage(until=t.now))
        first = await t.running(**CHAIN, group_id="chain")
        await t.end(first, Rejected("no"))
        waiting = await t.enqueue(group_id="needed", **LEAN)
        later = await t.enqueue(queue="later", after=(waiting,), after_rule="continue")
        await t.alter(Cancel(waiting))
        ids += [first.id, "again", waiting]
        assert await pruned(t, ids, succeeded=0, cancelled=0) == set()
        await t.alter(Cancel(later))
        assert await pruned(t, ids, succeeded=0, cancelled=0) == {ids[1], waiting}
        assert await t.alter(Replay(first.id, "again")) == "applied"
        await t.end(await t.take(), Succeeded())
        t.clock.advance(LATE)
        await t.maintain(RollUpUsage(until=t.now))
        assert await pruned(t, ids, succeeded=0, cancelled=0) == {ids[0], first.id, "again"}

    @promise
    async def test_a_group_goes_when_the_last_link_of_a_member_has_ended(self, t: Trial) -> None:
        """Also of one that came when the group had all that it waited for; the links before it keep nobody."""
        ids = [await ended(t, **await group(t, "g", 1))]
        first = await t.running(**CHAIN, group_id="g")
        ids += [first.id, "again"]
        assert await pruned(t, ids, succeeded=0) == set()
        await t.end(first, Failed("boom"), child_id="again")
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Succeeded())
        assert await pruned(t, ids, succeeded=0) == set(ids)

    @promise
    async def test_where_nobody_counts_all_that_is_old_goes(self, t: Trial) -> None:
        """With runs and without, alone, in groups and in chains."""
        await group(t, "g", 2)
        ids = [await ended(t, group_id="g"), await ended(t, group_id="g", **LEAN), await ended(t, **LEAN)]
        first = await t.running(**CHAIN)
        await t.end(first, Failed("boom"), child_id="again")
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Succeeded())
        ids += [first.id, "again"]
        assert await pruned(t, ids, **ALL_THAT_ENDED) == set(ids)
