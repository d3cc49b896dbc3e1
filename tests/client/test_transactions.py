"""All of it or nothing: jobs in the caller's own transaction, and a handler's writes together with its success."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import apsw
import pytest

from windlass import Context, LeaseLost, Retry, Windlass, current, fixed
from windlass.core.queries import AllQueues
from windlass.drivers import open_driver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.errors import InvalidInput, NoConnection, TransactionTooLong, WrongConnection
from windlass.transaction import _unbroken

from .conftest import Place, rows

Library = Literal["apsw", "stdlib"]
libraries = pytest.mark.parametrize("library", ["apsw", "stdlib"])
ways = pytest.mark.parametrize("way", ["async", "thread"])


# ------------------------------------------------------------------------------------- in the caller's own transaction


@pytest.fixture
def shop(file_place: Place) -> Windlass:
    return file_place.app(sqlite="stdlib")


def own_connection(place: Place) -> sqlite3.Connection:
    connection = sqlite3.connect(place.file)
    connection.execute("create table if not exists orders (item text)")
    connection.commit()
    return connection


def declare(app: Windlass) -> Any:
    @app.task
    async def ship(item: str) -> str:
        return item

    return ship


def test_a_job_becomes_true_with_the_callers_own_rows(file_place: Place, shop: Windlass) -> None:
    ship = declare(shop)
    asyncio.run(rows(shop))
    own = own_connection(file_place)
    own.execute("insert into orders values ('tea')")
    job = ship.using(conn=own).enqueue_sync("tea")
    assert asyncio.run(rows(shop)) == []
    own.commit()
    assert [row.id for row in asyncio.run(rows(shop))] == [job.id]
    assert asyncio.run(shop.tick()).succeeded == 1
    assert own.execute("select item from orders").fetchall() == [("tea",)]
    own.close()


def test_a_rollback_takes_the_job_with_it(file_place: Place, shop: Windlass) -> None:
    ship = declare(shop)
    asyncio.run(rows(shop))
    own = own_connection(file_place)
    own.execute("insert into orders values ('tea')")
    ship.using(conn=own).enqueue_sync("tea")
    shop.enqueue_many_sync([ship.job("a"), ship.job("b")], conn=own)
    own.rollback()
    assert asyncio.run(rows(shop)) == []
    assert own.execute("select count(*) from orders").fetchone() == (0,)
    own.close()


def test_many_jobs_join_the_callers_transaction(file_place: Place, shop: Windlass) -> None:
    ship = declare(shop)
    asyncio.run(rows(shop))
    own = own_connection(file_place)
    with own:
        own.execute("insert into orders values ('tea')")
        jobs = shop.enqueue_many_sync([ship.job("a"), ship.using(idempotency_key="k").job("b")], conn=own)
        assert ship.using(conn=own, idempotency_key="k").enqueue_sync("c").id == jobs[1].id
    assert [row.id for row in asyncio.run(rows(shop))] == [job.id for job in jobs]
    own.close()


def test_queues_are_declared_also_when_the_first_enqueue_is_transactional(file_place: Place, shop: Windlass) -> None:
    shop.queue("q", preset="scheduler")

    @shop.task(queue="q")
    def work() -> None: ...

    asyncio.run(rows(shop))
    own = own_connection(file_place)
    work.using(conn=own).enqueue_sync()
    own.commit()
    own.close()
    [queue] = asyncio.run(shop.client.driver.read(AllQueues()))
    assert (queue.name, len(asyncio.run(rows(shop)))) == ("q", 1)


def test_a_transaction_that_keeps_queues_from_being_declared_is_told_what_to_do(file_place: Place) -> None:
    """The declaration waits for the write lock, which the caller holds while it waits for the declaration."""
    shop = Windlass(driver=SqliteDriver(file_place.file, sqlite="stdlib", busy_timeout=0.05))
    shop.queue("q", preset="scheduler")

    @shop.task(queue="q")
    def work() -> None: ...

    own = own_connection(file_place)
    own.execute("insert into orders values ('tea')")
    with pytest.raises(WrongConnection, match=r"call app\.open\(\) before the first transaction"):
        work.using(conn=own).enqueue_sync()
    own.rollback()
    work.using(conn=own).enqueue_sync()
    own.commit()
    own.close()
    [queue] = asyncio.run(shop.client.driver.read(AllQueues()))
    assert (queue.name, len(asyncio.run(rows(shop)))) == ("q", 1)
    asyncio.run(shop.close())


def test_a_transaction_that_keeps_the_store_from_being_made_is_told_what_to_do(
    file_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the store's own clock, which is not there before the store is."""

    def impatient(url: str, **options: Any) -> Driver:
        return open_driver(url, busy_timeout=0.05, **options)

    monkeypatch.setattr("windlass.client.open_driver", impatient)
    shop = Windlass(file_place.url, sqlite="stdlib")
    ship = declare(shop)
    own = own_connection(file_place)
    own.execute("insert into orders values ('tea')")
    with pytest.raises(WrongConnection, match=r"call app\.open\(\) before the first transaction"):
        ship.using(conn=own).enqueue_sync("tea")
    own.rollback()
    ship.using(conn=own).enqueue_sync("tea")
    own.commit()
    own.close()
    asyncio.run(shop.close())


