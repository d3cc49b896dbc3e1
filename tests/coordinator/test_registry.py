"""A worker says what it is, that it lives, and that it goes."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.records import WorkerInfo

from .ground import Ground, on_ground


def test_a_heartbeat_tells_what_the_worker_is_and_what_it_holds(url: str) -> None:
    async def play(ground: Ground) -> None:
        began = ground.clock.now()
        worker = ground.member("w1")
        await worker.registry.tick()
        ground.clock.advance("10s")
        worker.running = 3
        await worker.registry.tick()
        assert await ground.registered() == {
            "w1": WorkerInfo(
                id="w1", hostname="here", pid=7, pool_size=12, version="1.2.3", queues=("a", "b"), types=("t",),
                wakeups=ground.store.driver.capabilities.wakeups, running=3, started_at=began,
                last_heartbeat=began + 10 * SECOND,
            )
        }  # fmt: skip

    on_ground(url, play)


@pytest.mark.parametrize(
    ("settings", "pause"),
    [({"lease": "30s"}, 10), ({"lease": "10m"}, 20), ({"lease": "6s", "worker_timeout": "45s"}, 2)],
)
def test_it_comes_three_times_before_others_may_take_what_the_worker_holds(settings: dict[str, Any], pause: int) -> None:
    async def play(ground: Ground) -> None:
        assert await ground.member("w1").registry.tick() == pause * SECOND

    on_ground("memory://", play, **settings)


def test_a_driver_may_tell_how_it_is_woken_at_present() -> None:
    async def play(ground: Ground) -> None:
        vars(ground.store)["present_wakeups"] = "poll (the listening connection is away)"
        await ground.member("w1").registry.tick()
        assert (await ground.registered())["w1"].wakeups == "poll (the listening connection is away)"

    on_ground("memory://", play)


def test_who_leaves_is_registered_no_more_and_the_next_one_leads_at_once(url: str) -> None:
    async def play(ground: Ground) -> None:
        first, second = ground.member("w1"), ground.member("w2")
        assert await first.elected() == 1
        await second.registry.tick()
        await first.part.leave()
        assert list(await ground.registered()) == ["w2"]
        assert first.election.epoch is None
        await second.election.tick()
        assert second.election.epoch == 2

    on_ground(url, play)


def test_leaving_a_store_that_is_away_is_no_error_and_is_not_tried_for_ever() -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        await worker.elected()
        ground.store.fail("alter")
        await worker.part.leave()
        assert ground.store.calls["alter"] == 1
        assert worker.election.epoch is None

    on_ground("memory://", play)
