"""Waking up and closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from windlass.core.changes import Ack
from windlass.core.duties import Prune, SampleQueues
from windlass.core.queries import AllQueues, AllWorkers, SamplesSince, UsageSince
from windlass.drivers.values import JobQuery, Renewal
from windlass.errors import DriverClosed, WrongConnection
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class LifecyclePromises(Suite):
    @promise
    async def test_a_closed_driver_refuses_everything(self, t: Trial) -> None:
        """Every method raises DriverClosed; closing twice is fine."""
        job = await t.running()
        await t.driver.close()
        await t.driver.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: t.driver.enqueue([t.new()], now=t.now),
            lambda: asyncio.to_thread(t.driver.enqueue_sync, [t.new()], now=t.now),
            lambda: t.claim(),
            lambda: t.driver.extend([Renewal(job.handle, job.token)], lease_for=1, now=t.now),
            lambda: t.settle(Ack(handle=job.handle, token=job.token, at=t.now)),
            lambda: t.driver.expire(now=t.now, limit=1),
            lambda: t.driver.alter([], now=t.now),
            lambda: t.driver.get([job.id]),
            lambda: t.driver.runs(job.id),
            lambda: t.driver.find(JobQuery()),
            lambda: t.driver.count(now=t.now),
            lambda: t.driver.waiting_types(None, limit=1),
            lambda: t.driver.read(AllQueues()),
            lambda: t.beat("w"),
            lambda: t.driver.read(AllWorkers()),
            lambda: t.lead("w"),
            lambda: t.driver.maintain(Prune(), epoch=None, now=t.now),
            lambda: t.driver.maintain(SampleQueues(keep=MINUTE), epoch=None, now=t.now),
            lambda: t.driver.read(SamplesSince(since=0)),
            lambda: t.driver.read(UsageSince(since=0)),
            lambda: t.driver.examine(now=t.now),
            lambda: t.driver.wait(timeout=0),
        ]
        for call in calls:
            with pytest.raises(DriverClosed):
                await call()

    @promise
    async def test_a_store_says_whether_it_has_transactions(self, t: Trial) -> None:
        """One without them refuses with WrongConnection and stores nothing; on one with them a closed driver gives none."""
        with pytest.raises(WrongConnection):
            t.driver.enqueue_within(object(), [t.new(id="within")], now=t.now)
        with pytest.raises(WrongConnection):
            await t.driver.enqueue_within_async(object(), [t.new(id="within")], now=t.now)
        assert await t.driver.get(["within"]) == [None]
        if t.driver.capabilities.transactional:
            t.driver.transaction().rollback()
            await t.driver.close()
            for call in (t.driver.transaction, lambda: t.driver.enqueue_within(object(), [t.new()], now=t.now)):
                with pytest.raises(DriverClosed):
                    call()
            with pytest.raises(DriverClosed):
                await t.driver.enqueue_within_async(object(), [t.new()], now=t.now)
        else:
            with pytest.raises(WrongConnection):
                t.driver.transaction()

    @promise
    async def test_closing_finishes_what_was_begun(self, t: Trial) -> None:
        """Calls that were sent before the close are answered, and stored where the store is durable."""
        sent = [asyncio.ensure_future(t.driver.enqueue([t.new(id=f"sent-{n}")], now=t.now)) for n in range(20)]
        await asyncio.sleep(0)
        other = self.another(t.driver) if t.driver.capabilities.shared else None
        await t.driver.close()
        assert [answer.id for [answer] in await asyncio.gather(*sent)] == [f"sent-{n}" for n in range(20)]
        if other is not None:
            assert None not in await other.get([f"sent-{n}" for n in range(20)])
            await other.close()

    @promise
    async def test_waiting_ends_when_work_arrives(self, t: Trial) -> None:
        """An enqueue wakes a waiter; without one it returns at its timeout, told of nothing."""
        await t.quiet()
        waiter = asyncio.ensure_future(t.driver.wait(timeout=30))
        await asyncio.sleep(0.01)
        await t.enqueue()
        assert await waiter is True

    @promise
    async def test_work_that_arrived_before_the_wait_is_not_missed(self, t: Trial) -> None:
        """Between an empty claim and the wait nothing is lost, from the first wait on."""
        other = self.another(t.driver)
        for _ in range(2):
            assert await t.claim() == []
            await other.enqueue([t.new()], now=t.now)
            assert await t.driver.wait(timeout=30) is True
            await t.claim()
            await t.quiet()
        if other is not t.driver:
            await other.close()

    @promise
    async def test_calls_that_change_nothing_wake_nobody(self, t: Trial) -> None:
        """Two idle workers do not keep each other awake."""
        other = self.another(t.driver)
        await t.quiet()
        waiter = asyncio.ensure_future(t.driver.wait(timeout=0.1))
        await asyncio.sleep(0.01)
        assert await t.claim() == []
        assert await other.get(["nobody"]) == [None]
        assert await other.settle([], now=t.now) == []
        assert await waiter is False
        if other is not t.driver:
            await other.close()

    @promise
    async def test_a_batch_is_read_when_it_is_sent(self, t: Trial) -> None:
        """What the caller does to its list afterwards changes nothing."""
        batch = [t.new(id="sent")]
        call = asyncio.ensure_future(t.driver.enqueue(batch, now=t.now))
        await asyncio.sleep(0)
        batch.clear()
        assert [answer.id for answer in await call] == ["sent"]
        assert await t.driver.get(["sent"]) != [None]

    @promise
    async def test_several_waiters_are_all_woken(self, t: Trial) -> None:
        """Every waiter of a driver is told."""
        await t.quiet()
        waiters = [asyncio.ensure_future(t.driver.wait(timeout=30)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await t.enqueue()
        assert await asyncio.gather(*waiters) == [True, True, True]
