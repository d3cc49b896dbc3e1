"""However a store finds its jobs, and wherever a budget stops it, they are those that were asked for, in their order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import Cancel
from windlass.core.failures import fingerprint
from windlass.core.listing import (
    Direction,
    GlimpseJobs,
    Kind,
    ListJobs,
    Place,
    TallyJobs,
    Wish,
    is_wished,
    order_of,
    path_of,
    place_of,
)
from windlass.core.settle import Execution, Failed, Succeeded, settle
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.ops import listing
from windlass.drivers.ops.walking import Walk
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite.dialect import DIALECT
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.values import Claim, JobQuery
from windlass.types import LABELS, Job, NewJob

NOW = 1_900_000_000_000_000
ERRORS = ("Timeout after {} s", "KeyError: '{}'", "no")
WAYS: tuple[Direction, Direction] = ("newest", "oldest")
Open = Callable[[], Driver]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    if request.param == "postgres":
        dsn, schema = request.getfixturevalue("empty_store")
        yield lambda: PostgresDriver(dsn, schema=schema)
    elif request.param == "sqlite":
        yield lambda: SqliteDriver(str(tmp_path / "lists.db"), durability="relaxed")
    else:
        yield MemoryDriver


async def fill(driver: Driver, jobs: int, dice: Random) -> int:
    """A history with every label in it; answers the time at its end."""
    now = NOW
    for n in range(jobs):
        now += dice.choice((0, 0, SECOND))
        new = NewJob(
            id=f"job-{n}", type=dice.choice("xy"), queue=dice.choice("ab"), org_id=dice.choice((None, "o")),
            tags=dice.choice(((), ("t",), ("s", "t"))), group_id=dice.choice((None, None, "g")), max_attempts=1,
            schedule_id=dice.choice((None, None, "s")),
            run_at=dice.choice((None, None, now + 15 * SECOND, now + 9_000 * SECOND)),
            after=(f"job-{n - 1}",) if n and dice.random() < 0.1 else (),
        )  # fmt: skip
        await driver.enqueue([new], now=now)
        if dice.random() < 0.7:
            wish = Claim(queues=("a", "b"), limit=1, lease_for=9_000 * SECOND, worker_id=dice.choice("vw"), token=f"t{n}",
                         start=dice.random() < 0.8)  # fmt: skip
            for job in await driver.claim(wish, now=now):
                if dice.random() < 0.9:
                    failed = Failed(dice.choice(ERRORS).format(n))
                    outcome = dice.choice((Succeeded(), Succeeded(), failed))
                    await driver.settle([settle(job, outcome, Execution(now, now, f"link-{n}"))], now=now)
        if dice.random() < 0.05:
            await driver.alter([Cancel(f"job-{dice.randrange(n + 1)}")], now=now)
    return now


def wishes(now: int, dice: Random) -> Iterator[Wish]:
    """Each condition alone, then some of them together."""
    middle = (NOW + now) // 2
    fields: list[dict[str, Any]] = [{}]
    fields += [{"kinds": (Kind(label),)} for label in LABELS]
    fields += [
        {"kinds": (Kind("succeeded"), Kind("dead"), Kind("cancelled"))}, {"kinds": (Kind("queued"), Kind("running"))},
        {"kinds": (Kind("queued"), Kind("dead"))}, {"queues": ("a",)}, {"types": ("x",)}, {"org_id": "o"}, {"tag": "s"},
        {"group_id": "g"}, {"schedule_id": "s"}, {"worker_id": "w"}, {"created_from": middle}, {"created_until": middle},
        {"created_from": middle - 9 * SECOND, "created_until": middle}, {"finished_from": middle},
        {"finished_until": middle}, {"quiet_since": middle}, {"failed_from": middle}, {"error": "Time"},
        {"error": fingerprint("Timeout after 1 s")}, {"ids": ("job-1", "job-7", "nobody")}, {"superseded": True},
    ]  # fmt: skip
    fields += [dice.choice(fields) | dice.choice(fields) | dice.choice(fields) for _ in range(25)]
    return (Wish(now=now, **each) for each in fields)


async def walked(driver: Driver, wish: Wish, first: Direction, limit: int, budget: int) -> tuple[list[str], list[str]]:
    """Both ways to ask, to the end."""
    listed: list[str] = []
    glimpsed: list[str] = []
    for query, found in ((ListJobs, listed), (GlimpseJobs, glimpsed)):
        after: Place | None = None
        for _ in range(2_000):
            asked: Any = query(wish=wish, first=first, after=after, limit=limit, budget=budget)
            [page] = await driver.read(asked)
            assert len(page.jobs) <= limit
            found += [job.id for job in page.jobs]
            if (after := page.after) is None:
                break
        else:
            raise AssertionError("no end")
    return listed, glimpsed


@pytest.mark.parametrize("seed", [1, 2])
def test_every_way_finds_what_was_asked_for(open_driver: Open, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """With stretches so small that every search is made of many."""
    for name, value in (
        ("NEAR", 5),
        ("STRETCH", 4),
        ("SIZES", (1, 3)),
        ("SLACK", 40),
        ("BUDGET", 30 if seed == 1 else 500),
    ):
        monkeypatch.setattr(listing, name, value)

    async def play() -> None:
        dice, driver = Random(seed), open_driver()
        now = await fill(driver, 110, dice)
        everything = (await driver.find(JobQuery(superseded=True, limit=10_000))).jobs
        for wish in wishes(now + 20 * SECOND, dice):
            wanted = expected(everything, wish)
            for first in WAYS:
                limit, budget = dice.choice((1, 3, 500)), dice.choice((1, 4, 9, 50_000))
                in_order = wanted[::-1] if first == "newest" else wanted
                assert await walked(driver, wish, first, limit, budget) == (in_order, in_order), (
                    wish,
                    first,
                    limit,
                    budget,
                )
            [tally] = await driver.read(TallyJobs(wish=wish))
            assert tally.jobs == len(wanted) if tally.complete else tally.jobs <= len(wanted), wish
        await driver.close()

    asyncio.run(play())


def expected(jobs: tuple[Job, ...], wish: Wish) -> list[str]:
    path = path_of(wish)
    found = [job for job in jobs if is_wished(job, wish)]
    return [job.id for job in sorted(found, key=lambda job: order_of(place_of(job, path)))]


def test_a_time_far_back_is_reached_without_walking_there(open_driver: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a search that has passed the time asked for ends."""
    monkeypatch.setattr(listing, "SLACK", 10)
    monkeypatch.setattr(listing, "STRETCH", 10)
    monkeypatch.setattr(listing, "SIZES", (5,))

    async def play() -> None:
        driver = open_driver()
        for n in range(400):
            await driver.enqueue([NewJob(id=f"job-{n}", type="t", queue="q")], now=NOW + n * SECOND)
        for first, bound in (
            ("newest", {"created_until": NOW + 50 * SECOND}),
            ("oldest", {"created_from": NOW + 350 * SECOND}),
        ):
            wish = Wish(now=NOW, **bound)  # type: ignore[arg-type]
            [page] = await driver.read(ListJobs(wish=wish, first=first, limit=3))  # type: ignore[arg-type]
            assert [job.id for job in page.jobs] == (
                ["job-49", "job-48", "job-47"] if first == "newest" else ["job-350", "job-351", "job-352"]
            )
            assert page.looked_at <= 60 or isinstance(driver, MemoryDriver)
        for first, bound in (
            ("newest", {"created_from": NOW + 380 * SECOND}),
            ("oldest", {"created_until": NOW + 20 * SECOND}),
        ):
            wish = Wish(now=NOW, queues=("none",), **bound)  # type: ignore[arg-type]
            [page] = await driver.read(ListJobs(wish=wish, first=first))  # type: ignore[arg-type]
            assert (page.jobs, page.after) == ((), None)
            assert page.looked_at <= 60 or isinstance(driver, MemoryDriver)
        await driver.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("first", "wish", "found"),
    [
        ("newest", {"finished_until": NOW + 50 * SECOND}, (49, 48, 47)),
        ("oldest", {"finished_from": NOW + 350 * SECOND}, (350, 351, 352)),
        ("newest", {"quiet_since": NOW + 50 * SECOND, "kinds": (Kind("cancelled"),)}, (50, 49, 48)),
        ("newest", {"finished_from": NOW + 399 * SECOND}, (399,)),
        ("oldest", {"finished_until": NOW + SECOND}, (0,)),
        ("oldest", {"quiet_since": NOW, "kinds": (Kind("cancelled"),)}, (0,)),
    ],
)
def test_an_end_far_back_is_reached_without_walking_there(
    open_driver: Open, monkeypatch: pytest.MonkeyPatch, first: Direction, wish: dict[str, Any], found: tuple[int, ...]
) -> None:
    """And a listing of ends goes no further than the time asked for."""
    monkeypatch.setattr(listing, "STRETCH", 10)
    monkeypatch.setattr(listing, "SIZES", (5,))

    async def play() -> None:
        driver = open_driver()
        await driver.enqueue([NewJob(id=f"job-{n}", type="t", queue="q") for n in range(400)], now=NOW)
        for n in range(400):
            await driver.alter([Cancel(f"job-{n}")], now=NOW + n * SECOND)
        [page] = await driver.read(ListJobs(wish=Wish(now=NOW, **wish), first=first, limit=3))
        assert [job.id for job in page.jobs] == [f"job-{n}" for n in found]
        assert page.looked_at <= 5 or isinstance(driver, MemoryDriver)
        await driver.close()

    asyncio.run(play())


