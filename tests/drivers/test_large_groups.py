"""What retention costs where groups are large, and that it comes to an end where very much stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from effort import effort

from windlass.clock import SECOND
from windlass.core.alterations import PutGroup, Replay, RetryGroup
from windlass.core.duties import Done, Prune
from windlass.core.settle import Execution, Failed, Succeeded, settle
from windlass.drivers.ops import retention
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.statement import Op
from windlass.drivers.values import Claim
from windlass.testing.conformance import RetentionPromises
from windlass.types import NewGroup, NewJob

NOW = 1_800_000_000_000_000
DAY = 86_400 * SECOND
WEEKS = {"succeeded": 7 * DAY, "cancelled": 7 * DAY, "dead": 90 * DAY}
names = count(1)


@pytest.fixture
def driver(sql_driver: Driver) -> Driver:
    return sql_driver


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many groups each look at members went over."""
    seen: list[int] = []
    original: Callable[..., Op[None]] = retention.Bite._walk

    def walk(bite: retention.Bite, groups: list[str], totals: dict[str, int]) -> Op[None]:
        seen.extend([len(groups)] if groups else [])
        yield from original(bite, groups, totals)

    monkeypatch.setattr(retention.Bite, "_walk", walk)
    return seen


async def ended(driver: Driver, ids: list[str], *, group: str | None = None, dead: str = "", now: int = NOW) -> None:
    if group is not None:
        await driver.alter([PutGroup(group, total=len(ids), on_failure="continue")], now=now)
    jobs = [NewJob(id=name, type="t", group_id=group, max_attempts=1) for name in ids]
    for at in range(0, len(jobs), 500):
        await driver.enqueue(jobs[at : at + 500], now=now)
    await end_all(driver, dead, now)


async def end_all(driver: Driver, dead: str, now: int) -> None:
    while True:
        wish = Claim(queues=("default",), limit=500, lease_for=60 * SECOND, worker_id="w", token=f"t{next(names)}")
        taken = await driver.claim(wish, now=now)
        if not taken:
            return
        ends = [settle(job, Failed("x") if job.id == dead else Succeeded(), Execution(at=now)) for job in taken]
        assert set(await driver.settle(ends, now=now)) == {"applied"}


async def bite(driver: Driver, now: int = NOW + 10 * DAY, limit: int = 500) -> Done:
    done = await driver.maintain(Prune(**WEEKS, limit=limit), epoch=None, now=now)
    assert done is not None
    return done


async def left(driver: Driver, ids: list[str]) -> set[str]:
    return {job.id for job in await driver.get(ids) if job is not None}


def test_a_member_that_is_kept_costs_its_siblings_one_look_each(tmp_path: Path) -> None:
    """Not one for each of them; and when it is known who keeps the group, none at all."""

    async def go() -> list[int]:
        found: list[int] = []
        for members in (600, 2_400):
            driver = SqliteDriver(str(tmp_path / f"{members}.db"), durability="relaxed", inline=True)
            ids = [f"job-{n}" for n in range(members)]
            await ended(driver, ids, group="g", dead=ids[-1])

            async def once(driver: SqliteDriver = driver) -> None:
                assert await bite(driver) == Done(0)

            found += [await effort(driver, once) for _ in range(2)]
            await driver.close()
        return found

    few, _, many, again = asyncio.run(go())
    assert many < 6 * few, "four times as many"
    assert again < many


def test_what_goes_costs_no_second_look_at_what_stays_behind_it(tmp_path: Path) -> None:
    """A bite that is all but full goes on over those that stay, each in a group of its own, and does not begin anew for
    each of them."""

    async def measured(free: int) -> int:
        driver = SqliteDriver(str(tmp_path / f"{free}.db"), durability="relaxed", inline=True)
        await ended(driver, [f"free-{n}" for n in range(free)])
        pairs = [f"group-{n}" for n in range(400)]
        await driver.alter([PutGroup(name, total=2, on_failure="continue") for name in pairs], now=NOW)
        jobs = [NewJob(id=f"{name}-{n}", type="t", group_id=name, max_attempts=1) for n in range(2) for name in pairs]
        await driver.enqueue(jobs, now=NOW)
        for at in (NOW, NOW + 5 * DAY):  # the first of each, and the one that keeps it
            wish = Claim(queues=("default",), limit=400, lease_for=60 * SECOND, worker_id="w", token=f"t{next(names)}")
            ends = [settle(job, Succeeded(), Execution(at=at)) for job in await driver.claim(wish, now=at)]
            assert await driver.settle(ends, now=at) == ["applied"] * 400

        async def once() -> None:
            assert await bite(driver, limit=50) == Done(free)

        done = await effort(driver, once)
        await driver.close()
        return done

    assert asyncio.run(measured(49)) < 2 * asyncio.run(measured(0))


