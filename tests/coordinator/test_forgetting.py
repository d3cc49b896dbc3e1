"""Events go when they are old, whoever is left to hear of them."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.coordinator import forgetting
from windlass.core.alterations import ChangeWebhook, DeleteWebhook, PutWebhook
from windlass.core.changes import Ack
from windlass.core.events import announced
from windlass.core.queries import AllEvents, AllWebhooks

from .ground import Ground, on_ground

DAY = 86_400 * SECOND


async def announce(ground: Ground, *ids: str) -> None:
    """Jobs that have succeeded, of which the webhooks are to hear."""
    await ground.enqueue(*ids)
    now, hooks = ground.clock.now(), await ground.store.driver.read(AllWebhooks())
    jobs = await ground.claim("w", len(ids))
    ends = [announced(hooks, job, Ack(handle=job.handle, token=job.token, at=now)) for job in jobs]
    assert await ground.store.driver.settle(ends, now=now) == ["applied"] * len(ids)


@pytest.mark.parametrize("last", [ChangeWebhook(webhook_id="h", enabled=False), DeleteWebhook("h")])
def test_events_that_nobody_is_left_to_hear_of_are_forgotten(url: str, last: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker had made deliveries of them when the last webhook went; before they are old they are left alone."""
    monkeypatch.setattr(forgetting, "BITE", 2)

    async def play(ground: Ground) -> None:
        driver = ground.store.driver
        hook = PutWebhook(
            webhook_id="h", url="https://example.org/", events=("job.succeeded",), secret="whsec_" + "c2VjcmV0" * 4
        )
        await driver.alter([hook], now=ground.clock.now())
        await announce(ground, "a", "b", "c")
        await driver.alter([last], now=ground.clock.now())
        leader = ground.member("w1")
        await leader.elected()
        duty = leader.duty("events")
        await duty.tick()
        await duty.tick()
        assert {event.fanned_at for event in await driver.read(AllEvents())} == {None}, "somebody may subscribe again"
        ground.clock.advance(9 * DAY)
        await leader.elected()
        assert await duty.tick() == forgetting.SOON
        assert await duty.tick() == (forgetting.SELDOM if isinstance(last, DeleteWebhook) else forgetting.EVERY)
        assert await driver.read(AllEvents()) == []

    on_ground(url, play)


def test_events_that_somebody_waits_for_are_left_to_the_workers(url: str) -> None:
    async def play(ground: Ground) -> None:
        driver = ground.store.driver
        hook = PutWebhook(
            webhook_id="h", url="https://example.org/", events=("job.succeeded",), secret="whsec_" + "c2VjcmV0" * 4
        )
        await driver.alter([hook], now=ground.clock.now())
        await announce(ground, "a")
        leader = ground.member("w1")
        await leader.elected()
        duty = leader.duty("events")
        await duty.tick()
        ground.clock.advance(9 * DAY)
        await leader.elected()
        await duty.tick()
        [event] = await driver.read(AllEvents())
        assert event.fanned_at is None

    on_ground(url, play)
