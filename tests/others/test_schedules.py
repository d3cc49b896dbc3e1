"""Schedules that somebody else's scheduler would have forgotten, repeated or starved."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from coordinator.ground import Ground, Member, on_ground
from coordinator.test_firing import HOUR, MINUTE, fired, jobs, put, row
from windlass.backoff import Backoff
from windlass.clock import SECOND
from windlass.coordinator import firing
from windlass.coordinator.firing import SHORTEST, fire_all
from windlass.coordinator.ticking import keep_ticking
from windlass.core import cron
from windlass.core.alterations import PutQueue
from windlass.drivers.values import JobQuery
from windlass.errors import InvalidInput

DAY = 24 * HOUR


def test_a_zone_that_nobody_knows_costs_a_moment_and_not_one_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader looks at what is due every second: reading all zones each time would hold up everything beside it."""
    read = 0

    def zones() -> set[str]:
        nonlocal read
        read += 1
        return {"Europe/Berlin"}

    monkeypatch.setattr(cron, "available_timezones", zones)
    for _ in range(5):
        with pytest.raises(InvalidInput, match="did you mean 'Europe/Berlin'"):
            cron._zone("Europe/Brelin")
    assert read == 1


@pytest.mark.parametrize("leads", [True, False])
def test_a_page_of_schedules_that_cannot_be_told_here_hides_none_behind_it(
    leads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firing, "AT_ONCE", 3)

    async def play(ground: Ground) -> None:
        for number in range(6):
            await put(ground, name=f"far {number}", timezone="Europe/Kyiv")
        for number in range(4):
            await put(ground, name=f"near {number}")
        usual = cron._zone

        def older(name: str) -> Any:
            return usual("Nowhere/City" if name == "Europe/Kyiv" else name)

        monkeypatch.setattr(cron, "_zone", older)
        ground.clock.advance(HOUR)
        if leads:
            leader = ground.member("w")
            await leader.elected()
            while await leader.duty("firing").tick() == SHORTEST:
                pass
        else:
            await fire_all(ground.client)
        assert {job.schedule_id for job in await jobs(ground)} == {f"s-near {number}" for number in range(4)}

    on_ground("memory://", play)


def test_a_schedule_goes_on_after_any_number_of_errors_of_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses = 0

    async def no_pause(self: Backoff, until: asyncio.Event | None = None) -> None:
        nonlocal pauses
        pauses += 1
        await asyncio.sleep(0)

    monkeypatch.setattr(Backoff, "pause", no_pause)
    caplog.set_level("CRITICAL")

    async def play(ground: Ground) -> None:
        leader = ground.member("w")
        first = (await put(ground)).next_trigger_at
        ground.clock.advance(HOUR)
        await leader.elected()
        ground.store.fail("alter")
        loop = asyncio.create_task(keep_ticking(leader.duty("firing"), ground.client, leader.stats))
        while pauses < 500:  # noqa: ASYNC110 - a plain number tells nobody of a change
            await asyncio.sleep(0)
        ground.store.mend()
        while not await fired(ground):  # noqa: ASYNC110 - nor does a store of its rows
            await asyncio.sleep(0)
        assert (await fired(ground), leader.stats.store_errors >= 500) == ([first], True)
        loop.cancel()

    on_ground("memory://", play)


@pytest.mark.parametrize("settings", [{}, {"catch_up": "skip"}])
def test_every_minute_is_fired_once_whoever_looks_and_when(settings: dict[str, Any]) -> None:
    """Leaders come and go, look at odd moments, and come half a minute late: none is missed, not even where what was
    missed is skipped."""
    chance = Random(7)

    async def play(ground: Ground) -> None:
        first = (await put(ground, "* * * * *", **settings)).next_trigger_at or 0
        members = [ground.member(name) for name in "abc"]
        leader, end = members[0], first + 4 * HOUR
        while ground.clock.now() < end:
            ground.clock.advance(chance.choice((1, 7, 20, 29, 31)) * SECOND + chance.randrange(SECOND))
            leader = await followed(leader, chance.choice(members))
            while await leader.duty("firing").tick() == SHORTEST:
                pass
        assert await times(ground) == list(range(first, (await row(ground)).next_trigger_at or 0, MINUTE))
        assert len(await times(ground)) >= 4 * 60

    on_ground("memory://", play)


async def followed(leader: Member, by: Member) -> Member:
    """The old leader leaves, or has lapsed, and the other one is elected."""
    if by is not leader:
        await leader.registry.leave()
    await by.elected()
    return by


async def times(ground: Ground) -> list[int]:
    """Of all that were fired; a page holds a thousand."""
    found, cursor = list[int](), None
    while True:
        page = await ground.store.driver.find(JobQuery(limit=1_000, before=cursor))
        found += [job.fire_at or 0 for job in page.jobs]
        if (cursor := page.cursor) is None:
            return sorted(found)


def test_the_least_urgent_job_gets_its_turn_in_an_hour_of_flood() -> None:
    """The leader's own duty ages it: nobody has to ask for it, and more urgent work keeps coming all the time."""

    async def play(ground: Ground) -> None:
        ageing = PutQueue("a", age_after=5 * MINUTE, age_to=3)
        await ground.store.driver.alter([ageing], now=ground.clock.now())
        leader = ground.member("w")
        await ground.enqueue("patient", priority=0)
        served: list[str] = []
        for minute in range(60):
            await ground.enqueue(*[f"urgent {minute} {n}" for n in range(3)], priority=3)
            await leader.elected()
            await leader.duty("ageing").tick()
            served += [job.id for job in await ground.claim("w", limit=2, lease=DAY)]
            ground.clock.advance(MINUTE)
        assert "patient" in served, "sixty more urgent ones still wait"
        assert len(served) == 120

    on_ground("memory://", play)
