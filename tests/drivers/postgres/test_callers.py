"""Jobs in the caller's own transaction, whatever library it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import asyncpg
import psycopg
import pytest
from caller_kinds import KINDS, NOW, Asyncpg, AsyncPsycopg, Kind, Psycopg
from psycopg.rows import dict_row

from postgres.server import Server, unique_name
from windlass.clock import SECOND
from windlass.core.alterations import PutGroup, PutLimit
from windlass.core.changes import Settlement
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Claim
from windlass.errors import DuplicateId, DuplicateJob, InvalidInput, TransactionConflict, WrongConnection
from windlass.types import Claimed, NewJob

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
Scene = Callable[[PostgresDriver, Any], Awaitable[None]]


@pytest.fixture
def store(empty_store: tuple[str, str]) -> Iterator[tuple[str, str]]:
    dsn, schema = empty_store
    with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=2s") as connection:
        connection.execute(f"create table {schema}.own (n int)".encode())
        yield dsn, schema
        connection.execute(f"drop table {schema}.own".encode())


def play(store: tuple[str, str], kind: type[Kind], scene: Scene, *, begin: bool = True) -> None:
    """One scene: a driver, and a connection of this kind in a transaction."""
    dsn, schema = store

    async def main() -> None:
        driver, own = PostgresDriver(dsn, schema=schema), kind(dsn)
        await own.open()
        try:
            async with asyncio.timeout(30):
                if begin:
                    await own.begin()
                await scene(driver, own)
        finally:
            await own.close()
            await driver.close()

    asyncio.run(main())


def job(job_id: str, **fields: Any) -> NewJob:
    return NewJob(**{"id": job_id, "type": "work", **fields})


async def there(driver: PostgresDriver, *ids: str) -> list[str]:
    return [found.id for found in await driver.get(ids) if found is not None]


def rows(store: tuple[str, str]) -> list[int]:
    with psycopg.connect(store[0], autocommit=True) as connection:
        return [n for (n,) in connection.execute(f"select n from {store[1]}.own order by n".encode())]


# -------------------------------------------------------------------------------------------------------------- together


@kinds
@pytest.mark.parametrize("first", ["job", "row"])
def test_a_job_becomes_true_with_the_callers_own_rows(store: tuple[str, str], kind: type[Kind], first: str) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        if first == "row":
            await own.execute(f"insert into {store[1]}.own values (7)")
        assert [answer.id for answer in await own.enqueue(driver, [job("a"), job("b")])] == ["a", "b"]
        if first == "job":
            await own.execute(f"insert into {store[1]}.own values (7)")
        assert await there(driver, "a", "b") == []
        await own.commit()
        assert await there(driver, "a", "b") == ["a", "b"]
        assert rows(store) == [7]

    play(store, kind, scene)


@kinds
def test_a_rollback_leaves_nothing(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        await own.enqueue(driver, [job("a", idempotency_scope="s", idempotency_key="k", dedupe_key="d")])
        await own.execute(f"insert into {store[1]}.own values (7)")
        await own.rollback()
        assert await there(driver, "a") == []
        [answer] = await driver.enqueue([job("b", idempotency_scope="s", idempotency_key="k", dedupe_key="d")], now=NOW)
        assert (answer.existed, rows(store)) == (False, [])

    play(store, kind, scene)


@kinds
def test_a_job_goes_with_the_callers_savepoint(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        await own.enqueue(driver, [job("before")])
        await own.savepoint()
        await own.enqueue(driver, [job("inside")])
        await own.back_to_savepoint()
        await own.enqueue(driver, [job("after")])
        await own.commit()
        assert await there(driver, "before", "inside", "after") == ["before", "after"]

    play(store, kind, scene)


@kinds
def test_what_fails_here_leaves_the_callers_transaction_usable(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        await driver.enqueue([job("used", dedupe_key="held")], now=NOW)
        await own.execute(f"insert into {store[1]}.own values (7)")
        await own.enqueue(driver, [job("before")])
        with pytest.raises(DuplicateId, match="used"):
            await own.enqueue(driver, [job("a"), job("used")])
        with pytest.raises(DuplicateJob, match="held"):
            await own.enqueue(driver, [job("b"), job("c", dedupe_key="held", on_duplicate="raise")])
        with pytest.raises(InvalidInput):
            await own.enqueue(driver, [job("d"), job("e", type="")])
        with pytest.raises(InvalidInput):
            await own.enqueue(driver, [job("f"), job("g", payload=b"{}", org_id="nul \0")])
        await own.enqueue(driver, [job("after")])
        await own.commit()
        assert await there(driver, *"abcdefg", "before", "after") == ["before", "after"]
        assert rows(store) == [7]

    play(store, kind, scene)


@kinds
def test_keys_are_those_of_the_store(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        await driver.enqueue([job("held", **key)], now=NOW)
        [again, fresh] = await own.enqueue(driver, [job("a", **key), job("b", dedupe_key="d")])
        [twice] = await own.enqueue(driver, [job("c", dedupe_key="d")])
        assert [(answer.id, answer.existed) for answer in (again, fresh, twice)] == [
            ("held", True), ("b", False), ("b", True)
        ]  # fmt: skip
        await own.enqueue(
            driver, [job("d", dedupe_key="d", on_duplicate="replace", payload=b"[1]", headers={"trace": "x"})]
        )
        await own.commit()
        [stored] = await driver.get(["b"])
        assert stored is not None
        assert (stored.payload, stored.headers) == (b"[1]", {"trace": "x"})

    play(store, kind, scene)


@kinds
def test_every_column_is_written_as_by_the_driver_itself(store: tuple[str, str], kind: type[Kind]) -> None:
    """Arrays of every kind: equal and different values, none at all, small and large numbers, text of all scripts."""
    batch = [
        job("one", payload=b"\x00\xff", org_id="Ж", priority=1, run_at=NOW + 5, tags=("a", "ж"), headers={"k": "v"}),
        job("two", priority=2**31 - 1, timeout_ns=2**40, max_attempts=3, limit_keys=("x",), group_id="g", group_seq=1),
        job("three", type="other", queue="q", fire_at=NOW, schedule_id="s", template_id="t", template_version=2),
        job("four", idempotency_scope="s", idempotency_key="k", idempotency_expires_at=NOW + 9),
        job("five", idempotency_scope="s", idempotency_key="l", dedupe_key="'\"\\{},null"),
    ]

    async def scene(driver: PostgresDriver, own: Kind) -> None:
        await own.enqueue(driver, batch[:2])
        await own.enqueue(driver, batch[2:])
        await own.rollback()
        expected = PostgresDriver(store[0], schema=unique_name("s"))
        await expected.enqueue(batch, now=NOW)
        await own.begin()
        await own.enqueue(driver, batch[:2])
        await own.enqueue(driver, batch[2:])
        await own.commit()
        ids = [one.id for one in batch]
        for mine, theirs in zip(await driver.get(ids), await expected.get(ids), strict=True):
            assert mine is not None
            assert theirs is not None
            ours = {name: getattr(mine, name) for name in mine.__struct_fields__ if name not in ("seq", "position")}
            assert ours == {name: getattr(theirs, name) for name in ours}
        await expected.close()
        with psycopg.connect(store[0], autocommit=True) as connection:
            connection.execute(f"drop schema {expected.place.schema} cascade".encode())

    play(store, kind, scene)


@kinds
def test_no_jobs_are_no_statement(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        assert await own.enqueue(driver, []) == []
        await own.rollback()

    play(store, kind, scene)


# ----------------------------------------------------------------------------------------------------------------- waking


async def listening(dsn: str, schema: str) -> PostgresDriver:
    """Another process, in effect: a driver that hears of work and knows of none."""
    other = PostgresDriver(dsn, schema=schema)
    while other.present_wakeups == "poll":
        await other.wait(timeout=0.02)
    while await other.wait(timeout=0.1):
        pass
    return other


@kinds
@pytest.mark.parametrize("savepoint", [False, True])
def test_a_commit_wakes_a_worker_and_nothing_else_does(store: tuple[str, str], kind: type[Kind], savepoint: bool) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        other = await listening(*store)
        await own.enqueue(driver, [job("a")])
        if savepoint:
            await own.savepoint()
            await own.enqueue(driver, [job("b")])
            await own.back_to_savepoint()
        assert not await other.wait(timeout=0.1)
        waiting = asyncio.create_task(other.wait(timeout=20))
        await own.commit()
        assert await waiting
        await own.begin()
        await own.enqueue(driver, [job("c")])
        await own.rollback()
        await own.begin()
        await own.enqueue(driver, [job("d")], notify=False)
        await own.enqueue(driver, [job("later", run_at=NOW + 1)])
        await own.commit()
        assert not await other.wait(timeout=0.1)
        await other.close()

    play(store, kind, scene)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "Session" in kind.__name__], ids=lambda kind: kind.__name__)
def test_a_savepoint_that_is_released_wakes_nobody(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        other = await listening(*store)
        await own.savepoint()
        await own.enqueue(driver, [job("a")])
        await own.inner.commit() if kind.awaited else own.inner.commit()
        assert not await other.wait(timeout=0.1)
        waiting = asyncio.create_task(other.wait(timeout=20))
        await own.commit()
        assert await waiting
        await other.close()

    play(store, kind, scene)


@kinds
def test_only_those_that_do_not_tell_of_their_commit_notify_inside(store: tuple[str, str], kind: type[Kind]) -> None:
    """A notification inside makes commits wait for each other, so it is sent only where nobody calls us afterwards."""

    async def scene(driver: PostgresDriver, own: Kind) -> None:
        with psycopg.connect(store[0], autocommit=True) as ear:
            ear.execute(f'listen "windlass_{store[1]}"'.encode())
            await own.enqueue(driver, [job("a")])
            await own.execute("select pg_notify('other', '')")
            await driver.close()  # so that only what was sent inside is heard
            await own.commit()
            heard = [message.payload for message in ear.notifies(timeout=0.2)]
            assert heard == ([] if kind.hooked else ["default"])

    play(store, kind, scene)


# --------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.begin is not Kind.begin], ids=lambda kind: kind.__name__)
def test_a_connection_in_no_transaction_is_refused(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        with pytest.raises(WrongConnection, match=r"no transaction.*(conn\.transaction\(\)|transaction\.atomic\(\)):"):
            await own.enqueue(driver, [job("a")])
        await own.begin()
        await own.enqueue(driver, [job("b")])
        await own.commit()
        assert await there(driver, "a", "b") == ["b"]

    play(store, kind, scene, begin=False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "Sqlalchemy" in kind.__name__], ids=lambda kind: kind.__name__)
def test_an_engine_in_autocommit_mode_is_refused(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        await own.open_in_autocommit_mode()
        with pytest.raises(WrongConnection, match=r"no transaction"):
            await own.enqueue(driver, [job("a")])
        assert await there(driver, "a") == []

    play(store, kind, scene)


@kinds
def test_the_right_method_is_named(store: tuple[str, str], kind: type[Kind]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        if kind.awaited:
            with pytest.raises(TypeError, match=r"enqueue_sync\(\) takes a blocking connection.*await ….enqueue"):
                driver.enqueue_within(own.conn, [job("a")], now=NOW)
        else:
            with pytest.raises(TypeError, match=r"enqueue\(\) takes an async connection.*call enqueue_sync\(\)"):
                await driver.enqueue_within_async(own.conn, [job("a")], now=NOW)
        await own.rollback()

    play(store, kind, scene)


@kinds
def test_a_connection_to_another_database_is_refused(store: tuple[str, str], kind: type[Kind], fresh_database: str) -> None:
    """Also when that one has a store of the same name."""

    async def scene(driver: PostgresDriver, own: Kind) -> None:
        for there_is_one in (False, True):
            if there_is_one:
                await PostgresDriver(fresh_database, schema=store[1]).close()
            with pytest.raises(WrongConnection, match="sees no such store" if not there_is_one else "another server"):
                await own.enqueue(elsewhere, [job("a")])
        await own.rollback()

    elsewhere = PostgresDriver(store[0], schema=store[1])
    play((fresh_database, unique_name("s")), kind, scene)
    asyncio.run(elsewhere.close())


def test_a_copy_of_the_store_is_not_the_store(postgres_server: Server) -> None:
    first = postgres_server.create_database()
    asyncio.run(PostgresDriver(first).close())
    second = postgres_server.create_database(template=first.rsplit("/", 1)[1])

    async def scene(driver: PostgresDriver, own: Kind) -> None:
        copy = PostgresDriver(second)
        with pytest.raises(WrongConnection, match="a copy of this store"):
            await own.enqueue(copy, [job("a")])
        await copy.close()
        await own.enqueue(driver, [job("a")])

    play((first, "windlass"), Psycopg, scene)
    for dsn in (first, second):
        postgres_server.drop_database(dsn.rsplit("/", 1)[1])


def test_a_store_is_known_by_its_number_whatever_else_it_has_noted(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        await own.execute(f"insert into {store[1]}.meta (key, value) values ('one', '1'), ('two', '2')")
        assert [answer.id for answer in await own.enqueue(driver, [job("a")])] == ["a"]
        await own.rollback()

    play(store, Psycopg, scene)


def test_a_server_that_was_restarted_is_known_again() -> None:
    with Server() as server:

        async def scene(driver: PostgresDriver, own: Any) -> None:
            await own.enqueue(driver, [job("a")])
            await own.commit()
            own.conn.close()
            server.restart()
            await own.open()
            await own.enqueue(driver, [job("b")])
            await own.commit()
            assert await there(driver, "a", "b") == ["a", "b"]

        play((server.dsn(), "windlass"), Psycopg, scene)


def test_a_transaction_that_has_failed_is_refused(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await own.execute("select 1 / 0")
        with pytest.raises(WrongConnection, match="has failed; roll it back"):
            await own.enqueue(driver, [job("a")])

    play(store, Psycopg, scene)


def test_what_is_no_connection_is_refused(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Kind) -> None:
        for given in (object(), "postgresql://", 7):
            with pytest.raises(WrongConnection, match=r"known are a psycopg\.Connection"):
                driver.enqueue_within(given, [job("a")], now=NOW)
            with pytest.raises(WrongConnection, match=r"known are a psycopg\.Connection"):
                await driver.enqueue_within_async(given, [job("a")], now=NOW)

    play(store, Psycopg, scene)


@pytest.mark.parametrize("kind", [Psycopg, AsyncPsycopg, Asyncpg], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_key_that_this_transaction_cannot_see_is_a_conflict(store: tuple[str, str], kind: type[Kind], level: str) -> None:
    """Nobody looks again: this transaction would never see who holds it."""

    async def scene(driver: PostgresDriver, own: Kind) -> None:
        if kind is Asyncpg:
            await own.rollback()
            await own.begin()
        await own.execute(f"set transaction isolation level {level}")
        await own.execute(f"select * from {store[1]}.own")
        await driver.enqueue([job("held", idempotency_scope="s", idempotency_key="k")], now=NOW)
        with pytest.raises(TransactionConflict):
            await own.enqueue(driver, [job("a", idempotency_scope="s", idempotency_key="k")])
        await own.enqueue(driver, [job("b")])
        await own.commit()
        assert await there(driver, "a", "b") == ["b"]

    play(store, kind, scene)


# ----------------------------------------------------------------------------------------------- the caller's own settings


@pytest.mark.parametrize("kind", [Psycopg, AsyncPsycopg], ids=lambda kind: kind.__name__)
def test_psycopg_connections_keep_their_ways_and_we_ours(store: tuple[str, str], kind: type[Kind]) -> None:
    class Shouting(psycopg.adapt.Loader):
        format = psycopg.pq.Format.BINARY

        def load(self, data: Any) -> str:
            return bytes(data).decode() + "!"

    async def scene(driver: PostgresDriver, own: Any) -> None:
        own.conn.row_factory = dict_row
        for name in ("text", "int8", "bool"):
            own.conn.adapters.register_loader(name, Shouting)
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        await own.enqueue(driver, [job("a", **key)])
        assert [answer.id for answer in await own.enqueue(driver, [job("b", **key)])] == ["a"]
        query = own.conn.execute("select 'tea' as drink, pg_typeof(%s)::text as kind", [1], binary=True)
        row = await (await query).fetchone() if kind.awaited else query.fetchone()
        assert row == {"drink": "tea!", "kind": "smallint!"}
        await own.rollback()

    play(store, kind, scene)


def test_another_encoding_of_the_connection_is_obeyed(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        own.conn.execute("set client_encoding = 'latin1'")
        await own.enqueue(driver, [job("é-1", org_id="é"), job("é-2", org_id="ü")])
        with pytest.raises(InvalidInput, match="cannot be stored"):
            await own.enqueue(driver, [job("ж-1"), job("ж-2")])
        await own.commit()
        stored = [found and found.org_id for found in await driver.get(["é-1", "é-2"])]
        assert stored == ["é", "ü"]

    play(store, Psycopg, scene)


def test_codecs_that_the_caller_has_set_on_asyncpg_do_not_matter(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        await own.conn.set_type_codec("jsonb", encoder=lambda v: f'"{v!r}"', decoder=str, schema="pg_catalog")
        headers = {"a": "b"}
        await own.enqueue(driver, [job("a", dedupe_key="d")])
        await own.enqueue(driver, [job("b", dedupe_key="d", on_duplicate="replace", headers=headers, tags=("x",))])
        await own.commit()
        [stored] = await driver.get(["a"])
        assert stored is not None
        assert stored.headers == headers

    play(store, Asyncpg, scene)


def test_a_connection_that_its_pool_took_back_is_refused(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        async with asyncpg.create_pool(store[0], min_size=1, max_size=1) as pool:
            lent = await pool.acquire()
            await pool.release(lent)
            with pytest.raises(WrongConnection, match="cannot be used"):
                await driver.enqueue_within_async(lent, [job("a")], now=NOW)

    play(store, Asyncpg, scene)


# ------------------------------------------------------------------------------------------- what others need meanwhile

A_MOMENT = 2.0  # seconds; whoever waits for the caller waits for ever


def wish(limit: int) -> Claim:
    return Claim(queues=("default",), limit=limit, lease_for=3600 * SECOND, worker_id="w", token="t")


def acks(jobs: Sequence[Claimed]) -> list[Settlement]:
    return [settle(one, Succeeded(), Execution(at=NOW)) for one in jobs]


def test_a_replacement_in_a_callers_transaction_keeps_nobody_from_claiming(store: tuple[str, str]) -> None:
    """Everybody needs the limits that bind the replaced job."""

    async def scene(driver: PostgresDriver, own: Any) -> None:
        await driver.alter([PutLimit("type:work", 5)], now=NOW)
        await driver.enqueue([job("a", dedupe_key="k"), job("b"), job("c")], now=NOW)
        await own.enqueue(driver, [job("d", dedupe_key="k", on_duplicate="replace")])
        async with asyncio.timeout(A_MOMENT):
            assert {one.id for one in await driver.claim(wish(2), now=NOW)} == {"b", "c"}

    play(store, Psycopg, scene)


def test_a_replacement_in_a_callers_transaction_keeps_nobody_from_settling(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        await driver.alter([PutLimit("key:gpu", 5)], now=NOW)
        await driver.enqueue([job("a", limit_keys=("key:gpu",)), job("b", type="plain")], now=NOW)
        jobs = await driver.claim(wish(2), now=NOW)
        await driver.enqueue([job("c", dedupe_key="k", limit_keys=("key:gpu",))], now=NOW)
        await own.enqueue(driver, [job("d", dedupe_key="k", limit_keys=("key:gpu",), on_duplicate="replace")])
        async with asyncio.timeout(A_MOMENT):
            assert await driver.settle(acks(jobs), now=NOW) == ["applied", "applied"]

    play(store, Psycopg, scene)


def test_a_member_enqueued_in_a_callers_transaction_keeps_no_other_from_being_settled(store: tuple[str, str]) -> None:
    async def scene(driver: PostgresDriver, own: Any) -> None:
        await driver.alter([PutGroup("g", 3)], now=NOW)
        await driver.enqueue([job("a", group_id="g")], now=NOW)
        jobs = await driver.claim(wish(1), now=NOW)
        await driver.enqueue([job("parent", run_at=NOW + 10**9)], now=NOW)
        await own.enqueue(driver, [job("b", group_id="g", after=("parent",))])
        async with asyncio.timeout(A_MOMENT):
            assert await driver.settle(acks(jobs), now=NOW) == ["applied"]

    play(store, Psycopg, scene)
