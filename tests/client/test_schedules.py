"""`@app.cron`, `app.templates` and `app.schedules`: what they store, what they refuse, and what a worker does with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass import Windlass
from windlass.clock import SECOND, moment
from windlass.errors import InUse, InvalidInput, UnknownSchedule, UnknownTask, UnknownTemplate, WindlassError
from windlass.records import WorkerInfo
from windlass.testing import testing

from .conftest import Place, rows

HOUR = 3_600 * SECOND


def with_task(app: Windlass) -> list[Any]:
    seen: list[Any] = []

    @app.task(queue="reports")
    async def report(region: str, day: datetime | None = None) -> None:
        seen.append((region, day))

    return seen


# ------------------------------------------------------------------------------------------------------- @app.cron


def test_a_function_under_a_rule_is_a_task_that_runs_by_it() -> None:
    app = Windlass("memory://")
    seen: list[str] = []

    @app.cron("0 9 * * MON-FRI", tz="Europe/Berlin", catch_up="last", params={"region": "eu"})
    async def daily_report(region: str) -> None:
        seen.append(region)

    async def main() -> None:
        with testing(app, now=datetime(2026, 3, 27, 7, 59, tzinfo=UTC)) as test:  # a Friday; clocks change on Sunday
            await test.drain()
            assert seen == []
            test.advance("2m")
            await test.drain()
            assert seen == ["eu"]
            [row] = await app.schedules.list()
            assert moment(row.next_trigger_at or 0) == datetime(2026, 3, 30, 7, 0, tzinfo=UTC), "an hour earlier in UTC"
            test.advance("7d")
            await test.drain()
            assert seen == ["eu", "eu"], "of those that were missed the last"

    asyncio.run(main())
    assert app.tasks["daily_report"] is daily_report


def test_a_task_may_have_several_rules(place: Place) -> None:
    app = place.app()

    @app.cron(every="15m", name="often", params={"n": 1}, overlap="skip", jitter="30s")
    @app.cron("@daily", name="daily", params={"n": 2})
    @app.task(queue="q", priority=3)
    async def sync(n: int) -> None: ...

    async def main() -> None:
        await app.tick()
        often, daily = sorted(await app.schedules.list(), key=lambda row: row.name, reverse=True)
        assert (often.cron_expression, often.overlap, often.jitter) == ("every 15m", "skip", 30 * SECOND)
        assert (daily.cron_expression, daily.timezone, daily.catch_up) == ("@daily", "UTC", "last")
        templates = {row.name: row for row in await app.templates.list()}
        assert (templates["often"].params, templates["daily"].params) == (b'{"n":1}', b'{"n":2}')
        assert (templates["often"].type, templates["often"].queue) == ("sync", "q")
        assert '"priority":3' in (templates["often"].settings or "")

    asyncio.run(main())
    assert asyncio.run(sync(1)) is None, "it is still the function it was"


def test_a_new_start_keeps_a_pause_and_takes_new_code(file_place: Place) -> None:
    async def start(rule: str) -> None:
        app = file_place.app()

        @app.cron(rule)
        async def job() -> None: ...

        async with app:
            await app.tick()
            [row] = await app.schedules.list()
            assert row.name == "job"

    async def main() -> None:
        await start("0 1 * * *")
        app = file_place.app()
        async with app:
            assert await app.schedules.pause("job")
            assert not await app.schedules.pause("job")
        await start("0 1 * * *")
        await start("0 2 * * *")
        app = file_place.app()
        async with app:
            [row] = await app.schedules.list()
            assert (row.cron_expression, row.enabled, row.next_trigger_at) == ("0 2 * * *", False, None)
            assert len(await app.templates.versions("job")) == 1

    asyncio.run(main())


def test_what_code_does_not_declare_any_more_stays(file_place: Place) -> None:
    async def main() -> None:
        app = file_place.app()
        app.cron("0 1 * * *", name="old")(app.task(name="t")(_nothing))
        async with app:
            await app.tick()
        later = file_place.app()
        later.task(name="t")(_nothing)
        async with later:
            await later.tick()
            assert [row.name for row in await later.schedules.list()] == ["old"]

    asyncio.run(main())


async def _nothing() -> None: ...


def test_declaring_opens_no_store(tmp_path: Any) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/jobs.db")
    app.cron("@hourly")(_nothing)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "declare"),
    [
        ("cron", lambda app: app.cron("0 0 30 2 *")(_nothing)), ("cron", lambda app: app.cron()(_nothing)),
        ("cron", lambda app: app.cron("@daily", every="5m")(_nothing)), ("every", lambda app: app.cron(every="soon")),
        ("timezone", lambda app: app.cron("@daily", tz="Nowhere")(_nothing)),
        ("tzz", lambda app: app.cron("@daily", tzz="UTC")(_nothing)),
        ("enabled", lambda app: app.cron("@daily", enabled=False)(_nothing)),
        ("x", lambda app: app.cron("@daily", params={"x": 1})(_nothing)),
        ("catch_up", lambda app: app.cron("@daily", catch_up="some")(_nothing)),
        ("catch_up_cap", lambda app: app.cron("@daily", cap=0)(_nothing)),
        ("overlap", lambda app: app.cron("@daily", overlap="never")(_nothing)),
        ("jitter", lambda app: app.cron("@daily", jitter=-1)(_nothing)),
        ("name", lambda app: app.cron("@daily")(app.cron("@hourly")(_nothing))),
        ("name", lambda app: app.cron("@daily", name=" ")(_nothing)),
    ],
)  # fmt: skip
def test_a_bad_declaration_is_refused_where_it_stands(field: str, declare: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        declare(Windlass("memory://"))
    assert refused.value.field == field


# ------------------------------------------------------------------------------------------------ templates, schedules


def test_a_template_is_put_in_versions_and_checked_by_its_task(place: Place) -> None:
    app = place.app()
    with_task(app)

    async def main() -> None:
        one = await app.templates.put("eu", "report", {"region": "eu"}, priority=5, tags=("night",))
        assert (one.version, one.type, one.queue, one.params) == (1, "report", "reports", b'{"region":"eu"}')
        again = await app.templates.put("eu", app.tasks["report"], {"region": "eu"}, priority=5, tags=("night",))
        assert again == one
        two = await app.templates.put("eu", "report", {"region": "us"})
        assert (two.version, two.template_id) == (2, one.template_id)
        for wrong, error in (
            (lambda: app.templates.put("x", "repor", {}), UnknownTask),
            (lambda: app.templates.put("x", "report", {"regoin": "eu"}), InvalidInput),
            (lambda: app.templates.put("x", "report", {"region": 5}), InvalidInput),
            (lambda: app.templates.put("x", "report", {}), InvalidInput),
            (lambda: app.templates.put("x", "report", {"region": "eu"}, delay="5m"), InvalidInput),  # type: ignore[call-arg]
            (lambda: app.templates.put("x", "report", ["eu"]), InvalidInput),  # type: ignore[arg-type]
            (lambda: app.templates.put("", "report", {"region": "eu"}), InvalidInput),
            (lambda: app.templates.get("nothing"), UnknownTemplate),
            (lambda: app.templates.archive("nothing"), UnknownTemplate),
            (lambda: app.templates.delete("ue"), UnknownTemplate),
        ):  # fmt: skip
            with pytest.raises(error):
                await wrong()
        assert [row.name for row in await app.templates.list()] == ["eu"]

    asyncio.run(main())


def test_a_schedule_is_put_paused_run_and_deleted(place: Place) -> None:
    app = place.app()
    seen = with_task(app)

    async def main() -> None:
        await app.templates.put("eu", "report", {"region": "eu"})
        made = await app.schedules.put(
            "nightly", "eu", "30 2 * * *", tz="Europe/Berlin", params={"day": datetime(2030, 1, 1, tzinfo=UTC)}
        )
        assert made.param_overrides == b'{"day":"2030-01-01T00:00:00Z"}'
        job = await app.schedules.run("nightly")
        await app.tick()
        assert seen == [("eu", datetime(2030, 1, 1, tzinfo=UTC))]
        row = await job.fetch()
        assert (row.schedule_id, row.fire_at, row.tags) == (made.schedule_id, None, ("manual",))
        assert await app.schedules.get("nightly") == made, "its rhythm is not touched"
        await app.schedules.pause("nightly")
        assert (await app.schedules.get("nightly")).next_trigger_at is None
        await app.schedules.run("nightly")  # a person may
        assert await app.schedules.resume("nightly")
        with pytest.raises(InUse, match="archive"):
            await app.templates.delete("eu")
        assert await app.templates.archive("eu")
        with pytest.raises(InUse, match="archived"):
            await app.schedules.run("nightly")
        await app.schedules.delete("nightly")
        await app.templates.delete("eu")
        assert len(await rows(app)) == 2

    asyncio.run(main())


def test_an_update_changes_only_what_it_names(place: Place) -> None:
    app = place.app()
    with_task(app)

    async def main() -> None:
        await app.templates.put("eu", "report", {"region": "eu"})
        made = await app.schedules.put(
            "n", "eu", "30 2 * * *", tz="Europe/Berlin", params={"region": "us"}, catch_up="all", cap=7, overlap="skip",
            jitter="90s",
        )  # fmt: skip
        place.clock.advance(HOUR)
        after = await app.schedules.update("n", cron="0 3 * * *")
        assert after.cron_expression == "0 3 * * *"
        assert after.next_trigger_at != made.next_trigger_at
        for field in ("timezone", "param_overrides", "catch_up", "catch_up_cap", "overlap", "jitter", "template_id"):
            assert getattr(after, field) == getattr(made, field), field
        assert await app.schedules.update("n", jitter=0) != after
        assert (await app.schedules.get("n")).next_trigger_at == after.next_trigger_at
        assert await app.schedules.rename("n", "m")
        assert (await app.schedules.get("m")).schedule_id == made.schedule_id

    asyncio.run(main())


def test_what_code_declares_is_renamed_in_the_code(place: Place) -> None:
    """Its next start would make it anew under the old name, and both would fire. What is gone from the code may go on as
    something else."""
    app = place.app()

    @app.cron("@daily", name="daily")
    @app.task
    async def sync() -> None: ...

    async def main() -> None:
        await app.tick()
        with pytest.raises(InUse, match="code declares"):
            await app.schedules.rename("daily", "nightly")
        assert not await app.schedules.rename("daily", "daily")
        await app.tick()
        assert [row.name for row in await app.schedules.list()] == ["daily"]
        place.clock.advance(HOUR)
        newer = WorkerInfo(
            id="w", hostname="h", pid=1, pool_size=1, version="2", queues=("default",), types=("sync",), wakeups="poll",
            running=0, started_at=app.client.now(),
        )  # fmt: skip
        await app.client.driver.beat(newer, now=app.client.now())
        assert await app.schedules.rename("daily", "nightly")

    asyncio.run(main())


@pytest.mark.parametrize("gone", [True, False])
def test_an_update_takes_nothing_back_that_others_did_meanwhile(place: Place, gone: bool) -> None:
    """Between its look and its change somebody deletes the schedule, or gives it other arguments."""
    app = place.app()
    with_task(app)

    async def main() -> None:
        await app.templates.put("eu", "report", {"region": "eu"})
        await app.schedules.put("n", "eu", "30 2 * * *")
        usual, others = app.client.driver.alter, [True]

        async def overtaken(changes: Any, **fields: Any) -> Any:
            if others:
                others.clear()
                await (app.schedules.delete("n") if gone else app.schedules.update("n", params={"region": "us"}))
            return await usual(changes, **fields)

        app.client.driver.alter = overtaken  # type: ignore[method-assign]
        if gone:
            with pytest.raises(UnknownSchedule):
                await app.schedules.update("n", cron="0 3 * * *")
            assert await app.schedules.list() == []
        else:
            row = await app.schedules.update("n", cron="0 3 * * *")
            assert (row.cron_expression, row.param_overrides) == ("0 3 * * *", b'{"region":"us"}')

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "put"),
    [
        (UnknownTemplate, lambda app: app.schedules.put("n", "uw", "@daily")),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", params={"regoin": "eu"})),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", params={"region": 5})),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", params={1: 5})),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", params={"region": object()})),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "0 0 31 4 *")),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", tz="Europe/Berln")),
        (InvalidInput, lambda app: app.schedules.put("n", "eu")),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", every=5)),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", every=0)),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", nonsense=5)),
        (InvalidInput, lambda app: app.schedules.put("n", "eu", "@daily", cap=10**9)),
        (UnknownSchedule, lambda app: app.schedules.pause("n")),
        (UnknownSchedule, lambda app: app.schedules.resume("n")),
        (UnknownSchedule, lambda app: app.schedules.delete("n")),
        (UnknownSchedule, lambda app: app.schedules.run("n")),
        (UnknownSchedule, lambda app: app.schedules.rename("n", "m")),
        (InvalidInput, lambda app: app.schedules.preview("0 0 30 2 *")),
        (InvalidInput, lambda app: app.schedules.preview("@daily", count=10**8)),
        (InvalidInput, lambda app: app.schedules.preview("@daily", count=0)),
    ],
)  # fmt: skip
def test_bad_wishes_are_refused_and_nothing_is_changed(place: Place, error: type[WindlassError], put: Any) -> None:
    app = place.app()
    with_task(app)

    async def main() -> None:
        await app.templates.put("eu", "report", {"region": "eu"})
        with pytest.raises(error):
            await put(app)
        assert await app.schedules.list() == []
        assert await rows(app) == []

    asyncio.run(main())


def test_a_name_that_is_nearly_right_is_suggested(place: Place) -> None:
    app = place.app()
    with_task(app)

    async def main() -> None:
        await app.templates.put("nightly-report", "report", {"region": "eu"})
        await app.schedules.put("nightly", "nightly-report", "@daily")
        with pytest.raises(UnknownSchedule, match="did you mean 'nightly'"):
            await app.schedules.pause("nighly")
        with pytest.raises(UnknownTemplate, match="did you mean 'nightly-report'"):
            await app.templates.archive("nighly-report")
        with pytest.raises(InvalidInput, match="did you mean 'region'"):
            await app.schedules.put("n", "nightly-report", "@daily", params={"regoin": "x"})

    asyncio.run(main())


def test_a_preview_has_the_offsets_of_both_sides_of_a_change(place: Place) -> None:
    app = place.app()

    async def main() -> None:
        found = await app.schedules.preview(
            "30 2 * * *", tz="America/New_York", count=3, after=datetime(2027, 3, 13, 5, tzinfo=UTC)
        )
        assert [at.isoformat() for at in found.times] == [
            "2027-03-13T02:30:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00",
        ]  # fmt: skip
        assert found.words == "At 02:30 every day, by the clocks of America/New_York"
        assert "fires when the gap ends" in found.clock_changes

    asyncio.run(main())


def test_everything_may_be_called_without_an_event_loop(place: Place) -> None:
    app = place.app()
    with_task(app)
    app.templates.put_sync("eu", "report", {"region": "eu"})
    assert app.schedules.put_sync("n", "eu", every="1h").cron_expression == "every 1h"
    assert [row.name for row in app.schedules.list_sync()] == ["n"]
    assert [row.name for row in app.templates.list_sync()] == ["eu"]
    assert len(app.schedules.preview_sync("n", count=3).times) == 3
    assert app.schedules.run_sync("n").id
    assert app.schedules.pause_sync("n")
    assert app.schedules.resume_sync("n")
    app.schedules.delete_sync("n")
    assert app.templates.archive_sync("eu")
    app.templates.delete_sync("eu")


def test_a_tick_fires_what_is_due_where_there_is_no_leader(place: Place) -> None:
    app = place.app()
    seen = with_task(app)

    async def main() -> None:
        await app.templates.put("eu", "report", {"region": "eu"})
        await app.schedules.put("n", "eu", "0 * * * *", catch_up="all")
        place.clock.advance(3 * HOUR)
        await app.tick()
        await app.tick()
        assert len(seen) == 3

    asyncio.run(main())
