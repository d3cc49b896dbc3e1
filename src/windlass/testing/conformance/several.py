"""Claims over several queues: the same order, the same limits, the same housekeeping as over one."""

from __future__ import annotations

from typing import Any, Final

from windlass.clock import SECOND
from windlass.core.alterations import Acquire, Cancel, PutLimit, PutQueue, ReleaseHold, SetPaused
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise

WANTED: Final[dict[str, Any]] = {"type": "work", "on_unknown": "dead"}
IN_FRONT: Final[tuple[dict[str, Any], ...]] = (  # what a claim for dying work leaves alone, wherever it stands
    {"type": "other"}, {"on_unknown": "wait"}, {"run_at": MINUTE}, {"state": "running"}, {"state": "succeeded"},
)  # fmt: skip


async def stand_in_front(t: Trial, queue: str, what: dict[str, Any], jobs: int) -> None:
    fields = {**WANTED, **what, "queue": queue, "priority": 9}
    state = fields.pop("state", "queued")
    if "run_at" in fields:
        fields["run_at"] += t.now
    await t.enqueue_all(jobs, **fields)
    if state != "queued":
        for job in await t.claim(queue, lease_for=9 * MINUTE):
            if state == "succeeded":
                await t.ack(job)


class SeveralQueuesPromises(Suite):
    @promise
    async def test_a_claim_over_several_queues_goes_as_deep_into_one_as_it_has_to(self, t: Trial) -> None:
        """It answers the first of all wanted jobs, most of them from one queue, whatever stands before them there or
        elsewhere that it leaves alone: other types, what may wait, what is not due, what runs or has ended."""
        for number, what in enumerate(IN_FRONT):
            a, b, c = (f"{queue}{number}" for queue in "abc")
            await stand_in_front(t, a, what, 3)
            await stand_in_front(t, c, what, 3)
            first = await t.enqueue_all(8, queue=a, **WANTED)
            first += [await t.enqueue(queue=queue, **WANTED) for queue in (b, c)]
            rest = await t.enqueue_all(4, queue=a, **WANTED)
            rest += [await t.enqueue(queue=queue, **WANTED) for queue in (c, b)]
            for wanted in (first, rest):
                taken = await t.claim(a, b, c, limit=10, types=("work",), unhandled=True)
                assert [job.id for job in taken] == wanted, what

    @promise
    async def test_a_queue_that_gives_nothing_keeps_no_other_from_giving(self, t: Trial) -> None:
        """Paused, held, or with turns: a claim from another queue finds what is there, in the order of that queue. Nor
        does a hold that has ended keep its queue. With and without limits."""
        await t.alter(SetPaused("paused", True))
        await t.alter(Acquire("hold", "held", "ada", MINUTE))
        await t.alter(Acquire("over", "a", "ada", MINUTE))
        await t.alter(ReleaseHold("over", by="ada"))
        await t.alter(PutQueue("fair", order="fair"))
        for queue in ("paused", "held"):
            await t.enqueue(queue=queue)
        for number, queues in enumerate((("a",), ("a", "b"), ("a",), ("a", "paused", "held"))):
            if number == 2:
                for queue in ("a", "paused", "held"):
                    await t.alter(PutLimit(f"queue:{queue}", 99))
                assert await t.claim("paused") == await t.claim("held") == []
            ids = [await t.enqueue(queue="a", org_id=org) for org in ("x", "x", "y")]
            assert [job.id for job in await t.claim(*queues)] == ids

    @promise
    async def test_a_claim_finds_what_is_due_at_its_instant(self, t: Trial) -> None:
        """Over one queue or several, also when nothing else is ready; and not what is due later."""
        for queues in (("b",), ("a", "b")):
            due = await t.enqueue(queue="b", run_at=t.now + MINUTE)
            later = await t.enqueue(queue="b", run_at=t.now + MINUTE + 1)
            t.clock.advance(MINUTE - 1)
            assert await t.claim(*queues) == []
            t.clock.advance(1)
            for wanted in (due, later):
                [job] = await t.claim(*queues)
                assert job.id == wanted
                await t.ack(job)
                t.clock.advance(1)

    @promise
    async def test_a_claim_over_several_queues_takes_back_what_has_lapsed(self, t: Trial) -> None:
        """At the instant of expiry, as often as a job may be lost or tried."""
        for rules in ({}, {"max_lost": 2}, {"max_attempts": 2}):
            job = await t.running(queue="b", **rules)
            t.clock.advance(LEASE - 1)
            assert await t.claim("a", "b") == []
            t.clock.advance(1)
            assert [again.id for again in await t.claim("a", "b")] == [job.id]
            t.clock.advance(LEASE)
            left = [again.id for again in await t.claim("a", "b")]
            assert left == ([] if rules else [job.id]), "the last time is not a claim's to decide"
            await t.alter(Cancel(job.id))

    @promise
    async def test_a_claim_over_several_queues_finds_who_waited_for_a_token(self, t: Trial) -> None:
        """At the instant at which it is there, and when nothing else is to be done."""
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        ids = [await t.enqueue(queue=queue, limit_keys=("key:api",)) for queue in ("a", "b")]
        assert [job.id for job in await t.claim("a", "b")] == ids[:1]
        t.clock.advance(SECOND - 1)
        assert await t.claim("a", "b") == []
        t.clock.advance(1)
        assert [job.id for job in await t.claim("a", "b")] == ids[1:]

    @promise
    async def test_what_a_claim_over_several_queues_takes_leaves_the_runs_that_it_is_to_leave(self, t: Trial) -> None:
        """None of a success with `history="failures"`, one of any other."""
        lean, full = await t.enqueue(queue="a", history="failures"), await t.enqueue(queue="b")
        for job in await t.claim("a", "b"):
            assert await t.ack(job) == "applied"
        assert await t.driver.runs(lean) == []
        assert [run.status for run in await t.driver.runs(full)] == ["completed"]

    @promise
    async def test_a_claim_leaves_alone_what_it_does_not_take(self, t: Trial) -> None:
        """What is ready, what was cancelled before its time, what waits for another job or for a permit is the same after
        it, though its time has come."""
        await t.alter(PutLimit("k", 0))
        soon = t.now + SECOND
        ready, cancelled = await t.enqueue(run_at=soon), await t.enqueue(run_at=soon)
        waiting = await t.enqueue(run_at=soon, after=(await t.enqueue(queue="other"),))
        parked = await t.enqueue(type="limited", run_at=soon, limit_keys=("k",))
        await t.alter(Cancel(cancelled))
        t.clock.advance(SECOND)
        assert await t.claim(types=("limited",)) == []
        before = await t.jobs([ready, cancelled, waiting, parked])
        assert before[3].parked_on == "k"
        for queues in (("default",), ("default", "empty")):
            t.clock.advance(MINUTE)
            assert await t.claim(*queues, types=("strange",)) == []
            assert await t.jobs([ready, cancelled, waiting, parked]) == before
