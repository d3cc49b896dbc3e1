"""The command on PostgreSQL: migrations, the doctor, and a password that is nowhere to be seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.conftest import Cli, Done
from cli.test_commands import PATHS
from postgres.binaries import binaries
from postgres.server import Server
from windlass.drivers.migrations import Migration
from windlass.drivers.postgres import schema
from windlass.worker.supervisor import MISCONFIGURED

CANARY = "c4n4ry%2Fs3cret"
SECRETS = ("c4n4ry", "s3cret")
LATER = [
    Migration(2, "more", "create table windlass.more (n int);\n"),
    Migration(3, "index", "-- concurrently\ncreate index concurrently if not exists more_n on windlass.more (n);\n"),
]


@pytest.fixture
def url(fresh_database: str) -> str:
    return fresh_database.replace("postgres@", f"postgres:{CANARY}@")


@pytest.fixture
def pg(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("WINDLASS_URL", url)
    return cli


def clean(done: Done) -> Done:
    assert not any(secret in done.out + done.err for secret in SECRETS), (done.out, done.err)
    return done


# ------------------------------------------------------------------------------------------------------------ migrations


def test_looking_makes_no_schema_and_says_how_to(pg: Cli) -> None:
    for command in (["jobs", "list"], ["queues", "list"], ["dlq", "list"]):
        done = pg(*command)
        assert done.code == 4
        assert "there is no Windlass schema here; make the schema with: windlass migrate" in done.err
    done = pg("doctor")
    assert done.code == 1
    assert "windlass migrate" in done.out


def test_a_plan_a_script_and_the_migration_itself(pg: Cli, fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pg("migrate", "--plan", "--json").json["steps"] == [
        {"name": "0001_windlass", "applied": False, "concurrent": False}
    ]
    assert pg("jobs", "list").code == 4
    assert pg("migrate", "--json").json["applied_now"] == ["0001_windlass"]
    assert pg("migrate", "--json").json["applied_now"] == []
    assert pg("jobs", "list").code == 0
    own = schema.own_steps()
    monkeypatch.setattr(schema, "own_steps", lambda: [*own, *LATER])
    done = pg("migrate", "--plan")
    assert "0002_more  missing, one transaction" in done.out
    assert "0003_index  missing, concurrent: outside of transactions" in done.out
    assert "windlass migrate --plan" in pg("jobs", "list").err
    script = pg("migrate", "--sql").out
    words = [str(binaries() / "psql"), "--no-psqlrc", "--quiet", f"--dbname={fresh_database}", "--file=-"]
    subprocess.run(words, input=script, text=True, check=True, capture_output=True)
    assert pg("migrate", "--json").json["applied_now"] == []
    assert pg("migrate", "--sql").out == ""
    assert pg("jobs", "list").code == 0


def test_a_sqlite_script_makes_the_same_schema_as_migrating(cli: Cli, tmp_path: Path) -> None:
    import sqlite3

    def shape(file: str) -> list[tuple[str, ...]]:
        connection = sqlite3.connect(tmp_path / file)
        rows = connection.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall()
        rows += connection.execute(
            "select version, name, checksum, applied_at > 1700000000000000 from migrations"
        ).fetchall()
        rows += connection.execute("select key, length(value) from meta where key = 'store_id'").fetchall()
        connection.close()
        return rows

    script = cli("migrate", "--sql", "--store", "sqlite:///a.db").out
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.executescript(script)
    connection.close()
    assert cli("migrate", "--json", "--store", "sqlite:///a.db").json["applied_now"] == []
    cli("migrate", "--store", "sqlite:///b.db")
    assert shape("a.db") == shape("b.db")


# ------------------------------------------------------------------------------------------------------------- passwords

ARGUMENTS = {
    ("enqueue",): ["hello", "name=Ada", "--app", "tasks"], ("worker",): ["tasks", "--drain"], ("tick",): ["tasks"],
    ("jobs", "show"): ["x"], ("jobs", "cancel"): ["x"], ("jobs", "retry"): ["x"], ("jobs", "delete"): ["x"],
    ("jobs", "run-now"): ["x"], ("jobs", "move"): ["x", "top"], ("watch",): ["x"], ("queues", "pause"): ["q"],
    ("queues", "resume"): ["q"], ("queues", "show"): ["q"], ("queues", "renormalise"): ["q"], ("jobs", "swap"): ["x", "y"],
    ("jobs", "priority"): ["x", "1"], ("holds", "acquire"): ["q"], ("holds", "release"): ["x"],
    ("holds", "run"): ["q", "--", "true"], ("bench",): ["--jobs", "20"],
}  # fmt: skip
SKIPPED = {("demo",), ("init",), ("completion",)}  # they open no store of ours
SKIPPED |= {("serve",), ("dev",)}  # they do not end by themselves


@pytest.mark.parametrize("path", [path for path in PATHS if path not in SKIPPED], ids=" ".join)
def test_no_command_ever_shows_the_password(pg: Cli, url: str, path: tuple[str, ...]) -> None:
    pg("migrate")
    words = [*path, *ARGUMENTS.get(path, [])]
    for more in ([], ["--json"], ["--store", url], ["--store", url, "--json"], ["--storre", url]):
        clean(pg(*words, *more))


def test_what_was_typed_in_the_wrong_place_is_shown_without_the_password(pg: Cli, url: str) -> None:
    done = clean(pg("queues", "list", url))
    assert (done.code, "postgresql://postgres:***@" in done.err) == (2, True)


def test_a_worker_says_where_it_works_without_the_password(pg: Cli, url: str) -> None:
    done = clean(pg("worker", "tasks", "--drain", "--verbose"))
    assert "store   postgresql://postgres:***@127.0.0.1" in done.err
    assert (
        "--store 'postgresql://postgres:***@"
        in clean(pg("enqueue", "--app", "tasks", "hello", "name=x", "--store", url)).err
    )


@pytest.mark.parametrize(
    "broken",
    [
        "postgresql://ada:{}@127.0.0.1:1/x", "postgresql://ada:{}@no-such-host.invalid/x", "postgresql://ada:{}@[::1/x",
        "postgresql://ada:{}@127.0.0.1:port/x", "postgresql://ada:{}@127.0.0.1/x?nonsense=1", "mysql://ada:{}@h/x",
        "postgresql://127.0.0.1:1/x?user=ada&password={}", "postgresql+psycopg://ada:{}@h/x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("debug", [False, True])
def test_no_error_ever_shows_the_password(cli: Cli, broken: str, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if debug:
        monkeypatch.setenv("WINDLASS_DEBUG", "1")
    monkeypatch.setenv("WINDLASS_STORE_TIMEOUT", "1s")
    url = broken.format(CANARY)
    for command in (["jobs", "list"], ["doctor"], ["migrate"], ["worker", "tasks", "--drain"], ["enqueue", "x"]):
        for more in ([], ["--json"]):
            done = clean(cli("--store", url, *command, *more))
            assert done.code in (1, 2, 4)


def test_a_wrong_password_is_not_shown_by_a_worker_with_several_processes(tmp_path: Path, strict: str) -> None:
    (tmp_path / "tasks.py").write_text("from windlass import Windlass\napp = Windlass()\n@app.task\ndef t() -> None: ...\n")
    words = [sys.executable, "-m", "windlass", "worker", "tasks", "--drain", "--processes", "2", "--verbose"]
    environment = {"WINDLASS_URL": strict, "PATH": "/usr/bin:/bin", "WINDLASS_STORE_TIMEOUT": "1s"}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.communicate(timeout=60)[1]
    clean(Done(process.returncode, "", said))
    assert process.returncode == 4
    assert said.count("check user and password") == 1, "told once, and nobody is started again and again"


def test_a_child_that_is_refused_for_good_says_so_by_its_code(tmp_path: Path, strict: str) -> None:
    (tmp_path / "tasks.py").write_text("from windlass import Windlass\napp = Windlass()\n@app.task\ndef t() -> None: ...\n")
    words = [sys.executable, "-m", "windlass", "worker", "tasks", "--drain"]
    environment = {
        "WINDLASS_URL": strict,
        "PATH": "/usr/bin:/bin",
        "WINDLASS_STORE_TIMEOUT": "1s",
        "WINDLASS_WORKER_ID": "w",
    }
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == MISCONFIGURED
    assert "check user and password" in done.stderr
    away = {**environment, "WINDLASS_URL": "postgresql://ada@127.0.0.1:1/x"}
    assert subprocess.run(words, cwd=tmp_path, env=away, capture_output=True, timeout=60).returncode == 4, (
        "it may come back"
    )


@pytest.fixture
def strict() -> Iterator[str]:
    with Server() as server:
        server.execute("create role ada login password 'right'")
        hba = next(server.directory.rglob("pg_hba.conf"))
        hba.write_text(f"host all ada 127.0.0.1/32 scram-sha-256\n{hba.read_text()}")
        server.execute("select pg_reload_conf()")
        asked = server.dsn().replace("postgres@", f"ada:{CANARY}@")
        for _ in range(1_000):
            try:
                psycopg.connect(asked).close()
            except psycopg.OperationalError:
                break
        yield asked
