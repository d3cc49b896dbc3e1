"""The connection breaks while the server is still storing: the call that is repeated meets its own first try, which is not
to be seen yet, and is a moment later. Nobody is told that nothing was stored, or that more was stored than was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from postgres.calling import Line, ack, line, new, timed, wish
from postgres.server import Server
from windlass.drivers.postgres.faults import translate
from windlass.drivers.postgres.place import Place
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, OutcomeUnknown, TransactionConflict

PATIENT = 5.0
KEYS: list[dict[str, Any]] = [
    {"idempotency_key": "k", "idempotency_scope": "s"},
    {"dedupe_key": "k"},
    {"idempotency_key": "k", "idempotency_scope": "s", "dedupe_key": "k"},
    {"schedule_id": "k", "fire_at": 1},
    {},
]


async def waiting(tried: Line, sessions: int) -> None:
    """Until so many sessions of this schema wait for somebody."""
    async with asyncio.timeout(PATIENT):
        while tried.server.execute("select count(*)::int from pg_locks where not granted")[0][0] < sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def slow_commits(tried: Line, table: str = "jobs") -> AsyncIterator[None]:
    """Whoever inserts into the table comes to its commit, and is stuck there until the block ends."""
    name = tried.schema
    tried.server.execute(
        f"create function {name}.dawdle() returns trigger language plpgsql as "
        f"$$ begin perform pg_advisory_xact_lock_shared(hashtext('{name}')); return null; end $$"
    )
    tried.server.execute(
        f"create constraint trigger dawdle after insert on {name}.{table} deferrable initially deferred "
        f"for each row execute function {name}.dawdle()"
    )
    with psycopg.connect(tried.server.dsn(), autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(hashtext(%s))", [name])
        yield


@pytest.mark.parametrize("how", ["ignore", "raise"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: "+".join(key) or "none")
def test_an_enqueue_that_meets_its_own_first_try_knows_it(postgres_server: Server, key: dict[str, Any], how: Any) -> None:
    async def play(tried: Line) -> None:
        job, now = new(**key, on_duplicate=how), tried.now()
        async with slow_commits(tried):
            call = asyncio.create_task(tried.driver.enqueue([job], now=now))
            await waiting(tried, 1)
            tried.proxy.cut()
            await waiting(tried, 2)
        assert await call == [Enqueued(job.id)]
        assert len(await tried.direct.claim(wish(), now=tried.now())) == 1

    with line(postgres_server, PATIENT) as tried:
        asyncio.run(play(tried))


def test_an_enqueue_is_not_told_that_a_duplicate_was_stored(postgres_server: Server) -> None:
    """The job that held the key has ended meanwhile: what the first try was told of it, nobody can say any more."""

    async def play(tried: Line) -> None:
        holder, fresh, duplicate = new(dedupe_key="taken"), new(), new(dedupe_key="taken")
        await tried.direct.enqueue([holder], now=tried.now())
        [held] = await tried.direct.claim(wish(), now=tried.now())
        async with slow_commits(tried):
            call = asyncio.create_task(timed(tried.driver.enqueue([fresh, duplicate], now=tried.now())))
            await waiting(tried, 1)
            tried.proxy.cut()
            await waiting(tried, 2)
            assert await tried.direct.settle([ack(held, tried.now())], now=tried.now()) == ["applied"]
        _, answer = await call
        assert await tried.direct.get([duplicate.id]) == [None]
        assert isinstance(answer, OutcomeUnknown)

    with line(postgres_server, PATIENT) as tried:
        asyncio.run(play(tried))


HERE = Place("postgresql://h/d", "windlass", "none", 1.0)


def test_a_conflict_after_a_try_of_unknown_end_is_no_promise_that_nothing_is_stored() -> None:
    assert isinstance(translate(TransactionConflict(), HERE, storing=True), OutcomeUnknown)
    assert isinstance(translate(TransactionConflict(), HERE), TransactionConflict)
    assert isinstance(translate(DuplicateId("a"), HERE, storing=True), DuplicateId)
