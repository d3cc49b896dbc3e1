"""Templates and schedules, and who may change what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import (
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.cron import next_after
from windlass.core.queries import AllSchedules, AllTemplates, DueSchedules
from windlass.drivers.values import JobQuery
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import Job, Schedule, Template

HOUR = 60 * MINUTE


def template(**fields: Any) -> PutTemplate:
    return PutTemplate(**{"template_id": "t-1", "name": "report", "type": "work", **fields})


def schedule(**fields: Any) -> PutSchedule:
    return PutSchedule(
        **{"schedule_id": "s-1", "name": "nightly", "template": "report", "cron_expression": "0 * * * *", **fields}
    )


async def made(t: Trial, **fields: Any) -> Schedule:
    await t.alter(template())
    assert await t.alter(schedule(**fields)) == "applied"
    return await stored(t)


async def stored(t: Trial, name: str = "nightly") -> Schedule:
    return next(row for row in await t.driver.read(AllSchedules()) if row.name == name)


def firing(t: Trial, row: Schedule, *times: int, after: int | None = None) -> Fire:
    """Jobs for these times, or for the next one."""
    assert row.next_trigger_at is not None
    at = times or (row.next_trigger_at,)
    jobs = tuple(t.new(schedule_id=row.schedule_id, fire_at=one, run_at=one) for one in at)
    return Fire(
        schedule_id=row.schedule_id, expected=row.next_trigger_at, next_trigger_at=after or at[-1] + HOUR, jobs=jobs
    )  # fmt: skip


async def all_jobs(t: Trial) -> list[Job]:
    return list((await t.driver.find(JobQuery(superseded=True, limit=1_000))).jobs)[::-1]


class SchedulePromises(Suite):
    @promise
    async def test_a_template_has_versions(self, t: Trial) -> None:
        """A change is a new version under the same id; the same again changes nothing; every version stays to be read."""
        assert await t.alter(template(params=b'{"day": 1}', settings='{"priority":3}')) == "applied"
        t.clock.advance(SECOND)
        assert await t.alter(template(params=b'{"day": 1}', settings='{"priority":3}')) == "unchanged"
        assert await t.alter(template(template_id="t-2", params=b'{"day": 2}', queue="q")) == "applied"
        await t.alter(template(template_id="a", name="another"))
        first, second = await t.driver.read(AllTemplates(name="report"))
        assert first == Template(
            template_id="t-1", version=1, name="report", type="work", queue="default", params=b'{"day": 1}',
            settings='{"priority":3}', created_at=t.now - SECOND,
        )  # fmt: skip
        assert (second.template_id, second.version, second.queue, second.params) == ("t-1", 2, "q", b'{"day": 2}')
        newest = await t.driver.read(AllTemplates())
        assert [(row.name, row.version) for row in newest] == [("another", 1), ("report", 2)]
        assert await t.alter(template(name="third")) == "duplicate"

    @promise
    async def test_an_archived_template_comes_back_with_a_put(self, t: Trial) -> None:
        """Archiving marks the newest version; putting it again, even as it was, makes a new one that is in use."""
        await t.alter(template(queue="before"))
        await t.alter(template())
        await t.alter(template(template_id="a", name="another", queue="x"))
        await t.alter(template(template_id="a", name="another"))
        assert await t.alter(ArchiveTemplate("report")) == "applied"
        assert await t.alter(ArchiveTemplate("report")) == "unchanged"
        assert [row.archived_at for row in await t.driver.read(AllTemplates())] == [None, t.now]
        assert [row.archived_at for row in await t.driver.read(AllTemplates(name="report"))] == [None, t.now]
        assert await t.alter(template()) == "applied"
        assert [row.archived_at for row in await t.driver.read(AllTemplates())] == [None, None]
        assert await t.alter(ArchiveTemplate("nothing")) == "not_found"

    @promise
    async def test_a_template_in_use_is_not_deleted(self, t: Trial) -> None:
        """While a schedule names it: wrong_state. Afterwards it goes with all its versions."""
        await made(t)
        await t.alter(template(queue="other"))
        for name in ("another", "third"):
            await t.alter(template(template_id=name, name=name))
        assert await t.alter(DeleteTemplate("report")) == "wrong_state"
        assert await t.alter(DeleteTemplate("third")) == "applied"
        assert await t.alter(DeleteSchedule("nightly")) == "applied"
        assert await t.alter(DeleteTemplate("report")) == "applied"
        assert [row.name for row in await t.driver.read(AllTemplates())] == ["another"]
        assert await t.driver.read(AllTemplates(name="report")) == []
        assert await t.alter(DeleteTemplate("report")) == "not_found"

    @promise
    async def test_a_schedule_keeps_what_it_is_told(self, t: Trial) -> None:
        """Every field, its template by id, and the next time by its rule and zone."""
        row = await made(
            t, cron_expression="30 2 * * *", timezone="America/New_York", param_overrides=b'{"day": 3}', catch_up="all",
            catch_up_cap=7, overlap="queue-one", jitter=5 * SECOND, declared="f",
        )  # fmt: skip
        assert row == Schedule(
            schedule_id="s-1", template_id="t-1", name="nightly", cron_expression="30 2 * * *",
            timezone="America/New_York", enabled=True, param_overrides=b'{"day": 3}', catch_up="all", catch_up_cap=7,
            overlap="queue-one", jitter=5 * SECOND, declared="f", declared_at=t.now, created_at=t.now, updated_at=t.now,
            next_trigger_at=next_after("30 2 * * *", "America/New_York", t.now),
        )  # fmt: skip

    @promise
    async def test_a_change_of_rhythm_computes_the_next_time_from_now(self, t: Trial) -> None:
        """Rule, zone and enabled do; parameters, jitter and the like leave it alone. Id and creation stay."""
        row = await made(t, cron_expression="0 0 1 1 *")
        for change, moves in (
            ({"cron_expression": "0 12 * * *"}, True), ({"timezone": "Asia/Tokyo"}, True), ({"enabled": False}, True),
            ({"enabled": True}, True), ({"jitter": 5}, False), ({"param_overrides": b"{}"}, False),
            ({"overlap": "skip"}, False),
        ):  # fmt: skip
            t.clock.advance(HOUR)
            before = row
            told = {"cron_expression": row.cron_expression, "timezone": row.timezone, **change}
            assert await t.alter(schedule(schedule_id="another", **told)) == "applied"
            row = await stored(t)
            due = next_after(row.cron_expression, row.timezone, t.now) if row.enabled else None
            assert row.next_trigger_at == (due if moves else before.next_trigger_at), change
            assert (row.schedule_id, row.created_at) == (before.schedule_id, before.created_at)
            assert row.updated_at > before.updated_at

    @promise
    async def test_the_same_put_again_changes_nothing(self, t: Trial) -> None:
        """Also when times have passed that nobody fired: they are still to be fired."""
        row = await made(t)
        t.clock.advance(5 * HOUR)
        assert await t.alter(schedule(schedule_id="another")) == "unchanged"
        assert await stored(t) == row

    @promise
    async def test_a_change_of_what_was_seen_makes_nothing_anew(self, t: Trial) -> None:
        """With `as_of` it changes the schedule as it was read: one that somebody changed or fired meanwhile stays as it is,
        and one that was deleted stays away."""
        row = await made(t)
        assert await t.alter(schedule(overlap="skip", as_of=row.updated_at)) == "applied"
        before = await stored(t)
        assert before.overlap == "skip"
        assert await t.alter(schedule(overlap="allow", as_of=row.updated_at)) == "wrong_state"
        assert await stored(t) == before
        await t.alter(firing(t, before))
        assert await t.alter(schedule(overlap="allow", as_of=before.updated_at)) == "wrong_state"
        row = await stored(t)
        await t.alter(DeleteSchedule("nightly"))
        assert await t.alter(schedule(overlap="allow", as_of=row.updated_at)) == "not_found"
        assert await t.driver.read(AllSchedules()) == []

    @promise
    async def test_a_persons_change_outlives_the_same_code(self, t: Trial) -> None:
        """Code that declares what it declared before only says that it is there; other code changes all but `enabled`."""
        await made(t, declared="v1")
        await t.alter(SetEnabled("nightly", False))
        await t.alter(schedule(cron_expression="0 5 * * *"))
        t.clock.advance(HOUR)
        assert await t.alter(schedule(declared="v1")) == "applied"
        row = await stored(t)
        assert (row.cron_expression, row.enabled, row.declared, row.declared_at) == ("0 5 * * *", False, "v1", t.now)
        assert await t.alter(schedule(cron_expression="0 6 * * *", declared="v2")) == "applied"
        row = await stored(t)
        assert (row.cron_expression, row.enabled, row.declared) == ("0 6 * * *", False, "v2")

    @promise
    async def test_a_paused_schedule_has_no_next_time(self, t: Trial) -> None:
        """It goes on from now: what passed meanwhile was not missed. Again is unchanged, unknown is not found."""
        row = await made(t)
        assert await t.alter(SetEnabled("nightly", False)) == "applied"
        assert await t.alter(SetEnabled("nightly", False)) == "unchanged"
        assert (await stored(t)).next_trigger_at is None
        assert await t.driver.read(DueSchedules(by=t.now + 100 * HOUR)) == []
        assert await t.alter(firing(t, row)) == "wrong_state"
        t.clock.advance(10 * HOUR)
        assert await t.alter(SetEnabled("nightly", True)) == "applied"
        assert (await stored(t)).next_trigger_at == next_after("0 * * * *", "UTC", t.now)
        assert await t.alter(SetEnabled("nobody", True)) == "not_found"
        assert await all_jobs(t) == []

    @promise
    async def test_a_renamed_schedule_stays_itself(self, t: Trial) -> None:
        """Its id and its next time stay; a name in use is refused."""
        row = await made(t)
        await t.alter(schedule(schedule_id="s-2", name="other"))
        assert await t.alter(RenameSchedule("nightly", "other")) == "duplicate"
        assert await t.alter(RenameSchedule("nightly", "nightly")) == "unchanged"
        assert await t.alter(RenameSchedule("nobody", "x")) == "not_found"
        assert await t.alter(RenameSchedule("nightly", "daily")) == "applied"
        after = await stored(t, "daily")
        assert replace(after, name="nightly", updated_at=row.updated_at) == row

    @promise
    async def test_schedules_are_read_when_they_are_due(self, t: Trial) -> None:
        """By their next time, that instant included, then by id; no more than asked for."""
        await t.alter(template())
        for name, rule in (("c", "0 * * * *"), ("a", "0 * * * *"), ("b", "30 * * * *"), ("late", "0 0 1 1 *")):
            await t.alter(schedule(schedule_id=f"s-{name}", name=name, cron_expression=rule))
        rows = {row.name: row for row in await t.driver.read(AllSchedules())}
        assert list(rows) == ["a", "b", "c", "late"]
        hourly = rows["a"].next_trigger_at or 0
        assert [row.name for row in await t.driver.read(DueSchedules(by=hourly))] == sorted(
            ("a", "b", "c"), key=lambda name: (rows[name].next_trigger_at, name)
        )
        assert [row.name for row in await t.driver.read(DueSchedules(by=hourly - 1))] == ["b"]
        assert len(await t.driver.read(DueSchedules(by=hourly, limit=2))) == 2

    @promise
    async def test_changing_or_deleting_a_schedule_touches_no_job(self, t: Trial) -> None:
        """Not a byte of what it made."""
        row = await made(t)
        await t.alter(firing(t, row))
        jobs = await all_jobs(t)
        for change in (
            schedule(cron_expression="5 5 5 5 *"), SetEnabled("nightly", False), template(queue="other"),
            ArchiveTemplate("report"), DeleteSchedule("nightly"), DeleteTemplate("report"),
        ):  # fmt: skip
            assert await t.alter(change) == "applied"
            assert await all_jobs(t) == jobs

    @promise
    async def test_a_schedule_needs_a_template(self, t: Trial) -> None:
        """One that names none is not stored, and nothing else of it either."""
        assert await t.alter(schedule()) == "not_found"
        assert await t.driver.read(AllSchedules()) == []
        await made(t)
        assert await t.alter(schedule(name="other")) == "duplicate"
        assert await t.alter(DeleteSchedule("other")) == "not_found"

    @promise
    async def test_bad_schedules_are_refused_before_anything_is_written(self, t: Trial) -> None:
        """Impossible rules, huge ranges, unknown zones, nonsense: an error that names the field, and nothing changed."""
        row = await made(t)
        at = row.next_trigger_at or 0
        job = t.new(schedule_id="s-1", fire_at=at)
        for field, bad in (
            ("cron", schedule(cron_expression="0 0 30 2 *")), ("cron", schedule(cron_expression="0-100000000 * * * *")),
            ("cron", schedule(cron_expression="every 0s")), ("cron", schedule(cron_expression="@dayly")),
            ("cron", schedule(cron_expression=5)), ("timezone", schedule(timezone="Europe/Berln")),
            ("timezone", schedule(timezone="../passwd")), ("catch_up", schedule(catch_up="odd")),
            ("catch_up_cap", schedule(catch_up_cap=0)), ("catch_up_cap", schedule(catch_up_cap=10**8)),
            ("overlap", schedule(overlap="odd")), ("jitter", schedule(jitter=-1)), ("jitter", schedule(jitter=2**62)),
            ("param_overrides", schedule(param_overrides=b"[1]")), ("enabled", schedule(enabled="yes")),
            ("name", schedule(name=" ")), ("template", schedule(template="")),
            ("params", template(params=b"nonsense")), ("settings", template(settings='{"odd": 1}')),
            ("settings", template(settings='{"priority": "high"}')),
            ("priority", template(settings='{"priority": 4294967296}')),
            ("type", template(type="")), ("queue", template(queue="")), ("name", RenameSchedule("nightly", "")),
            ("enabled", SetEnabled("nightly", 1)),  # type: ignore[arg-type]
            ("jobs", Fire(schedule_id="s-1", expected=at, next_trigger_at=at, jobs=(t.new(),))),
            ("jobs", Fire(schedule_id="s-2", expected=at, next_trigger_at=at, jobs=(job,))),
            ("expected", Fire(schedule_id="s-1", expected=-1, next_trigger_at=at)),
        ):  # fmt: skip
            with pytest.raises(InvalidInput) as refused:
                await t.driver.alter([template(name="good", template_id="good"), bad], now=t.now)
            assert refused.value.field == field, bad
        assert [one.name for one in await t.driver.read(AllTemplates())] == ["report"]
        assert await stored(t) == row
        assert await all_jobs(t) == []

    @promise
    async def test_two_who_declare_the_same_at_once_make_one(self, t: Trial) -> None:
        """Processes that start together: one template with one version, one schedule."""
        other = self.another(t.driver)
        try:
            await asyncio.gather(*(
                driver.alter(
                    [template(template_id=f"t-{n}"), schedule(schedule_id=f"s-{n}", declared="v1")], now=t.now
                )
                for n, driver in enumerate((t.driver, other, t.driver, other))
            ))  # fmt: skip
        finally:
            if other is not t.driver:
                await other.close()
        [made_of] = await t.driver.read(AllTemplates(name="report"))
        [row] = await t.driver.read(AllSchedules())
        assert row.template_id == made_of.template_id
