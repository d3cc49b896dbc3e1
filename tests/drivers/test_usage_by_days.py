"""What usage is added up from: it need not be there any more, and goes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from windlass.core.changes import Ack
from windlass.core.duties import RollUpUsage
from windlass.core.history import SAMPLED
from windlass.core.queries import UsageBy
from windlass.core.usage import DAY, HOUR, LATE
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

NOW = 20_000 * DAY
DAYS = 3


@pytest.mark.parametrize("step", [0, DAY])
def test_days_that_are_over_are_not_read_by_the_hour(tmp_path: Path, step: int) -> None:
    """Each of their hours was added to them once, so that they are right without it."""
    path = str(tmp_path / "jobs.db")

    def sql(statement: str, *rows: tuple[int, ...]) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executemany(statement, rows)

    async def go() -> None:
        driver = SqliteDriver(path, durability="relaxed", inline=True)
        await driver.maintain(RollUpUsage(until=1), epoch=None, now=NOW)
        hours = [(NOW - hour * HOUR,) for hour in range(1, 24 * DAYS + 1)]
        sql("insert into usage_hourly values (?, '', 'q', 't', 'completed', 1, 1, 1, 1, null)", *hours)
        for later in (HOUR, 2 * HOUR):
            await driver.maintain(RollUpUsage(until=NOW + later), epoch=None, now=NOW + 2 * later)
        sql("delete from usage_hourly where hour < ?", (NOW,))
        rows = await driver.read(UsageBy(since=NOW - DAYS * DAY, until=NOW, step=step))
        assert [row.runs for row in rows] == ([24] * DAYS if step else [24 * DAYS])
        await driver.close()

    asyncio.run(go())


def test_counted_ends_leave_no_batch_behind_when_their_minute_is_sampled(tmp_path: Path) -> None:
    """When later ones are counted."""
    path = str(tmp_path / "jobs.db")

    async def run(driver: SqliteDriver, now: int) -> None:
        await driver.enqueue([NewJob(id=f"job-{now}", type="t", history="failures")], now=now)
        wish = Claim(queues=("default",), limit=1, lease_for=HOUR, worker_id="w", token=f"token-{now}")
        [job] = await driver.claim(wish, now=now)
        assert await driver.settle([Ack(handle=job.handle, token=job.token, at=now)], now=now) == ["applied"]
        await driver.maintain(RollUpUsage(until=now), epoch=None, now=now + LATE)

    async def go() -> None:
        driver = SqliteDriver(path, durability="relaxed", inline=True)
        for later in (0, SAMPLED - 1, SAMPLED):
            await run(driver, NOW + later)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select at from usage_batches").fetchall() == [(NOW + SAMPLED - 1,), (NOW + SAMPLED,)]
        await driver.close()

    asyncio.run(go())
