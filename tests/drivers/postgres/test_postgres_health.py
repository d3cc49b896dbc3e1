"""What the doctor says of a server: each ill is made for real, and found with the command that ends it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest

from postgres.binaries import binaries
from postgres.server import Server, unique_name
from windlass.admin import Admin, doctor
from windlass.client import Client
from windlass.clock import SECOND, wall
from windlass.config import Settings
from windlass.drivers import migrate
from windlass.drivers.postgres import PostgresDriver, health, place
from windlass.drivers.postgres.faults import grants
from windlass.records import Finding

HOUR = 3600 * SECOND


def examined(dsn: str, *, ahead: int = 0, **options: str) -> list[Finding]:
    """`ahead`: as much later, in microseconds, as the store takes it to be."""

    async def run() -> list[Finding]:
        driver = PostgresDriver(dsn, timeout=5.0, **options)  # type: ignore[arg-type]
        try:
            return await driver.examine(now=driver.clock.now() + ahead)
        finally:
            await driver.close()

    return asyncio.run(run())


def of(found: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in found if finding.name == name]


def ills(found: list[Finding]) -> list[str]:
    return [finding.name for finding in found if finding.status != "ok" and finding.name != "durability"]


def execute(dsn: str, *texts: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in texts:
            connection.execute(text.encode())


def type_in(command: str | None) -> None:
    """What a finding says to type, typed."""
    assert command is not None
    path = f"PATH={binaries()}:$PATH"
    done = subprocess.run(["/bin/sh", "-c", f"{path} {command}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def store(fresh_database: str) -> str:
    migrate(fresh_database)
    return fresh_database


def test_a_healthy_store_has_nothing_to_complain_of(store: str) -> None:
    found = examined(store)
    assert ills(found) == []
    [heard] = of(found, "wake-ups")
    assert "pushed; a message to ourselves took" in heard.text
    with psycopg.connect(store) as connection:
        rows = connection.execute(
            "select count(*) from pg_index join pg_class c on c.oid = indexrelid where not indisprimary and "
            "not relispartition and c.relnamespace = 'windlass'::regnamespace "
            "and not exists (select from pg_constraint where conindid = c.oid)"
        ).fetchone()
    assert rows is not None
    assert of(found, "indexes")[0].text == f"all {rows[0]} are there and valid"


@pytest.mark.parametrize("index", ["jobs_ready", "outbox_waiting"])
def test_a_missing_index_is_found_and_built_by_the_command(store: str, index: str) -> None:
    execute(store, f"drop index windlass.{index}")
    [found] = of(examined(store), "indexes")
    assert (found.status, f"{index} is missing" in found.text) == ("problem", True)
    type_in(found.command)
    assert ills(examined(store)) == []


def test_a_command_works_in_a_schema_of_another_name_whatever_others_have(fresh_database: str) -> None:
    migrate(fresh_database)
    migrate(fresh_database, schema="order")
    execute(fresh_database, 'drop index "order".jobs_ready')
    [found] = of(examined(fresh_database, schema="order"), "indexes")
    type_in(found.command)
    assert ills(examined(fresh_database, schema="order")) == []


def test_an_index_that_was_never_finished_is_found_and_built_by_the_command(store: str) -> None:
    execute(store, "insert into windlass.jobs (type) values ('x'), ('x')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(store, "create unique index concurrently half on windlass.jobs (type)")
    [found] = of(examined(store), "indexes")
    assert (found.status, "half is invalid" in found.text) == ("problem", True)
    assert "reindex index concurrently windlass.half" in (found.command or "")


def test_an_index_that_was_built_and_not_yet_checked_is_found_and_built_by_the_command(store: str) -> None:
    """Its building waits at its end for older snapshots and was interrupted there: nobody uses it, all write to it."""
    with psycopg.connect(store) as older:
        older.execute("set transaction isolation level repeatable read")
        older.execute("select")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            execute(store, "set lock_timeout = 100", "create index concurrently late on windlass.jobs (type)")
    [found] = of(examined(store), "indexes")
    assert (found.status, "late is invalid" in found.text) == ("problem", True)
    type_in(found.command)
    assert ills(examined(store)) == []


def test_statistics_and_dead_rows(store: str) -> None:
    execute(store, "create table public.elsewhere with (autovacuum_enabled = false) as select generate_series(1, 30000)")
    fill = "insert into windlass.idempotency_keys select 's', n::text, 'j' from generate_series(1, 30000) n"
    execute(store, "alter table windlass.idempotency_keys set (autovacuum_enabled = false)", fill)
    execute(store, "delete from windlass.idempotency_keys where key::int > 100")
    execute(store, "select pg_stat_force_next_flush()")
    found = examined(store)
    [stale], [dead], [off] = of(found, "statistics"), of(found, "dead rows"), of(found, "autovacuum")
    assert "idempotency_keys was never analyzed" in stale.text
    assert "idempotency_keys has 29,900 dead rows and 100 live ones; it was never vacuumed" in dead.text
    assert off.text == "is off for idempotency_keys"
    for finding in (stale, dead, off):
        type_in(finding.command)
    assert ills(examined(store)) == []


def test_who_holds_back_vacuum_is_named_and_ended_by_the_command(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "OLD_TRANSACTION", 0)
    report = psycopg.connect(store, application_name="a report")
    report.execute("set transaction isolation level repeatable read")
    report.execute("select 1 as the_report")
    [found] = of(examined(store), "old transaction")
    assert f"session {report.info.backend_pid} of postgres (a report, idle in transaction) holds back vacuum" in found.text
    assert "select 1 as the_report" in found.text
    type_in(found.command)
    with pytest.raises(psycopg.OperationalError):
        report.execute("select 1")
    assert of(examined(store), "old transaction") == []


def test_only_who_has_kept_rows_of_this_database_for_long_holds_back_vacuum(store: str, postgres_server: Server) -> None:
    def sessions(ahead: int) -> set[int]:
        told = [
            re.match(r"session (\d+) ", finding.text) for finding in of(examined(store, ahead=ahead), "old transaction")
        ]
        return {int(match[1]) for match in told if match is not None}

    with (
        psycopg.connect(store) as writer, psycopg.connect(store) as reader, psycopg.connect(store) as idle,
        psycopg.connect(postgres_server.dsn()) as elsewhere,
    ):  # fmt: skip
        writer.execute("insert into windlass.jobs (type) values ('x')")
        for connection in (reader, elsewhere):
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select")
        idle.execute("select")  # between statements it keeps nothing
        keep = {writer.info.backend_pid, reader.info.backend_pid}
        others = {idle.info.backend_pid, elsewhere.info.backend_pid}
        assert sessions(ahead=0) & (keep | others) == set(), "it is not long ago"
        assert sessions(ahead=HOUR) & (keep | others) == keep
    itself = [found for found in examined(store, ahead=HOUR) if "select pid, usename::text" in found.text]
    assert not itself, "who asks is not told of"


def test_a_slot_with_a_reader_is_well(store: str) -> None:
    name = unique_name("read")
    with psycopg.connect(store, autocommit=True) as reader:
        reader.execute("select pg_create_physical_replication_slot(%s, true, true)", [name])  # as long as the session
        assert not [found for found in of(examined(store), "replication slot") if name in found.text]


def test_prepared_transactions_and_slots_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(options={"max_prepared_transactions": 5, "wal_level": "logical"}) as server:
        migrate(server.dsn())
        execute(server.dsn(), "begin; insert into windlass.jobs (type) values ('x'); prepare transaction 'for''gotten'")
        execute(server.create_database("other"), "begin; create table t (); prepare transaction 'elsewhere'")
        assert of(examined(server.dsn()), "prepared transaction") == [], "it is not long ago"
        monkeypatch.setattr(health, "OLD_TRANSACTION", 0)
        execute(server.dsn(), "select pg_create_physical_replication_slot('gone', true)")
        found = examined(server.dsn())
        [prepared], [slot] = of(found, "prepared transaction"), of(found, "replication slot")
        assert "is prepared and not ended" in prepared.text
        assert "gone (physical) has no reader" in slot.text
        type_in(slot.command)
        type_in(prepared.command)
        assert ills(examined(server.dsn())) == []


def test_who_keeps_others_waiting_for_a_lock_is_named(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONG_WAIT", 0)
    holder = psycopg.connect(store, application_name="a careless one")
    holder.execute("lock table windlass.jobs in share mode")
    waiter = threading.Thread(target=execute, args=(store, "insert into windlass.jobs (type) values ('x')"))
    waiter.start()
    found: list[Finding] = []
    for _ in range(100):
        found = [finding for finding in of(examined(store), "locks") if finding.status == "problem"]
        if found:
            break
    assert [
        f"session {holder.info.backend_pid} of postgres (a careless one, idle in transaction) keeps 1 others" in one.text
        for one in found
    ] == [True]
    type_in(found[0].command)
    waiter.join()
    holder.close()


@contextmanager
def waiting(dsn: str, locks: str) -> Iterator[None]:
    """A session that takes these locks and begins to wait for one. The block ends when it has got it, and let go of all."""
    with psycopg.connect(dsn, autocommit=True) as connection, psycopg.connect(dsn, autocommit=True) as watcher:
        waits = "select from pg_locks where pid = %s and not granted and waitstart is not null"
        thread = threading.Thread(target=connection.execute, args=(f"begin; {locks}; commit".encode(),), daemon=True)
        thread.start()
        while watcher.execute(waits, [connection.info.backend_pid]).fetchone() is None:
            assert thread.is_alive()
        yield
        thread.join()


def problems(found: list[Finding]) -> list[str]:
    return [finding.text.split(" of ")[0] for finding in of(found, "locks") if finding.status == "problem"]


def test_of_a_row_of_sessions_only_the_first_is_told_as_keeping_others_waiting(store: str) -> None:
    with ExitStack() as end:
        holder = psycopg.connect(store)
        holder.execute("lock table windlass.jobs")
        first = f"session {holder.info.backend_pid}"
        end.enter_context(waiting(store, "lock table windlass.queues; lock table windlass.jobs"))
        end.enter_context(waiting(store, "lock table windlass.queues"))
        end.enter_context(holder)
        assert problems(examined(store, ahead=HOUR)) == [first]
        assert problems(examined(store)) == [], "it is not long ago"


def test_who_waits_for_what_is_not_ours_is_nobody_s_business(store: str) -> None:
    execute(store, "create table public.elsewhere ()")
    with ExitStack() as end:
        ours = end.enter_context(psycopg.connect(store))
        ours.execute("lock table windlass.jobs")
        holder = psycopg.connect(store)
        holder.execute("lock table public.elsewhere")
        end.enter_context(waiting(store, "lock table public.elsewhere"))
        end.enter_context(holder)
        assert problems(examined(store, ahead=HOUR)) == []


def test_the_connections_in_use_are_those_of_clients(store: str) -> None:
    def in_use() -> int:
        [found] = of(examined(store), "connections")
        return int(found.text.split(" of ")[0])

    with ExitStack() as end:
        before, watcher = in_use(), end.enter_context(psycopg.connect(store))
        there = watcher.execute("select count(*) from pg_stat_activity where datname is not null").fetchone()
        assert there is not None
        assert abs(before - there[0]) <= 3, "its own have gone, and the server may have begun to tidy"
        for _ in range(10):
            end.enter_context(psycopg.connect(store))
        assert in_use() >= before + 8


def test_few_connections_left_and_autovacuum_off() -> None:
    with Server(options={"max_connections": 10, "autovacuum": "off"}) as server:
        migrate(server.dsn())
        others = [psycopg.connect(server.dsn()) for _ in range(5)]
        found = examined(server.dsn())
        assert ills(found) == ["connections", "autovacuum"]
        assert "of 7 are in use; raise max_connections" in of(found, "connections")[0].text
        type_in(of(found, "autovacuum")[0].command)
        for other in others:
            other.close()


def test_commits_that_do_not_wait_are_told(store: str) -> None:
    found = examined(store + "?options=-csynchronous_commit%3Doff")
    assert "synchronous_commit off: a crash may undo" in of(found, "durability")[0].text


def test_a_standby_is_a_problem() -> None:
    with Server() as primary:
        migrate(primary.dsn())
        with Server.standby_of(primary) as standby:
            [found] = of(examined(standby.dsn()), "server")
            assert (found.status, "it is a standby" in found.text) == ("problem", True)


@pytest.fixture
def reader(store: str, postgres_server: Server) -> Iterator[str]:
    name = unique_name("reader")
    execute(store, f"create role {name} login", f"grant usage on schema windlass to {name}")
    execute(store, f"grant select on all tables in schema windlass to {name}")
    yield store.replace("postgres@", f"{name}@")
    execute(store, f"drop owned by {name}", f"drop role {name}")


def test_a_role_without_rights_is_told_what_it_lacks_and_what_it_cannot_see(store: str, reader: str) -> None:
    user = urlsplit(reader).username
    found = examined(reader)
    assert ills(found) == ["what is seen"]
    assert of(found, "rights")[0].text == f"{user} may change no table: enough to look, not to enqueue or to work"
    execute(store, f"grant update on all sequences in schema windlass to {user}")
    assert "may change no table" in of(examined(reader), "rights")[0].text, "a sequence is no table"
    execute(store, f"revoke update on all sequences in schema windlass from {user}")
    execute(store, f"grant insert on windlass.jobs to {user}")
    found = examined(reader)
    assert ills(found) == ["rights", "what is seen"]
    [lacks] = of(found, "rights")
    assert f"{user} may not read and write audit, barrier, " in lacks.text
    assert not {"api_tokens", "migrations"} & set(re.split(r"\W+", lacks.text))
    execute(store, grants(place.Place(reader, "windlass", "none", 10.0)), f"grant pg_read_all_stats to {user}")
    assert ills(examined(reader)) == []


def test_rights_that_no_worker_needs_are_not_asked_for(store: str, reader: str) -> None:
    """To a partition, which is reached through its table, and to sequences from which the server itself takes numbers."""
    user = urlsplit(reader).username
    execute(store, grants(place.Place(reader, "windlass", "none", 10.0)))
    with psycopg.connect(store) as connection:
        parts = connection.execute("select oid::regclass from pg_class where relispartition and relkind = 'r'").fetchall()
        owned = connection.execute(
            "select objid::regclass from pg_depend where classid = 'pg_class'::regclass and deptype = 'i' and "
            "objid in (select oid from pg_class where relkind = 'S')"
        ).fetchall()
    assert parts
    assert owned
    execute(store, *(f"revoke all on {name} from {user}" for (name,) in parts))
    execute(store, *(f"revoke all on sequence {name} from {user}" for (name,) in owned))
    assert of(examined(reader), "rights")[0].status == "ok"
    execute(store, f"revoke usage on sequence windlass.jobs_seq from {user}")
    [lacks] = of(examined(reader), "rights")
    assert f"{user} may not read and write jobs_seq: " in lacks.text


def test_behind_a_pooler_polling_is_as_it_should_be(store: str) -> None:
    [found] = of(examined(store, pooler="transaction"), "wake-ups")
    assert (found.status, "polled" in found.text) == ("ok", True)


def test_the_doctor_sees_a_wrong_clock_and_what_the_server_says(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "wall", lambda: wall() + 60_000_000)

    async def run() -> None:
        client = Client(store.replace("postgres@", "postgres:canary@"), Settings())
        found = {check.name: check for check in (await Admin(client).doctor()).checks}
        await client.close()
        assert found["clock"].says == "the store's clock and this machine's differ by 1 min"
        assert found["wake-ups"].health == "ok"
        assert "canary" not in repr(found)
        assert "(schema windlass): opens, its schema is current, push wake-ups" in found["store"].says

    asyncio.run(run())
