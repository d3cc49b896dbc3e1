"""Rows of an application's own table that refer to jobs keep these, and nothing else."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, Delete, PutGroup
from windlass.core.changes import Ack
from windlass.core.duties import Done, Prune
from windlass.core.queries import AllGroups
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

NOW = 1_800_000_000_000_000
Say = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Driver, Say]]:
    """A driver, and what says something to the same database."""
    driver: SqliteDriver | PostgresDriver
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"
        driver = SqliteDriver(str(path), durability="relaxed")
        with closing(sqlite3.connect(path, isolation_level=None)) as theirs:

            def say(sql: str) -> None:
                theirs.execute(sql.format(jobs="jobs", groups="groups", runs="runs"))

            yield driver, say
    else:
        dsn, schema = request.getfixturevalue("empty_store")
        driver = PostgresDriver(dsn, schema=schema)
        with psycopg.connect(dsn, autocommit=True) as own:
            own.execute("drop table if exists lines, orders")

            def tell(sql: str) -> None:
                own.execute(sql.format(jobs=f"{schema}.jobs", groups=f"{schema}.groups", runs=f"{schema}.runs").encode())

            yield driver, tell
            own.execute("drop table if exists lines, orders")
    asyncio.run(driver.close())


async def ended(driver: Driver, count: int, group: str | None = None) -> list[str]:
    ids = [f"job-{n}" for n in range(count)]
    await driver.enqueue([NewJob(id=name, type="t", group_id=group) for name in ids], now=NOW)
    for n, name in enumerate(ids):
        assert await driver.alter([Cancel(name)], now=NOW + n) == ["applied"]
    return ids


async def swept(driver: Driver, limit: int) -> list[Done]:
    bites: list[Done] = []
    while not bites or bites[-1].more:
        done = await driver.maintain(Prune(cancelled=0, limit=limit), epoch=None, now=NOW + SECOND)
        assert done is not None
        bites.append(done)
        assert len(bites) < 30, "it comes to an end"
    return bites


async def left(driver: Driver, ids: list[str]) -> list[str]:
    return [job.id for job in await driver.get(ids) if job is not None]


def refer(say: Say, ids: list[str], rule: str = "", column: str = "bigint") -> None:
    say(f"create table orders (job {column} constraint of_job references {{jobs}} (seq) {rule})")
    for name in ids:
        say(f"insert into orders select seq from {{jobs}} where id = '{name}'")


@pytest.mark.parametrize("rule", ["", "on delete restrict", "deferrable initially deferred"])
def test_a_job_that_others_refer_to_keeps_no_other_from_being_pruned(store: tuple[Driver, Say], rule: str) -> None:
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 11)
        refer(say, [ids[0], ids[1], ids[2], ids[8]], rule)
        bites = await swept(driver, limit=3)
        assert sum(done.rows for done in bites) == 7
        assert any("foreign key" in done.refused.lower() for done in bites)
        assert await left(driver, ids) == [ids[0], ids[1], ids[2], ids[8]]
        say("delete from orders")
        bites = await swept(driver, limit=3)
        assert (sum(done.rows for done in bites), {done.refused for done in bites}) == (4, {""})

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["", "on delete restrict", "deferrable initially deferred"])
def test_a_job_whose_rows_others_refer_to_keeps_no_other_from_being_pruned(store: tuple[Driver, Say], rule: str) -> None:
    """Rows of a table that go with their job, and rows of another one that refer to those."""
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 5)
        say("create table orders (id integer primary key, job bigint references {jobs} (seq) on delete cascade)")
        say(f"create table lines (ordered integer references orders {rule})")
        for n, name in enumerate(ids[1:3]):
            say(f"insert into orders select {n}, seq from {{jobs}} where id = '{name}'")
        say("insert into lines values (0)")
        bites = await swept(driver, limit=2)
        assert (sum(done.rows for done in bites), any("foreign key" in done.refused.lower() for done in bites)) == (4, True)
        assert await left(driver, ids) == [ids[1]]
        assert await driver.alter([Delete(ids[1])], now=NOW) == ["referred"]
        say("delete from lines")
        assert await swept(driver, limit=2) == [Done(1)]

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["", "deferrable initially deferred"])
def test_a_job_whose_runs_others_refer_to_keeps_no_other_from_being_pruned(store: tuple[Driver, Say], rule: str) -> None:
    driver, say = store

    async def go() -> None:
        ids = [f"job-{n}" for n in range(4)]
        await driver.enqueue([NewJob(id=name, type="t") for name in ids], now=NOW)
        leases = await driver.claim(
            Claim(queues=("default",), limit=4, lease_for=SECOND, worker_id="w", token="x"), now=NOW
        )
        await driver.settle([Ack(handle=job.handle, token="x", at=NOW) for job in leases], now=NOW)
        say(f"create table orders (job bigint, run integer, foreign key (job, run) references {{runs}} {rule})")
        say("insert into orders select seq, 1 from {jobs} where id = 'job-2'")
        duty = Prune(succeeded=0, limit=9)
        done = await driver.maintain(duty, epoch=None, now=NOW + SECOND)
        assert done is not None
        assert (done.rows, "foreign key" in done.refused.lower()) == (3, True)
        assert await left(driver, ids) == ["job-2"]

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["", "deferrable initially deferred"])
def test_rows_that_go_with_a_job_do_not_keep_it(store: tuple[Driver, Say], rule: str) -> None:
    """They may refer to each other, and to a job that goes, in more ways than the one by which they go."""
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 3)
        cascades = "bigint references {jobs} (seq) on delete cascade"
        say(f"create table orders (id integer primary key, job {cascades}, first bigint references {{jobs}} (seq) {rule})")
        say(f"create table lines (job {cascades}, ordered integer references orders {rule})")
        say("insert into orders select 1, seq, seq from {jobs} where id = 'job-1'")
        say("insert into lines select seq, 1 from {jobs} where id = 'job-1'")
        assert await swept(driver, limit=9) == [Done(3)]
        assert await left(driver, ids) == []

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["", "on delete restrict", "deferrable initially deferred"])
def test_a_group_that_others_refer_to_stays_and_keeps_no_job_from_being_pruned(
    store: tuple[Driver, Say], rule: str
) -> None:
    driver, say = store

    async def go() -> None:
        for name in ("g", "h"):
            await driver.alter([PutGroup(name, total=1, on_failure="continue")], now=NOW)
            await driver.enqueue([NewJob(id=f"of-{name}", type="t", group_id=name)], now=NOW)
            await driver.alter([Cancel(f"of-{name}")], now=NOW)
        say(f"create table orders (batch text references {{groups}} {rule})")
        say("insert into orders values ('g')")
        bites = await swept(driver, limit=9)
        assert [(done.rows, "foreign key" in done.refused.lower()) for done in bites] == [(2, True)]
        assert [group.group_id for group in await driver.read(AllGroups())] == ["g"]

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["on delete cascade", "on delete set null"])
def test_a_foreign_key_that_says_what_becomes_of_its_rows_keeps_nothing(store: tuple[Driver, Say], rule: str) -> None:
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 3)
        refer(say, ids[:1], rule)
        assert await swept(driver, limit=9) == [Done(3)]

    asyncio.run(go())


SETS_DEFAULT = "on delete set default deferrable initially deferred"


@pytest.mark.parametrize(
    ("column", "rule", "why"),
    [
        ("bigint default 999999", SETS_DEFAULT, "foreign key"),
        ("bigint default 999999", "on delete set default", "foreign key"),
        ("bigint not null", "on delete set null", "null"),
        ("bigint not null", "on delete set default", "null"),
        ("bigint check (job is not null)", "on delete set null", "check"),
    ],
)
def test_a_foreign_key_whose_word_cannot_be_kept_keeps_its_job_and_no_other(
    store: tuple[Driver, Say], column: str, rule: str, why: str
) -> None:
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 5)
        refer(say, [ids[1]], rule, column)
        bites = await swept(driver, limit=2)
        assert sum(done.rows for done in bites) == 4
        assert any(why in done.refused.lower() for done in bites)
        assert await left(driver, ids) == [ids[1]]
        assert await driver.alter([Delete(ids[1])], now=NOW) == ["referred"]

    asyncio.run(go())


@pytest.mark.parametrize("column", ["bigint", "bigint default null", "bigint default NULL"])
def test_a_foreign_key_whose_default_is_none_keeps_nothing(store: tuple[Driver, Say], column: str) -> None:
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 3)
        refer(say, ids[:1], SETS_DEFAULT, column)
        assert await swept(driver, limit=9) == [Done(3)]

    asyncio.run(go())


def test_members_that_go_in_one_bite_stay_with_the_one_that_is_referred_to(store: tuple[Driver, Say]) -> None:
    driver, say = store

    async def go() -> None:
        await driver.alter([PutGroup("g", total=4, on_failure="continue")], now=NOW)
        ids = await ended(driver, 4, "g")
        refer(say, [ids[2]])
        assert [done.rows for done in await swept(driver, limit=9)] == [0]

    asyncio.run(go())


@pytest.mark.parametrize("rule", ["", "deferrable initially deferred"])
def test_a_job_that_others_refer_to_is_not_deleted_by_a_person_and_others_beside_it_are(
    store: tuple[Driver, Say], rule: str
) -> None:
    driver, say = store

    async def go() -> None:
        ids = await ended(driver, 3)
        refer(say, [ids[1]], rule)
        assert await driver.alter([Delete(name) for name in ids], now=NOW) == ["applied", "referred", "applied"]
        assert await left(driver, ids) == [ids[1]]

    asyncio.run(go())


def test_keys_that_lead_nowhere_keep_nothing(tmp_path: Path) -> None:
    """To a view that cannot be read any more, to a table that is not there, to one that has no key."""

    async def go() -> None:
        driver = SqliteDriver(path := tmp_path / "jobs.db", durability="relaxed")
        await ended(driver, 2)
        with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
            theirs.executescript(
                "create table plain (a); create view broken as select a, b from plain;"
                "create table orders (a references broken, b references nobody, c references plain)"
            )
            theirs.execute("insert into orders values (1, 2, 3)")
        assert await swept(driver, limit=9) == [Done(2)]
        await driver.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    "columns",
    [
        "job references jobs deferrable initially deferred",
        "job text, foreign key (job) references Jobs (id) deferrable initially deferred",
        "kind text default 't', job text, foreign key (kind, job) references jobs (type, id) deferrable initially deferred",
    ],
)
def test_a_file_with_deferred_foreign_keys_keeps_what_they_refer_to_and_nothing_else(tmp_path: Path, columns: str) -> None:
    async def go() -> None:
        driver = SqliteDriver(path := tmp_path / "jobs.db", durability="relaxed")
        ids = await ended(driver, 3)
        with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
            theirs.execute("create unique index of_theirs on jobs (type, id)")
            theirs.execute(f'create table "their ""own""" ({columns})')
            said = "seq" if columns.startswith("job references") else "id"
            theirs.execute(f'insert into "their ""own""" (job) select {said} from jobs where id = ?', (ids[1],))
        assert [(done.rows, bool(done.refused)) for done in await swept(driver, limit=9)] == [(2, True)]
        assert await left(driver, ids) == [ids[1]]
        await driver.close()

    asyncio.run(go())