def test_what_stays_is_looked_at_once_and_what_is_behind_it_goes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bites that look at so many: a store of which nothing goes takes as much time at once as any other."""
    monkeypatch.setattr(retention, "FEWEST", 7)
    monkeypatch.setattr(retention, "VISITS", 1)

    async def go() -> None:
        groups = {f"g{g}": [f"g{g}-{n}" for n in range(5)] for g in range(4)}
        for group, ids in groups.items():
            await ended(driver, ids, group=group, dead=ids[2])
        alone = [f"alone-{n}" for n in range(3)]
        await ended(driver, alone)
        bites = [await bite(driver, limit=2)]
        while bites[-1].more:
            bites.append(await bite(driver, limit=2))
            assert len(bites) < 30, "it comes to an end"
        assert len(bites) > 2
        assert sum(done.rows for done in bites) == 3
        assert await left(driver, alone) == set()
        assert all([await left(driver, ids) == set(ids) for ids in groups.values()])
        late = NOW + 100 * DAY
        done = await bite(driver, late, limit=2)
        while done.more:
            done = await bite(driver, late, limit=2)
        assert [await left(driver, ids) for ids in groups.values()] == [set()] * 4

    asyncio.run(go())


def test_a_bite_begins_anew_for_who_keeps_other_jobs(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FEWEST", 3)
    monkeypatch.setattr(retention, "VISITS", 1)

    async def go() -> None:
        ids = [f"job-{n}" for n in range(9)]
        await ended(driver, ids, group="g", dead="job-8")
        assert await bite(driver, limit=3) == Done(0, more=True)
        everything = Prune(succeeded=0, cancelled=0, dead=0, limit=99)
        assert await driver.maintain(everything, epoch=None, now=NOW) == Done(9)

    asyncio.run(go())


def test_the_members_of_a_large_group_are_walked_over_once(
    driver: Driver, walked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one of them keeps it; those of a small one in each bite."""
    monkeypatch.setattr(retention, "LARGE", 20)

    async def go() -> None:
        large, small = [f"large-{n}" for n in range(21)], [f"small-{n}" for n in range(20)]
        await ended(driver, large, group="large", dead="large-20")
        await ended(driver, small, group="small", dead="small-19")
        for _ in range(3):
            assert await bite(driver) == Done(0)
        assert walked == [2, 1, 1]

    asyncio.run(go())


def test_a_group_of_which_nothing_was_found_is_asked_whatever_the_time(driver: Driver) -> None:
    """Also in the first minutes of 1970, where a test's clock may begin."""

    async def go() -> None:
        now = 100 * SECOND
        await ended(driver, ["old", "kept"], group="g", dead="kept", now=now)
        assert await driver.maintain(Prune(succeeded=0), epoch=None, now=now + SECOND) == Done(0)

    asyncio.run(go())