def test_a_page_of_the_living_is_as_full_as_they_are_many(open_driver: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far they lie behind those that have ended, and without a look at those of other queues."""
    monkeypatch.setattr(listing, "NEAR", 5)

    async def play() -> None:
        driver = open_driver()
        for n in range(60):
            await driver.enqueue([NewJob(id=f"job-{n}", type="t", queue="ab"[n % 2])], now=NOW)
        await driver.alter([Cancel(f"job-{n}") for n in range(40, 60)], now=NOW)
        wish = Wish(now=NOW, kinds=(Kind("queued"),), queues=("a",))
        [page] = await driver.read(ListJobs(wish=wish, limit=50))
        assert [job.id for job in page.jobs] == [f"job-{n}" for n in range(38, -1, -2)]
        assert page.after is None
        assert page.looked_at <= 5 + 20 or isinstance(driver, MemoryDriver)
        await driver.close()

    asyncio.run(play())


def test_a_clock_that_was_off_for_a_while_hides_no_job(open_driver: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole stretch that lies behind the time asked for is not the end, while fewer than so many jobs do."""
    for name, value in (("SLACK", 20), ("STRETCH", 4), ("SIZES", (2,))):
        monkeypatch.setattr(listing, name, value)

    async def play() -> None:
        driver = open_driver()
        for n in range(40):
            off = 1_000 * SECOND if 15 <= n < 25 else 0
            await driver.enqueue([NewJob(id=f"job-{n}", type="t")], now=NOW + n * SECOND - off)
        wish = Wish(now=NOW, created_from=NOW)
        listed, _ = await walked(driver, wish, "newest", 50, 50_000)
        assert listed == [f"job-{n}" for n in range(39, -1, -1) if not 15 <= n < 25]
        await driver.close()

    asyncio.run(play())


def test_on_sqlite_every_stretch_goes_along_an_index(tmp_path: Path) -> None:
    """Never from end to end through the table, but for the walk along the numbers, which ends with its stretch."""
    path = str(tmp_path / "plans.db")
    asyncio.run(SqliteDriver(path).read(TallyJobs(wish=Wish(now=NOW))))
    connection = sqlite3.connect(path)
    for wish in wishes(NOW, Random(3)):
        for first in WAYS:
            for after in (None, Place(NOW, 7)):
                way = path_of(wish)
                statement = Walk(DIALECT, wish, first).stretch(way, after, 1_000, 51, "numbers")
                plan = [row[3] for row in connection.execute(f"explain query plan {statement.sql}", statement.params)]
                reads = [step for step in plan if " jobs" in step]
                assert reads, plan
                if way == "all":
                    beyond = "<" if first == "newest" else ">"
                    along = f"SEARCH jobs USING INTEGER PRIMARY KEY (rowid{beyond}?)" if after else "SCAN jobs"
                    assert reads == [along], plan
                else:
                    whole = [step for step in reads if step.startswith("SCAN") and "USING" not in step]
                    assert not whole, (wish, plan)
                if way == "ended":
                    assert all("USING INDEX jobs_finished (state=?" in step for step in reads), plan
    for block in (SQL.number_range(), SQL.created_about(seq=1), SQL.ended_jobs(state="dead", most=1)):
        plan = [row[3] for row in connection.execute(f"explain query plan {block.sql}", block.params)]
        assert not any("TEMP B-TREE" in step for step in plan), plan
    connection.close()
