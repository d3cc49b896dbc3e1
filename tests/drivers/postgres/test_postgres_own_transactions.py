"""Transactions on a connection of ours: what a handler finds there, and what is known when the network fails."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Literal

import psycopg
import pytest
from psycopg.rows import dict_row

from postgres.proxy import Proxy
from postgres.server import Server
from windlass.core.changes import Ack
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Claim
from windlass.errors import OutcomeUnknown, StoreError, StoreUnreachable, TransactionConflict, TransactionOver
from windlass.types import Claimed, NewJob

NOW = 1_900_000_000_000_000
LEASE = 30_000_000


def job(job_id: str, **fields: Any) -> NewJob:
    return NewJob(**{"id": job_id, "type": "work", **fields})


@pytest.fixture
def driver(empty_store: tuple[str, str]) -> Iterator[PostgresDriver]:
    dsn, schema = empty_store
    driver = PostgresDriver(dsn, schema=schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create table {schema}.own (n bigint)".encode())
    yield driver
    asyncio.run(driver.close())
    with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=2s") as connection:
        connection.execute(f"drop table {schema}.own".encode())


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def behind(proxy: Proxy, driver: PostgresDriver) -> Iterator[PostgresDriver]:
    """The same store through a network that fails."""
    behind = PostgresDriver(proxy.dsn(), schema=driver.place.schema, timeout=3)
    yield behind
    asyncio.run(behind.close())


@pytest.fixture
def impatient(proxy: Proxy, driver: PostgresDriver) -> Iterator[PostgresDriver]:
    impatient = PostgresDriver(proxy.dsn(), schema=driver.place.schema, timeout=0.3)
    yield impatient
    asyncio.run(impatient.close())


def own(driver: PostgresDriver) -> list[int]:
    tx = driver.transaction()
    tx.begin()
    rows = tx.connection.execute(f"select n from {driver.place.schema}.own order by n".encode()).fetchall()
    tx.rollback()
    return [n for (n,) in rows]


def write(tx: Any, driver: PostgresDriver, n: int) -> None:
    tx.connection.execute(f"insert into {driver.place.schema}.own values (%s)".encode(), [n])


def states(driver: PostgresDriver, *ids: str) -> list[str | None]:
    return [None if found is None else found.state for found in asyncio.run(driver.get(ids))]


def running(driver: PostgresDriver) -> Claimed:
    driver.enqueue_sync([job("first")], now=NOW)
    claim = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id="w", token="token")
    [claimed] = asyncio.run(driver.claim(claim, now=NOW))
    return claimed


def success(claimed: Claimed, result: bytes | None = None) -> Ack:
    return Ack(handle=claimed.handle, token=claimed.token, at=NOW, result=result)


# ------------------------------------------------------------------------------------------- the connection in the block


def test_the_connection_is_an_ordinary_one(driver: PostgresDriver, postgres_server: Server) -> None:
    """Neither our cursors, nor our way to write numbers, nor our settings."""
    tx = driver.transaction()
    tx.begin()
    conn = tx.connection
    assert isinstance(conn, psycopg.Connection)
    assert conn.execute("select %s::text", ["tea"]).fetchone() == ("tea",)
    assert conn.execute("select pg_typeof(%s)::text", [1]).fetchone() == ("smallint",)
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as plain:
        for setting in ("statement_timeout", "lock_timeout", "enable_seqscan", "timezone", "jit"):
            asked = f"show {setting}".encode()
            assert conn.execute(asked).fetchone() == plain.execute(asked).fetchone(), setting
    assert conn.cursor(row_factory=dict_row).execute("select 1 as one").fetchall() == [{"one": 1}]
    tx.rollback()


def test_own_rows_jobs_and_success_are_one(driver: PostgresDriver) -> None:
    claimed = running(driver)
    for end, expected in (("rollback", ["running", None]), ("commit", ["succeeded", "queued"])):
        tx = driver.transaction()
        tx.begin()
        write(tx, driver, 7)
        tx.enqueue([job("next")], now=NOW)
        assert tx.settle(success(claimed, b"1"), now=NOW) == "applied"
        getattr(tx, end)()
        assert states(driver, "first", "next") == expected
        assert own(driver) == ([7] if end == "commit" else [])


def test_nothing_that_a_block_sets_outlives_it(driver: PostgresDriver) -> None:
    pids = []
    for _ in range(2):
        tx = driver.transaction()
        tx.begin()
        conn = tx.connection
        pids.append(conn.info.backend_pid)
        assert conn.execute("show application_name").fetchone() == ("windlass",)
        assert conn.execute("select to_regclass('pg_temp.scratch')").fetchone() == (None,)
        assert conn.row_factory is not dict_row
        conn.execute("set application_name = 'mine'")
        conn.execute("create temporary table scratch (n int)")
        conn.row_factory = dict_row
        tx.commit()
    assert pids[0] == pids[1], "the connection is used again"


@pytest.mark.parametrize("kept", ["connection", "cursor"])
def test_what_is_kept_of_a_block_is_closed_after_it(driver: PostgresDriver, kept: str) -> None:
    tx = driver.transaction()
    tx.begin()
    conn = tx.connection
    held = conn if kept == "connection" else conn.cursor()
    held.execute("select 1")
    tx.commit()
    with pytest.raises(psycopg.Error, match="closed"):
        held.execute("select 1")
    del conn, held
    gc.collect()  # and leaves no warning


def test_a_block_is_not_ended_from_inside(driver: PostgresDriver) -> None:
    tx = driver.transaction()
    tx.begin()
    write(tx, driver, 1)
    for end in (tx.connection.commit, tx.connection.rollback, tx.connection.close):
        with pytest.raises(psycopg.ProgrammingError, match="ends with its block"):
            end()
    with tx.connection.transaction():
        write(tx, driver, 2)
        raise psycopg.Rollback
    tx.commit()
    assert own(driver) == [1]


def test_one_that_a_statement_has_ended_takes_nothing_more(driver: PostgresDriver) -> None:
    tx = driver.transaction()
    tx.begin()
    tx.connection.execute("commit")
    tx.connection.execute("select 1")
    with pytest.raises(TransactionOver, match="a statement of your own"):
        tx.enqueue([job("next")], now=NOW)
    with pytest.raises(TransactionOver):
        tx.commit()
    tx.rollback()
    assert states(driver, "next") == [None]


def test_a_block_with_a_statement_that_failed_stores_nothing_and_says_so(driver: PostgresDriver) -> None:
    tx = driver.transaction()
    tx.begin()
    tx.enqueue([job("next")], now=NOW)
    with pytest.raises(psycopg.errors.DivisionByZero):
        tx.connection.execute("select 1 / 0")
    for call in (lambda: tx.enqueue([job("more")], now=NOW), tx.commit):
        with pytest.raises(TransactionOver, match=r"has failed.*with tx\.connection\.transaction"):
            call()
    tx.rollback()
    assert states(driver, "next") == [None]


def test_a_constraint_that_is_checked_at_the_commit_undoes_everything(driver: PostgresDriver) -> None:
    tx = driver.transaction()
    tx.begin()
    tx.connection.execute("create temporary table once (n int unique deferrable initially deferred)")
    tx.connection.execute("insert into once values (1), (1)")
    tx.enqueue([job("next")], now=NOW)
    with pytest.raises(StoreError, match="once_n_key"):
        tx.commit()
    assert states(driver, "next") == [None]


def test_the_async_connection_shares_the_transaction(driver: PostgresDriver) -> None:
    tx = driver.transaction()
    tx.begin()

    async def block() -> None:
        conn = tx.async_connection
        assert isinstance(conn, psycopg.AsyncConnection)
        await conn.execute(f"insert into {driver.place.schema}.own values (%s)".encode(), [1])
        async with conn.cursor() as cursor:
            await cursor.executemany(f"insert into {driver.place.schema}.own values (%s)".encode(), [(2,), (3,)])
            await cursor.execute(f"select n from {driver.place.schema}.own order by n".encode())
            assert [n async for (n,) in cursor] == [1, 2, 3]
        with pytest.raises(psycopg.ProgrammingError, match="ends with its block"):
            await conn.commit()

    asyncio.run(block())
    tx.enqueue([job("next")], now=NOW)
    tx.commit()
    assert (own(driver), states(driver, "next")) == ([1, 2, 3], ["queued"])


def test_two_that_wait_for_each_other_are_told_apart(driver: PostgresDriver) -> None:
    """One goes on; the other hears of a conflict, and what it did before is still there to be undone or kept."""
    one, two = driver.transaction(), driver.transaction()
    ends: list[object] = []
    for tx, key in ((one, "a"), (two, "b")):
        tx.begin()
        tx.enqueue([job(f"{key}-first", idempotency_scope="s", idempotency_key=key)], now=NOW)

    def second(tx: Any, key: str) -> None:
        try:
            tx.enqueue([job(f"{key}-second", idempotency_scope="s", idempotency_key=key)], now=NOW)
        except TransactionConflict:
            ends.append("conflict")
        tx.commit()

    threads = [threading.Thread(target=second, args=(one, "b")), threading.Thread(target=second, args=(two, "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ends == ["conflict"]
    assert states(driver, "a-first", "b-first") == ["queued", "queued"]


# ----------------------------------------------------------------------------------------------------- when the net fails

Work = Callable[[Any, Claimed], Any]
WORKS: dict[str, Work] = {
    "success": lambda tx, claimed: tx.settle(success(claimed), now=NOW),
    "result": lambda tx, claimed: tx.settle(success(claimed, b"1"), now=NOW),
    "jobs": lambda tx, claimed: tx.enqueue([job("next")], now=NOW),
    "rows": lambda tx, claimed: None,
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("work", WORKS)
def test_a_commit_whose_answer_is_lost_is_looked_up(
    driver: PostgresDriver, behind: PostgresDriver, proxy: Proxy, work: str, when: Literal["before", "after"]
) -> None:
    """It returns when it was stored, and raises when it was not: there is no third case while the server can be asked."""
    claimed = running(driver)
    tx = behind.transaction()
    tx.begin()
    write(tx, driver, 7)
    WORKS[work](tx, claimed)
    trap = proxy.cut_in_commit(when=when)
    if when == "after":
        tx.commit()
    else:
        with pytest.raises(StoreUnreachable, match="before the commit took effect"):
            tx.commit()
    assert trap.sprung.is_set()
    assert own(driver) == ([7] if when == "after" else [])
    ended = {"jobs": ["running", "queued"], "rows": ["running", None]}.get(work, ["succeeded", None])
    assert states(driver, "first", "next") == (ended if when == "after" else ["running", None])


def test_an_outcome_that_nobody_can_tell_is_not_guessed(
    driver: PostgresDriver, impatient: PostgresDriver, proxy: Proxy
) -> None:
    tx = impatient.transaction()
    tx.begin()
    tx.enqueue([job("next")], now=NOW)
    proxy.cut_in_commit()
    proxy.refuse()
    with pytest.raises(OutcomeUnknown):
        tx.commit()
    proxy.heal()
    assert states(driver, "next") == ["queued"]


def test_no_call_waits_for_ever(driver: PostgresDriver, impatient: PostgresDriver, proxy: Proxy) -> None:
    for name in ("enqueue", "commit", "rollback"):
        tx = impatient.transaction()
        tx.begin()
        proxy.blackhole()
        begun = time.monotonic()
        with pytest.raises(StoreError) if name != "rollback" else nullcontext():
            tx.enqueue([job("next")], now=NOW) if name == "enqueue" else getattr(tx, name)()
        tx.rollback()
        assert time.monotonic() - begun < 15
        proxy.heal()
    assert states(driver, "next") == [None]


def test_a_connection_that_broke_while_nobody_used_it_is_replaced(behind: PostgresDriver, proxy: Proxy) -> None:
    for name in ("before", "after"):
        tx = behind.transaction()
        tx.begin()
        tx.enqueue([job(name)], now=NOW)
        tx.commit()
        proxy.cut()
    assert states(behind, "before", "after") == ["queued", "queued"]


def test_a_connection_that_breaks_in_the_block_is_told_by_the_next_call(behind: PostgresDriver, proxy: Proxy) -> None:
    tx = behind.transaction()
    tx.begin()
    tx.enqueue([job("next")], now=NOW)
    proxy.cut()
    with pytest.raises(StoreUnreachable):
        tx.enqueue([job("more")], now=NOW)
    with pytest.raises(StoreError):
        tx.commit()
    tx.rollback()
    assert states(behind, "next", "more") == [None, None]


def test_one_that_is_open_while_the_driver_closes_may_end(empty_store: tuple[str, str], driver: PostgresDriver) -> None:
    other = PostgresDriver(empty_store[0], schema=empty_store[1])
    tx = other.transaction()
    tx.begin()
    tx.enqueue([job("next")], now=NOW)
    asyncio.run(other.close())
    tx.commit()
    assert states(driver, "next") == ["queued"]


def test_a_statement_that_nobody_awaits_does_not_keep_the_transaction_open(driver: PostgresDriver) -> None:
    """A task of the body still runs one when the block is left by an exception."""
    tx = driver.transaction()
    tx.begin()

    async def block() -> None:
        straggler = asyncio.create_task(tx.async_connection.execute("select pg_sleep(60), 'straggler'"))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(tx.rollback)
        with pytest.raises(psycopg.Error):
            await asyncio.wait_for(straggler, 10)

    asyncio.run(block())
    look = driver.transaction()
    look.begin()
    left = "select count(*) from pg_stat_activity where query like '%''straggler''%' and state = 'active'"
    until = time.monotonic() + 10
    while look.connection.execute(left).fetchone() != (1,) and time.monotonic() < until:  # this very look
        time.sleep(0.05)
    assert look.connection.execute(left).fetchone() == (1,)
    look.rollback()
