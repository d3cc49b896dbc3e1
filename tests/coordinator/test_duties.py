"""What a leader does: bury the dead, remove what is old, count, and tell of what is not well."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.coordinator import bites
from windlass.core.duties import Done, ForgetKeys
from windlass.core.queries import SamplesSince, UsageSince
from windlass.errors import StoreError
from windlass.records import Finding
from windlass.testing.faulty import away
from windlass.types import NewJob

from .ground import Ground, Member, on_ground

MINUTE = 60 * SECOND
DAY = 86_400 * SECOND


async def beat(ground: Ground, seconds: int, *members: Member) -> None:
    """Let time pass, with the heartbeats and renewals of these."""
    for _ in range(seconds // 10):
        ground.clock.advance(10 * SECOND)
        for member in members:
            await member.registry.tick()
            await member.election.tick()


# ----------------------------------------------------------------------------------------------------------- the dead


def test_a_silent_worker_is_removed_and_what_it_holds_is_taken_back(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its lease is an hour long: nothing but its removal can have freed the job."""

    async def play(ground: Ground) -> None:
        leader, silent, healthy = ground.member("w1"), ground.member("w2"), ground.member("w3")
        await leader.elected()
        await silent.registry.tick()
        await healthy.registry.tick()
        await ground.enqueue("j1", "j2")
        await ground.claim("w2", 1, lease=3_600 * SECOND)
        ground.clock.advance(1)
        await ground.claim("w3", 1, lease=3_600 * SECOND)
        burial = leader.duty("burial")
        assert await burial.tick() == 20 * SECOND
        await beat(ground, 50, leader, healthy)
        assert await burial.tick() == 20 * SECOND
        assert len(await ground.registered()) == 3
        await beat(ground, 10, leader, healthy)
        assert await burial.tick() == 20 * SECOND
        assert list(await ground.registered()) == ["w1", "w3"]
        assert await ground.states("j1", "j2") == ["queued", "running"]
        assert leader.stats.recovered == 1
        assert "removed because of their silence: 1 worker" in caplog.text

    on_ground(url, play)


def test_a_new_leader_first_lets_everybody_be_heard(url: str) -> None:
    """A machine that was suspended wakes up: everybody has been silent for long, and nobody is dead."""

    async def play(ground: Ground) -> None:
        leader, other = ground.member("w1"), ground.member("w2")
        await leader.elected()
        await other.registry.tick()
        burial = leader.duty("burial")
        await burial.tick()
        ground.clock.advance("10m")
        await leader.election.tick()
        assert leader.election.epoch == 2
        assert await burial.tick() == 20 * SECOND
        assert len(await ground.registered()) == 2
        await beat(ground, 20, leader, other)
        await burial.tick()
        assert len(await ground.registered()) == 2

    on_ground(url, play)


def test_a_leader_that_does_not_trust_its_clock_buries_nobody() -> None:
    async def play(ground: Ground) -> None:
        leader, silent = ground.member("w1"), ground.member("w2")
        await leader.elected()
        await silent.registry.tick()
        burial = leader.duty("burial")
        await burial.tick()
        leader.trusts = False
        await beat(ground, 90, leader)
        assert await burial.tick() == 20 * SECOND
        assert len(await ground.registered()) == 2
        leader.trusts = True
        await burial.tick()
        assert list(await ground.registered()) == ["w1"]

    on_ground("memory://", play)


# ------------------------------------------------------------------------------------------------------------ the old