# ---------------------------------------------------------------------------------------------------- ctx.transaction()


class Ledger:
    """A handler that writes a row of its own, a follow-up job and its success in one transaction."""

    def __init__(self, place: Place, way: str, **settings: Any) -> None:
        self.place = place
        self.app = app = place.app(**settings)
        self.first: Callable[[], object] = lambda: None
        self.before: Callable[[Any], object] = lambda tx: None  # at the end of the block
        self.after: Callable[[], object] = lambda: None
        self.errors: list[BaseException] = []
        self.runs = 0
        retry = Retry(max_retries=1, backoff=fixed(0))

        @app.task
        async def follow(item: str) -> None: ...

        def body(tx: Any, item: str) -> None:
            self.runs += 1
            if place.kind != "memory":
                tx.connection.execute("insert into ledger values (?)", (item,))
            follow.enqueue_sync(item)
            tx.result = f"wrote {item}"
            self.before(tx)

        async def write(ctx: Context, item: str) -> str:
            self.first()
            try:
                async with ctx.transaction() as tx:
                    body(tx, item)
                    await follow.enqueue(item + " again")
            except BaseException as error:
                self.errors.append(error)
                raise
            self.after()
            return "not this"

        def write_in_a_thread(ctx: Context, item: str) -> str:
            self.first()
            try:
                with ctx.transaction() as tx:
                    body(tx, item)
                    app.enqueue_many_sync([follow.job(item + " again")])
            except BaseException as error:
                self.errors.append(error)
                raise
            self.after()
            return "not this"

        function: Any = write if way == "async" else write_in_a_thread
        self.task: Any = app.task(context=True, name="write", retry=retry)(function)
        asyncio.run(rows(app))
        if place.kind != "memory":
            self.execute("create table ledger (item text)")

    def execute(self, sql: str) -> list[Any]:
        stdlib = self.app.client.settings.sqlite == "stdlib"
        connection: Any = sqlite3.connect(self.place.file) if stdlib else apsw.Connection(str(self.place.file))
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()

    def states(self) -> dict[str, str]:
        return {f"{row.type} {row.payload.decode()}": row.state for row in asyncio.run(rows(self.app))}

    def only_this_job(self) -> tuple[str, str]:
        [row] = asyncio.run(rows(self.app))
        return row.state, row.last_error

    def run_once(self) -> Any:
        return asyncio.run(self.app.worker(max_jobs=1).run(drain=True))


