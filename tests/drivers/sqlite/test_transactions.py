"""Jobs and the caller's own rows in one transaction: on a connection of the driver's, and on the caller's own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from windlass.core.changes import Ack
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite.library import Library
from windlass.drivers.values import Claim, JobQuery
from windlass.errors import (
    DriverForked,
    DuplicateId,
    DuplicateJob,
    InvalidInput,
    StoreBusy,
    TransactionOver,
    WrongConnection,
)
from windlass.types import Claimed, NewJob

NOW = 1_000_000_000
LEASE = 60_000_000


def job(name: str, **fields: Any) -> NewJob:
    return NewJob(id=name, type="work", **fields)


def ids(driver: SqliteDriver) -> list[str]:
    page = asyncio.run(driver.find(JobQuery()))
    return sorted(found.id for found in page.jobs)


def running(driver: SqliteDriver) -> Claimed:
    async def story() -> Claimed:
        await driver.enqueue([job("parent")], now=NOW)
        claim = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id="w", token="t")
        [claimed] = await driver.claim(claim, now=NOW)
        return claimed

    return asyncio.run(story())


def success(claimed: Claimed) -> Ack:
    return Ack(handle=claimed.handle, token=claimed.token, at=NOW)


def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def driver(path: Path) -> Iterator[SqliteDriver]:
    driver = SqliteDriver(path, sqlite="stdlib", durability="relaxed", busy_timeout=0.2)
    yield driver
    asyncio.run(driver.close())


@pytest.fixture
def conn(driver: SqliteDriver) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(driver.path, timeout=0.2)) as connection:
        connection.execute("create table orders (id integer primary key, note text) strict")
        connection.commit()
        yield connection


def orders(driver: SqliteDriver) -> int:
    with closing(sqlite3.connect(driver.path)) as other:
        [(count,)] = other.execute("select count(*) from orders").fetchall()
        return int(count)


# ------------------------------------------------------------------------------------------ on the caller's connection


def test_a_job_is_there_when_the_caller_commits_and_not_before(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    conn.execute("insert into orders (note) values ('mine')")
    [answer] = driver.enqueue_within(conn, [job("a", idempotency_scope="s", idempotency_key="k")], now=NOW)
    assert (answer.id, answer.existed) == ("a", False)
    assert (ids(driver), orders(driver)) == ([], 0)
    [again] = driver.enqueue_within(conn, [job("b", idempotency_scope="s", idempotency_key="k")], now=NOW)
    assert (again.id, again.existed) == ("a", True)
    conn.commit()
    assert (ids(driver), orders(driver)) == (["a"], 1)


def test_a_job_that_was_rolled_back_never_was(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    """In either order of enqueue and own write; the id and the keys are free again."""
    driver.enqueue_within(conn, [job("a", dedupe_key="d")], now=NOW)
    conn.execute("insert into orders (note) values ('mine')")
    conn.rollback()
    conn.execute("insert into orders (note) values ('mine')")
    driver.enqueue_within(conn, [job("a", dedupe_key="d")], now=NOW)
    conn.rollback()
    assert (ids(driver), orders(driver)) == ([], 0)
    [answer] = driver.enqueue_within(conn, [job("a", dedupe_key="d")], now=NOW)
    conn.commit()
    assert (answer.existed, ids(driver)) == (False, ["a"])


def test_a_connection_that_dies_without_a_commit_leaves_nothing(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    driver.enqueue_within(conn, [job("a")], now=NOW)
    conn.close()
    assert ids(driver) == []


def test_a_transaction_begins_as_an_insert_would_begin_it(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    """Under each of the module's isolation levels the caller is in a transaction afterwards, with the same statement."""
    for level in ("", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"):
        said: list[list[str]] = []
        for act in (
            lambda: conn.execute("insert into orders (note) values ('mine')"),
            lambda: driver.enqueue_within(conn, [job("a")], now=NOW),
        ):
            conn.isolation_level = level  # type: ignore[assignment]
            seen: list[str] = []
            conn.set_trace_callback(seen.append)
            act()
            conn.set_trace_callback(None)
            assert conn.in_transaction
            said.append([text.strip() for text in seen if text.upper().startswith("BEGIN")])
            conn.rollback()
        assert said[0] == said[1]
        assert len(said[0]) == 1
    assert ids(driver) == []


def test_autocommit_is_refused_until_the_caller_begins(driver: SqliteDriver, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        with pytest.raises(WrongConnection, match="begin immediate"):
            driver.enqueue_within(conn, [job("a")], now=NOW)
        assert not conn.in_transaction
        conn.execute("begin")
        driver.enqueue_within(conn, [job("a")], now=NOW)
        conn.execute("rollback")
        assert ids(driver) == []
        conn.execute("begin")
        driver.enqueue_within(conn, [job("a")], now=NOW)
        conn.execute("commit")
    assert ids(driver) == ["a"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute came with Python 3.12")
def test_the_newer_transaction_control_is_understood(driver: SqliteDriver, path: Path) -> None:
    control: Any = {"autocommit": True}
    with closing(sqlite3.connect(path, **control)) as conn, pytest.raises(WrongConnection, match="autocommit"):
        driver.enqueue_within(conn, [job("a")], now=NOW)
    control = {"autocommit": False}
    with closing(sqlite3.connect(path, **control)) as conn:
        driver.enqueue_within(conn, [job("a")], now=NOW)
        conn.rollback()
        driver.enqueue_within(conn, [job("b")], now=NOW)
        conn.commit()
    assert ids(driver) == ["b"]


def test_a_failing_enqueue_leaves_the_callers_own_work_intact(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    asyncio.run(driver.enqueue([job("used", dedupe_key="d")], now=NOW))
    conn.execute("insert into orders (note) values ('mine')")
    driver.enqueue_within(conn, [job("good")], now=NOW)
    calls: list[tuple[type[Exception], list[NewJob]]] = [
        (DuplicateId, [job("one"), job("used")]),
        (InvalidInput, [job("one"), job("two", priority=2**40)]),
        (DuplicateJob, [job("one"), job("two", dedupe_key="d", on_duplicate="raise")]),
    ]
    for error, batch in calls:
        with pytest.raises(error):
            driver.enqueue_within(conn, batch, now=NOW)
        assert conn.in_transaction
    conn.execute("insert into orders (note) values ('more')")
    conn.commit()
    assert (ids(driver), orders(driver)) == (["good", "used"], 2)


def test_factories_of_the_caller_are_theirs(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    """Rows, text and cursors come to us as they are, and to the caller as the caller asked."""
    asyncio.run(driver.enqueue([job("held", idempotency_scope="s", idempotency_key="k", dedupe_key="d")], now=NOW))
    factories: list[Callable[..., Any]] = [sqlite3.Row, as_dict]
    for number, factory in enumerate(factories):
        conn.row_factory, conn.text_factory = factory, bytes
        [key, dedupe, new] = driver.enqueue_within(
            conn,
            [
                job("x", idempotency_scope="s", idempotency_key="k"),
                job("y", dedupe_key="d", on_duplicate="touch"),
                job(f"new-{number}", limit_keys=("l",), headers={"ü": "✓"}),
            ],
            now=NOW,
        )
        assert [(key.id, key.existed), (dedupe.id, dedupe.existed), new.existed] == [("held", True), ("held", True), False]
        assert (conn.row_factory, conn.text_factory) == (factory, bytes)
        row = conn.execute("select id from jobs where id = ?", (f"new-{number}",)).fetchone()
        assert row["id"] == f"new-{number}".encode()
        conn.commit()
    assert ids(driver) == ["held", "new-0", "new-1"]


def test_foreign_keys_need_not_be_on(driver: SqliteDriver, conn: sqlite3.Connection) -> None:
    conn.execute("pragma foreign_keys = off")
    driver.enqueue_within(conn, [job("a", dedupe_key="d")], now=NOW)
    driver.enqueue_within(conn, [job("b", dedupe_key="d", on_duplicate="replace", payload=b"[1]")], now=NOW)
    conn.commit()
    [stored] = asyncio.run(driver.get(["a"]))
    assert stored is not None
    assert stored.payload == b"[1]"


def test_another_file_is_refused(driver: SqliteDriver, tmp_path: Path) -> None:
    for place in (tmp_path / "other.db", Path(":memory:")):
        with closing(sqlite3.connect(place)) as conn:
            with pytest.raises(WrongConnection, match="two files are never atomic together"):
                driver.enqueue_within(conn, [job("a")], now=NOW)
            assert not conn.in_transaction


def test_the_same_file_by_another_name_is_the_same(driver: SqliteDriver, path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with closing(sqlite3.connect(tmp_path / "link")) as conn:
        driver.enqueue_within(conn, [job("a")], now=NOW)
        conn.commit()
    assert ids(driver) == ["a"]


def test_only_a_driver_of_the_same_library_takes_part(path: Path, tmp_path: Path) -> None:
    apsw_driver = SqliteDriver(path, durability="relaxed")
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn, pytest.raises(WrongConnection, match='sqlite="stdlib"'):
        apsw_driver.enqueue_within(conn, [job("a")], now=NOW)
    asyncio.run(apsw_driver.close())


def test_what_is_not_a_connection_is_refused_with_a_hint(driver: SqliteDriver) -> None:
    with pytest.raises(WrongConnection, match="a SQLAlchemy Session or Connection on one will do"):
        driver.enqueue_within("jobs.db", [job("a")], now=NOW)


def test_a_writer_that_commits_all_the_time_does_not_get_in_the_way(driver: SqliteDriver, path: Path) -> None:
    """A transaction that began as a reader would be refused at once by every commit of somebody else."""
    done = threading.Event()

    async def noise() -> None:
        number = 0
        while not done.is_set():
            number += 1
            with suppress(StoreBusy):  # SQLite's lock knows no turns, and this driver's patience is short
                await driver.enqueue([job(f"noise-{number}", queue="noise")], now=NOW)

    thread = threading.Thread(target=lambda: asyncio.run(noise()))
    thread.start()
    try:
        with closing(sqlite3.connect(path, timeout=5)) as conn:
            for number in range(200):
                driver.enqueue_within(conn, [job(f"mine-{number}")], now=NOW)
                conn.commit()
    finally:
        done.set()
        thread.join()
    page = asyncio.run(driver.find(JobQuery(queues=("default",), limit=1_000)))
    assert len(page.jobs) == 200


def test_a_locked_file_is_told_in_our_words(driver: SqliteDriver, conn: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreBusy):
            driver.enqueue_within(conn, [job("a")], now=NOW)
        other.rollback()
    conn.rollback()
    driver.enqueue_within(conn, [job("a")], now=NOW)
    conn.commit()
    assert ids(driver) == ["a"]


# ----------------------------------------------------------------------------------------------- on one of the driver's


@pytest.fixture(params=["apsw", "stdlib"])
def library(request: pytest.FixtureRequest) -> Library:
    library: Library = request.param
    return library


@pytest.fixture
def either(path: Path, library: Library) -> Iterator[SqliteDriver]:
    driver = SqliteDriver(path, sqlite=library, durability="relaxed", busy_timeout=0.2)
    tx = driver.transaction()
    tx.begin()
    tx.connection.execute("create table orders (id integer primary key, note text) strict")
    tx.commit()
    yield driver
    asyncio.run(driver.close())


def own_rows(driver: SqliteDriver) -> int:
    tx = driver.transaction()
    tx.begin()
    try:
        [(count,)] = tx.connection.execute("select count(*) from orders").fetchall()
        return int(count)
    finally:
        tx.rollback()


def test_own_rows_follow_up_jobs_and_the_ack_are_one(either: SqliteDriver) -> None:
    claimed = running(either)
    tx = either.transaction()
    tx.begin()
    tx.connection.execute("insert into orders (note) values ('mine')")
    tx.enqueue([job("next")], now=NOW)
    assert tx.settle(success(claimed), now=NOW) == "applied"
    tx.commit()
    assert (own_rows(either), ids(either)) == (1, ["next", "parent"])
    [parent] = asyncio.run(either.get(["parent"]))
    assert parent is not None
    assert parent.state == "succeeded"


def test_a_refused_settlement_takes_own_rows_with_it(either: SqliteDriver) -> None:
    claimed = running(either)
    tx = either.transaction()
    tx.begin()
    tx.connection.execute("insert into orders (note) values ('mine')")
    tx.enqueue([job("next")], now=NOW)
    assert tx.settle(success(claimed), now=NOW + LEASE) == "expired"
    tx.rollback()
    assert (own_rows(either), ids(either)) == (0, ["parent"])


def test_factories_on_the_transactions_own_connection_do_no_harm(path: Path) -> None:
    driver = SqliteDriver(path, sqlite="stdlib", durability="relaxed")
    claimed = running(driver)
    tx = driver.transaction()
    tx.begin()
    tx.connection.row_factory, tx.connection.text_factory = sqlite3.Row, bytes
    tx.enqueue([job("next", dedupe_key="d"), job("more", dedupe_key="d")], now=NOW)
    assert tx.settle(success(claimed), now=NOW) == "applied"
    tx.commit()
    assert ids(driver) == ["next", "parent"]
    asyncio.run(driver.close())


def test_what_was_ended_by_hand_is_not_gone_on_with(either: SqliteDriver) -> None:
    """A commit of the caller's own would make every later statement a transaction for itself."""
    tx = either.transaction()
    tx.begin()
    tx.connection.execute("insert into orders (note) values ('mine')")
    tx.connection.execute("commit")
    with pytest.raises(TransactionOver, match="statement of your own"):
        tx.enqueue([job("next")], now=NOW)
    tx.rollback()
    assert ids(either) == []


def test_others_wait_for_the_lock_and_say_so(either: SqliteDriver) -> None:
    """Reading goes on; a second writer waits, at most as long as it may."""
    first, second = either.transaction(), either.transaction()
    first.begin()
    first.enqueue([job("a")], now=NOW)
    with pytest.raises(StoreBusy):
        second.begin()
    with pytest.raises(StoreBusy):
        asyncio.run(either.enqueue([job("b")], now=NOW))
    assert ids(either) == []
    first.commit()
    asyncio.run(either.enqueue([job("b")], now=NOW))
    assert ids(either) == ["a", "b"]


def test_a_transaction_may_outlive_its_driver(path: Path, library: Library) -> None:
    """The file stays with the library that has it open until the last connection is closed."""
    driver = SqliteDriver(path, sqlite=library, durability="relaxed")
    tx = driver.transaction()
    tx.begin()
    tx.enqueue([job("a")], now=NOW)
    asyncio.run(driver.close())
    other: Library = "stdlib" if library == "apsw" else "apsw"
    with pytest.raises(Exception, match="is open in this process"):
        SqliteDriver(path, sqlite=other)
    tx.commit()
    again = SqliteDriver(path, sqlite=other)
    assert ids(again) == ["a"]
    asyncio.run(again.close())


def test_a_forked_child_cannot_use_it(either: SqliteDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = either.transaction()
    tx.begin()
    tx.enqueue([job("a")], now=NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(DriverForked):
            tx.commit()
        tx.rollback()
    tx.commit()
    assert ids(either) == ["a"]


CHILD = """
import asyncio, os, sys
from windlass.core.changes import Ack
from windlass.drivers.values import Claim
from windlass.drivers.sqlite import SqliteDriver
from windlass.types import NewJob

driver = SqliteDriver(sys.argv[1], sqlite=sys.argv[2])
asyncio.run(driver.enqueue([NewJob(id="parent", type="work")], now=1_000))
claim = Claim(queues=("default",), limit=1, lease_for=1_000_000, worker_id="w", token="t")
[job] = asyncio.run(driver.claim(claim, now=1_000))
tx = driver.transaction()
tx.begin()
tx.connection.execute("insert into orders (note) values ('mine')")
tx.enqueue([NewJob(id="next", type="work")], now=1_000)
assert tx.settle(Ack(handle=job.handle, token="t", at=1_000), now=1_000) == "applied"
if sys.argv[3] == "commit":
    tx.commit()
os._exit(7)
"""


@pytest.mark.parametrize("end", ["die", "commit"])
def test_a_process_that_dies_before_the_commit_leaves_nothing(either: SqliteDriver, end: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, either.path, either.library, end], capture_output=True)
    assert done.returncode == 7, done.stderr
    [parent, following] = asyncio.run(either.get(["parent", "next"]))
    assert parent is not None
    assert (parent.state, following is not None, own_rows(either)) == (
        ("succeeded", True, 1) if end == "commit" else ("running", False, 0)
    )


def test_the_drivers_own_writes_go_before_transactions_that_wait(path: Path) -> None:
    """A renewal must not wait for a long queue of them; and who waits in a queue that moves is not turned away."""
    driver = SqliteDriver(path, durability="relaxed", busy_timeout=0.6)
    order: list[str] = []
    first = driver.transaction()
    first.begin()

    def later(name: str) -> None:
        transaction = driver.transaction()
        transaction.begin()
        order.append(name)
        threading.Event().wait(0.3)
        transaction.rollback()

    def waiting() -> int:
        return len(driver._place.turns._queue) - 1

    def wait_until(number: int) -> None:
        while waiting() < number:
            threading.Event().wait(0.001)

    def write() -> None:
        asyncio.run(driver.enqueue([job("own")], now=NOW))
        order.append("own")

    threads: list[threading.Thread] = []
    for number, target in enumerate((lambda: later("1"), lambda: later("2"), lambda: later("3"), write), 1):
        threads.append(threading.Thread(target=target))
        threads[-1].start()
        wait_until(number)
    first.rollback()
    for thread in threads:
        thread.join(10)
    assert order[0] == "own" or order[:2] == ["1", "own"]  # its answer takes a moment
    assert sorted(order) == ["1", "2", "3", "own"]
    asyncio.run(driver.close())
