"""Metering from the run to the table: what is measured of each kind of run, added up, bounded, safe in spreadsheets."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import Windlass
from windlass.admin import Admin
from windlass.admin.usage import UsageList, UsageRow, as_csv
from windlass.client import Client
from windlass.clock import SECOND, ManualClock, moment, thread_cpu
from windlass.config import Settings
from windlass.core.changes import Ack, Report
from windlass.core.usage import HOUR, LATE
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput, OutOfScope
from windlass.types import NewJob, Run
from windlass.worker.metering import MEASURED

# -------------------------------------------------------------------------------------------------------- what is measured


def burn(milliseconds: float) -> None:
    end = thread_cpu() + round(milliseconds * 1_000)
    while thread_cpu() < end:
        sum(range(2_000))


def runs_of(app: Windlass, *jobs: Any) -> list[Run]:
    """The last run of each."""

    async def main() -> list[Run]:
        handles = await app.enqueue_many(jobs)
        await app.worker(concurrency=8, threads=2).run(drain=True)
        found = [(await handle.runs())[-1] for handle in handles]
        await app.close()
        return found

    return asyncio.run(main())


def test_an_async_run_is_charged_for_its_own_steps_alone() -> None:
    """Neither for what it waits for, nor for what others do meanwhile."""
    app = Windlass("memory://")

    @app.task
    async def idle() -> None:
        await asyncio.sleep(0.2)

    @app.task
    async def busy() -> None:
        for _ in range(4):
            burn(10)
            await asyncio.sleep(0.001)

    for task in (idle, busy):
        task.metered = 1
    slept, burnt = runs_of(app, idle.job(), busy.job())
    assert slept.cpu_us is None, "less than a millisecond is not stored"
    assert burnt.cpu_us is not None
    assert 38_000 <= burnt.cpu_us < 120_000
    assert (slept.peak_rss, burnt.peak_rss) == (None, None)


def test_a_threads_run_is_charged_for_its_own_thread() -> None:
    app = Windlass("memory://")

    @app.task
    def idle() -> None:
        import time

        time.sleep(0.1)

    @app.task
    def busy(fail: bool) -> None:
        burn(30)
        if fail:
            raise ValueError("after work")

    for task in (idle, busy):
        task.metered = 1
    slept, burnt, failed = runs_of(app, idle.job(), busy.job(False), busy.job(True))
    assert slept.cpu_us is None
    for run in (burnt, failed):
        assert run.cpu_us is not None
        assert 28_000 <= run.cpu_us < 100_000


def test_tasks_that_take_a_moment_are_not_measured() -> None:
    """The first run that takes a millisecond begins it."""
    app = Windlass("memory://")

    @app.task
    async def quick() -> None: ...

    @app.task
    async def slow() -> None:
        burn(5)

    assert not quick.metered
    first, second, *others = runs_of(app, slow.using(priority=1).job(), slow.job(), *(quick.job() for _ in range(3)))
    assert slow.metered
    assert (first.cpu_us, second.cpu_us is not None) == (None, True)
    assert [run.cpu_us for run in others] == [None] * 3


def test_a_task_that_was_held_up_once_is_not_measured_for_ever() -> None:
    app = Windlass("memory://")

    @app.task
    async def quick() -> None: ...

    quick.metered = MEASURED
    runs_of(app, *(quick.job() for _ in range(2 * MEASURED)))
    assert quick.metered < MEASURED


def test_a_task_that_is_slow_now_and_then_is_measured_each_time() -> None:
    app = Windlass("memory://")

    @app.task
    async def mixed(long: bool) -> None:
        if long:
            burn(5)

    jobs = [mixed.job(number % 20 == 0) for number in range(61)]
    runs = runs_of(app, *jobs)
    assert [run.cpu_us is not None for run in runs[20::20]] == [True] * 3


def test_a_handler_that_is_interrupted_is_charged_too() -> None:
    app = Windlass("memory://")

    @app.task(timeout="50ms")
    async def stuck() -> None:
        burn(10)
        await asyncio.sleep(10)

    stuck.metered = True
    [run] = runs_of(app, stuck.job())
    assert run.cpu_us is not None
    assert run.cpu_us >= 9_000


# ------------------------------------------------------------------------------------------------------- what is answered


class Meters:
    """A store in which runs of known cost have ended at known times."""

    def __init__(self) -> None:
        self.clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
        self.client = Client("memory://", Settings(), driver=MemoryDriver(), clock=self.clock)
        self.admin = Admin(self.client)

    async def ran(
        self, name: str, *, org: str | None = None, queue: str = "default", cpu: int = 0, kind: str = "t"
    ) -> None:
        await self.client.driver.enqueue([NewJob(id=name, type=kind, queue=queue, org_id=org)], now=self.clock.now())
        wish = Claim(queues=(queue,), limit=1, lease_for=60 * SECOND, worker_id="w", token=name)
        self.clock.advance(SECOND)
        [job] = await self.client.driver.claim(wish, now=self.clock.now())
        self.clock.advance(2 * SECOND)
        ack = Ack(handle=job.handle, token=job.token, at=self.clock.now(), report=Report(cpu_us=cpu, peak_rss=2**20))
        assert await self.client.driver.settle([ack], now=self.clock.now()) == ["applied"]

    async def count(self) -> None:
        self.clock.advance(LATE)
        await self.admin.count_usage()


def with_meters(story: Callable[[Meters], Any]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(story(Meters()))

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@with_meters
async def test_usage_is_told_in_seconds_by_what_is_asked_for(meters: Meters) -> None:
    await meters.ran("one", org="acme", cpu=SECOND // 2)
    await meters.ran("two", queue="mail", cpu=SECOND)
    meters.clock.advance(24 * HOUR)
    await meters.ran("three", org="acme")
    assert (await meters.admin.usage()).counted_until is None
    await meters.count()
    found = await meters.admin.usage(by=["org"])
    assert found.rows == (
        row(at=day(1), org="", runs=1, waited=1, ran=2, cpu=1),
        row(at=day(1), org="acme", runs=1, waited=1, ran=2, cpu=0.5), row(at=day(2), org="acme", runs=1, waited=1, ran=2),
    )  # fmt: skip
    assert found.counted_until == moment(meters.clock.now() - LATE)
    [whole] = (await meters.admin.usage(step="all", org="acme")).rows
    assert whole == row(runs=2, waited=2, ran=4, cpu=0.5)
    assert len((await meters.admin.usage(step="hour", queue="mail", by=["queue"])).rows) == 1
    assert (await meters.admin.usage(type="nobody")).rows == ()


@with_meters
async def test_usage_is_bounded_and_says_when_it_is_not_all(meters: Meters) -> None:
    for n in range(3):
        await meters.ran(f"job{n}", kind=f"t{n}")
    await meters.count()
    found = await meters.admin.usage(by=["type"], limit=2)
    assert ([one.type for one in found.rows], found.complete) == (["t0", "t1"], False)
    assert (await meters.admin.usage(by=["type"], limit=3)).complete is True
    assert (await meters.admin.usage(by=["type"], limit=10_000)).complete is True, "the most that may be asked for"
    old = await meters.admin.usage(since=moment(meters.clock.now()) + timedelta(hours=-1), until=moment(meters.clock.now()))
    assert old.since.minute == 0


@with_meters
async def test_bad_questions_are_refused(meters: Meters) -> None:
    now = moment(meters.clock.now())
    for said, field in (
        ({"step": "week"}, "step"), ({"by": ["orgs"]}, "by"), ({"limit": 0}, "limit"), ({"limit": 10**6}, "limit"),
        ({"since": now, "until": now - timedelta(hours=2)}, "until"), ({"since": datetime(2030, 1, 1)}, "since"),  # noqa: DTZ001
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as raised:
            await meters.admin.usage(**said)
        assert raised.value.field == field


@with_meters
async def test_an_org_reads_its_own_usage(meters: Meters) -> None:
    await meters.ran("one", org="acme")
    await meters.ran("two", org="evil")
    await meters.ran("three", org="acme", queue="mail")
    await meters.count()
    acme = meters.admin.acting_as("t", org_id="acme")
    assert [(one.org, one.runs) for one in (await acme.usage(by=["org"])).rows] == [("acme", 2)]
    assert (await acme.usage(org="evil")).rows == ()
    narrow = meters.admin.acting_as("t", org_id="acme", queues=["mail"])
    assert [one.runs for one in (await narrow.usage()).rows] == [1]
    assert (await narrow.usage(queue="default")).rows == ()
    with pytest.raises(OutOfScope):
        await acme.count_usage()


def test_a_spreadsheet_does_not_obey_what_names_say() -> None:
    evil = ("=cmd|' /C calc'!A0", "+1", "-1+2", "@sum(1)", "\tx", "\rx", "\nx", 'a"b,c', "plain", "")
    rows = tuple(row(org=name, runs=-1) for name in evil)
    text = as_csv(UsageList(at=day(1), since=day(1), until=day(1), counted_until=None, complete=True, rows=rows))
    head, *cells = csv.reader(io.StringIO(text, newline=""))
    assert head == ["org", "runs", "waited", "ran", "cpu"]
    for name, cell in zip(evil, cells, strict=True):
        assert cell[0] == (f"'{name}" if name[:1] in set("=+-@\t\r\n") and name else name)
        assert cell[1:] == ["-1", "0.000000", "0.000000", "0.000000"], "numbers stay numbers"


def row(**said: Any) -> UsageRow:
    whole: dict[str, Any] = {
        "at": None, "org": None, "queue": None, "type": None, "outcome": None, "waited": 0.0, "ran": 0.0, "cpu": 0.0,
        "peak_rss": None if "org" in said and said["runs"] < 0 else 2**20,
    }  # fmt: skip
    return UsageRow(**{**whole, **said})


def day(number: int) -> datetime:
    return datetime(2030, 1, number, tzinfo=UTC)
