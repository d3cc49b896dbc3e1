"""Memory holds no lock while a transaction is open: what it was told must still be true at the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from windlass.core.changes import Ack
from windlass.drivers.memory import MemoryDriver
from windlass.errors import NoConnection, TransactionConflict
from windlass.testing.conformance.trial import LEASE, Trial


def try_out(story: Callable[[Trial], Awaitable[None]]) -> None:
    asyncio.run(_run(story))


async def _run(story: Callable[[Trial], Awaitable[None]]) -> None:
    await story(Trial(MemoryDriver()))


def test_a_lease_that_was_lost_before_the_commit_undoes_the_transaction() -> None:
    async def story(t: Trial) -> None:
        job = await t.running()
        tx = t.driver.transaction()
        tx.begin()
        tx.enqueue([t.new(id="next")], now=t.now)
        assert tx.settle(Ack(handle=job.handle, token=job.token, at=t.now), now=t.now) == "applied"
        t.clock.advance(LEASE)
        again = await t.take()
        with pytest.raises(TransactionConflict) as caught:
            tx.commit()
        assert caught.value.retryable
        tx.rollback()
        assert await t.driver.get(["next"]) == [None]
        assert await t.ack(again) == "applied"

    try_out(story)


def test_a_key_or_id_that_was_taken_before_the_commit_undoes_the_transaction() -> None:
    async def story(t: Trial) -> None:
        for number, fields in enumerate(({"dedupe_key": "d"}, {"id": "same"})):
            tx = t.driver.transaction()
            tx.begin()
            tx.enqueue([t.new(id=f"first-{number}")], now=t.now)
            tx.enqueue([t.new(**fields)], now=t.now)
            await t.enqueue(**fields)
            with pytest.raises(TransactionConflict):
                tx.enqueue([t.new()], now=t.now)
            with pytest.raises(TransactionConflict):
                tx.commit()
            assert await t.driver.get([f"first-{number}"]) == [None]

    try_out(story)


def test_others_are_not_kept_waiting_by_an_open_transaction() -> None:
    async def story(t: Trial) -> None:
        tx = t.driver.transaction()
        tx.begin()
        tx.enqueue([t.new(id="mine")], now=t.now)
        other = await t.enqueue()
        assert [job.id for job in await t.claim()] == [other]
        tx.commit()
        assert [job.id for job in await t.claim()] == ["mine"]

    try_out(story)


def test_there_is_no_connection_to_write_on() -> None:
    async def story(t: Trial) -> None:
        tx = t.driver.transaction()
        tx.begin()
        with pytest.raises(NoConnection, match="no SQL connection"):
            _ = tx.connection

    try_out(story)