@ways
@libraries
def test_a_handlers_rows_its_follow_ups_and_its_success_become_true_together(
    file_place: Place, library: Library, way: str
) -> None:
    ledger = Ledger(file_place, way, sqlite=library)
    job = ledger.task.enqueue_sync("tea")
    stats = ledger.run_once()
    assert (stats.succeeded, stats.settled_late, stats.leases_lost) == (1, 0, 0)
    assert ledger.execute("select item from ledger") == [("tea",)]
    assert ledger.states() == {
        'write {"item":"tea"}': "succeeded", 'follow {"item":"tea"}': "queued", 'follow {"item":"tea again"}': "queued",
    }  # fmt: skip
    assert asyncio.run(job.result(1)) == "wrote tea"
    assert [run.status for run in asyncio.run(job.runs())] == ["completed"]


@ways
def test_without_a_connection_follow_ups_and_success_are_still_one(tmp_path: Any, way: str) -> None:
    place = Place("memory", tmp_path)
    ledger = Ledger(place, way)
    seen: list[Any] = []

    def look(tx: Any) -> None:
        with pytest.raises(NoConnection, match="no SQL connection"):
            tx.connection.execute("select 1")
        seen.append([row.type for row in asyncio.run_coroutine_threadsafe(rows(ledger.app), other).result(10)])

    loop_thread = OtherLoop()
    other = loop_thread.loop
    ledger.before = look
    job = ledger.task.enqueue_sync("tea")
    ledger.run_once()
    loop_thread.close()
    assert seen == [["write"]]  # nobody saw the follow-up before the commit
    assert sorted(ledger.states().values()) == ["queued", "queued", "succeeded"]
    assert asyncio.run(job.result(1)) == "wrote tea"


