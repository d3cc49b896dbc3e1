"""The registry of workers, and who leads them."""

from __future__ import annotations

import asyncio

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import Leave
from windlass.core.duties import Done, Duty, ForgetKeys, Prune, RemoveDeadWorkers, RollUpUsage, SampleQueues
from windlass.core.queries import AllWorkers, SamplesSince, UsageSince
from windlass.drivers.values import Leadership
from windlass.errors import InvalidInput, InvalidLeaseDuration
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise


class FleetPromises(Suite):
    @promise
    async def test_a_heartbeat_registers_a_worker(self, t: Trial) -> None:
        """Every field is kept, last_heartbeat is now; what the worker says of leadership is not believed. Sorted by id."""
        assert await t.driver.read(AllWorkers()) == []
        told = t.worker(
            "w", hostname="alpha", pid=17, pool_size=4, version="1.2", queues=("a", "b"), types=(), wakeups="push",
            running=3, started_at=t.now - MINUTE,
        )  # fmt: skip
        await t.beat("z")
        lies = t.worker("a", is_leader=True, leader_until=t.now + MINUTE, last_heartbeat=1)
        await t.driver.beat(lies, now=t.now)
        await t.driver.beat(told, now=t.now)
        rows = await t.driver.read(AllWorkers())
        assert [row.id for row in rows] == ["a", "w", "z"]
        assert rows[1] == t.worker(
            "w", hostname="alpha", pid=17, pool_size=4, version="1.2", queues=("a", "b"), types=(), wakeups="push",
            running=3, started_at=t.now - MINUTE, last_heartbeat=t.now,
        )  # fmt: skip
        assert (rows[0].is_leader, rows[0].leader_until, rows[0].last_heartbeat) == (False, None, t.now)

    @promise
    async def test_a_heartbeat_renews_everything_but_the_start(self, t: Trial) -> None:
        """Also when the worker tells another one."""
        began = t.now
        await t.beat("w")
        t.clock.advance(MINUTE)
        news = {
            "hostname": "beta", "pid": 2, "pool_size": 3, "version": "2", "queues": ("x",), "types": ("y",),
            "wakeups": "push", "running": 5,
        }  # fmt: skip
        await t.beat("w", **news, started_at=t.now)
        assert await t.driver.read(AllWorkers()) == [t.worker("w", **news, started_at=began, last_heartbeat=t.now)]

    @promise
    async def test_a_heartbeat_that_was_overtaken_says_nothing(self, t: Trial) -> None:
        """The network may hold it for long. It must not make a worker look silent, and lose its leases."""
        asked = t.now
        await t.beat("w", running=1)
        t.clock.advance(MINUTE)
        await t.beat("w", running=2)
        before = await t.driver.read(AllWorkers())
        await t.driver.beat(t.worker("w", running=1), now=asked + 1)
        assert await t.driver.read(AllWorkers()) == before
        await t.beat("w", running=3)
        assert [row.running for row in await t.driver.read(AllWorkers())] == [3], "of the same moment, and not overtaken"

    @promise
    async def test_the_first_registered_worker_that_asks_leads(self, t: Trial) -> None:
        """Nobody leads before; the first term has the epoch 1. The others are told who leads, and change nothing."""
        await t.beat("w")
        await t.beat("v")
        granted = Leadership(worker_id="w", epoch=1, until=t.now + LEASE)
        assert (await t.lead("nobody")).worker_id is None, "though others are registered"
        assert await t.lead("w") == granted
        t.clock.advance(SECOND)
        assert await t.lead("v") == granted
        assert await t.lead("nobody") == granted
        assert [(row.id, row.is_leader, row.leader_until) for row in await t.driver.read(AllWorkers())] == [
            ("v", False, None),
            ("w", True, granted.until),
        ]

    @promise
    async def test_a_leader_renews_its_term_under_the_same_epoch(self, t: Trial) -> None:
        """Counted from now, as long as it leads still."""
        await t.beat("w")
        await t.lead("w")
        t.clock.advance(LEASE - 1)
        assert await t.lead("w", 2 * LEASE) == Leadership(worker_id="w", epoch=1, until=t.now + 2 * LEASE)

    @promise
    async def test_a_renewal_that_was_overtaken_shortens_no_term(self, t: Trial) -> None:
        """The network held it, and it arrives after a later one. Its leader relies on what the later one was answered."""
        await t.beat("w")
        await t.lead("w")
        asked = t.now
        t.clock.advance(SECOND)
        granted = await t.lead("w")
        assert await t.driver.lead("w", lease_for=LEASE, now=asked) == granted

    @promise
    async def test_at_the_instant_of_expiry_anybody_may_lead(self, t: Trial) -> None:
        """An instant before it nobody else may."""
        await t.beat("w")
        await t.beat("v")
        await t.lead("w")
        t.clock.advance(LEASE - 1)
        assert (await t.lead("v")).worker_id == "w"
        t.clock.advance(1)
        assert await t.lead("v") == Leadership(worker_id="v", epoch=2, until=t.now + LEASE)
        assert await t.lead("w") == Leadership(worker_id="v", epoch=2, until=t.now + LEASE)

    @promise
    async def test_a_lapsed_leader_that_comes_back_begins_a_new_epoch(self, t: Trial) -> None:
        """Also when nobody led meanwhile; never beside another leader."""
        await t.beat("w")
        await t.beat("v")
        await t.lead("w")
        t.clock.advance(LEASE)
        assert await t.lead("w") == Leadership(worker_id="w", epoch=2, until=t.now + LEASE)
        t.clock.advance(2 * LEASE)
        await t.lead("v")
        assert (await t.lead("w")).worker_id == "v"

    @promise
    async def test_who_is_not_registered_never_leads(self, t: Trial) -> None:
        """Not on an empty store, not after leaving, and a leader that was removed cannot renew. When nobody leads, the
        answer names nobody, and the last epoch."""
        assert await t.lead("w") == Leadership()
        await t.beat("w")
        await t.lead("w")
        t.clock.advance(SECOND)
        until = t.now - SECOND + LEASE
        await t.maintain(RemoveDeadWorkers(silent_for=SECOND))
        assert await t.lead("w") == Leadership(worker_id="w", epoch=1, until=until)
        t.clock.advance(LEASE)
        assert await t.lead("w") == Leadership(epoch=1)

    @promise
    async def test_epochs_never_go_back(self, t: Trial) -> None:
        """Every new term has a larger one, whoever leaves, lapses, or opens the store anew."""
        other = self.another(t.driver)
        seen = []
        for turn in range(12):
            name = f"w{turn % 3}"
            await t.beat(name)
            driver = other if turn % 2 else t.driver
            seen.append((await driver.lead(name, lease_for=LEASE, now=t.now)).epoch)
            if turn % 4 == 3:
                await t.alter(Leave(name))
            else:
                t.clock.advance(LEASE)
        assert seen == list(range(1, 13))
        if other is not t.driver:
            await other.close()

    @promise
    async def test_the_registry_shows_who_led_last(self, t: Trial) -> None:
        """A lapsed term is shown with its date until another begins."""
        await t.beat("w")
        await t.beat("v")
        until = (await t.lead("w")).until
        t.clock.advance(2 * LEASE)
        assert [(row.is_leader, row.leader_until) for row in await t.driver.read(AllWorkers())] == [
            (False, None),
            (True, until),
        ]
        await t.lead("v")
        assert [row.is_leader for row in await t.driver.read(AllWorkers())] == [True, False]

    @promise
    async def test_many_who_race_for_leadership_have_one_winner(self, t: Trial) -> None:
        """All of them are told the same."""
        drivers = [t.driver, *[self.another(t.driver) for _ in range(3)]]
        names = [f"w{number:02}" for number in range(24)]
        for name in names:
            await t.beat(name)
        for term in (1, 2):
            asked = [drivers[n % 4].lead(name, lease_for=LEASE, now=t.now) for n, name in enumerate(names)]
            [answer] = set(await asyncio.gather(*asked))
            assert (answer.epoch, answer.until) == (term, t.now + LEASE)
            t.clock.advance(LEASE)
        for driver in drivers[1:]:
            if driver is not t.driver:
                await driver.close()

    # ------------------------------------------------------------------------------------------------------- leaving

    @promise
    async def test_a_leader_that_leaves_makes_room_at_once(self, t: Trial) -> None:
        """Its row goes and its leadership ends now: the next one leads at the same instant."""
        await t.beat("w")
        await t.beat("v")
        await t.lead("w")
        assert await t.alter(Leave("w")) == "applied"
        assert [row.id for row in await t.driver.read(AllWorkers())] == ["v"]
        assert await t.maintain(ForgetKeys(), 1) is None
        assert await t.lead("v") == Leadership(worker_id="v", epoch=2, until=t.now + LEASE)
        assert await t.alter(Leave("w")) == "unchanged"

    @promise
    async def test_who_leaves_takes_nothing_of_the_others_along(self, t: Trial) -> None:
        """The leader leads on, leases stay, a term that lapsed keeps its date, and a stranger changes nothing."""
        await t.beat("w")
        await t.beat("v")
        led = await t.lead("w")
        await t.enqueue()
        held = await t.take(worker_id="v")
        assert await t.alter(Leave("v")) == "applied"
        assert await t.alter(Leave("nobody")) == "unchanged"
        assert await t.maintain(ForgetKeys(), led.epoch) == Done(0)
        assert (await t.job(held.id)).lease_expires_at == t.now + LEASE
        t.clock.advance(2 * LEASE)
        await t.alter(Leave("w"))
        await t.beat("w")
        [row] = await t.driver.read(AllWorkers())
        assert row.leader_until == led.until

    # --------------------------------------------------------------------------------------------- under an epoch

    @promise
    async def test_maintenance_is_done_only_in_the_name_of_the_leader(self, t: Trial) -> None:
        """A stale epoch, one that never was, and the right one at the instant of its expiry are refused, for every duty,
        and nothing is changed. A person needs no epoch."""
        stale = t.now
        await t.beat("dead")
        await t.enqueue(idempotency_scope="s", idempotency_key="k", idempotency_expires_at=t.now + 1)
        done = await t.take()
        await t.ack(done)
        t.clock.advance(2 * MINUTE)
        duties: list[Duty] = [
            Prune(succeeded=0), ForgetKeys(), RemoveDeadWorkers(silent_for=MINUTE), SampleQueues(keep=MINUTE),
            RollUpUsage(until=t.now),
        ]  # fmt: skip
        for duty in duties:
            assert await t.maintain(duty, 0) is None, "nobody has led yet"
        for name in ("w", "v"):
            await t.beat(name)
        await t.lead("w")
        t.clock.advance(LEASE)
        for duty in duties:
            assert await t.maintain(duty, 1) is None, "expired"
        await t.lead("v")
        for duty in duties:
            assert await t.maintain(duty, 1) is None, "stale"
            assert await t.maintain(duty, 3) is None, "not yet"
        assert [row.id for row in await t.driver.read(AllWorkers())] == ["dead", "v", "w"]
        assert await t.driver.get([done.id]) != [None]
        assert await t.driver.read(UsageSince(since=0)) == []
        assert await t.driver.read(SamplesSince(since=0)) == []
        assert (await t.driver.read(AllWorkers()))[0].last_heartbeat == stale
        assert [await t.maintain(duty, 2) for duty in duties] == [Done(1), Done(1), Done(1), Done(0), Done(0)]

    @promise
    async def test_nonsense_of_a_worker_is_refused_before_anything_is_written(self, t: Trial) -> None:
        """Names, durations and limits are checked like everybody else's."""
        await t.beat("w")
        for worker in (t.worker(""), t.worker("x", pid=-1), t.worker("x", queues=("",)), t.worker("x", hostname="\x00")):
            with pytest.raises(InvalidInput):
                await t.driver.beat(worker, now=t.now)
        with pytest.raises(InvalidInput):
            await t.driver.beat(t.worker("x"), now=-1)
        for lease_for in (0, -1):
            with pytest.raises(InvalidLeaseDuration):
                await t.lead("w", lease_for)
        with pytest.raises(InvalidInput):
            await t.lead("")
        with pytest.raises(InvalidInput):
            await t.alter(Leave(""))
        nonsense: list[Duty] = [
            Prune(succeeded=-1), Prune(limit=0), ForgetKeys(limit=-1), RemoveDeadWorkers(silent_for=-1),
            SampleQueues(keep=-1), RollUpUsage(until=-1), RollUpUsage(until=1, limit=0),
        ]  # fmt: skip
        for duty in nonsense:
            with pytest.raises(InvalidInput):
                await t.maintain(duty)
        assert [row.id for row in await t.driver.read(AllWorkers())] == ["w"]
        assert await t.lead("w") == Leadership(worker_id="w", epoch=1, until=t.now + LEASE)
