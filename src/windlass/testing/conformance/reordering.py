"""The order that people change: beside another job, places exchanged, another priority, fresh positions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from windlass.core.alterations import (
    Alteration,
    Cancel,
    Move,
    MoveBeside,
    PutLimit,
    PutQueue,
    Renormalise,
    SetPriority,
    Swap,
)
from windlass.core.duties import Done, TidyPositions
from windlass.core.positions import GAP
from windlass.core.queries import InOrder
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class ReorderPromises(Suite):
    @promise
    async def test_a_job_is_put_directly_before_or_behind_another(self, t: Trial) -> None:
        """Nobody else is touched while there is room; where it stands already nothing changes."""
        a, b, c, d = [await t.enqueue() for _ in range(4)]
        others = await t.jobs([a, b, c])
        assert await t.alter(MoveBeside(d, b, "before")) == "applied"
        assert await t.order() == [a, d, b, c]
        assert await t.alter(MoveBeside(d, b, "after")) == "applied"
        assert await t.order() == [a, b, d, c]
        assert await t.jobs([a, b, c]) == others
        before = await t.job(d)
        assert await t.alter(MoveBeside(d, b, "after")) == await t.alter(MoveBeside(d, c, "before")) == "unchanged"
        assert await t.job(d) == before
        assert await t.alter(MoveBeside(d, a, "before")) == "applied"
        assert await t.alter(MoveBeside(b, c, "after")) == "applied"
        assert [job.id for job in await t.claim()] == [d, a, c, b]

    @promise
    async def test_another_priority_is_taken_only_when_asked(self, t: Trial) -> None:
        """Beside a job of another priority a job goes only with that priority; of another queue never."""
        urgent, last, plain = await t.enqueue(priority=5), await t.enqueue(priority=5), await t.enqueue()
        elsewhere = await t.enqueue(queue="b")
        before = await t.jobs([urgent, last, plain, elsewhere])
        assert await t.alter(MoveBeside(plain, urgent, "after")) == "apart"
        assert await t.alter(MoveBeside(elsewhere, urgent, "after", take_priority=True)) == "apart"
        assert await t.alter(Swap(plain, urgent)) == await t.alter(Swap(elsewhere, plain)) == "apart"
        assert await t.jobs([urgent, last, plain, elsewhere]) == before
        assert await t.alter(MoveBeside(plain, urgent, "after", take_priority=True)) == "applied"
        assert (await t.job(plain)).priority == 5
        assert await t.order() == [urgent, plain, last]

    @promise
    async def test_only_queued_jobs_of_its_queue_and_priority_are_the_neighbours_of_a_job(self, t: Trial) -> None:
        """Whether they are due or not: who has a number between theirs makes nothing of their order undone, and no gap."""
        cases: tuple[dict[str, Any], ...] = ({"queue": "due"}, {"queue": "later", "run_at": t.now + MINUTE})
        for fields in cases:
            queue, ids = fields["queue"], list[str]()
            for _ in range(4):
                await t.enqueue(**{**fields, "priority": 5})
                await t.enqueue(**{**fields, "queue": "other"})
                await t.enqueue(queue=queue, type="gone")
                await t.take(queue, types=("gone",))
                await t.alter(Cancel(await t.enqueue(queue=queue, run_at=t.now + MINUTE)))
                ids.append(await t.enqueue(**fields, type=f"work-{len(ids)}"))
            [a, b, c, last] = ids
            await t.alter(Cancel(last))
            before = await t.jobs([a, b, c])
            for same in (
                MoveBeside(b, a, "after"), MoveBeside(b, c, "before"), Move(a, "top"),
                MoveBeside(a, b, "before"), MoveBeside(c, b, "after"), Move(c, "bottom"),
            ):  # fmt: skip
                assert await t.alter(same) == "unchanged", (queue, same)
            assert await t.jobs([a, b, c]) == before
            await t.alter(PutQueue(queue, "dense"))
            assert await t.alter(Renormalise(queue)) == "applied"
            assert [job.position for job in await t.jobs([a, b, c])] == [GAP, 2 * GAP, 3 * GAP]

    @promise
    async def test_where_no_room_is_left_positions_are_made_afresh(self, t: Trial) -> None:
        """As many jobs as one likes go between two others, in a queue of either kind, also of another priority."""
        for queue, positions in (("default", "tail"), ("d", "dense")):
            await t.alter(PutQueue(queue, positions))  # type: ignore[arg-type]
            first, last = await t.enqueue(queue=queue), await t.enqueue(queue=queue)
            expected = [first, last]
            for number in range(20):
                job = await t.enqueue(queue=queue, priority=number % 2)
                assert await t.alter(MoveBeside(job, expected[1], "before", take_priority=True)) == "applied"
                expected.insert(1, job)
            assert await t.order(queue) == expected
            places = [(job.position, job.created_at, job.seq) for job in await t.jobs(expected)]
            assert places == sorted(set(places))
            late = await t.enqueue(queue=queue)
            assert [job.id for job in await t.claim(queue)] == [*expected, late]

    @promise
    async def test_two_jobs_change_places(self, t: Trial) -> None:
        """Everybody else stays where he was, also those who share a position with one of the two."""
        ids = [await t.enqueue() for _ in range(4)]
        others = await t.jobs([ids[1], ids[2]])
        assert await t.alter(Swap(ids[0], ids[3])) == "applied"
        assert await t.order() == [ids[3], ids[1], ids[2], ids[0]]
        assert await t.jobs([ids[1], ids[2]]) == others
        await t.alter(PutQueue("d", "dense"))
        one, two = await t.running(queue="d"), await t.running(queue="d")
        three = await t.enqueue(queue="d")
        for job in (one, two):  # back at the positions they had: all three have the same
            await t.retry(job)
        assert await t.order("d") == [one.id, two.id, three]
        assert await t.alter(Swap(one.id, three)) == "applied"
        assert await t.order("d") == [three, two.id, one.id]
        assert await t.alter(Swap(three, two.id)) == "applied"
        assert await t.order("d") == [two.id, three, one.id]

    @promise
    async def test_another_priority_means_the_last_place_in_it(self, t: Trial) -> None:
        """Behind everybody who has it now, whatever they wait for; back again is not the old place."""
        low, other = await t.enqueue(), await t.enqueue()
        first, waiting = await t.enqueue(priority=5), await t.enqueue(priority=5, run_at=t.now + MINUTE)
        await t.alter(Move(first, "bottom"))
        assert await t.alter(SetPriority(low, 5)) == "applied"
        assert await t.order() == [waiting, first, low, other]
        before = await t.job(low)
        assert await t.alter(SetPriority(low, 5)) == "unchanged"
        assert await t.job(low) == before
        assert await t.alter(SetPriority(low, 0)) == "applied"
        assert await t.order() == [waiting, first, other, low]
        assert await t.alter(SetPriority(low, -7)) == "applied"
        late = await t.enqueue(priority=-7)
        assert [job.id for job in await t.claim()] == [first, other, low, late]

    @promise
    async def test_a_changed_priority_on_a_dense_queue_is_counted_from_the_gap(self, t: Trial) -> None:
        """The largest position among queued jobs of that priority plus the gap, or the gap when there is none."""
        await t.alter(PutQueue("d", "dense"))
        a, b, c = [await t.enqueue(queue="d") for _ in range(3)]
        assert await t.alter(SetPriority(b, 9)) == await t.alter(SetPriority(a, 9)) == "applied"
        assert [job.position for job in await t.jobs([b, a, c])] == [GAP, 2 * GAP, 3 * GAP]
        assert await t.alter(Move(b, "bottom")) == "applied"
        assert (await t.job(b)).position == 3 * GAP

    @promise
    async def test_the_tail_is_the_tail_whoever_was_moved(self, t: Trial) -> None:
        """Jobs that were sent to the end again and again do not stand behind one that comes later."""
        a, b = await t.enqueue(), await t.enqueue()
        for job in (a, b, a, b, a, b):
            assert await t.alter(Move(job, "bottom")) == "applied"
        late = await t.enqueue()
        assert await t.order() == [a, b, late]

    @promise
    async def test_fresh_positions_keep_the_order(self, t: Trial) -> None:
        """On a dense queue 100, 200, 300 …, by priority; elsewhere a gap apart, up to the last one's. Nobody else's
        position changes, nor that of a job which runs: it comes back at its place."""
        await t.alter(PutQueue("d", "dense"))
        for queue in ("d", "default"):
            ids = [await t.enqueue(queue=queue, priority=n % 2) for n in range(6)]
            late, running = await t.enqueue(queue=queue, run_at=t.now + MINUTE), await t.take(queue)
            for job in ids[3:]:
                assert await t.alter(Move(job, "top")) != "wrong_state"
            elsewhere, order, last = await t.enqueue(queue="b"), await t.order(queue), await t.job(late)
            untouched = await t.jobs([elsewhere, running.id])
            assert await t.alter(Renormalise(queue)) == "applied"
            assert await t.order(queue) == order
            plain = [job.position for job in await t.driver.read(InOrder(queue=queue)) if job.priority == 0]
            end = len(plain) * GAP if queue == "d" else last.position
            assert plain == [end - GAP * n for n in reversed(range(len(plain)))]
            assert await t.jobs([elsewhere, running.id]) == untouched
            assert await t.alter(Renormalise(queue)) == "unchanged"
        assert await t.alter(Renormalise("nowhere")) == "unchanged"

    @promise
    async def test_a_leader_makes_room_where_none_is_left(self, t: Trial) -> None:
        """Dense queues only, one priority at a time, none with more jobs than the bound; twice changes nothing."""
        await t.alter(PutQueue("d", "dense"))
        first, last = await t.enqueue(queue="d"), await t.enqueue(queue="d")
        lone, crowd = await t.enqueue(queue="d", priority=1), [await t.enqueue(queue="d") for _ in range(7)]
        for job in crowd:
            await t.alter(MoveBeside(job, last, "before"))
        order, alone = [lone, first, *crowd, last], await t.job(lone)
        assert await t.maintain(TidyPositions(limit=9)) == Done(0)
        assert await t.maintain(TidyPositions()) == Done(8)
        assert await t.order("d") == order
        assert [job.position for job in await t.jobs(order[1:])] == [GAP * n for n in range(1, 10)]
        assert await t.job(lone) == alone
        assert await t.maintain(TidyPositions()) == Done(0)

    @promise
    async def test_only_queued_jobs_have_a_place(self, t: Trial) -> None:
        """What runs or has ended is refused, on either side, and what is not there is not found; nothing changes."""
        done = await t.running()
        await t.ack(done)
        running, queued = await t.running(), await t.enqueue()
        before = await t.jobs([done.id, running.id, queued])
        for job_id in (done.id, running.id):
            for change in (
                MoveBeside(job_id, queued, "before"), MoveBeside(queued, job_id, "after"), Swap(job_id, queued),
                Swap(queued, job_id), SetPriority(job_id, 3), Move(job_id, "top"),
            ):  # fmt: skip
                assert await t.alter(change) == "wrong_state"
        for change in (MoveBeside("nobody", queued, "before"), Swap(queued, "nobody"), SetPriority("nobody", 3)):
            assert await t.alter(change) == "not_found"
        assert await t.jobs([done.id, running.id, queued]) == before

    @promise
    async def test_an_order_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """Beside itself, on no side, with no number: an error that names the field, and nothing changed."""
        a, b = await t.enqueue(), await t.enqueue()
        for bad in (
            MoveBeside(a, a, "before"), Swap(a, a), MoveBeside(a, b, "beside"), SetPriority(a, 2**31),  # type: ignore[arg-type]
            SetPriority(a, True), SetPriority(a, "high"), Renormalise(" "),  # type: ignore[arg-type]
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await t.driver.alter([Swap(a, b), bad], now=t.now)
        assert await t.order() == [a, b]
        for query in (InOrder(queue=""), InOrder(queue="q", limit=0)):
            with pytest.raises(InvalidInput):
                await t.driver.read(query)

    @promise
    async def test_whoever_waits_stands_in_line_too(self, t: Trial) -> None:
        """The order shows jobs that wait for their time or for a permit, at the place they will have."""
        await t.alter(PutLimit("k", 0))
        parked = await t.enqueue(limit_keys=("k",))
        assert await t.claim() == []
        waiting, ready = await t.enqueue(run_at=t.now + MINUTE), await t.enqueue()
        await t.enqueue(queue="b")
        assert await t.order() == [parked, waiting, ready]
        assert [job.id for job in await t.driver.read(InOrder(queue="default", limit=2))] == [parked, waiting]
        assert await t.alter(MoveBeside(ready, waiting, "before")) == await t.alter(Swap(parked, waiting)) == "applied"
        assert await t.order() == [waiting, ready, parked]
        assert await t.order("nowhere") == []

    @promise
    async def test_who_comes_after_a_queue_was_dense_stands_behind(self, t: Trial) -> None:
        """Dense positions may lie beyond the numbers from which the others come, and then come down to them, in their
        order; where they do not, nothing moves. Those of a queue that becomes dense stay."""
        await t.alter(PutQueue("d", "dense"))
        ids = [await t.enqueue(queue="d") for _ in range(3)]
        for _ in range(30):
            await t.alter(Move((await t.order("d"))[0], "bottom"))
        urgent = [await t.enqueue(queue="d", priority=1) for _ in range(2)]
        before, first = await t.jobs(urgent), await t.order("d")
        assert set(first) == {*ids, *urgent}
        await t.alter(PutQueue("d"))
        assert await t.order("d") == first
        assert await t.jobs(urgent) == before
        more = [await t.enqueue(queue="d"), await t.enqueue(queue="d", priority=1)]
        assert await t.order("d") == [*urgent, more[1], *first[2:], more[0]]
        rows = await t.jobs([*ids, *urgent, *more])
        await t.alter(PutQueue("d", "dense"))
        assert await t.jobs([*ids, *urgent, *more]) == rows

    @promise
    async def test_the_same_rows_always_give_the_same_order(self, t: Trial) -> None:
        """After any mix of moves, swaps, priorities and fresh positions the order is that of a plain sort of the stored
        fields, the listing shows it, and claims keep to it."""
        dice = random.Random(7)
        await t.alter(PutQueue("d", "dense"))
        for queue in ("default", "d"):
            ids = [await t.enqueue(queue=queue, priority=dice.choice((0, 0, 1))) for _ in range(12)]
            for _ in range(60):
                one, other = dice.sample(ids, 2)
                changes: tuple[Alteration, ...] = (
                    Move(one, dice.choice(("top", "bottom"))), Swap(one, other), SetPriority(one, dice.choice((0, 1, 2))),
                    MoveBeside(one, other, dice.choice(("before", "after")), take_priority=dice.random() < 0.7),
                    Renormalise(queue) if dice.random() < 0.2 else Swap(other, one),
                )  # fmt: skip
                assert await t.alter(dice.choice(changes)) in ("applied", "unchanged", "apart")
            rows = sorted(await t.jobs(ids), key=lambda j: (-j.priority, j.position, j.created_at, j.seq))
            expected = [job.id for job in rows]
            assert await t.order(queue) == expected
            taken = []
            while batch := await t.claim(queue, limit=dice.randrange(1, 5)):
                taken += [job.id for job in batch]
            assert taken == expected
