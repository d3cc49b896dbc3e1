"""What a minute of a queue looked like: which ends are its own, and who has been due longest."""

from __future__ import annotations

from typing import Any

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutLimit, PutQueue
from windlass.core.duties import SampleQueues
from windlass.core.queries import SamplesAt, SamplesSince
from windlass.core.usage import HOUR
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise

LEAN: dict[str, Any] = {"history": "failures"}


async def ages(t: Trial) -> dict[str, int | None]:
    """For how long somebody has been due in each queue, by the sample of now."""
    await t.maintain(SampleQueues(keep=HOUR))
    rows = await t.driver.read(SamplesSince())
    return {row.queue: row.oldest for row in rows if row.minute == rows[-1].minute}


class SamplingPromises(Suite):
    @promise
    async def test_an_end_without_a_row_is_one_of_its_own_minute(self, t: Trial) -> None:
        """To the instant; also where an earlier attempt left a row. What never ran is none."""
        t.clock.advance(2 * MINUTE - t.now % MINUTE - 1)
        minute = t.now + 1
        again = await t.running(**LEAN)
        await t.retry(again)
        ids = [await t.enqueue(**LEAN) for _ in range(5)]
        [again, before, first, last, after, never] = await t.claim(lease_for=HOUR)
        assert [job.id for job in (before, first, last, after, never)] == ids
        await t.ack(before)
        t.clock.advance(1)
        await t.ack(first)
        idle = await t.enqueue(**LEAN, queue="idle")
        await t.alter(Cancel(idle))
        await t.ack(again)
        t.clock.advance(MINUTE - 1)
        await t.ack(last)
        t.clock.advance(1)
        await t.ack(after)
        await t.maintain(SampleQueues(keep=HOUR))
        t.clock.advance(MINUTE)
        await t.maintain(SampleQueues(keep=HOUR))
        rows = await t.driver.read(SamplesSince())
        told = {(row.minute, row.queue): row.finished for row in rows if row.finished}
        assert told == {(minute, "default"): {"completed": 3}, (minute + MINUTE, "default"): {"completed": 1}}

    @promise
    async def test_only_what_is_due_makes_a_queue_old(self, t: Trial) -> None:
        """Since it is: not what has ended, runs, waits for a permit, for another job or for its time, nor what was created
        at the same instant elsewhere."""
        await t.alter(PutLimit("key:none", 0))
        for queue in ("a", "b", "c", "d"):
            await t.alter(PutQueue(queue))
        await t.ack(await t.running(queue="a"))
        parent = await t.running(queue="parents")
        for queue in ("a", "b"):
            cancelled = await t.enqueue(queue=queue, run_at=t.now + 1)
            await t.enqueue(queue=queue, limit_keys=("key:none",), run_at=t.now)
            assert await t.claim(queue) == []
            await t.enqueue(queue=queue, limit_keys=("key:none",))
            assert await t.claim(queue) == []
            await t.enqueue(queue=queue, after=(parent.id,), run_at=t.now + 1)
            await t.alter(Cancel(cancelled))
        t.clock.advance(SECOND)
        due = t.now + SECOND
        await t.running(queue="a")
        await t.enqueue(queue="a", after=(parent.id,))
        for queue, at in (("a", due), ("c", due), ("e", due - 1)):
            await t.enqueue(queue=queue, run_at=at)
        t.clock.advance(2 * SECOND)
        for queue in ("a", "e"):
            assert await t.claim(queue, types=("none",)) == [], "it is ready from now on"
        t.clock.advance(2 * MINUTE)
        await t.enqueue(queue="d", run_at=t.now + SECOND)
        t.clock.advance(SECOND)
        waited = t.now - due
        assert await ages(t) == {"a": waited, "b": None, "c": waited, "d": 0, "e": waited + 1, "parents": None}

    @promise
    async def test_samples_are_read_of_the_minutes_that_are_asked_for(self, t: Trial) -> None:
        """Those and no others, in the order of the minutes."""
        await t.alter(PutQueue("q"))
        for _ in range(4):
            t.clock.advance(MINUTE)
            await t.maintain(SampleQueues(keep=HOUR))
        rows = await t.driver.read(SamplesSince())
        assert len({row.minute for row in rows}) == 4
        asked = SamplesAt(minutes=(rows[3].minute, rows[1].minute))
        assert await t.driver.read(asked) == [rows[1], rows[3]]
