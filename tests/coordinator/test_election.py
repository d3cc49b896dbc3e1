"""One leads, under an epoch; who cannot renew stops by itself; who is wrong about it is refused."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.duties import ForgetKeys, RemoveDeadWorkers
from windlass.errors import StoreError

from .ground import Ground, on_ground

THIRD = 10 * SECOND  # of the leader's lease


def test_the_first_who_asks_leads_and_the_others_wait(url: str) -> None:
    async def play(ground: Ground) -> None:
        first, second = ground.member("w1"), ground.member("w2")
        await first.registry.tick()
        await second.registry.tick()
        assert await first.election.tick() == THIRD
        assert await second.election.tick() == THIRD
        assert (first.election.epoch, second.election.epoch) == (1, None)
        assert first.election.won.is_set()
        assert not second.election.won.is_set()
        rows = await ground.registered()
        assert (rows["w1"].is_leader, rows["w2"].is_leader) == (True, False)

    on_ground(url, play)


def test_who_renews_in_time_leads_on_under_the_same_epoch(url: str) -> None:
    async def play(ground: Ground) -> None:
        worker, other = ground.member("w1"), ground.member("w2")
        await worker.elected()
        await other.registry.tick()
        for _ in range(6):
            ground.clock.advance(THIRD)
            await worker.election.tick()
            await other.election.tick()
        assert (worker.election.epoch, other.election.epoch) == (1, None)

    on_ground(url, play)


def test_who_waits_is_there_within_a_second_of_the_end_of_a_silent_leader(url: str) -> None:
    async def play(ground: Ground) -> None:
        silent, heir = ground.member("w1"), ground.member("w2")
        await silent.elected()
        await heir.registry.tick()
        ends_at = ground.clock.now() + 3 * THIRD
        for _ in range(10):
            pause = await heir.election.tick()
            if heir.election.epoch is not None:
                break
            assert 0 < pause <= THIRD
            ground.clock.advance(pause)
        assert heir.election.epoch == 2
        assert ends_at <= ground.clock.now() <= ends_at + SECOND

    on_ground(url, play)


def test_who_is_not_registered_does_not_lead_and_asks_again_soon(url: str) -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        assert 0 < await worker.election.tick() <= SECOND
        assert worker.election.epoch is None

    on_ground(url, play)


def test_a_leader_that_cannot_renew_stops_acting_at_two_thirds(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        await worker.elected()
        ground.store.fail("lead")
        ground.clock.advance(2 * THIRD - 1)
        with pytest.raises(StoreError):
            await worker.election.tick()
        assert worker.election.epoch == 1
        ground.clock.advance(1)
        assert await worker.election.act(ForgetKeys()) is None
        assert ground.store.calls["maintain"] == 0, "it did not even ask"
        assert not worker.election.won.is_set()
        assert "w1 leads no longer: it could not be renewed" in caplog.text

    on_ground(url, play)


def test_a_clock_that_stands_still_does_not_prolong_leadership() -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        passed = 100.0
        worker.election._loop = SimpleNamespace(time=lambda: passed)  # type: ignore[assignment]
        await worker.elected()
        passed += 2 * THIRD / SECOND - 0.001
        assert worker.election.epoch == 1
        passed += 0.001
        assert worker.election.epoch is None

    on_ground("memory://", play)


def test_time_that_the_answer_takes_is_not_added(url: str) -> None:
    """Leadership counts from when it was asked for: the store's answer may have waited."""

    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        await worker.registry.tick()

        async def slow(call: Callable[[], Awaitable[Any]], args: tuple[Any, ...]) -> Any:
            answer = await call()
            ground.clock.advance(2 * THIRD)
            return answer

        ground.store.faults["lead"] = slow
        await worker.election.tick()
        assert worker.election.epoch is None

    on_ground(url, play)


def test_a_term_that_the_store_does_not_prolong_ends_when_it_did(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its leader was silent for so long that it was taken out of the registry: it is told that it leads, and until when."""

    async def play(ground: Ground) -> None:
        leader, heir = ground.member("w1"), ground.member("w2")
        await leader.elected()
        await heir.registry.tick()
        ground.clock.advance(THIRD)
        await heir.registry.tick()
        removed = await leader.election.act(RemoveDeadWorkers(silent_for=THIRD))
        assert removed is not None
        assert set(await ground.registered()) == {"w2"}
        await leader.election.tick()
        assert leader.election.epoch == 1, "its term goes on"
        ground.clock.advance(THIRD)
        assert leader.election.epoch is None
        await leader.election.tick()
        assert leader.election.epoch is None
        assert "w1 leads no longer: its term was not prolonged" in caplog.text
        ground.clock.advance(THIRD)
        assert await heir.elected() == 2
        assert leader.election.epoch is None

    on_ground(url, play)


def test_a_past_leader_is_refused_and_says_so(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It slept, and is wrong about its clocks: the epoch decides."""

    async def play(ground: Ground) -> None:
        past, heir = ground.member("w1"), ground.member("w2")
        await past.elected()
        await past.part.registry.leave()  # leadership ends in the store; it does not know
        assert await heir.elected() == 2
        assert past.election.epoch == 1
        assert await past.election.act(ForgetKeys()) is None
        assert past.election.epoch is None
        assert "w1: ForgetKeys was refused under epoch 1" in caplog.text
        assert "w1 leads no longer: its epoch has ended" in caplog.text
        assert await heir.election.act(ForgetKeys()) is not None

    on_ground(url, play)


def test_a_grant_whose_answer_was_lost_is_asked_for_again_and_is_the_same(url: str) -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        await worker.registry.tick()
        ground.store.lose_reply("lead")
        with pytest.raises(StoreError):
            await worker.election.tick()
        assert worker.election.epoch is None
        await worker.election.tick()
        assert worker.election.epoch == 1

    on_ground(url, play)


def test_a_new_leader_tells_the_log_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        worker = ground.member("w1")
        with caplog.at_level(logging.INFO, "windlass"):
            await worker.elected()
            await worker.election.tick()
        assert [record.getMessage() for record in caplog.records] == ["worker w1 leads (epoch 1)"]

    on_ground(url, play)
