"""The size of the file and of its log: bounded by what is kept, not by what has ever been there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import apsw
import pytest

from windlass.clock import SECOND
from windlass.core.changes import Ack
from windlass.core.duties import Done, Prune, ReturnSpace
from windlass.drivers.sqlite import SqliteDriver, space
from windlass.drivers.sqlite.library import Library
from windlass.drivers.values import Claim
from windlass.types import NewJob

NOW: Final = 1_800_000_000_000_000
JOBS: Final = 1_500


async def fill(driver: SqliteDriver, name: str, jobs: int = JOBS) -> None:
    """Jobs of a kilobyte that have ended."""
    new = [NewJob(id=f"{name}-{n}", type="t", queue="q", payload=b'"' + b"x" * 1_000 + b'"') for n in range(jobs)]
    await driver.enqueue(new, now=NOW)
    wish = Claim(queues=("q",), limit=jobs, lease_for=60 * SECOND, worker_id="w", token=name)
    taken = await driver.claim(wish, now=NOW)
    await driver.settle([Ack(handle=job.handle, token=name, at=NOW) for job in taken], now=NOW)


async def empty(driver: SqliteDriver) -> None:
    while (done := await driver.maintain(Prune(succeeded=0), epoch=None, now=NOW)) is not None and done.more:
        pass


async def give_back(driver: SqliteDriver, limit: int = 500) -> int:
    given, done = 0, Done(0, more=True)
    while done.more:
        told = await driver.maintain(ReturnSpace(limit=limit), epoch=None, now=NOW)
        assert told is not None
        assert told.rows <= limit
        given, done = given + told.rows, told
    return given


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_a_file_shrinks_when_what_was_in_it_is_gone(tmp_path: Path, library: Library) -> None:
    path = tmp_path / "jobs.db"

    async def run() -> tuple[int, int]:
        driver = SqliteDriver(path, sqlite=library, inline=True)
        await fill(driver, "a")
        full = await driver.maintain(ReturnSpace(), epoch=None, now=NOW)
        assert full == Done(0), "nothing lies idle"
        await empty(driver)
        [(pages,)] = driver._writer._connection.execute("pragma page_count")
        given = await give_back(driver)
        await driver.close()
        return pages, given

    pages, given = asyncio.run(run())
    left = path.stat().st_size // 4096
    assert left == pages - given, "what was given back is gone from the disk"
    assert left < pages * 0.6


def test_a_file_that_is_filled_and_emptied_again_stays_as_large(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def run() -> list[int]:
        sizes = []
        driver = SqliteDriver(path, inline=True)
        for turn in range(4):
            await fill(driver, f"turn{turn}")
            sizes.append(driver._writer._connection.execute("pragma page_count")[0][0])
            await empty(driver)
            if turn % 2:
                await give_back(driver)
        await driver.close()
        return sizes

    sizes = asyncio.run(run())
    assert max(sizes) <= sizes[0] * 1.1, sizes


def test_space_is_given_back_in_pieces_and_some_is_kept(tmp_path: Path) -> None:
    async def run() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db", inline=True)
        await fill(driver, "a")
        await empty(driver)
        assert await driver.maintain(ReturnSpace(limit=7), epoch=None, now=NOW) == Done(7, more=True)
        await give_back(driver, limit=100)
        [(free,)] = driver._writer._connection.execute("pragma freelist_count")
        assert free == space.KEPT
        await driver.close()

    asyncio.run(run())


def make_old(path: Path) -> None:
    """As an earlier version made it: no page can be given back."""
    asyncio.run(SqliteDriver(path, inline=True).close())
    connection = apsw.Connection(str(path))
    connection.execute("pragma auto_vacuum = none; vacuum")
    connection.close()


def test_a_small_file_of_an_earlier_version_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    make_old(path)

    async def run() -> int:
        driver = SqliteDriver(path, inline=True)
        await fill(driver, "a")
        await empty(driver)
        given = await give_back(driver)
        await driver.close()
        return given

    assert asyncio.run(run()) > 0


@pytest.mark.parametrize(
    "theirs",
    [
        "create index words on notes (stem(text))",
        "create table others (text, check (stem(text) <> ''))",
        "create table others (text, stem generated always as (stem(text)) stored)",
    ],
)
@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_a_file_whose_tables_need_functions_of_an_application_is_opened_all_the_same(
    tmp_path: Path, library: Library, theirs: str
) -> None:
    """It cannot be written anew by whoever has no such functions, but for that it can serve."""

    def stem(*values: apsw.SQLiteValue) -> apsw.SQLiteValue:
        return values[0]

    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.create_scalar_function("stem", stem, 1, deterministic=True)
    connection.execute(f"create table notes (text); insert into notes values ('walking'); {theirs}")
    connection.close()

    async def run() -> int:
        driver = SqliteDriver(tmp_path / "jobs.db", sqlite=library)
        await fill(driver, "a", 3)
        jobs = await driver.get(["a-0", "a-1", "a-2"])
        await driver.close()
        return len(jobs)

    assert asyncio.run(run()) == 3


def test_a_large_file_of_an_earlier_version_is_left_and_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    make_old(path)
    monkeypatch.setattr(space, "REWRITTEN", 4096)

    async def run() -> list[str]:
        driver = SqliteDriver(path, inline=True)
        await fill(driver, "a")
        await empty(driver)
        assert await give_back(driver) == 0
        found = [one for one in await driver.examine(now=NOW) if one.name == "file"]
        await driver.close()
        return [f"{one.status} {one.command}" for one in found]

    assert asyncio.run(run()) == [f"warning sqlite3 {path} 'pragma auto_vacuum = incremental; vacuum'"]
    connection = apsw.Connection(str(path))
    connection.execute("pragma auto_vacuum = incremental; vacuum")
    connection.close()

    async def again() -> list[str]:
        driver = SqliteDriver(path, inline=True)
        found = [one.name for one in await driver.examine(now=NOW)]
        await driver.close()
        return found

    assert asyncio.run(again()) == ["disk"]


def test_the_log_shrinks_again_when_a_long_reader_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, wal = tmp_path / "jobs.db", tmp_path / "jobs.db-wal"
    monkeypatch.setattr("windlass.drivers.sqlite.store.WAL_KEPT", 1 << 20)

    async def run() -> tuple[int, int]:
        driver = SqliteDriver(path)
        await fill(driver, "first", 10)
        reader = apsw.Connection(str(path))
        reader.execute("begin; select count(*) from jobs").fetchall()
        for turn in range(6):
            await fill(driver, f"held{turn}")
        most = wal.stat().st_size
        reader.close()
        await fill(driver, "then")
        for turn in range(4):
            await fill(driver, f"after{turn}", 20)
        now = wal.stat().st_size
        await driver.close()
        return most, now

    most, now = asyncio.run(run())
    assert most > 16 << 20
    assert now < 8 << 20, "it grows to a thousand pages between two copies"
