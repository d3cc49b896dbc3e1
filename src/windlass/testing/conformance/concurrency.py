"""Many at once: no double lease, one winner."""

from __future__ import annotations

import asyncio
from collections import Counter

from windlass.core.alterations import PutLimit
from windlass.core.changes import Ack
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise


class ConcurrencyPromises(Suite):
    @promise
    async def test_two_thousand_jobs_and_thirty_two_claimers(self, t: Trial) -> None:
        """Every job is leased exactly once and settled by the one who leased it."""
        ids = [a.id for a in await t.driver.enqueue([t.new() for _ in range(2_000)], now=t.now)]
        drivers = [t.driver, *[self.another(t.driver) for _ in range(3)]]
        leased: Counter[str] = Counter()

        async def claimer(number: int) -> None:
            driver = drivers[number % len(drivers)]
            size = 1 + number % 7
            for turn in range(2_000):
                await asyncio.sleep(0)  # a driver that never suspends would let the first claimer take everything
                jobs = await driver.claim(_wish(f"{number}-{turn}", size), now=t.now)
                if not jobs:
                    return
                leased.update(job.id for job in jobs)
                acks = [Ack(handle=j.handle, token=j.token, at=t.now) for j in jobs]
                assert set(await driver.settle(acks, now=t.now)) == {"applied"}

        await asyncio.gather(*[claimer(number) for number in range(32)])
        assert sorted(leased) == sorted(ids)
        assert set(leased.values()) == {1}
        await _close(drivers[1:], t.driver)

    @promise
    async def test_thirty_two_claimers_and_one_expired_job(self, t: Trial) -> None:
        """Exactly one wins, with a new token; the loss is counted once."""
        job = await t.running()
        t.clock.advance(LEASE)
        drivers = [t.driver, *[self.another(t.driver) for _ in range(3)]]
        answers = await asyncio.gather(*[drivers[n % 4].claim(_wish(str(n), 1), now=t.now) for n in range(32)])
        [winner] = [got for answer in answers for got in answer]
        assert winner.token != job.token
        stored = await t.job(job.id)
        assert (stored.lost, stored.executions, stored.lease_token) == (1, 2, winner.token)
        await _close(drivers[1:], t.driver)

    @promise
    async def test_a_limit_holds_under_many_claimers(self, t: Trial) -> None:
        """However many ask at once, no more leases than the maximum are valid."""
        await t.alter(PutLimit("k", 5))
        await t.driver.enqueue([t.new(limit_keys=("k",)) for _ in range(100)], now=t.now)
        drivers = [t.driver, *[self.another(t.driver) for _ in range(3)]]
        answers = await asyncio.gather(*[drivers[n % 4].claim(_wish(str(n), 3), now=t.now) for n in range(32)])
        assert sum(len(answer) for answer in answers) == 5
        await _close(drivers[1:], t.driver)

    @promise
    async def test_many_enqueuers_with_one_key_make_one_job(self, t: Trial) -> None:
        """Racing enqueues with the same key are all told the same id; one of them stored it."""
        drivers = [t.driver, *[self.another(t.driver) for _ in range(3)]]
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        answers = await asyncio.gather(*[drivers[n % 4].enqueue([t.new(**key)], now=t.now) for n in range(32)])
        assert len({answer.id for [answer] in answers}) == 1
        assert [answer.existed for [answer] in answers].count(False) == 1
        await _close(drivers[1:], t.driver)


def _wish(token: str, limit: int) -> Claim:
    return Claim(queues=("default",), limit=limit, lease_for=LEASE, worker_id=f"w-{token}", token=token)


async def _close(others: list[Driver], own: Driver) -> None:
    for driver in others:
        if driver is not own:
            await driver.close()
