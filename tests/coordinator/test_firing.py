"""Schedules fire: once for each time, whoever leads, crashes, restarts, or has a wrong clock."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.coordinator.firing import AT_ONCE, SHORTEST, fire, fire_all, fire_one
from windlass.core import cron
from windlass.core.alterations import (
    ArchiveTemplate,
    DeleteTemplate,
    Fire,
    PutSchedule,
    PutTemplate,
    SetEnabled,
)
from windlass.core.queries import AllSchedules, DueSchedules
from windlass.drivers.values import JobQuery
from windlass.errors import ConstraintViolated
from windlass.testing.faulty import Call, Fault
from windlass.types import Job, Schedule

from .ground import Ground, on_ground

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


async def put(ground: Ground, cron: str = "0 * * * *", name: str = "n", **fields: Any) -> Schedule:
    template = PutTemplate(template_id="t", name="report", type="t", queue="a", params=b'{"x":1}')
    change = PutSchedule(schedule_id=f"s-{name}", name=name, template="report", cron_expression=cron, **fields)
    await alter(ground, template, change)
    return await row(ground, name)


async def alter(ground: Ground, *changes: Any) -> None:
    answers = await ground.store.driver.alter(changes, now=ground.clock.now())
    assert set(answers) <= {"applied", "unchanged"}


async def row(ground: Ground, name: str = "n") -> Schedule:
    return next(one for one in await ground.store.driver.read(AllSchedules()) if one.name == name)


async def jobs(ground: Ground) -> list[Job]:
    return list((await ground.store.driver.find(JobQuery(limit=1_000))).jobs)[::-1]


async def fired(ground: Ground) -> list[int]:
    return [job.fire_at or 0 for job in await jobs(ground)]


def test_a_leader_fires_what_is_due_and_sleeps_until_the_next(url: str) -> None:
    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        firing = leader.duty("firing")
        assert await firing.tick() == SECOND, "somebody may put a schedule meanwhile"
        first = (await put(ground)).next_trigger_at or 0
        ground.clock.advance(first - ground.clock.now() - SECOND // 4)
        await leader.elected()
        assert await firing.tick() == SECOND // 4
        ground.clock.advance(SECOND // 4)
        assert await firing.tick() == SHORTEST
        assert await firing.tick() == SECOND
        [job] = await jobs(ground)
        assert (job.schedule_id, job.fire_at, job.run_at, job.queue, job.payload) == ("s-n", first, first, "a", b'{"x":1}')
        assert (job.template_id, job.template_version) == ("t", 1)
        assert (await row(ground)).next_trigger_at == first + HOUR

    on_ground(url, play)


def test_who_does_not_lead_fires_nothing(url: str) -> None:
    async def play(ground: Ground) -> None:
        leader, other = ground.member("w1"), ground.member("w2")
        await leader.elected()
        await other.registry.tick()
        await other.election.tick()
        await put(ground)
        ground.clock.advance(HOUR)
        assert await other.duty("firing").tick() == 0
        assert await fired(ground) == []

    on_ground(url, play)


def test_two_leaders_that_both_believe_it_make_one_job_of_each_time(url: str) -> None:
    """Both have read the schedule before either fires."""

    async def play(ground: Ground) -> None:
        await put(ground)
        for _ in range(5):
            ground.clock.advance(HOUR)
            due = await ground.store.driver.read(DueSchedules(by=ground.clock.now()))
            for _ in range(2):
                await fire(ground.client, due, lambda: True, set())
        times = await fired(ground)
        assert len(times) == len(set(times)) == 5

    on_ground(url, play)


def test_who_dies_between_reading_and_firing_leaves_it_to_the_next(url: str) -> None:
    async def play(ground: Ground) -> None:
        await put(ground, catch_up="all")
        ground.clock.advance(HOUR)
        assert await ground.store.driver.read(DueSchedules(by=ground.clock.now()))  # and nothing more is heard of it
        ground.clock.advance(2 * HOUR)
        leader = ground.member("w2")
        await leader.elected()
        await leader.duty("firing").tick()
        assert len(await fired(ground)) == 3

    on_ground(url, play)


def test_each_hour_once_through_changes_of_leaders_and_missed_hours(url: str) -> None:
    async def play(ground: Ground) -> None:
        first = (await put(ground, catch_up="all")).next_trigger_at or 0
        for term, away in enumerate((0, 3, 0, 7, 1)):
            leader = ground.member(f"w{term}")
            ground.clock.advance(away * HOUR + MINUTE)
            await leader.elected()
            for _ in range(4):
                ground.clock.advance(HOUR)
                await leader.elected()
                while await leader.duty("firing").tick() == SHORTEST:
                    pass
        times = await fired(ground)
        assert times == [first + n * HOUR for n in range(len(times))]
        assert times[-1] + HOUR == (await row(ground)).next_trigger_at
        assert len(times) > 20

    on_ground(url, play)


def test_an_interval_goes_on_in_its_rhythm_after_a_restart(url: str) -> None:
    async def play(ground: Ground) -> None:
        made = await put(ground, "every 90s", catch_up="all")
        for seconds in (90, 89, 400, 1, 1_000):
            ground.clock.advance(seconds * SECOND)
            await fire_all(ground.client)
        times = await fired(ground)
        assert times == [made.created_at + n * 90 * SECOND for n in range(1, len(times) + 1)]
        assert len(times) == 1_580 // 90

    on_ground(url, play)


@pytest.mark.parametrize(("catch_up", "count"), [("skip", 0), ("last", 1), ("all", 3)])
def test_a_clock_that_jumps_ahead_catches_up_as_told(url: str, catch_up: Any, count: int) -> None:
    async def play(ground: Ground) -> None:
        await put(ground, catch_up=catch_up, catch_up_cap=3)
        ground.clock.advance(1_000 * HOUR + 10 * MINUTE)
        await fire_all(ground.client)
        assert len(await fired(ground)) == count
        assert (await row(ground)).next_trigger_at == (ground.clock.now() // HOUR + 1) * HOUR

    on_ground(url, play)


def test_a_clock_that_was_a_year_ahead_does_not_silence_a_schedule(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        first = (await put(ground)).next_trigger_at or 0
        ground.clock.advance(first - ground.clock.now())
        await fire_all(ground.client)
        ground.clock.advance(8_760 * HOUR)
        await fire_all(ground.client)
        ground.clock.advance(-8_760 * HOUR)  # somebody has put it right
        leader = ground.member("w1")
        await leader.elected()
        await leader.duty("schedules").tick()
        assert "its next time was not one of its rule" in caplog.text
        assert (await row(ground)).next_trigger_at == first + HOUR
        for _ in range(3):
            ground.clock.advance(HOUR)
            await fire_all(ground.client)
        assert sorted(await fired(ground)) == [first, *(first + n * HOUR for n in (1, 2, 3)), first + 8_760 * HOUR]

    on_ground(url, play)


def test_many_schedules_of_one_instant_all_fire(url: str) -> None:
    async def play(ground: Ground) -> None:
        for number in range(AT_ONCE + 20):
            await put(ground, name=f"n{number}")
        ground.clock.advance(HOUR)
        assert await fire_all(ground.client) == AT_ONCE + 20
        assert len(await fired(ground)) == AT_ONCE + 20
        assert await fire_all(ground.client) == 0

    on_ground(url, play)


def test_a_long_catching_up_comes_in_bites(url: str) -> None:
    async def play(ground: Ground) -> None:
        leader = ground.member("w1")
        await leader.elected()
        await put(ground, catch_up="all", catch_up_cap=250)
        ground.clock.advance(300 * HOUR)
        await leader.elected()
        counts = []
        while await leader.duty("firing").tick() == SHORTEST:
            counts.append(len(await fired(ground)))
        assert counts == [100, 200, 250]

    on_ground(url, play)


def test_what_is_archived_or_paused_makes_nothing_and_is_not_made_up_for(url: str) -> None:
    async def play(ground: Ground) -> None:
        await put(ground, catch_up="all")
        await alter(ground, ArchiveTemplate("report"))
        ground.clock.advance(5 * HOUR)
        await fire_all(ground.client)
        await put(ground, catch_up="all")
        await alter(ground, SetEnabled("n", False))
        ground.clock.advance(5 * HOUR)
        await fire_all(ground.client)
        await alter(ground, SetEnabled("n", True))
        await fire_all(ground.client)
        assert await fired(ground) == []
        ground.clock.advance(HOUR)
        await fire_all(ground.client)
        assert len(await fired(ground)) == 1
        [job] = await jobs(ground)
        assert job.template_version == 2

    on_ground(url, play)


def test_a_schedule_follows_the_newest_version_and_its_jobs_keep_theirs(url: str) -> None:
    async def play(ground: Ground) -> None:
        await put(ground, param_overrides=b'{"y":2}')
        ground.clock.advance(HOUR)
        await fire_all(ground.client)
        await alter(ground, PutTemplate(template_id="x", name="report", type="t2", queue="b", params=b'{"x":5}'))
        ground.clock.advance(HOUR)
        await fire_all(ground.client)
        one, two = await jobs(ground)
        assert (one.type, one.queue, one.payload, one.template_version) == ("t", "a", b'{"x":1,"y":2}', 1)
        assert (two.type, two.queue, two.payload, two.template_version) == ("t2", "b", b'{"x":5,"y":2}', 2)
        [claimed] = await ground.claim("w")
        [run] = await ground.store.driver.runs(claimed.id)
        assert (run.template_id, run.template_version) == ("t", 1)

    on_ground(url, play)


def test_one_that_cannot_make_its_job_does_not_hold_up_the_others(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its parameters fit by themselves, and together they are too long for any store."""

    async def play(ground: Ground) -> None:
        half = b'{"%s":"' + b"y" * 700_000 + b'"}'
        await put(ground, name="good")
        await alter(ground, PutTemplate(template_id="l", name="long", type="t", params=half.replace(b"%s", b"one")))
        await alter(
            ground,
            PutSchedule(
                schedule_id="bad", name="bad", template="long", cron_expression="0 * * * *",
                param_overrides=half.replace(b"%s", b"two"),
            ),
        )  # fmt: skip
        ground.clock.advance(HOUR)
        assert await fire_all(ground.client) == 2
        assert [job.schedule_id for job in await jobs(ground)] == ["s-good"]
        assert "schedule bad cannot make its job" in caplog.text
        assert (await row(ground, "bad")).next_trigger_at == (await row(ground, "good")).next_trigger_at

    on_ground(url, play)


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("settings", ['{"weight":2}', '{"priority":"high"}', "[]", '{"priority":99999999999}'])
def test_a_template_that_this_version_cannot_read_holds_up_nobody(
    url: str, settings: str, leads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version wrote it, or a hand."""

    async def play(ground: Ground) -> None:
        await put(ground, name="near")
        await alter(ground, PutTemplate(template_id="n", name="newer", type="t", params=b"{}"))
        change = PutSchedule(schedule_id="s-bad", name="bad", template="newer", cron_expression="0 * * * *")
        await alter(ground, change)
        ground.store.faults["read"] = with_settings(settings)
        ground.clock.advance(HOUR)
        if leads:
            leader = ground.member("w1")
            await leader.elected()
            while await leader.duty("firing").tick() == SHORTEST:
                pass
        else:
            assert await fire_all(ground.client) == 2
        assert [job.schedule_id for job in await jobs(ground)] == ["s-near"]
        assert caplog.text.count("schedule bad cannot make its job and goes on to its next time") == 1
        assert (await row(ground, "bad")).next_trigger_at == (await row(ground, "near")).next_trigger_at

    on_ground(url, play)


def with_settings(settings: str) -> Fault:
    """Templates called `newer` are read as if these were stored."""

    async def fault(call: Call, args: tuple[Any, ...]) -> Any:
        rows = await call()
        return [replace(one, settings=settings) if getattr(one, "name", "") == "newer" else one for one in rows]

    return fault


@pytest.mark.parametrize("moves_on", [True, False])
def test_one_that_the_store_refuses_does_not_hold_up_the_others(
    url: str, moves_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on to its next time; should even that be refused, it is told of once, and stays."""

    async def play(ground: Ground) -> None:
        for name in ("bad", "good"):
            await put(ground, name=name)

        async def refuses(call: Call, args: tuple[Any, ...]) -> Any:
            [change] = args[0]
            if change.schedule_id == "s-bad" and (change.jobs or not moves_on):
                raise ConstraintViolated("the schema refused a row")
            return await call()

        leader = ground.member("w1")
        ground.clock.advance(HOUR)
        await leader.elected()
        ground.store.faults["alter"] = refuses
        for _ in range(4):
            await leader.duty("firing").tick()
        ground.store.mend()
        assert [job.schedule_id for job in await jobs(ground)] == ["s-good"]
        assert caplog.text.count("schedule bad") == 1
        assert ("goes on to its next time" in caplog.text) is moves_on
        assert ((await row(ground, "bad")).next_trigger_at == (await row(ground, "good")).next_trigger_at) is moves_on

    on_ground(url, play)


def test_a_schedule_that_is_in_no_code_any_more_is_told_of_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        await put(ground, declared="v1")
        ground.clock.advance(HOUR)
        leader = ground.member("w1")  # it knows the task, has started since, and did not declare it
        await leader.elected()
        for _ in range(2):
            await leader.duty("schedules").tick()
        assert caplog.text.count("schedule n is in no code any more") == 1
        assert (await row(ground)).enabled
        await put(ground, declared="v1")
        await leader.duty("schedules").tick()
        assert caplog.text.count("schedule n is in no code any more") == 1

    caplog.set_level(logging.WARNING)
    on_ground(url, play)


def test_a_deleted_template_is_no_reason_to_stop(url: str) -> None:
    """It cannot be deleted while it is in use; rows written by others can be anything."""

    async def play(ground: Ground) -> None:
        await put(ground)
        answers = await ground.store.driver.alter([DeleteTemplate("report")], now=ground.clock.now())
        assert answers == ["wrong_state"]
        ground.clock.advance(HOUR)
        assert await fire_one(ground.client, await row(ground), None)
        assert await fired(ground) == []

    on_ground(url, play)


def test_a_zone_that_this_machine_does_not_know_keeps_no_other_schedule(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored by a machine with newer zone tables: here it is one schedule's trouble, and no worker's end."""

    async def play(ground: Ground) -> None:
        await put(ground, name="far", timezone="Europe/Kyiv")
        await put(ground, name="near")
        usual = cron._zone

        def older(name: str) -> Any:
            return usual("Nowhere/City" if name == "Europe/Kyiv" else name)

        monkeypatch.setattr(cron, "_zone", older)
        leader = ground.member("w1")
        ground.clock.advance(HOUR)
        await leader.elected()
        await leader.duty("firing").tick()
        await leader.duty("schedules").tick()
        assert [job.schedule_id for job in await jobs(ground)] == ["s-near"]

    on_ground(url, play)


@pytest.mark.parametrize(
    "wrong",
    [{"cron_expression": rule} for rule in ("nonsense", "61 * * * *", "0 0 30 2 *", "every 0s", "every soon", "* * * *")]
    + [{"timezone": "No/Where"}],
)
def test_a_rule_that_nobody_can_read_keeps_no_other_schedule(
    url: str, wrong: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A hand wrote it, or a newer version: it is told of, with what to do, and stays; the leader goes on."""

    async def play(ground: Ground) -> None:
        for name in ("bad", "good"):
            await put(ground, name=name)
        ground.store.faults["read"] = with_fields("bad", wrong)
        leader = ground.member("w1")
        ground.clock.advance(HOUR)
        await leader.elected()
        for _ in range(3):
            await leader.duty("firing").tick()
        assert [job.schedule_id for job in await jobs(ground)] == ["s-good"]
        assert caplog.text.count("schedule bad (s-bad) cannot be fired here, and stays due") == 1
        assert "windlass schedules update" in caplog.text
        ground.store.mend()
        await leader.duty("firing").tick()
        assert [job.schedule_id for job in await jobs(ground)] == ["s-good", "s-bad"]

    on_ground(url, play)


def test_a_rule_that_nobody_can_read_is_told_of_before_its_time(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(ground: Ground) -> None:
        for name in ("bad", "good"):
            await put(ground, name=name)
        ground.store.faults["read"] = with_fields("bad", {"cron_expression": "nonsense"})
        leader = ground.member("w1")
        await leader.elected()
        await leader.duty("schedules").tick()
        assert "schedule bad cannot be told here" in caplog.text
        assert "windlass schedules update" in caplog.text

    on_ground(url, play)


@pytest.mark.parametrize("at", [-(2**63) + 1, -5])
def test_a_next_time_before_all_calendars_keeps_no_other_schedule(url: str, at: int) -> None:
    async def play(ground: Ground) -> None:
        for name in ("bad", "good"):
            await put(ground, name=name)
        ground.store.faults["read"] = with_fields("bad", {"next_trigger_at": at})
        ground.clock.advance(HOUR)
        leader = ground.member("w1")
        await leader.elected()
        await leader.duty("firing").tick()
        assert [job.schedule_id for job in await jobs(ground)] == ["s-good"]

    on_ground(url, play)


def test_a_next_time_is_not_straightened_by_a_rule_that_was(url: str) -> None:
    """Somebody gives it another rule after the leader has looked, whose next time happens to be the stored one."""

    async def play(ground: Ground) -> None:
        first = (await put(ground)).next_trigger_at or 0
        half = ground.clock.now() + HOUR // 2
        leader = ground.member("w1")
        await leader.elected()
        await alter(ground, Fire(schedule_id="s-n", expected=first, next_trigger_at=half))

        async def overtaken(call: Call, args: tuple[Any, ...]) -> Any:
            ground.store.mend()
            assert (await put(ground, "30 * * * *")).next_trigger_at == half
            return await call()

        ground.store.faults["alter"] = overtaken
        await leader.duty("schedules").tick()
        assert not ground.store.faults, "nothing was straightened"
        assert (await row(ground)).next_trigger_at == half

    on_ground(url, play)


def test_a_schedule_that_was_mended_meanwhile_is_not_moved_past_its_time(url: str) -> None:
    """Its job was refused; before the leader goes on to the next time, a person has changed what it is made of."""

    async def play(ground: Ground) -> None:
        await put(ground)

        async def refuses(call: Call, args: tuple[Any, ...]) -> Any:
            ground.store.mend()
            await put(ground, param_overrides=b'{"x":2}')
            raise ConstraintViolated("the schema refused a row")

        ground.clock.advance(HOUR)
        ground.store.faults["alter"] = refuses
        assert await fire_all(ground.client) == 0
        assert await fire_all(ground.client) == 1
        assert [job.payload for job in await jobs(ground)] == [b'{"x":2}']

    on_ground(url, play)


def with_fields(name: str, fields: dict[str, Any]) -> Fault:
    """The schedule of this name is read as if this were stored."""

    async def fault(call: Call, args: tuple[Any, ...]) -> Any:
        rows = await call()
        return [replace(one, **fields) if isinstance(one, Schedule) and one.name == name else one for one in rows]

    return fault
