"""Limits of every kind: by type, org, tag, queue and over all; pauses; counting again. Rates are in `rates.py`."""

from __future__ import annotations

import pytest

from windlass.core.alterations import Cancel, PauseLimit, PutLimit, PutQueue, RemoveLimit, Revoke
from windlass.core.changes import Ack
from windlass.core.duties import Done, RecountLimits
from windlass.core.limits import PARK_BITE
from windlass.core.queries import AllLimits, LimitUses
from windlass.core.settle import Succeeded
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise
from windlass.types import Limit


async def limit(t: Trial, key: str) -> Limit:
    return next(row for row in await t.driver.read(AllLimits()) if row.key == key)


class LimitPromises(Suite):
    # ------------------------------------------------------------------------------------------------------ what is bounded

    @promise
    async def test_the_lowest_and_the_highest_priority_are_limited_like_any_other(self, t: Trial) -> None:
        """Under a limit and in a fair queue, where jobs are picked by other ways."""
        await t.alter(PutQueue(name="fair", order="fair"))
        await t.alter(PutLimit("key:k", 1))
        for queue in ("default", "fair"):
            asked = [
                await t.enqueue(queue=queue, priority=priority, org_id="o", limit_keys=("key:k",))
                for priority in (-(2**31), 2**31 - 1)
            ]
            for job_id in reversed(asked):
                [job] = await t.claim(queue)
                assert job.id == job_id
                assert await t.ack(job) == "applied"

    @promise
    async def test_a_limit_concerns_jobs_by_what_they_are(self, t: Trial) -> None:
        """By type, org and tag as by a key of their own: nothing has to be said at enqueue."""
        for key, fields, other in (
            ("type:render", {"type": "render"}, {"type": "mail"}), ("org:acme", {"org_id": "acme"}, {"org_id": "b"}),
            ("tag:big", {"tags": ("small", "big")}, {"tags": ("small",)}),
        ):  # fmt: skip
            await t.alter(PutLimit(key, 1))
            first, second = await t.enqueue(**fields), await t.enqueue(**fields)
            free = await t.enqueue(**other)
            running = await t.claim()
            assert [job.id for job in running] == [first, free], key
            assert running[0].permits == (key,)
            assert (await t.job(second)).parked_on == key
            await t.end(running[0], Succeeded())
            [next_] = await t.claim()
            assert next_.id == second
            for job in (running[1], next_):
                await t.end(job, Succeeded())
            assert (await limit(t, key)).used == 0

    @promise
    async def test_a_queue_gives_no_more_than_its_limit(self, t: Trial) -> None:
        """`queue:x` caps what a claim takes from it and parks nobody; other queues go on."""
        await t.alter(PutLimit("queue:a", 2))
        ids = [await t.enqueue(queue="a") for _ in range(4)]
        other = await t.enqueue(queue="b")
        running = await t.claim("a", "b")
        assert [job.id for job in running] == [*ids[:2], other]
        assert [job.parked_on for job in await t.jobs(ids[2:])] == [None, None]
        assert await t.claim("a") == []
        await t.end(running[0], Succeeded())
        assert [job.id for job in await t.claim("a", "b")] == [ids[2]]
        assert (await limit(t, "queue:a")).used == 2

    @promise
    async def test_one_limit_may_stand_over_all(self, t: Trial) -> None:
        """`global` caps what all claims take together."""
        await t.alter(PutLimit("global", 3))
        for queue in ("a", "b"):
            for _ in range(3):
                await t.enqueue(queue=queue)
        assert len(await t.claim("a", limit=2)) == 2
        [last] = await t.claim("b")
        assert await t.claim("a", "b") == []
        await t.end(last, Succeeded())
        assert len(await t.claim("a", "b")) == 1

    @promise
    async def test_several_limits_hold_together(self, t: Trial) -> None:
        """A job takes a permit of every limit that concerns it, or none and waits for the first that is full."""
        await t.alter(PutLimit("key:gpu", 2))
        await t.alter(PutLimit("org:acme", 1))
        await t.alter(PutLimit("queue:default", 5))
        mine = {"limit_keys": ("key:gpu",), "org_id": "acme"}
        first, second = await t.enqueue(**mine), await t.enqueue(**mine)
        other = await t.enqueue(limit_keys=("key:gpu",))
        running = await t.claim()
        assert [job.id for job in running] == [first, other]
        assert set(running[0].permits) == {"key:gpu", "org:acme", "queue:default"}
        assert (await t.job(second)).parked_on == "org:acme"
        assert [(await limit(t, key)).used for key in ("key:gpu", "org:acme", "queue:default")] == [2, 1, 2]

    # -------------------------------------------------------------------------------------------------- permits come back

    @promise
    async def test_permits_come_back_with_the_lease_whoever_ends_it(self, t: Trial) -> None:
        """A lease that lapses or is revoked frees what the row holds; no worker has to say what that was."""
        await t.alter(PutLimit("type:work", 1))
        await t.enqueue()
        await t.take()
        t.clock.advance(LEASE)
        [job] = await t.claim()
        assert (await limit(t, "type:work")).used == 1
        await t.alter(Revoke("worker"))
        await t.driver.expire(now=t.now, limit=10)
        assert (await limit(t, "type:work")).used == 0
        assert (await t.job(job.id)).permits == ()

    @promise
    async def test_a_limit_that_came_after_the_claim_is_given_back_too(self, t: Trial) -> None:
        """A new limit counts those who run; a plain success, by a worker that knows of no limit, frees its permit."""
        jobs = [await t.running() for _ in range(2)]
        await t.alter(PutLimit("type:work", 2))
        waiting = await t.enqueue()
        assert await t.claim() == []
        assert [job.permits for job in await t.jobs([jobs[0].id, jobs[1].id])] == [("type:work",)] * 2
        assert [await t.ack(job) for job in jobs] == ["applied"] * 2
        assert (await limit(t, "type:work")).used == 0
        assert [job.id for job in await t.claim()] == [waiting]

    @promise
    async def test_a_new_limit_counts_all_whom_it_concerns_and_no_other(self, t: Trial) -> None:
        """Of every kind, also those who hold permits of others; each is counted once, and gives its own back."""
        await t.alter(PutLimit("key:other", 5))
        mine = {"queue": "q", "type": "t", "org_id": "o", "tags": ("a", "b"), "limit_keys": ("key:k",)}
        theirs = {"queue": "p", "type": "u", "org_id": "p", "tags": ("c",), "limit_keys": ("key:other",)}
        kinds = {"queue:q": 2, "type:t": 2, "org:o": 2, "tag:b": 2, "key:k": 2, "global": 4, "key:other": 2}
        await t.enqueue(**{**mine, "limit_keys": ("key:k", "key:other")})
        for fields in (mine, theirs, {}):
            await t.enqueue(**fields)
        jobs = await t.claim("q", "p", "default")
        assert len(jobs) == 4
        for key, count in kinds.items():
            if key != "key:other":
                assert await t.alter(PutLimit(key, 5)) == "applied"
            assert (await limit(t, key)).used == count, key
        held = [set(job.permits) for job in await t.jobs([job.id for job in jobs])]
        most = {"queue:q", "type:t", "org:o", "tag:b", "key:k", "global"}
        assert held == [{*most, "key:other"}, most, {"global", "key:other"}, {"global"}]
        assert await t.maintain(RecountLimits()) == Done(0)
        for key in kinds:
            await t.alter(RemoveLimit(key))
            await t.alter(PutLimit(key, 5))
        assert {row.key: row.used for row in await t.driver.read(AllLimits())} == kinds
        for job in jobs:
            assert await t.ack(job) == "applied"
        assert {row.used for row in await t.driver.read(AllLimits())} == {0}

    @promise
    async def test_a_new_limit_counts_those_who_name_it_whatever_its_name(self, t: Trial) -> None:
        """Also when it is called as one of the kinds is, or begins like one."""
        for key in ("type", "queue", "org", "tag", "global:x"):
            first, second = await t.enqueue(limit_keys=(key,)), await t.enqueue(limit_keys=(key,))
            [job] = await t.claim(limit=1)
            assert job.id == first
            await t.alter(PutLimit(key, 1))
            assert ((await limit(t, key)).used, await t.claim()) == (1, []), key
            assert await t.maintain(RecountLimits()) == Done(0)
            await t.end(job, Succeeded())
            [job] = await t.claim()
            assert job.id == second
            await t.end(job, Succeeded())

    @promise
    async def test_a_batch_of_successes_frees_all_it_held(self, t: Trial) -> None:
        """As many may run next as have ended."""
        await t.alter(PutLimit("key:k", 3))
        ids = [await t.enqueue(limit_keys=("key:k",)) for _ in range(7)]
        for n in (0, 3):
            jobs = await t.claim()
            assert [job.id for job in jobs] == ids[n : n + 3]
            acks = [Ack(handle=job.handle, token=job.token, at=t.now) for job in jobs]
            assert await t.settle(*acks) == ["applied"] * 3
        assert [job.id for job in await t.claim()] == ids[6:]
        assert (await limit(t, "key:k")).used == 1

    @promise
    async def test_a_permit_is_offered_in_every_queue(self, t: Trial) -> None:
        """Those who wait in a queue that nobody serves do not keep one that is served from it, whatever their names."""
        await t.alter(PutLimit("key:k", 1))
        holder = await t.running(limit_keys=("key:k",))
        for queue in ("a", "z"):
            await t.enqueue(queue=queue, limit_keys=("key:k",))
        assert await t.claim("a", "z") == []
        await t.end(holder, Succeeded())
        assert len(await t.claim("z")) == 1

    @promise
    async def test_those_of_a_queue_or_type_that_come_first_keep_a_permit_from_no_other(self, t: Trial) -> None:
        """However many they are: somebody may serve only the others."""
        await t.alter(PutLimit("key:k", 1))
        for other, wish in (({"queue": "a"}, ("z",)), ({"queue": "z", "type": "a"}, ("z",))):
            await t.enqueue(queue="z", limit_keys=("key:k",), priority=9)
            holder = await t.take("z")
            before = [await t.enqueue(**{"type": "work", **other}, limit_keys=("key:k",), priority=5) for _ in range(3)]
            mine = await t.enqueue(queue="z", limit_keys=("key:k",))
            assert await t.claim("a", "z") == []
            assert await t.ack(holder) == "applied"
            [job] = await t.claim(*wish, types=("work",))
            assert job.id == mine
            await t.ack(job)
            for job_id in before:
                await t.alter(Cancel(job_id))

    @promise
    async def test_who_waits_for_a_key_is_let_through_whatever_its_queue_and_type(self, t: Trial) -> None:
        """In several queues with some of the same types, with turns or without: all at once, where there is room."""
        for order in ("strict", "fair"):
            kinds = [(f"{order}-{queue}", kind) for queue, kind in ("ay", "bx", "bz", "cx", "cy", "cz", "dy")]
            queues = sorted({queue for queue, _ in kinds})
            await t.alter(PutLimit("key:k", 0))
            for queue in queues:
                await t.alter(PutQueue(queue, order=order))
            ids = [
                await t.enqueue(queue=queue, type=kind, limit_keys=("key:k",), org_id=org)
                for queue, kind in kinds
                for org in ("o", "p", None)
            ]
            assert await t.claim(*queues) == []
            await t.alter(PutLimit("key:k", 100))
            assert {job.parked_on for job in await t.jobs(ids)} == {None}
            jobs = await t.claim(*queues)
            assert {job.id for job in jobs} == set(ids)
            for job in jobs:
                await t.ack(job)

    # ------------------------------------------------------------------------------------------------------------ backlogs

    @promise
    async def test_a_claim_answers_what_it_has_when_it_parked_many(self, t: Trial) -> None:
        """So that it holds nobody up for longer than a moment, whatever the number that waits; the next one goes on."""
        await t.alter(PutLimit("key:k", 1))
        ids = await t.enqueue_all(PARK_BITE + 2, limit_keys=("key:k",))
        behind = await t.enqueue()
        assert [job.id for job in await t.claim(limit=2)] == ids[:1]
        assert [job.parked_on for job in await t.jobs(ids[-2:])] == ["key:k", None]
        assert [job.id for job in await t.claim(limit=2)] == [behind]
        assert (await t.job(ids[-1])).parked_on == "key:k"

    @promise
    async def test_a_claim_that_has_nothing_yet_gets_past_any_backlog(self, t: Trial) -> None:
        """Nobody who asks for work is sent away because of jobs that cannot run, also when they wait for several keys."""
        await t.alter(PutLimit("key:k", 1))
        await t.alter(PutLimit("type:work", PARK_BITE))
        await t.running(limit_keys=("key:k",))
        await t.enqueue_all(2 * PARK_BITE + 1, limit_keys=("key:k",))
        behind = await t.enqueue(type="other")
        assert [job.id for job in await t.claim(limit=1)] == [behind]

    # ------------------------------------------------------------------------------------------------------------ changing

    @promise
    async def test_a_limit_that_is_removed_lets_all_through(self, t: Trial) -> None:
        """Whoever waited may run; those who held a permit end as ever; made again, it counts who runs."""
        await t.alter(PutLimit("type:work", 1))
        ids = [await t.enqueue() for _ in range(3)]
        [holder] = await t.claim()
        assert await t.alter(RemoveLimit("type:work")) == "applied"
        assert await t.alter(RemoveLimit("type:work")) == "not_found"
        assert [job.id for job in await t.claim()] == ids[1:]
        await t.alter(PutLimit("type:work", 9))
        assert (await limit(t, "type:work")).used == 3
        assert await t.ack(holder) == "applied"
        assert (await limit(t, "type:work")).used == 2

    @promise
    async def test_lowering_a_limit_takes_no_permit_away(self, t: Trial) -> None:
        """Those who run go on; nobody new begins until there is room again."""
        await t.alter(PutLimit("key:k", 3))
        jobs = [await t.running(limit_keys=("key:k",)) for _ in range(3)]
        last = await t.enqueue(limit_keys=("key:k",))
        await t.alter(PutLimit("key:k", 1))
        for job in jobs[:2]:
            await t.end(job, Succeeded())
            assert await t.claim() == []
        await t.end(jobs[2], Succeeded())
        assert [job.id for job in await t.claim()] == [last]

    @promise
    async def test_what_a_program_says_again_does_not_undo_a_person(self, t: Trial) -> None:
        """A declared limit is obeyed when it says something new, and not at every start."""
        said = PutLimit("key:k", 2, declared=True)
        assert await t.alter(said) == "applied"
        assert await t.alter(PutLimit("key:k", 5)) == "applied"
        assert await t.alter(said) == "unchanged"
        assert (await limit(t, "key:k")).max_used == 5
        assert await t.alter(PutLimit("key:k", 3, declared=True)) == "applied"
        assert (await limit(t, "key:k")).max_used == 3

    @promise
    async def test_a_type_or_an_org_can_be_paused(self, t: Trial) -> None:
        """No job of it is claimed until it is resumed, whatever else changes; what runs goes on."""
        for key, fields in (("type:render", {"type": "render"}), ("org:acme", {"org_id": "acme"})):
            holder = await t.running(**fields)
            assert await t.alter(PauseLimit(key, True)) == "applied"
            assert await t.alter(PauseLimit(key, True)) == "unchanged"
            waiting, other = await t.enqueue(**fields), await t.enqueue()
            [job] = await t.claim()
            assert job.id == other, "others go on"
            await t.alter(PutLimit(key, 5))
            await t.end(holder, Succeeded())
            assert await t.claim() == []
            assert await t.alter(PauseLimit(key, False)) == "applied"
            assert [job.id for job in await t.claim()] == [waiting]

    @promise
    async def test_everything_can_be_paused(self, t: Trial) -> None:
        """Pausing `global` stops every claim, of one queue and of several."""
        await t.alter(PauseLimit("global", True))
        job = await t.enqueue()
        assert await t.claim("default", "other") == []
        assert await t.claim() == []
        await t.alter(PauseLimit("global", False))
        assert [one.id for one in await t.claim()] == [job]

    @promise
    async def test_a_key_may_have_any_name_that_can_be_printed(self, t: Trial) -> None:
        """Quotation marks, backslashes, paths, numbers: what is taken of it is given back to it."""
        keys = ('key:a"b\\c', "key:it's", "key:ä€😀", 'key:{"x":1}', "key:$.a[0]", "key:1", "key:\\u0041")
        for key in keys:
            await t.alter(PutLimit(key, 1))
            await t.enqueue(limit_keys=(key,))
            await t.enqueue(limit_keys=(key,))
        first = await t.claim()
        assert ([job.permits for job in first], await t.claim()) == ([(key,) for key in keys], [])
        assert {(await limit(t, key)).used for key in keys} == {1}
        changes = [Ack(handle=job.handle, token=job.token, at=t.now) for job in first]
        assert await t.driver.settle(changes, now=t.now) == ["applied"] * len(keys)
        assert {(await limit(t, key)).used for key in keys} == {0}
        assert len(await t.claim()) == len(keys), "those who waited were let through"

    # ----------------------------------------------------------------------------------------------------- counting again

    @promise
    async def test_the_leader_finds_nothing_to_recount(self, t: Trial) -> None:
        """Where every permit is accounted for, counting again changes nothing."""
        await t.alter(PutLimit("type:work", 2))
        await t.running()
        assert await t.maintain(RecountLimits()) == Done(0)
        assert (await limit(t, "type:work")).used == 1

    @promise
    async def test_who_holds_a_limit_and_how_many_wait_can_be_seen(self, t: Trial) -> None:
        """Ids of running jobs, the oldest first and bounded; the number of those that are parked."""
        await t.alter(PutLimit("type:work", 2))
        ids = [await t.enqueue() for _ in range(5)]
        await t.claim()
        [use] = await t.driver.read(LimitUses(keys=("type:work",), limit=1))
        assert (use.key, use.waiting, use.holders) == ("type:work", 3, (ids[0],))
        await t.alter(PutLimit("key:k", 0))
        await t.enqueue(type="other", limit_keys=("key:k",))
        assert await t.claim() == []
        uses = await t.driver.read(LimitUses(keys=("type:work", "key:k", "none")))
        assert [(use.key, use.waiting, len(use.holders)) for use in uses] == [
            ("key:k", 1, 0),
            ("none", 0, 0),
            ("type:work", 3, 2),
        ]

    # ----------------------------------------------------------------------------------------------------------- bad input

    @promise
    async def test_limits_that_make_no_sense_are_refused(self, t: Trial) -> None:
        """The error names the field, and nothing is changed."""
        for change, field in (
            (PutLimit("k", -1), "max_used"), (PutLimit("", 1), "limit"), (PutLimit("k", 1, per_second=0.0), "rate"),
            (PutLimit("k", per_second=float("nan")), "rate"), (PutLimit("k", burst=2.0), "burst"),
            (PutLimit("k", per_second=1.0, burst=0.5), "burst"), (PutLimit("k", per_second=1.0, burst=1e300), "burst"),
            (PutLimit("k", per_second=1.0, burst=10**400), "burst"), (PutLimit("k", per_second=10**400), "rate"),
            (PutLimit("k", per_second=10**9000), "rate"), (PutLimit("k", weight=2.0), "weight"),
            (PutLimit("org:o", weight=-1.0), "weight"), (PauseLimit("queue:a", True), "limit"),
            (PutQueue("q", order="random"), "order"),  # type: ignore[arg-type]
            (PutQueue("q", age_after=1), "ageing"), (PutQueue("q", age_after=0, age_to=1), "ageing"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput) as refused:
                await t.alter(change)
            assert refused.value.field == field, change
        for key in ("type:x", "queue:q", "org:o", "tag:t", "global"):
            with pytest.raises(InvalidInput) as refused:
                await t.enqueue(limit_keys=(key,))
            assert refused.value.field == "limit_keys"
        assert await t.driver.read(AllLimits()) == []
