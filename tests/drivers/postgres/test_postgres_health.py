"""What the doctor says of a server: each ill is made for real, and found with the command that ends it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from postgres.binaries import binaries
from postgres.server import Server, unique_name
from windlass.admin import Admin, doctor
from windlass.client import Client
from windlass.clock import wall
from windlass.config import Settings
from windlass.drivers import migrate
from windlass.drivers.postgres import PostgresDriver, health, place
from windlass.drivers.postgres.faults import grants
from windlass.records import Finding


def examined(dsn: str, **options: str) -> list[Finding]:
    async def run() -> list[Finding]:
        driver = PostgresDriver(dsn, timeout=5.0, **options)  # type: ignore[arg-type]
        try:
            return await driver.examine(now=driver.clock.now())
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


def test_a_command_works_in_a_schema_of_another_name(fresh_database: str) -> None:
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


def test_statistics_and_dead_rows(store: str) -> None:
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


def test_prepared_transactions_and_slots_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "OLD_TRANSACTION", 0)
    with Server(options={"max_prepared_transactions": 5, "wal_level": "logical"}) as server:
        migrate(server.dsn())
        execute(server.dsn(), "begin; insert into windlass.jobs (type) values ('x'); prepare transaction 'for''gotten'")
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
    assert (
        f"session {holder.info.backend_pid} of postgres (a careless one, idle in transaction) keeps 1 others"
        in found[0].text
    )
    type_in(found[0].command)
    waiter.join()
    holder.close()


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
    execute(store, f"grant insert on windlass.jobs to {user}")
    found = examined(reader)
    assert ills(found) == ["rights", "what is seen"]
    [lacks] = of(found, "rights")
    assert f"{user} may not read and write audit, barrier, " in lacks.text
    assert not {"api_tokens", "migrations"} & set(re.split(r"\W+", lacks.text))
    execute(store, grants(place.Place(reader, "windlass", "none", 10.0)), f"grant pg_read_all_stats to {user}")
    assert ills(examined(reader)) == []


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
