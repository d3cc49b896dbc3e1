"""`ctx.transaction()` on PostgreSQL, in real workers: all or nothing; neither the loop nor the heartbeat waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from windlass import Context, LeaseLost, Retry, Windlass, fixed
from windlass.apart import WouldHang
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import JobQuery

from .stage import heard

ways = pytest.mark.parametrize("way", ["async", "thread"])


class Ledger:
    """A task that writes a row, two follow-up jobs and its success in one block."""

    def __init__(self, dsn: str, schema: str, way: str, lease: str) -> None:
        self.driver = PostgresDriver(dsn, schema=schema)
        self.app = app = Windlass(driver=self.driver, lease=lease, grace="2s")
        self.dsn, self.schema = dsn, schema
        self.meanwhile: Callable[[], Any] = lambda: None  # in the block, in a thread
        self.errors: list[BaseException] = []
        self.execute(f"create table {schema}.ledger (item text)")
        insert = f"insert into {schema}.ledger values (%s)".encode()

        @app.task(queue="later")
        async def follow(item: str) -> None: ...

        async def write(ctx: Context, item: str) -> str:
            try:
                async with ctx.transaction() as tx:
                    assert isinstance(tx.connection, psycopg.AsyncConnection)
                    await tx.connection.execute(insert, [item])
                    # A statement, two enqueues and a thread's at once: they take turns on the connection.
                    await asyncio.gather(
                        tx.connection.execute("select pg_sleep(0.02)"),
                        follow.enqueue(f"{item} 1"),
                        asyncio.to_thread(follow.enqueue_sync, f"{item} 2"),
                    )
                    await asyncio.to_thread(self.meanwhile)
                    tx.result = f"wrote {item}"
            except BaseException as error:
                self.errors.append(error)
                raise
            return "not this"

        def write_in_a_thread(ctx: Context, item: str) -> str:
            try:
                with ctx.transaction() as tx:
                    assert isinstance(tx.connection, psycopg.Connection)
                    tx.connection.execute(insert, [item])
                    follow.enqueue_sync(f"{item} 1")
                    app.enqueue_many_sync([follow.job(f"{item} 2")])
                    self.meanwhile()
                    tx.result = f"wrote {item}"
            except BaseException as error:
                self.errors.append(error)
                raise
            return "not this"

        function: Any = write if way == "async" else write_in_a_thread
        self.task: Any = app.task(context=True, name="write", retry=Retry(max_retries=1, backoff=fixed(0)))(function)

    def execute(self, statement: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def items(self) -> list[str]:
        return [item for (item,) in self.execute(f"select item from {self.schema}.ledger")]

    async def states(self) -> dict[str, int]:
        page = await self.driver.find(JobQuery(limit=100))
        states = [f"{job.type} {job.state}" for job in page.jobs]
        return {state: states.count(state) for state in states}

    def run(self) -> Any:
        """One job, from its enqueue to the end of a worker."""

        async def main() -> Any:
            job = await self.task.enqueue("tea")
            async with asyncio.timeout(30):
                stats = await self.app.worker(queues=["default"], max_jobs=1).run(drain=True)
            return job, stats, await self.states()

        return asyncio.run(main())


@pytest.fixture
def lease() -> str:
    return "60s"


@pytest.fixture
def ledger(empty_store: tuple[str, str], way: str, lease: str) -> Iterator[Ledger]:
    ledger = Ledger(*empty_store, way, lease)
    yield ledger
    asyncio.run(ledger.app.close())


@ways
def test_rows_follow_ups_and_success_become_true_together(ledger: Ledger) -> None:
    seen: list[object] = []
    ledger.meanwhile = lambda: seen.append((ledger.items(), asyncio.run(ledger.states())))
    job, stats, states = ledger.run()
    assert ledger.errors == []
    assert seen == [([], {"write running": 1})]  # nobody saw anything before
    assert (stats.succeeded, stats.settled_late, stats.leases_lost) == (1, 0, 0)
    assert (ledger.items(), states) == (["tea"], {"write succeeded": 1, "follow queued": 2})
    assert asyncio.run(job.result(1)) == "wrote tea"


@ways
def test_what_the_block_has_enqueued_is_not_waited_for_in_it(ledger: Ledger) -> None:
    @ledger.app.task(queue="later")
    async def late() -> None: ...

    def wait() -> None:
        with pytest.raises(WouldHang, match="when this block ends"):
            late.enqueue_sync().result_sync()

    ledger.meanwhile = wait
    _, stats, states = ledger.run()
    assert (stats.succeeded, states) == (1, {"write succeeded": 1, "follow queued": 2, "late queued": 1})


@ways
def test_a_body_that_raises_leaves_nothing_and_is_tried_again(ledger: Ledger) -> None:
    def fail() -> None:
        raise ValueError("no tea")

    ledger.meanwhile = fail
    _, stats, states = ledger.run()
    assert (stats.retried, ledger.items(), states) == (1, [], {"write queued": 1})
    ledger.meanwhile = lambda: None
    assert asyncio.run(ledger.app.tick()).succeeded == 3  # and its two follow-ups
    assert ledger.items() == ["tea"]


@ways
def test_a_lease_that_was_lost_stores_nothing(ledger: Ledger) -> None:
    def lose() -> None:
        """Somebody takes the job back. This worker is told too late to interrupt the handler."""
        ledger.execute(f"update {ledger.schema}.jobs set lease_token = 'another' where state = 'running'")

    ledger.meanwhile = lose
    _, stats, states = ledger.run()
    assert [type(error) for error in ledger.errors] == [LeaseLost]
    assert (stats.succeeded, ledger.items(), states) == (0, [], {"write running": 1})


@ways
@pytest.mark.parametrize("lease", ["1200ms"])
def test_the_lease_is_renewed_while_the_body_takes_longer_than_it(ledger: Ledger) -> None:
    """The block holds no lock that a heartbeat, or another job's, would wait for."""
    expiries: list[object] = []

    def wait() -> None:
        for _ in range(8):  # twice the lease
            threading.Event().wait(0.3)
            expiries.append(ledger.execute(f"select lease_expires_at from {ledger.schema}.jobs where state = 'running'")[0])

    ledger.meanwhile = wait
    _, stats, states = ledger.run()
    assert ledger.errors == []
    assert len(set(expiries)) > 3
    assert (stats.succeeded, stats.leases_lost, states) == (1, 0, {"write succeeded": 1, "follow queued": 2})