def test_old_jobs_go_in_bites_with_room_for_others_in_between(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(ground: Ground) -> None:
        await ground.finished("a1", "a2", "a3")
        ground.clock.advance(7 * DAY)
        await ground.finished("b1")
        ground.clock.advance(5 * MINUTE)
        leader = ground.member("w1")
        await leader.elected()
        retention, usage = leader.duty("retention"), leader.duty("usage")
        assert await usage.tick() == MINUTE
        times = iter([10.0, 10.25, 20.0, 20.1])
        retention._time = lambda: next(times)  # type: ignore[attr-defined]
        assert await retention.tick() == SECOND // 4, "others get as much time as the bite has taken"
        assert await retention.tick() == MINUTE
        assert await ground.states("a1", "a2", "a3", "b1") == [None, None, None, "succeeded"]

    monkeypatch.setattr(bites, "BITE", 2)
    on_ground(url, play)


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_bite_that_fails_is_smaller_the_next_time(how: str) -> None:
    """What the store had no time for is not asked for again as it was; and not less than makes sense."""

    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        retention = leader.duty("retention")
        asked: list[int] = []

        async def takes_long(call: Any, args: Any) -> Done:
            asked.append(args[0].limit)
            if how == "fails":
                raise away()
            await asyncio.sleep(60)
            raise AssertionError

        for _ in range(6):
            ground.store.faults["maintain"] = takes_long
            with pytest.raises((StoreError, TimeoutError)):
                async with asyncio.timeout(0.01):
                    await retention.tick()
        ground.store.faults.clear()
        assert asked == [500, 250, 125, 62, 50, 50]
        assert await retention.tick() == MINUTE

    on_ground("memory://", play)


def test_what_is_kept_is_what_the_settings_say(url: str) -> None:
    async def play(ground: Ground) -> None:
        await ground.finished("a1")
        leader = ground.member("w1")
        await leader.elected()
        for day in (1, 1):
            ground.clock.advance(day * DAY)
            await leader.election.tick()
            await leader.duty("retention").tick()
        assert await ground.states("a1") == ["succeeded"]
        ground.clock.advance(DAY)
        await leader.election.tick()
        await leader.duty("retention").tick()
        assert await ground.states("a1") == [None]

    on_ground(url, play, keep_succeeded="3d")


def test_keys_are_forgotten_when_their_time_is_over(url: str) -> None:
    async def play(ground: Ground) -> None:
        until = ground.clock.now() + MINUTE
        again = NewJob(id="j2", type="t", queue="a", idempotency_scope="s", idempotency_key="k")
        await ground.enqueue("j1", idempotency_scope="s", idempotency_key="k", idempotency_expires_at=until)
        leader = ground.member("w1")
        await leader.elected()
        assert await leader.duty("keys").tick() == MINUTE
        assert (await ground.store.driver.enqueue([again], now=ground.clock.now()))[0].existed
        ground.clock.advance(MINUTE)
        await leader.election.tick()
        assert await leader.duty("keys").tick() == MINUTE
        assert await leader.election.act(ForgetKeys()) == Done(0), "nothing was left to forget"

    on_ground(url, play)


# ------------------------------------------------------------------------------------------------------------ counting


def test_queues_are_sampled_once_a_minute(url: str) -> None:
    async def play(ground: Ground) -> None:
        began = ground.clock.now()
        await ground.enqueue("j1", "j2")
        leader = ground.member("w1")
        await leader.elected()
        ground.clock.advance(15 * SECOND)
        assert await leader.duty("sampling").tick() == pytest.approx(45 * SECOND, abs=SECOND)
        assert await leader.duty("sampling").tick() == pytest.approx(45 * SECOND, abs=SECOND)
        [sample] = await ground.store.driver.read(SamplesSince(since=0))
        assert (sample.queue, sample.minute, sample.depth["queued"]) == ("a", began - MINUTE, 2)

    on_ground(url, play)


def test_sampling_takes_at_most_a_fiftieth_of_the_time() -> None:
    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        sampling = leader.duty("sampling")
        times = iter([100.0, 103.0])
        sampling._time = lambda: next(times)  # type: ignore[attr-defined]
        assert await sampling.tick() == 147 * SECOND

    on_ground("memory://", play)


def test_usage_is_counted_five_minutes_late_and_once(url: str) -> None:
    async def play(ground: Ground) -> None:
        await ground.finished("a1", "a2")
        leader = ground.member("w1")
        await leader.elected()
        ground.clock.advance(5 * MINUTE - 1)
        await leader.election.tick()
        await leader.duty("usage").tick()
        assert await ground.store.driver.read(UsageSince(since=0)) == []
        ground.clock.advance(1)
        for _ in range(2):
            assert await leader.duty("usage").tick() == MINUTE
        [used] = await ground.store.driver.read(UsageSince(since=0))
        assert used.runs == 2

    on_ground(url, play)


# --------------------------------------------------------------------------------------------------------------- watch


def test_what_is_not_well_is_told_once_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        told: list[list[str]] = []
        for status, text in (
            ("ok", "900 MiB"), ("warning", "90 MiB"), ("warning", "80 MiB"), ("problem", "0 MiB"), ("ok", "900 MiB"),
            ("ok", "901 MiB"),
        ):  # fmt: skip
            finding = Finding("space", status, text, "df -h")  # type: ignore[arg-type]

            async def says(call: Any, args: Any, finding: Finding = finding) -> list[Finding]:
                return [finding]

            ground.store.faults["examine"] = says
            caplog.clear()
            with caplog.at_level(logging.INFO, "windlass"):
                assert await leader.duty("health").tick() == 10 * MINUTE
            told.append([f"{record.levelname} {record.getMessage()}" for record in caplog.records])
        assert told == [
            [], ["WARNING space: 90 MiB; try: df -h"], [], ["ERROR space: 0 MiB; try: df -h"],
            ["INFO space: 900 MiB (well again)"], [],
        ]  # fmt: skip

    on_ground("memory://", play)


def test_a_real_store_can_be_looked_at(url: str) -> None:
    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        assert await leader.duty("health").tick() == 10 * MINUTE

    on_ground(url, play)


# ------------------------------------------------------------------------------------------------------- not the leader


@pytest.mark.parametrize("name", ["burial", "retention", "keys", "usage", "sampling", "health"])
def test_who_does_not_lead_does_nothing(url: str, name: str) -> None:
    async def play(ground: Ground) -> None:
        leader, other = ground.member("w1"), ground.member("w2")
        await leader.elected()
        await other.registry.tick()
        assert await other.duty(name).tick() == 0
        assert (ground.store.calls["maintain"], ground.store.calls["examine"]) == (0, 0)

    on_ground(url, play)


@pytest.mark.parametrize("name", ["burial", "retention", "keys", "usage", "sampling"])
def test_a_duty_that_is_refused_waits_for_the_next_election(url: str, name: str) -> None:
    async def play(ground: Ground) -> None:
        past = ground.member("w1")
        await past.elected()
        await past.duty("burial").tick()
        await past.registry.leave()
        assert await past.duty(name).tick() == 0
        assert not past.election.won.is_set()

    on_ground(url, play)


def test_it_is_told_once_that_rows_of_others_keep_jobs(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reason, and not again in each sweep."""

    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        retention = leader.duty("retention")
        reasons = iter(["by orders", "by orders", "", "by bills"])

        async def act(duty: object) -> Done:
            return Done(0, refused=next(reasons))

        monkeypatch.setattr(leader.election, "act", act)
        for _ in range(4):
            assert await retention.tick() == bites.EVERY
        told = [record.getMessage() for record in caplog.records if "passes over" in record.getMessage()]
        assert [line.rsplit(": ", 1)[1] for line in told] == ["by orders", "by bills"]

    on_ground(url, play)
