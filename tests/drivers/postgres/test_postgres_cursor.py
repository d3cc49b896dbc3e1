"""Claims that begin where the last ones ended: only while they are slow, in the right order, and nothing is overlooked for
longer than was promised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pytest

from postgres.plans import explained, nodes
from postgres.programs import NOW as STAGED
from postgres.programs import check, enqueue, ids, new, wish
from postgres.stepping import Stage, transaction
from windlass.clock import SECOND
from windlass.core.alterations import Move, MoveBeside, PutLimit, PutQueue, Replay, RunNow, SetPriority
from windlass.core.changes import Ack, Fail, Release, Retry
from windlass.drivers.postgres import PostgresDriver, cursor, leases
from windlass.drivers.postgres.claiming import Claiming
from windlass.drivers.postgres.cursor import ENDS, LONGEST, PROOF, SHORTEST, SLOW, Cursor, Span
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Claim
from windlass.types import Claimed, NewJob

NOW = 1_800_000_000_000_000
LEASE = 600 * SECOND


def slowed(floors: dict[int, int], took: float = 1.0) -> Cursor:
    found = Cursor()
    for _ in range(PROOF):
        found.was_whole(0.0, took, 0)
    found.reached(floors, full=False, dead=cursor.MANY)
    return found


# -------------------------------------------------------------------------------------------------------- when, in time


def test_claims_that_are_quick_are_never_shortened() -> None:
    found = Cursor()
    for at in range(10):
        found.was_whole(float(at), SLOW, 0)
        found.reached({0: 100}, full=False, dead=10**9)
        assert found.spans(at + 0.001) is None
    for at in range(10):
        found.was_whole(float(at), SLOW * 2, jobs=500)
        assert not found.is_slow, "many jobs may take longer"


def test_some_slow_claims_in_a_row_begin_it_and_a_quick_one_ends_it() -> None:
    found = slowed({0: 100})
    assert found.spans(0.1) is not None
    found.was_whole(1.0, SLOW / 2, 0)
    assert found.spans(1.1) is None
    for _ in range(PROOF - 1):
        found.was_whole(2.0, 1.0, 0)
        found.was_whole(2.0, SLOW / 2, 0)
    assert not found.is_slow, "not in a row"


@pytest.mark.parametrize("took", [SLOW * 1.01, 0.1, 0.5, 3.0, 100.0])
def test_a_whole_claim_comes_in_time_and_takes_a_twentieth_of_it(took: float) -> None:
    found = slowed({0: 100}, took)
    due = min(LONGEST, max(SHORTEST, cursor.SHARE * took))
    assert found.spans(due - 0.01) is not None
    assert found.spans(due) is None
    assert due <= LONGEST


def test_what_is_slow_for_another_reason_is_left_alone() -> None:
    found = slowed({0: 100})
    for _ in range(cursor.IN_VAIN):
        assert found.spans(0.1) is not None
        assert not found.was_short(0.1, 0.9)
    assert found.spans(0.1) is None
    for _ in range(PROOF):
        found.was_whole(1.0, 1.0, 0)
    assert not found.is_slow, "for a while"
    for _ in range(PROOF):
        found.was_whole(cursor.TIRED + 1.0, 1.0, 0)
    assert found.is_slow


def test_slow_claims_without_dead_rows_are_left_alone() -> None:
    found = slowed({0: 100})
    found.reached({0: 100}, full=False, dead=cursor.MANY - 1)
    assert found.spans(0.1) is None


def test_it_is_told_once_that_dead_rows_are_the_reason() -> None:
    found = slowed({0: 100})
    assert [found.was_short(0.1, took) for took in (0.9, 0.1, 0.1)] == [False, True, False]


def test_short_claims_look_at_everything_but_what_is_before_the_floors() -> None:
    random = Random(7)
    for _ in range(200):
        floors = {random.randint(-3, 3): random.randint(0, 900) for _ in range(random.randint(1, 5))}
        spans = slowed(floors).spans(0.1)
        assert spans is not None
        for _ in range(50):
            priority, position = random.randint(-4, 4), random.randint(0, 1000)
            inside = [
                span for span in spans
                if (span.low < priority < span.high or span.low == priority == span.high) and position >= span.floor
            ]  # fmt: skip
            assert len(inside) == (position >= floors.get(priority, 0)), (floors, priority, position)
        tops = [(span.high, span.low) for span in spans]
        assert tops == sorted(tops, reverse=True), "the highest priorities first"


def test_a_floor_falls_only_where_there_may_be_more_before_it() -> None:
    found = slowed({5: 500, 0: 500})
    found.reached({5: 100, 0: 200}, full=False)
    assert found._floors == {5: 500, 0: 500}, "all there was has been taken"
    found.reached({5: 100, 0: 200}, full=True)
    assert found._floors == {5: 500, 0: 200}
    found.reached(dict.fromkeys(range(10, 10 + cursor.LEVELS), 1), full=False)
    assert sorted(found._floors) == list(range(10, 10 + cursor.LEVELS))


# ------------------------------------------------------------------------------------------------------ in a real store


class Store:
    """Every claim counts as slow; its clock stands still unless it is told."""

    def __init__(self, dsn: str, schema: str, driver: PostgresDriver) -> None:
        self.dsn, self.schema, self.driver = dsn, schema, driver
        self.at, self.claims, self.now = 0.0, 0, NOW
        driver._claiming = Claiming(time=lambda: self.at)

    async def enqueue(self, *names: str, **fields: object) -> None:
        new = [NewJob(id=name, type="t", queue="q", payload=b"{}", **fields) for name in names]  # type: ignore[arg-type]
        await self.driver.enqueue(new, now=self.now)

    async def claim(self, limit: int, queues: tuple[str, ...] = ("q",), *, sure: bool = True) -> list[Claimed]:
        self.claims += 1
        wish = Claim(queues=queues, limit=limit, lease_for=LEASE, worker_id="w", token=f"t{self.claims}", sure=sure)
        return await self.driver.claim(wish, now=self.now)

    async def take(self, limit: int) -> list[str]:
        return [job.id for job in await self.claim(limit)]

    @contextmanager
    def elsewhere(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"set search_path to {self.schema}".encode())
            yield connection


Body = Callable[[Store], Awaitable[None]]


@pytest.fixture
def play(fresh_schema: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Body], None]:
    monkeypatch.setattr(cursor, "SLOW", -1.0)
    monkeypatch.setattr(cursor, "PER_JOB", 0.0)
    monkeypatch.setattr(cursor, "PROOF", 1)
    monkeypatch.setattr(cursor, "MANY", 0)

    def play(body: Body) -> None:
        async def run() -> None:
            driver = PostgresDriver(fresh_schema[0], schema=fresh_schema[1])
            try:
                await body(Store(*fresh_schema, driver))
            finally:
                await driver.close()

        asyncio.run(run())

    return play


async def retried(store: Store, first: Claimed) -> str:
    unit = Retry(handle=first.handle, token=first.token, at=store.now, run_at=None, attempts=1, error="no")
    assert await store.driver.settle([unit], now=store.now) == ["applied"]
    return first.id


async def released(store: Store, first: Claimed) -> str:
    unit = Release(handle=first.handle, token=first.token, at=store.now)
    assert await store.driver.settle([unit], now=store.now) == ["applied"]
    return first.id


async def replayed(store: Store, first: Claimed) -> str:
    unit = Fail(handle=first.handle, token=first.token, at=store.now, kind="exhausted", reason="no")
    assert await store.driver.settle([unit], now=store.now) == ["applied"]
    assert await store.driver.alter([Replay(first.id, "child")], now=store.now) == ["applied"]
    return first.id


async def lapsed(store: Store, first: Claimed) -> str:
    store.now += LEASE
    return first.id


async def due(store: Store, first: Claimed) -> str:
    store.now += 3_600 * SECOND
    return "future"


async def brought_forward(store: Store, first: Claimed) -> str:
    assert await store.driver.alter([RunNow("future")], now=store.now) == ["applied"]
    return "future"


async def moved(store: Store, first: Claimed) -> str:
    """Before all that are queued, of which one waits for its time at a place before the floor."""
    assert await store.driver.alter([Move("j9", "top")], now=store.now) == ["applied"]
    return "j9"


async def of_another_priority(store: Store, first: Claimed) -> str:
    change = MoveBeside("low", "future", "before", take_priority=True)
    assert await store.driver.alter([change], now=store.now) == ["applied"]
    return "low"


@pytest.mark.parametrize(
    "becomes", [retried, released, replayed, lapsed, due, brought_forward, moved, of_another_priority]
)  # fmt: skip
def test_what_becomes_ready_before_the_floor_is_found_in_time(
    play: Callable[[Body], None], becomes: Callable[[Store, Claimed], Awaitable[str]]
) -> None:
    async def body(store: Store) -> None:
        await store.enqueue("future", run_at=store.now + 3_600 * SECOND)
        await store.enqueue(*(f"j{n}" for n in range(10)))
        await store.enqueue("low", priority=-1)
        [first, *_] = await store.claim(3)
        assert await store.take(2) == ["j3", "j4"], "a short one"
        name = await becomes(store, first)
        await store.take(1)
        store.at += LONGEST
        assert (await store.take(1))[0] == name

    play(body)


def test_what_commits_late_is_found_in_time(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        with store.elsewhere() as other:
            other.execute("insert into jobs (id, type, queue) values ('late', 't', 'q')")
            await store.enqueue(*(f"j{n}" for n in range(10)))
            assert await store.take(3) == ["j0", "j1", "j2"]
            assert await store.take(1) == ["j3"]
        assert await store.take(1) == ["j4"], "overlooked: the claim was a short one"
        store.at += LONGEST
        assert await store.take(2) == ["late", "j5"]

    play(body)


def test_new_jobs_of_any_priority_are_found_at_once_and_in_order(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        for level in (0, 7):
            await store.enqueue(*(f"p{level}-{n}" for n in range(4)), priority=level)
        assert await store.take(6) == ["p7-0", "p7-1", "p7-2", "p7-3", "p0-0", "p0-1"]
        for level in (9, 7, 3, 0, -5):
            await store.enqueue(f"new{level}", priority=level)
        assert await store.take(3) == ["new9", "new7", "new3"]
        await store.driver.alter([SetPriority("p0-3", 7)], now=store.now)
        await store.enqueue("newest", priority=9)
        assert await store.take(10) == ["newest", "p0-3", "p0-2", "new0", "new-5"]

    play(body)


def test_nothing_found_by_a_short_claim_is_no_proof(play: Callable[[Body], None]) -> None:
    """Who drains a queue does not stop before it is empty, however short the time is."""

    async def body(store: Store) -> None:
        await store.enqueue("a", "b", "c")
        [first, *_] = await store.claim(2)
        assert await store.take(5) == ["c"]
        await retried(store, first)
        assert await store.take(5) == ["a"]
        assert await store.take(5) == []

    play(body)


def test_who_need_not_be_sure_is_told_of_nothing_until_a_whole_claim_is_due(play: Callable[[Body], None]) -> None:
    """A worker empties its queue a hundred times a second: it must not walk over all dead rows each time."""

    async def body(store: Store) -> None:
        await store.enqueue("a", "b", "c")
        [first, *_] = await store.claim(2)
        assert [job.id for job in await store.claim(5, sure=False)] == ["c"]
        await retried(store, first)
        assert await store.claim(5, sure=False) == []
        await store.enqueue("d")
        assert [job.id for job in await store.claim(5, sure=False)] == ["d"], "what is new is found"
        store.at += LONGEST
        assert [job.id for job in await store.claim(5, sure=False)] == ["a"]

    play(body)


def test_a_paused_queue_and_one_with_a_limit_are_respected(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.enqueue(*(f"j{n}" for n in range(6)))
        assert await store.take(1) == ["j0"]
        assert await store.take(1) == ["j1"]
        with store.elsewhere() as other:
            other.execute("insert into queues (name, created_at, updated_at, paused_at) values ('q', now(), now(), now())")
        assert await store.take(1) == []
        with store.elsewhere() as other:
            other.execute("update queues set paused_at = null")
            other.execute("insert into limits (key, used, max_used) values ('type:t', 2, 3)")
        assert [job.id for job in await store.claim(4, sure=False)] == ["j2"], "limits are looked at, not told as nothing"

    play(body)


OF_THE_QUEUE = {
    "paused": "insert into queues (name, created_at, updated_at, paused_at) values ('{q}', now(), now(), now())",
    "held": "insert into reservations (reservation_id, queue, reserved_by, status, reserved_at, expires_at) "
            "values ('hold', '{q}', 'ada', 'ACTIVE', now(), '2100-01-01')",
    "full": "insert into limits (key, used, max_used) values ('queue:{q}', 1, 1)",
}  # fmt: skip


@pytest.mark.parametrize("what", OF_THE_QUEUE)
def test_a_short_claim_takes_nothing_from_a_queue_that_may_give_nothing(play: Callable[[Body], None], what: str) -> None:
    async def body(store: Store) -> None:
        await store.enqueue(*(f"j{n}" for n in range(6)))
        assert await store.take(1) + await store.take(1) == ["j0", "j1"]
        await store.enqueue("above", priority=1)
        with store.elsewhere() as other:
            other.execute(OF_THE_QUEUE[what].format(q="q").encode())
        assert await store.claim(9, sure=False) == []

    play(body)


@pytest.mark.parametrize("what", [*OF_THE_QUEUE, "fair"])
def test_what_is_said_of_another_queue_makes_no_claim_a_whole_one(play: Callable[[Body], None], what: str) -> None:
    async def body(store: Store) -> None:
        await store.enqueue(*(f"j{n}" for n in range(6)))
        [first, *_] = await store.claim(2)
        assert await store.take(1) == ["j2"]
        await retried(store, first)
        if what == "fair":
            await store.driver.alter([PutQueue("other", order="fair")], now=store.now)
        else:
            with store.elsewhere() as other:
                other.execute(OF_THE_QUEUE[what].format(q="other").encode())
        assert await store.take(1) == ["j3"], "a short one: it overlooks who came back"

    play(body)


@pytest.mark.parametrize("key", ["global", "org:o", "tag:x", "key:k"])
def test_a_short_claim_leaves_to_a_whole_one_what_a_full_limit_concerns(play: Callable[[Body], None], key: str) -> None:
    async def body(store: Store) -> None:
        names = [f"j{n}" for n in range(6)]
        await store.enqueue(*names, org_id="o", tags=("x",), limit_keys=("key:k",))
        assert await store.take(1) + await store.take(1) == ["j0", "j1"]
        with store.elsewhere() as other:
            other.execute("insert into limits (key, used, max_used) values (%s, 1, 1)", (key,))
        assert await store.claim(1, sure=False) == []

    play(body)


def test_a_short_claim_leaves_to_a_whole_one_whom_a_new_token_lets_through(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.driver.alter([PutLimit("key:k", per_second=1.0, burst=1)], now=store.now)
        await store.enqueue("with", "waits", limit_keys=("key:k",), priority=1)
        await store.enqueue(*(f"j{n}" for n in range(6)))
        assert await store.take(2) == ["with", "j0"]
        assert await store.take(1) == ["j1"]
        store.now += SECOND
        assert [job.id for job in await store.claim(1, sure=False)] == ["waits"]

    play(body)


def test_a_short_claim_leaves_a_queue_that_takes_turns_to_a_whole_one(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.enqueue(*(f"a{n}" for n in range(4)), org_id="a")
        await store.enqueue("b0", "b1", org_id="b")
        assert await store.take(1) + await store.take(1) == ["a0", "a1"]
        await store.driver.alter([PutQueue("q", order="fair")], now=store.now)
        assert await store.take(2) == ["a2", "b0"]

    play(body)


def test_a_short_claim_takes_what_its_worker_knows(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.enqueue(*(f"j{n}" for n in range(3)))

        async def taken(limit: int) -> list[str]:
            wish = Claim(
                queues=("q",), limit=limit, lease_for=LEASE, worker_id="w", token=f"token-{limit}", types=("t",), sure=False
            )  # fmt: skip
            return [job.id for job in await store.driver.claim(wish, now=store.now)]

        assert await taken(1) == ["j0"]
        await store.driver.enqueue([NewJob(id="strange", type="s", queue="q", payload=b"{}")], now=store.now)
        await store.enqueue("j3")
        assert await taken(5) == ["j1", "j2", "j3"]

    play(body)


def test_a_short_claim_takes_only_what_was_asked_for_from_the_floor_and_above(play: Callable[[Body], None]) -> None:
    """Of its queue and types, and of what is to die where it asks for that: wherever the others stand."""

    async def body(store: Store) -> None:
        wanted: dict[str, Any] = {"type": "t", "queue": "q", "on_unknown": "dead", "payload": b"{}"}
        others: list[dict[str, Any]] = [{"queue": "r"}, {"type": "s"}, {"on_unknown": "wait"}, {}]

        async def taken() -> list[str]:
            wish = Claim(
                queues=("q",), limit=9, lease_for=LEASE, worker_id="w", token=f"token-{store.now}", types=("t",),
                unhandled=True, sure=False,
            )  # fmt: skip
            store.now += 1
            return [job.id for job in await store.driver.claim(wish, now=store.now)]

        async def enqueue(name: str, priority: int) -> None:
            new = [NewJob(id=f"{name}-{n}", priority=priority, **{**wanted, **what}) for n, what in enumerate(others)]
            await store.driver.enqueue(new, now=store.now)

        await enqueue("first", 0)
        assert await taken() == ["first-3"]
        for name, priority in (("next", 0), ("above", 1), ("below", -1)):
            await enqueue(name, priority)
        assert await taken() == ["above-3", "next-3", "below-3"]

    play(body)


def test_who_was_taken_last_and_comes_back_is_found_at_once(play: Callable[[Body], None]) -> None:
    """The floor is its place."""

    async def body(store: Store) -> None:
        await store.enqueue("a")
        [first] = await store.claim(1)
        await retried(store, first)
        assert [job.id for job in await store.claim(1, sure=False)] == ["a"]

    play(body)


def test_claims_over_several_queues_are_whole(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.enqueue("a", "b", "c")
        [first] = await store.claim(1, ("q", "r"))
        await retried(store, first)
        assert [job.id for job in await store.claim(1, ("q", "r"))] == ["a"]

    play(body)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_two_short_claims_share_the_jobs_and_forget_none(stage: Stage, limit: int) -> None:
    enqueue(stage, *(new(priority=n % 2) for n in range(4)))
    spans = [Span(0, ENDS, 0), Span(0, 0, 0), Span(-ENDS, 0, 0)]

    def short(name: str, *, holds: bool = False) -> Op[list[Claimed]]:
        op = leases.claim_short(wish(name, limit=limit), STAGED, spans)
        return (yield from (transaction(op) if holds else op))[0]

    for outcome in stage.every(lambda: {"one": short("one", holds=True), "two": short("two")}):
        got = ids(outcome["one"]) + ids(outcome["two"])
        assert len(got) == len(set(got)) == min(4, 2 * limit), outcome
        assert not outcome.waited("two"), outcome
        check(stage, outcome)


def test_a_short_claim_costs_the_same_however_many_ran_under_an_old_transaction(fresh_schema: tuple[str, str]) -> None:
    dsn, schema = fresh_schema

    def pages(connection: psycopg.Connection[object], spans: list[Span] | None, *, generic: bool) -> int:
        """That picking has touched."""
        wish = Claim(queues=("q",), limit=10, lease_for=LEASE, worker_id="w", token="x")
        op = leases.claim_at_once(wish, NOW) if spans is None else leases.claim_short(wish, NOW, spans)
        plan = explained(connection, driver_text(next(op)), generic=generic)
        [picked] = [node for node in nodes(plan) if node.get("Subplan Name") == "CTE picked"]
        return int(picked["Shared Hit Blocks"] + picked["Shared Read Blocks"])

    def driver_text(statement: Statement) -> Statement:
        return Statement(statement.sql.replace("windlass.", f"{schema}."), statement.params)

    async def run() -> None:
        driver = PostgresDriver(dsn, schema=schema)
        store = Store(dsn, schema, driver)
        with store.elsewhere() as old, psycopg.connect(dsn, autocommit=True) as connection:
            old.execute("set transaction isolation level repeatable read")
            old.execute("select count(*) from jobs")
            await store.enqueue(*(f"j{n}" for n in range(3_000)))
            for _ in range(6):
                jobs = await store.claim(500)
                await driver.settle([Ack(handle=j.handle, token=j.token, at=NOW) for j in jobs], now=NOW)
            await store.enqueue(*(f"new{n}" for n in range(10)))
            [(floor,)] = connection.execute(f"select max(position) from {schema}.jobs where state <> 'queued'".encode())
            assert isinstance(floor, int)
            spans = [Span(0, ENDS, 0), Span(0, 0, floor), Span(-ENDS, 0, 0)]
            for generic in (False, True):
                assert pages(connection, None, generic=generic) > 100
                assert pages(connection, spans, generic=generic) < 40
        await driver.close()

    asyncio.run(run())


def test_a_short_claim_opens_a_run_only_for_jobs_that_keep_them(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        await store.enqueue("first")
        assert await store.take(1) == ["first"]
        await store.enqueue("lean", history="failures")
        await store.enqueue("full")
        taken = await store.claim(2)
        assert [job.id for job in taken] == ["lean", "full"]
        with store.elsewhere() as other:
            assert other.execute("select count(*) from runs").fetchall() == [(2,)], "of the first and of the full one"
        acks = [Ack(handle=job.handle, token=job.token, at=store.now) for job in taken]
        assert await store.driver.settle(acks, now=store.now) == ["applied", "applied"]
        assert await store.driver.runs("lean") == []
        assert [run.status for run in await store.driver.runs("full")] == ["completed"]

    play(body)