@pytest.mark.parametrize("way", ["async"])
def test_the_event_loop_goes_on_while_the_store_waits(ledger: Ledger) -> None:
    """An enqueue in the block that waits for a key which another transaction is taking."""
    app, ticks = ledger.app, 0

    @app.task(queue="later")
    async def once() -> None: ...

    @app.task(context=True)
    async def waits(ctx: Context) -> None:
        nonlocal ticks

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with ctx.transaction():
            await once.using(idempotency_key="k").enqueue()
        ticking.cancel()

    async def main() -> None:
        other = ledger.driver.transaction()
        other.begin()
        new = once.using(idempotency_key="k").job().new
        other.enqueue([new], now=app.client.now())
        timer = threading.Timer(0.4, other.rollback)
        await waits.enqueue()
        timer.start()
        assert (await app.worker(queues=["default"]).run(drain=True)).succeeded == 1
        timer.join()

    asyncio.run(main())
    assert ticks > 10


@pytest.mark.parametrize("way", ["async"])
def test_a_handler_that_is_cancelled_in_the_block_leaves_no_open_transaction(ledger: Ledger) -> None:
    app, inside = ledger.app, threading.Event()

    @app.task(context=True)
    async def sleeps(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            inside.set()
            await tx.connection.execute(f"insert into {ledger.schema}.ledger values ('never')".encode())
            await tx.connection.execute("select pg_sleep(60)")

    async def main() -> None:
        job = await sleeps.enqueue()
        worker = app.worker(queues=["default"])
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(20):
            await heard(inside)
            worker.stop()
            worker.stop()  # forced
            await running
        assert (await job.fetch()).state == "queued"

    asyncio.run(main())
    assert ledger.items() == []
    open_ones = "select state, query from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()"
    assert [row for row in ledger.execute(open_ones) if ledger.schema in row[1] or "pg_sleep" in row[1]] == []