class OtherLoop:
    """An event loop in a thread of its own, as another client would have."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@ways
def test_an_exception_in_the_block_is_a_failure_and_leaves_no_trace(place: Place, way: str) -> None:
    ledger = Ledger(place, way)

    def fail(_: Any) -> None:
        raise ValueError("no tea")

    ledger.before = fail
    ledger.task.enqueue_sync("tea")
    assert ledger.run_once().retried == 1
    assert ledger.only_this_job() == ("queued", "ValueError: no tea")
    if place.kind != "memory":
        assert ledger.execute("select item from ledger") == []
    ledger.before = lambda tx: None
    assert ledger.run_once().succeeded == 1  # and the next attempt has the same chance


@ways
def test_a_lease_that_was_lost_meanwhile_stores_nothing(place: Place, way: str) -> None:
    ledger = Ledger(place, way)
    ledger.first = lambda: place.clock.advance("25s")
    ledger.before = lambda tx: place.clock.advance("9s")  # not too long, but the lease of 30 s is over
    ledger.task.enqueue_sync("tea")
    stats = ledger.run_once()
    assert [type(error) for error in ledger.errors] == [LeaseLost]
    assert "rolled back" in str(ledger.errors[0])
    assert stats.succeeded == 0
    assert [row.type for row in asyncio.run(rows(ledger.app))] == ["write"]
    if place.kind != "memory":
        assert ledger.execute("select item from ledger") == []
    ledger.first = ledger.after
    ledger.before = lambda tx: None
    assert ledger.run_once().succeeded == 1  # whoever has it now is not disturbed by the first


@ways
def test_an_exception_after_the_block_is_logged_and_changes_nothing(
    place: Place, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(place, way)

    def fail() -> None:
        raise RuntimeError("too late to matter")

    ledger.after = fail
    job = ledger.task.enqueue_sync("tea")
    with caplog.at_level(logging.ERROR, "windlass.worker"):
        stats = ledger.run_once()
    assert (stats.succeeded, stats.retried, stats.dead) == (1, 0, 0)
    assert asyncio.run(job.result(1)) == "wrote tea"
    [record] = [record for record in caplog.records if "had ended with its transaction" in record.message]
    assert "too late to matter" in record.message
    assert "Traceback" in record.message


def test_a_block_that_waits_too_long_is_rolled_back(file_place: Place) -> None:
    """While it is open nobody else can write to the file."""
    app = file_place.app(lease="300ms")

    @app.task
    async def follow() -> None: ...

    @app.task(context=True, retry=Retry(max_retries=0))
    async def slow(ctx: Context) -> None:
        async with ctx.transaction():
            await follow.enqueue()
            await asyncio.sleep(60)

    async def main() -> None:
        await slow.enqueue()
        await app.worker().run(drain=True)
        [row] = await rows(app)
        assert row.state == "dead"
        assert "TransactionTooLong" in row.last_error
        assert "a third of the lease" in row.last_error

    asyncio.run(main())


def test_a_thread_that_takes_too_long_is_rolled_back(file_place: Place) -> None:
    ledger = Ledger(file_place, "thread")
    ledger.before = lambda tx: file_place.clock.advance("11s")
    ledger.task.enqueue_sync("tea")
    ledger.run_once()
    assert [type(error) for error in ledger.errors] == [TransactionTooLong]
    assert ledger.only_this_job()[0] == "queued"


@ways
def test_where_others_can_write_meanwhile_a_block_takes_its_time(tmp_path: Path, way: str) -> None:
    place = Place("memory", tmp_path)
    ledger = Ledger(place, way)
    ledger.before = lambda tx: place.clock.advance("11s")
    ledger.task.enqueue_sync("tea")
    assert (ledger.run_once().succeeded, ledger.errors) == (1, [])


def test_a_transaction_is_for_one_block_of_the_right_kind(place: Place) -> None:
    app = place.app()
    seen: list[str] = []

    @app.task(context=True)
    async def wrong_kind(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match="async with"), ctx.transaction():
            seen.append("entered")
        transaction = ctx.transaction()
        async with transaction:
            pass
        with pytest.raises(InvalidInput, match="one transaction"):
            async with transaction:
                seen.append("entered")

    async def main() -> None:
        job = await wrong_kind.enqueue()
        await app.worker().run(drain=True)
        assert (await job.fetch()).state == "succeeded"
        assert seen == []

    asyncio.run(main())


def test_a_handler_has_one_transaction(place: Place) -> None:
    app = place.app()
    said: list[str] = []

    @app.task(context=True)
    async def twice(ctx: Context) -> None:
        async with ctx.transaction():
            try:
                async with ctx.transaction():
                    said.append("entered a second one inside")
            except InvalidInput as error:
                said.append(str(error))
        try:
            async with ctx.transaction():
                pass
        except InvalidInput as error:
            said.append(str(error))

    async def main() -> None:
        job = await twice.enqueue()
        stats = await app.worker().run(drain=True)
        assert (stats.succeeded, (await job.fetch()).state) == (1, "succeeded")

    asyncio.run(main())
    assert "one is open already" in said[0]
    assert "an earlier one has ended this job" in said[1]


def test_what_would_wait_for_its_own_lock_is_refused_at_once(place: Place) -> None:
    app = place.app()
    said: list[str] = []

    @app.task(queue="idle")
    async def other() -> None: ...

    @app.task(context=True)
    async def work(ctx: Context, other_id: str) -> None:
        job = app.job(other_id)
        async with ctx.transaction():
            for call in (
                job.cancel, job.retry, job.run_now, lambda: job.move("top"), job.delete, lambda: job.swap("other"),
                lambda: job.move_beside("other", "after"), lambda: job.set_priority(3),
                app.hold("idle", by="me").__aenter__,
            ):  # fmt: skip
                with pytest.raises(InvalidInput, match="before or after"):
                    await call()
            said.append((await job.fetch()).state)  # to look is no harm

    async def main() -> None:
        idle = await other.enqueue()
        await work.enqueue(idle.id)
        stats = await app.worker(queues=["default"]).run(drain=True)
        assert (stats.succeeded, stats.retried) == (1, 0)

    asyncio.run(main())
    assert said == ["queued"]


def test_jobs_of_another_app_do_not_join(place: Place, tmp_path: Any) -> None:
    app = place.app()
    elsewhere = Windlass("memory://")

    @elsewhere.task
    async def other() -> None: ...

    @app.task(retry=Retry(max_retries=0))
    async def mixes() -> None:
        async with current().transaction():
            await other.enqueue()
            raise ValueError("no")

    async def main() -> None:
        job = await mixes.enqueue()
        await app.worker().run(drain=True)
        assert (await job.fetch()).state == "dead"
        assert len(await rows(elsewhere)) == 1

    asyncio.run(main())


def test_a_result_that_cannot_be_stored_undoes_the_transaction(place: Place) -> None:
    app = place.app()

    @app.task
    async def follow() -> None: ...

    @app.task(context=True, retry=Retry(max_retries=0))
    async def bad(ctx: Context) -> int:
        async with ctx.transaction() as tx:
            await follow.enqueue()
            tx.result = "not a number"
        return 1

    async def main() -> None:
        await bad.enqueue()
        await app.worker().run(drain=True)
        [row] = await rows(app)
        assert row.state == "dead"
        assert "result" in row.last_error

    asyncio.run(main())


def test_a_cancelled_handler_leaves_no_open_transaction(place: Place) -> None:
    app = place.app(lease="1500ms")

    async def main() -> None:
        inside = asyncio.Event()

        @app.task(context=True, name="waits")
        async def waits(ctx: Context) -> None:
            async with ctx.transaction():
                inside.set()
                await asyncio.sleep(60)

        await waits.enqueue()
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(inside.wait(), 10)
        worker.stop()
        worker.stop()  # forced
        await asyncio.wait_for(running, 10)
        [row] = await rows(app)
        # Released; or out of time, when a claim that waits for the write lock kept the worker from interrupting it.
        assert (row.state, row.skipped + row.attempts) == ("queued", 1)
        await waits.enqueue()  # the store can be written

    asyncio.run(main())


@ways
@libraries
def test_handlers_that_all_want_a_transaction_take_turns(file_place: Place, library: Library, way: str) -> None:
    """More of them than the event loop's pool has threads, and all of those are taken by something else besides."""
    app, rounds = file_place.app(sqlite=library, concurrency=40, threads=16, durability="relaxed"), 60
    retry, hogs_end = Retry(max_retries=0), threading.Event()

    if way == "async":

        @app.task(context=True, retry=retry, name="write")
        async def waiting(ctx: Context, n: int) -> None:
            async with ctx.transaction() as tx:
                tx.connection.execute("insert into written values (?)", (n,))
                await asyncio.sleep(0.002)
    else:

        @app.task(context=True, retry=retry, name="write")
        def blocking(ctx: Context, n: int) -> None:
            with ctx.transaction() as tx:
                tx.connection.execute("insert into written values (?)", (n,))
                threading.Event().wait(0.002)

    async def main() -> Any:
        transaction = app.client.driver.transaction()
        transaction.begin()
        transaction.connection.execute("create table written (n integer)")
        transaction.commit()
        await app.enqueue_many(app.tasks["write"].job(n) for n in range(rounds))
        loop = asyncio.get_running_loop()
        hogs = [loop.run_in_executor(None, hogs_end.wait, 30) for _ in range(40)]
        try:
            return await asyncio.wait_for(app.worker().run(drain=True), 20)
        finally:
            hogs_end.set()
            await asyncio.gather(*hogs)

    stats = asyncio.run(main())
    assert (stats.succeeded, stats.dead, stats.store_errors) == (rounds, 0, 0)


@pytest.mark.parametrize("fails", ["begin", "rollback"])
def test_what_fails_after_its_handler_was_interrupted_is_nobodys_noise(fails: str) -> None:
    async def main() -> None:
        loop, complaints = asyncio.get_running_loop(), list[Any]()
        loop.set_exception_handler(lambda _, about: complaints.append(about))
        begun, go = threading.Event(), threading.Event()

        def begin() -> None:
            begun.set()
            assert go.wait(5)
            if fails == "begin":
                raise ValueError("the store is gone")

        def rollback() -> None:
            raise ValueError("the store is gone")

        asked = asyncio.create_task(_unbroken(begin, rollback))
        await asyncio.to_thread(begun.wait, 5)
        asked.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await asked
        del asked
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []

    asyncio.run(main())