def test_a_large_group_that_goes_is_asked_once_for_all_bites(
    driver: Driver, walked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LARGE", 20)

    async def go() -> None:
        ids = [f"job-{n}" for n in range(21)]
        await ended(driver, ids, group="g", dead="job-7")
        assert [(await bite(driver, NOW + 100 * DAY, limit=5)).rows for _ in range(5)] == [5, 5, 5, 5, 1]
        assert walked == [1]

    asyncio.run(go())


def test_a_large_group_stays_when_one_of_it_was_brought_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it had begun to go; and no longer than what was brought back."""
    monkeypatch.setattr(retention, "LARGE", 5)

    async def go() -> None:
        ids = [f"job-{n}" for n in range(9)]
        await ended(driver, ids, group="g", dead="job-8")
        late = NOW + 100 * DAY
        assert await bite(driver, late, limit=2) == Done(2, more=True)
        assert await driver.alter([Replay("job-8", "unused")], now=late) == ["applied"]
        assert await bite(driver, late, limit=9) == Done(0)
        await end_all(driver, "", late)
        later = late + 700 * SECOND
        assert await bite(driver, later, limit=9) == Done(0), "it has just ended"
        assert await bite(driver, late + 8 * DAY, limit=9) == Done(7)

    asyncio.run(go())


@pytest.mark.parametrize("how", ["replay", "retry"])
def test_a_group_that_was_run_again_is_kept_from_its_new_end(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """At once, although it was found a moment ago that nothing keeps it."""
    monkeypatch.setattr(retention, "LARGE", 5)

    async def go() -> None:
        ids = [f"job-{n}" for n in range(9)]
        await ended(driver, ids, group="g", dead="job-8")
        late = NOW + 100 * DAY
        assert await bite(driver, late, limit=2) == Done(2, more=True)
        again = Replay("job-8", "unused") if how == "replay" else RetryGroup("g", members=(("job-8", "unused"),))
        assert await driver.alter([again], now=late) == ["applied"]
        await end_all(driver, "", late)
        for now in (late, late + SECOND, late + 700 * SECOND):
            assert await bite(driver, now, limit=9) == Done(0)

    asyncio.run(go())


def test_a_large_group_is_asked_again_by_those_who_keep_jobs_longer(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others found by their rules says nothing of what these keep; also when the former ones come back after it."""
    monkeypatch.setattr(retention, "LARGE", 5)

    async def go() -> None:
        await ended(driver, [f"job-{n}" for n in range(9)], group="g", dead="job-8")
        late = NOW + 10 * DAY

        async def pruned(dead: int, now: int) -> Done | None:
            rules = Prune(succeeded=7 * DAY, cancelled=7 * DAY, dead=dead, limit=2)
            return await driver.maintain(rules, epoch=None, now=now)

        assert await pruned(7 * DAY, late) == Done(2, more=True)
        assert await pruned(90 * DAY, late + SECOND) == Done(0)
        assert await pruned(90 * DAY, late + 2 * SECOND) == Done(0)
        assert await pruned(7 * DAY, late + 3 * SECOND) == Done(2, more=True)

    asyncio.run(go())


@pytest.mark.parametrize("how", ["enqueue", "replay", "retry"])
def test_a_large_group_stays_while_somebody_needs_a_member(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Who begins to need it when it has begun to go: a new job that comes after a member, or an old one that runs again, by
    itself or with its own group."""
    monkeypatch.setattr(retention, "LARGE", 5)

    async def go() -> None:
        await ended(driver, [f"job-{n}" for n in range(9)], group="g")
        theirs = NewGroup(group_id="theirs")
        group: dict[str, Any] = {"opens": theirs, "group_id": "theirs"} if how == "retry" else {}
        needs = NewJob(**{"id": "needs", "type": "t", "after": ("job-8",), "max_attempts": 1, **group})
        if how != "enqueue":
            await driver.enqueue([needs], now=NOW + 90 * DAY)
            await end_all(driver, "needs", NOW + 90 * DAY)
        late = NOW + 100 * DAY
        assert await bite(driver, late, limit=2) == Done(2, more=True)
        if how == "replay":
            assert await driver.alter([Replay("needs", "unused")], now=late) == ["applied"]
        elif how == "retry":
            assert await driver.alter([RetryGroup("theirs", (("needs", "unused"),))], now=late) == ["applied"]
        else:
            await driver.enqueue([needs], now=late)
        assert await bite(driver, late, limit=9) == Done(0)
        await end_all(driver, "", late)
        assert await bite(driver, late, limit=9) == Done(7)

    asyncio.run(go())


class ByOneAndOne(RetentionPromises):
    """The same promises where what was found of any group is remembered, and where a bite looks at one job."""

    @pytest.fixture(autouse=True)
    def _bites(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retention, "LARGE", 0)
        monkeypatch.setattr(retention, "FEWEST", 1)
        monkeypatch.setattr(retention, "VISITS", 1)


class TestRetentionByOneAndOne(ByOneAndOne):
    @pytest.fixture(autouse=True)
    def _store(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "jobs.db")

    def make_driver(self) -> Driver:
        return SqliteDriver(self.path, durability="relaxed", inline=True)


class TestRetentionByOneAndOneOnPostgres(ByOneAndOne):
    @pytest.fixture(autouse=True)
    def _store(self, empty_store: tuple[str, str]) -> None:
        self.dsn, self.schema = empty_store

    def make_driver(self) -> Driver:
        return PostgresDriver(self.dsn, schema=self.schema)
