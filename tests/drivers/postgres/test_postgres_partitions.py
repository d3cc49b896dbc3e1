"""Events by the day and usage by the month: made ahead, dropped whole, and never in anybody's way."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from postgres.server import unique_name
from windlass.clock import SECOND
from windlass.core.alterations import ChangeWebhook, EndDelivery, PutWebhook, TakeDelivery
from windlass.core.changes import Ack, AddEvent
from windlass.core.duties import Done, FanOut, ForgetEvents, ForgetUsage, RollUpUsage
from windlass.core.events import DEAD, EVENTS
from windlass.core.queries import AllEvents, DeliveriesOf, UsageSince
from windlass.core.usage import DAY, HOUR
from windlass.drivers.postgres import PostgresDriver, partitions
from windlass.drivers.postgres.faults import grants
from windlass.drivers.postgres.place import Place
from windlass.drivers.values import Claim
from windlass.records import Try
from windlass.types import NewJob

TODAY = 1_800_057_600_000_000  # 2027-01-16, at midnight
NOON = TODAY + 12 * HOUR
HOOK = PutWebhook(webhook_id="h", url="https://x.org", events=EVENTS, secret="whsec_" + "A" * 32)


class Store:
    def __init__(self, dsn: str, schema: str, driver: PostgresDriver) -> None:
        self.dsn, self.schema, self.driver = dsn, schema, driver

    async def ended(self, *ids: str, now: int) -> None:
        """Jobs that end, each with an event."""
        await self.driver.enqueue([NewJob(id=name, type="t", queue="q", payload=b"{}") for name in ids], now=now)
        wish = Claim(queues=("q",), limit=len(ids), lease_for=60 * SECOND, worker_id="w", token=ids[0])
        units = [
            Ack(handle=job.handle, token=ids[0], at=now, riders=(AddEvent(DEAD, job.id, None, '{"v":1}'),))
            for job in await self.driver.claim(wish, now=now)
        ]
        assert await self.driver.settle(units, now=now) == ["applied"] * len(ids)

    async def sent(self, now: int) -> None:
        """Everything that is on its way arrives."""
        await self.driver.maintain(FanOut(), epoch=None, now=now)
        for row in await self.driver.read(DeliveriesOf(webhook_id="h", status="queued")):
            until = now + 60 * SECOND
            take = TakeDelivery(event_id=row.event_id, webhook_id="h", expected=row.next_attempt_at or 0, until=until)
            tried = Try(at=now, took=1, status=200, error=None)
            end = EndDelivery(event_id=row.event_id, webhook_id="h", expected=until, status="sent", attempt=tried)
            assert await self.driver.alter([take], now=now) == ["applied"]
            assert await self.driver.alter([end], now=now) == ["applied"]

    async def forget(self, keep: int, now: int) -> Done | None:
        return await self.driver.maintain(ForgetEvents(keep=keep), epoch=None, now=now)

    async def told(self) -> list[str | None]:
        return [event.job_id for event in await self.driver.read(AllEvents())]

    def ask(self, text: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(text.replace("windlass.", f"{self.schema}.").encode()).fetchall()

    def parts(self, parent: str) -> dict[str, int]:
        """How many rows there are in each, by the end of its name."""
        tree = f"select relid::regclass::text from pg_partition_tree('windlass.{parent}') where isleaf order by 1"
        return {name.rsplit("_", 1)[1]: self.ask(f"select count(*) from {name}")[0][0] for (name,) in self.ask(tree)}


@pytest.fixture
def play(fresh_schema: tuple[str, str]) -> Callable[[Callable[[Store], Awaitable[None]]], None]:
    def play(body: Callable[[Store], Awaitable[None]]) -> None:
        async def run() -> None:
            driver = PostgresDriver(fresh_schema[0], schema=fresh_schema[1])
            try:
                await driver.alter([HOOK], now=TODAY - 30 * DAY)
                await body(Store(*fresh_schema, driver))
            finally:
                await driver.close()

        asyncio.run(run())

    return play


Play = Callable[[Callable[[Store], Awaitable[None]]], None]


def test_events_lie_in_the_partition_of_their_day_and_a_day_is_dropped_whole(play: Play) -> None:
    async def body(store: Store) -> None:
        assert await store.forget(7 * DAY, NOON) == Done(0)
        assert list(store.parts("outbox")) == ["20270116", "20270117", "20270118", "20270119", "default"]
        await store.ended("a", "b", now=NOON)
        await store.ended("c", now=TODAY + DAY)
        await store.sent(TODAY + DAY)
        for table in ("outbox", "deliveries"):
            assert store.parts(table) == {"20270116": 2, "20270117": 1, "20270118": 0, "20270119": 0, "default": 0}
        assert await store.forget(7 * DAY, TODAY + 8 * DAY - 1) == Done(2), "row by row: the day is not over yet"
        await store.ended("d", "e", now=TODAY + DAY)
        await store.sent(TODAY + DAY)
        assert await store.forget(7 * DAY, TODAY + 9 * DAY) == Done(3)
        left = [*store.parts("outbox")]
        assert left == [*store.parts("deliveries")]
        assert "20270116" not in left
        assert "20270117" not in left
        assert await store.told() == []

    play(body)


def test_no_hand_moves_an_event_or_a_delivery_to_another_day(play: Play) -> None:
    """The server deletes and inserts a row that changes its partition, and no trigger runs after such an update."""

    async def body(store: Store) -> None:
        await store.forget(7 * DAY, NOON)
        await store.ended("a", now=NOON)
        await store.sent(NOON)
        for table, column in (("outbox", "created_at"), ("deliveries", "event_at")):
            for moved in ("1 second", "1 day", "10 years"):
                with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="never changes"):
                    store.ask(f"update windlass.{table} set {column} = {column} + interval '{moved}' returning 1")

    play(body)


def test_what_is_still_to_be_sent_keeps_its_day_and_nothing_else_of_it(play: Play) -> None:
    async def body(store: Store) -> None:
        await store.forget(DAY, NOON)
        await store.ended("sent", now=NOON)
        await store.sent(NOON)
        await store.ended("waits", now=NOON)
        assert await store.forget(DAY, NOON + 3 * DAY) == Done(1), "one is not fanned out yet"
        await store.driver.maintain(FanOut(), epoch=None, now=NOON)
        assert await store.forget(DAY, NOON + 3 * DAY) == Done(0)
        assert await store.told() == ["waits"]
        await store.driver.alter([ChangeWebhook(webhook_id="h", enabled=False)], now=NOON + 3 * DAY)
        assert await store.forget(DAY, NOON + 3 * DAY) == Done(1)
        assert await store.told() == []
        assert "20270116" not in store.parts("outbox")

    play(body)


def test_nothing_is_refused_where_nobody_has_made_partitions(play: Play) -> None:
    """Weeks without a leader: what came meanwhile lies in the default one, and goes from there."""

    async def body(store: Store) -> None:
        await store.ended("a", now=NOON)
        await store.sent(NOON)
        await store.driver.maintain(RollUpUsage(until=NOON + HOUR), epoch=None, now=NOON + HOUR)
        assert [store.parts(table)["default"] for table in ("outbox", "deliveries", "usage_hourly")] == [1, 1, 1]
        await store.forget(DAY, NOON)
        assert list(store.parts("outbox")) == ["20270117", "20270118", "20270119", "default"], "today is taken already"
        await store.ended("b", now=NOON + 1)
        await store.ended("c", now=NOON + DAY)
        assert store.parts("outbox") == {"20270117": 1, "20270118": 0, "20270119": 0, "default": 2}
        await store.sent(NOON + DAY)
        assert await store.forget(DAY, TODAY + 2 * DAY) == Done(2)
        assert await store.told() == ["c"]

    play(body)


def test_who_uses_a_table_is_not_waited_for_and_nobody_waits_behind(play: Play) -> None:
    async def body(store: Store) -> None:
        await store.forget(DAY, NOON)
        await store.ended("a", now=NOON)
        await store.sent(NOON)
        with psycopg.connect(store.dsn) as reader:
            reader.execute(f"select count(*) from {store.schema}.outbox".encode())
            began = asyncio.get_running_loop().time()
            assert await store.forget(DAY, NOON + 9 * DAY) == Done(1), "row by row then"
            assert asyncio.get_running_loop().time() - began < 3
            assert "20270116" in store.parts("outbox")
            assert "20270125" not in store.parts("outbox")
        await store.forget(DAY, NOON + 9 * DAY)
        assert "20270116" not in store.parts("outbox")
        assert "20270125" in store.parts("outbox")

    play(body)


def test_usage_goes_by_the_month(play: Play) -> None:
    async def body(store: Store) -> None:
        await store.driver.maintain(ForgetUsage(), epoch=None, now=NOON)
        assert list(store.parts("usage_hourly")) == ["20270101", "20270201", "20270301", "default"]
        for name, at in (("a", NOON), ("b", NOON + HOUR), ("c", TODAY + 16 * DAY)):
            await store.ended(name, now=at)
            await store.driver.maintain(RollUpUsage(until=at + HOUR), epoch=None, now=at + HOUR)
        assert store.parts("usage_hourly") == {"20270101": 2, "20270201": 1, "20270301": 0, "default": 0}
        february = TODAY + 16 * DAY
        old = ForgetUsage(keep=HOUR)
        assert await store.driver.maintain(old, epoch=None, now=february + HOUR) == Done(2)
        assert "20270101" not in store.parts("usage_hourly")
        assert [row.hour for row in await store.driver.read(UsageSince())] == [february]
        assert store.ask("select count(*) from windlass.usage_daily where day < '2027-02-01'") == [(0,)]

    play(body)


def test_months_follow_each_other_without_a_gap() -> None:
    for start in (TODAY, TODAY + 14 * DAY, TODAY + 350 * DAY):
        edges = partitions.months(start)
        assert all(28 * DAY <= later - earlier <= 31 * DAY for earlier, later in itertools.pairwise(edges))
        assert edges[0] <= start < edges[1]


def test_who_may_not_make_tables_deletes_rows(fresh_schema: tuple[str, str]) -> None:
    dsn, schema = fresh_schema
    role = unique_name("worker")

    async def run() -> None:
        await PostgresDriver(dsn, schema=schema).close()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"create role {role}".encode())
            connection.execute(grants(Place(dsn, schema, "none", 5.0), user=role).encode())
        driver = PostgresDriver(f"{dsn}?options=-c%20role%3D{role}", schema=schema, migrate="never")
        try:
            store = Store(dsn, schema, driver)
            await driver.alter([HOOK], now=NOON)
            assert await store.forget(DAY, NOON) == Done(0)
            assert list(store.parts("outbox")) == ["default"]
            await store.ended("a", now=NOON)
            await store.sent(NOON)
            assert await store.forget(DAY, NOON + 2 * DAY) == Done(1)
        finally:
            await driver.close()

    asyncio.run(run())
