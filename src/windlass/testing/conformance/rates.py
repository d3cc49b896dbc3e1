"""Limits by time: so many in a second, and when a claim is worth while again."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, RemoveLimit
from windlass.core.queries import AllLimits, NextRefill
from windlass.core.settle import Succeeded
from windlass.drivers.values import Claim
from windlass.testing.conformance.trial import Suite, Trial, promise


class RatePromises(Suite):
    @promise
    async def test_a_rate_lets_so_many_through_in_time(self, t: Trial) -> None:
        """A full bucket at first, then one token at a time, in dispatch order; a token is not given back."""
        await t.alter(PutLimit("key:api", per_second=2.0, burst=3))
        ids = [await t.enqueue(limit_keys=("key:api",)) for _ in range(6)]
        urgent = await t.enqueue(limit_keys=("key:api",), priority=9)
        jobs = await t.claim()
        assert [job.id for job in jobs] == [urgent, *ids[:2]]
        for job in jobs:
            await t.end(job, Succeeded())
        assert await t.claim() == []
        t.clock.advance(SECOND // 2 - 1)
        assert await t.claim() == []
        t.clock.advance(1)
        assert [job.id for job in await t.claim()] == [ids[2]]
        t.clock.advance(10 * SECOND)
        assert [job.id for job in await t.claim()] == ids[3:], "the bucket holds no more than its burst"

    @promise
    async def test_who_waited_for_a_slot_waits_for_the_next_token_too(self, t: Trial) -> None:
        """Of a limit with a maximum and a rate: the end of a holder frees its slot, and it is the next token that counts.
        Other limits, which have a token later, are not put off or hurried by it."""
        await t.alter(PutLimit("key:api", 1, per_second=1.0, burst=1))
        await t.alter(PutLimit("key:slow", per_second=0.25, burst=1))
        for _ in range(2):
            await t.enqueue(limit_keys=("key:slow",), queue="slow")
        assert len(await t.claim("slow")) == 1
        first, second = [await t.enqueue(limit_keys=("key:api",)) for _ in range(2)]
        [holder] = await t.claim()
        assert holder.id == first
        t.clock.advance(SECOND // 2)
        assert await t.ack(holder) == "applied"
        assert await t.claim() == []
        assert {limit.key: limit.wake_at for limit in await t.driver.read(AllLimits())} == {
            "key:api": t.now + SECOND // 2, "key:slow": t.now - SECOND // 2 + 4 * SECOND,
        }  # fmt: skip
        assert await t.driver.read(NextRefill(queues=("default",), now=t.now)) == [t.now + SECOND // 2]
        t.clock.advance(SECOND // 2)
        assert [job.id for job in await t.claim()] == [second]

    @promise
    async def test_who_finds_a_slot_without_a_token_waits_for_that_of_its_limit(self, t: Trial) -> None:
        """Whether an end makes the slot, of several limits at once, or a person who raises the maximum."""
        rates = {"key:api": 1.0, "key:slow": 0.25, "key:more": 0.5}
        for key, rate in rates.items():
            await t.alter(PutLimit(key, 1, per_second=rate, burst=1))
        holder = await t.running(limit_keys=("key:api", "key:slow"))
        await t.running(limit_keys=("key:more",))
        for key in rates:
            await t.enqueue(limit_keys=(key,))
        assert await t.claim() == []

        async def wakes() -> dict[str, int | None]:
            return {limit.key: limit.wake_at for limit in await t.driver.read(AllLimits())}

        assert await wakes() == dict.fromkeys(rates)
        await t.ack(holder)
        ends = {"key:api": t.now + SECOND, "key:slow": t.now + 4 * SECOND}
        assert await wakes() == {**ends, "key:more": None}
        await t.alter(PutLimit("key:more", 2, per_second=0.5, burst=1))
        assert await wakes() == {**ends, "key:more": t.now + 2 * SECOND}

    @promise
    async def test_the_store_tells_when_there_is_a_token(self, t: Trial) -> None:
        """`NextRefill` names the instant for which those who are parked wait, or at which a queue may give again."""
        assert await t.driver.read(NextRefill(queues=("default",), now=t.now)) == []
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        await t.alter(PutLimit("queue:slow", per_second=0.1, burst=1))
        for _ in range(2):
            await t.enqueue(limit_keys=("key:api",))
            await t.enqueue(queue="slow")
        assert len(await t.claim("default", "slow")) == 2
        assert await t.driver.read(NextRefill(queues=("default", "slow"), now=t.now)) == [t.now + SECOND]
        t.clock.advance(SECOND)
        assert len(await t.claim("default", "slow")) == 1
        assert await t.driver.read(NextRefill(queues=("slow",), now=t.now)) == [t.now + 9 * SECOND]
        t.clock.advance(9 * SECOND)
        assert len(await t.claim("slow")) == 1

    @promise
    async def test_a_token_for_which_others_wait_is_nothing_to_wait_for(self, t: Trial) -> None:
        """`NextRefill` tells nothing of a limit on which only jobs of other queues are parked."""
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        for _ in range(2):
            await t.enqueue(queue="theirs", limit_keys=("key:api",))
        assert len(await t.claim("theirs")) == 1
        assert await t.claim("theirs") == []
        assert await t.driver.read(NextRefill(queues=("ours", "others"), now=t.now)) == []
        assert await t.driver.read(NextRefill(queues=("ours", "theirs"), now=t.now)) == [t.now + SECOND]

    @promise
    async def test_a_token_for_which_other_types_wait_is_nothing_to_wait_for(self, t: Trial) -> None:
        """`NextRefill` of some types tells nothing of a limit on which only jobs of other types are parked; a limit over a
        queue may give again whatever waits there."""
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        for _ in range(2):
            await t.enqueue(type="render", limit_keys=("key:api",))
        assert len(await t.claim()) == 1
        assert await t.claim() == []
        for types, told in ((("mail", "send"), []), (("mail", "render"), [t.now + SECOND]), (None, [t.now + SECOND])):
            assert await t.driver.read(NextRefill(queues=("default",), now=t.now, types=types)) == told
        await t.enqueue(queue="theirs", type="mail", limit_keys=("key:api",))
        assert await t.claim("theirs") == []
        assert await t.driver.read(NextRefill(queues=("default",), now=t.now, types=("mail",))) == []
        await t.alter(PutLimit("queue:slow", per_second=1.0, burst=1))
        for _ in range(2):
            await t.enqueue(queue="slow", type="render")
        assert len(await t.claim("slow")) == 1
        assert await t.driver.read(NextRefill(queues=("slow",), now=t.now, types=("mail",))) == [t.now + SECOND]

    @promise
    async def test_a_token_that_nobody_waits_for_is_nothing_to_wait_for(self, t: Trial) -> None:
        """`NextRefill` tells of a limit over a queue, or over all, only while a job of such a queue is due."""
        for key in ("queue:default", "global"):
            await t.alter(PutLimit(key, per_second=1.0, burst=1))
            await t.enqueue()
            assert len(await t.claim()) == 1
            await t.enqueue(queue="other")
            await t.enqueue(run_at=t.now + SECOND // 2)
            assert await t.driver.read(NextRefill(queues=("default",), now=t.now)) == []
            assert await t.driver.read(NextRefill(queues=("default",), now=t.now + SECOND // 2)) == [t.now + SECOND]
            await t.alter(RemoveLimit(key))
            t.clock.advance(SECOND)
            assert len(await t.claim("default", "other")) == 2
        await t.alter(PutLimit("global", per_second=1.0, burst=1))
        await t.enqueue(queue="other")
        await t.enqueue(queue="other")
        assert len(await t.claim("other")) == 1
        assert await t.driver.read(NextRefill(queues=("default",), now=t.now)) == []
        assert await t.driver.read(NextRefill(queues=("default", "other"), now=t.now)) == [t.now + SECOND]

    @promise
    async def test_who_may_not_be_taken_waits_for_no_token(self, t: Trial) -> None:
        """`NextRefill` tells nothing of a limit over a queue of which all that is due waits for something else, whatever is
        due in other queues, nor of a limit for which others wait."""
        for change in (
            PutLimit("queue:ours", per_second=1.0, burst=1), PutLimit("key:api", per_second=1.0, burst=1),
            PutLimit("key:none", 0),
        ):  # fmt: skip
            await t.alter(change)
        parent = await t.running(queue="parents")
        await t.enqueue(queue="ours", limit_keys=("key:none",), run_at=t.now)
        for _ in range(2):
            await t.enqueue(queue="theirs", limit_keys=("key:api",))
        await t.running(queue="before")
        assert await t.claim("ours") == []
        assert len(await t.claim("theirs")) == 1
        await t.running(queue="ours", type="first")
        await t.enqueue(queue="ours", after=(parent.id,), run_at=t.now)
        await t.enqueue(queue="beside")
        await t.enqueue(queue="beside", run_at=t.now + 1)
        assert await t.driver.read(NextRefill(queues=("ours", "beside"), now=t.now + 1)) == []
        await t.enqueue(queue="ours")
        assert await t.driver.read(NextRefill(queues=("ours", "beside"), now=t.now + 1)) == [t.now + SECOND]

    @promise
    async def test_a_token_that_was_waited_for_is_there_whoever_comes_for_it(self, t: Trial) -> None:
        """One whose clock is ahead lets a job through, one whose clock lags takes it: it is not parked once more."""
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        first, second = [await t.enqueue(limit_keys=("key:api",)) for _ in range(2)]
        assert [job.id for job in await t.claim()] == [first]
        wish = Claim(queues=("default",), limit=9, lease_for=60 * SECOND, worker_id="w", token="t")  # noqa: S106
        assert await t.driver.claim(replace(wish, types=("another",)), now=t.now + SECOND) == []
        assert [job.id for job in await t.driver.claim(wish, now=t.now + SECOND // 2)] == [second]

    @promise
    async def test_nobody_starves_behind_a_rate(self, t: Trial) -> None:
        """Tokens that nobody of an unserved queue takes are there for others."""
        await t.alter(PutLimit("key:api", per_second=1.0, burst=1))
        await t.enqueue(queue="unserved", limit_keys=("key:api",), priority=9)
        mine = [await t.enqueue(limit_keys=("key:api",)) for _ in range(3)]
        assert [job.id for job in await t.claim("default", "unserved", limit=1)] != mine[:1]
        for job in mine:
            t.clock.advance(SECOND)
            assert [one.id for one in await t.claim()] == [job]
