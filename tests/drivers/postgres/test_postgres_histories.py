"""What simulated fleets asked of memory, asked of PostgreSQL: the same calls, in the same order, answered alike."""

from __future__ import annotations

import asyncio
import os

import pytest

from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import JobQuery
from windlass.testing.comparison import difference, ranked
from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.recording import Asked, Different, Recorder, record, replay

SEEDS = range(int(os.environ.get("WINDLASS_HISTORIES", "12")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_history_is_answered_alike(seed: int, empty_store: tuple[str, str]) -> None:
    report, calls = record(seed, real_worker)
    assert report.history.violation is None
    assert {"enqueue", "claim", "settle"} <= {call.method for call in calls}

    async def play() -> None:
        driver, memory = PostgresDriver(empty_store[0], schema=empty_store[1]), Recorder()
        try:
            await replay(calls, memory)
            await replay(calls, driver)
            pages = [await store.find(JobQuery(superseded=True, limit=10_000)) for store in (memory, driver)]
            for mine, other in zip(*(ranked(page.jobs) for page in pages), strict=True):
                assert mine == other, difference(mine, other)
        finally:
            await driver.close()

    asyncio.run(play())


def test_a_driver_that_answers_otherwise_is_found_out() -> None:
    _, calls = record(1, real_worker)
    claims = [index for index, call in enumerate(calls) if call.method == "claim" and call.answer]
    spoilt = [Asked(c.method, c.args, c.kwargs, [], None) if n == claims[0] else c for n, c in enumerate(calls)]
    with pytest.raises(Different, match="claim"):
        asyncio.run(replay(spoilt, Recorder()))
