"""The loop of every duty: it outlives the store's errors, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from windlass.clock import SECOND
from windlass.coordinator.ticking import keep_ticking
from windlass.errors import DriverClosed
from windlass.testing.faulty import away
from windlass.types import Micros
from windlass.worker.stats import Stats

from .ground import Ground, on_ground


class Duty:
    name = "duty"

    def __init__(self, tick: Callable[[int], Micros], patience: Micros = SECOND) -> None:
        self.patience = patience
        self.ticks = 0
        self.enough = asyncio.Event()
        self._tick = tick

    async def tick(self) -> Micros:
        self.ticks += 1
        if self.ticks == 4:
            self.enough.set()
            await asyncio.Event().wait()
        return self._tick(self.ticks)


async def until_enough(ground: Ground, duty: Duty, once: asyncio.Event | None = None) -> Stats:
    stats = Stats()
    loop = asyncio.create_task(keep_ticking(duty, ground.client, stats, once=once))
    seen = asyncio.create_task(duty.enough.wait())
    await asyncio.wait({loop, seen}, return_when=asyncio.FIRST_COMPLETED)
    seen.cancel()
    if loop.done():
        await loop
    loop.cancel()
    return stats


def test_an_error_of_the_store_is_logged_counted_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    def tick(number: int) -> Micros:
        if number < 3:
            raise away()
        return 0

    async def play(ground: Ground) -> None:
        stats = await until_enough(ground, Duty(tick))
        assert stats.store_errors == 2
        assert caplog.text.count("duty duty failed and is tried again: the store: it is away") == 1, "once, and then seldom"

    on_ground("memory://", play)


@pytest.mark.parametrize("error", [DriverClosed(), ZeroDivisionError("a bug")])
def test_any_other_error_ends_it(error: Exception) -> None:
    def tick(number: int) -> Micros:
        raise error

    async def play(ground: Ground) -> None:
        with pytest.raises(type(error)):
            await until_enough(ground, Duty(tick))

    on_ground("memory://", play)


def test_a_store_that_does_not_answer_is_given_up_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        member = ground.member("w1")
        ground.store.hang("beat")
        stats = Stats()
        loop = asyncio.create_task(keep_ticking(member.registry, ground.client, stats))
        await until(lambda: stats.store_errors >= 2)
        ground.store.mend()
        await member.registry.registered.wait()
        loop.cancel()
        assert "duty heartbeat failed and is tried again: the store does not answer" in caplog.text

    on_ground("memory://", play, lease="100ms")


def test_a_leader_s_duty_rests_while_somebody_else_leads() -> None:
    async def play(ground: Ground) -> None:
        leads = asyncio.Event()

        def tick(number: int) -> Micros:
            if number == 2:
                leads.clear()
            return 0

        duty = Duty(tick)
        ticking = asyncio.create_task(until_enough(ground, duty, once=leads))
        await some_turns()
        assert duty.ticks == 0
        leads.set()
        await until(lambda: duty.ticks >= 2)
        await some_turns()
        assert duty.ticks == 2
        leads.set()
        await ticking

    on_ground("memory://", play)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - plain numbers tell nobody of a change
        await asyncio.sleep(0)


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
