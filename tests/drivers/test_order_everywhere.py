"""The same rows give the same order: on every store, and when a store is opened again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.alterations import Alteration, Move, MoveBeside, PutQueue, Renormalise, SetPriority, Swap
from windlass.core.queries import InOrder
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

NOW = 1_900_000_000_000_000
QUEUES = ("plain", "dense")


def step(dice: Random, ids: list[str], queue: str) -> Alteration:
    one, other = dice.sample(ids, 2)
    return dice.choice((
        Move(one, dice.choice(("top", "bottom"))), Swap(one, other), SetPriority(one, dice.choice((0, 0, 1))),
        MoveBeside(one, other, "before", take_priority=dice.random() < 0.5), MoveBeside(one, other, "after"),
        MoveBeside(ids[0], ids[1], "before"), MoveBeside(ids[1], ids[0], "before"), Renormalise(queue),
    ))  # fmt: skip


async def order(driver: Driver) -> dict[str, list[str]]:
    return {queue: [job.id for job in await driver.read(InOrder(queue=queue, limit=1_000))] for queue in QUEUES}


async def play(open_driver: Callable[[], Driver], seed: int, *, reopen: bool) -> list[dict[str, list[str]]]:
    """A mix of enqueues and changes; the order after each part of it, and that in which the jobs are claimed."""
    dice, driver, seen = Random(seed), open_driver(), list[dict[str, list[str]]]()
    await driver.alter([PutQueue("dense", "dense")], now=NOW)
    known: dict[str, list[str]] = {queue: [] for queue in QUEUES}
    for part in range(3):
        for queue in QUEUES:
            new = [
                NewJob(id=f"{queue}-{part}-{n}", type="t", queue=queue, priority=dice.choice((0, 0, 1))) for n in range(4)
            ]
            known[queue] += [answer.id for answer in await driver.enqueue(new, now=NOW + part)]
            for _ in range(12):
                await driver.alter([step(dice, known[queue], queue)], now=NOW + part)
        seen.append(await order(driver))
        if reopen:
            await driver.close()
            driver = open_driver()
            assert await order(driver) == seen[-1], "another order after a restart"
    taken: dict[str, list[str]] = {}
    for queue in QUEUES:
        wish = Claim(queues=(queue,), limit=100, lease_for=1, worker_id="w", token=queue)
        taken[queue] = [job.id for job in await driver.claim(wish, now=NOW + 9)]
    assert taken == seen[-1], "claims keep to the order"
    await driver.close()
    return seen


def in_memory(seed: int) -> list[dict[str, list[str]]]:
    return asyncio.run(play(MemoryDriver, seed, reopen=False))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_file_gives_the_order_of_memory_however_often_it_is_opened(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "jobs.db"
        found = asyncio.run(play(lambda: SqliteDriver(path, inline=True, durability="relaxed"), seed, reopen=True))
    assert found == in_memory(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_server_gives_the_order_of_memory_whoever_connects(empty_store: tuple[str, str], seed: int) -> None:
    dsn, schema = empty_store
    found = asyncio.run(play(lambda: PostgresDriver(dsn, schema=schema), seed, reopen=True))
    assert found == in_memory(seed)
