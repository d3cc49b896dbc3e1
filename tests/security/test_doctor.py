"""`windlass doctor --security` finds each way in that it names, tells what to type, and shows no secret."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from msgspec.structs import replace

from cli.conftest import Cli, cli  # noqa: F401
from windlass import Windlass
from windlass.admin import Admin, process_list, security
from windlass.admin.views import Check
from windlass.client import Client
from windlass.clock import ManualClock
from windlass.config import Settings, settings_from
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.postgres.exposure import is_elsewhere, rights, travel
from windlass.drivers.postgres.place import Place
from windlass.drivers.sqlite.exposure import exposure
from windlass.principal import new_token
from windlass.records import Webhook

SECRET = "kanarie-4711"  # noqa: S105


def named(checks: list[Check] | tuple[Check, ...], name: str) -> list[str]:
    return [check.health for check in checks if check.name == name]


@pytest.mark.parametrize(
    ("mode", "health"), [(0o600, "ok"), (0o640, "warning"), (0o620, "warning"), (0o604, "problem"), (0o666, "problem")]
)
def test_a_file_that_others_may_open_is_found(tmp_path: Path, mode: int, health: str) -> None:
    for suffix in ("", "-wal"):
        file = tmp_path / f"jobs.db{suffix}"
        file.touch()
        (tmp_path / "jobs.db").chmod(0o600)
        file.chmod(mode)
        [found] = exposure(str(tmp_path / "jobs.db"))
        assert (found.name, found.status) == ("file", health)
        assert health == "ok" or found.command == f"chmod 600 {file}"
        file.chmod(0o600)


@pytest.mark.parametrize(("mode", "health"), [(0o755, []), (0o1777, []), (0o775, ["warning"]), (0o777, ["problem"])])
def test_a_directory_in_which_others_may_replace_the_store_is_found(tmp_path: Path, mode: int, health: list[str]) -> None:
    (tmp_path / "jobs.db").touch(0o600)
    tmp_path.chmod(mode)
    assert [found.status for found in exposure(str(tmp_path / "jobs.db")) if found.name == "directory"] == health


def test_tokens_that_are_missing_for_ever_old_or_forgotten_are_found() -> None:
    async def story() -> None:
        clock = ManualClock()
        admin = Admin(Client("memory://", Settings(), driver=MemoryDriver(), clock=clock))

        async def told() -> list[str]:
            return [check.says for check in (await admin.security()).checks if check.name == "tokens"]

        assert "let in every user of this machine" in (await told())[0]
        view, _ = await admin.create_token("reader", ["read"])
        assert "none is old" in (await told())[0]
        await admin.create_token("root", ["admin"])
        [root] = await told()
        assert root.startswith("'root' (admin) never expires")
        await admin.revoke_token("root")
        clock.advance("91d")
        assert "was not used for 91 d" in (await told())[0]
        clock.advance("300d")
        assert "was made 391 d ago" in (await told())[0]
        await admin.revoke_token(view.id)
        assert "let in every user" in (await told())[0], "as the server sees it"

    asyncio.run(story())


def test_webhooks_by_plain_http_are_found() -> None:
    hook = Webhook(webhook_id="wh_1", url="http://10.0.0.1/", events=("job.dead",), secret=SECRET, created_at=0)
    [found] = security._webhooks([hook])
    assert (found.health, SECRET in found.says) == ("warning", False)
    [found] = security._webhooks([replace(hook, url="https://example.com/")])
    assert found.health == "ok"


@pytest.mark.parametrize(
    ("networks", "health"),
    [
        ("none", []),
        ("10.0.0.0/8", []),
        ("127.0.0.1", ["problem"]),
        ("169.254.169.254", ["problem"]),
        ("0.0.0.0/0", ["problem"]),
        ("10.1.0.0/16, ::1", ["problem"]),
    ],
)
def test_networks_that_hold_this_machine_or_a_cloud_s_credentials_are_found(networks: str, health: list[str]) -> None:
    found = security._networks(settings_from({"webhook_networks": networks}, {}))
    assert [check.health for check in found] == health


@pytest.mark.parametrize(("mode", "health"), [(0o600, "ok"), (0o400, "ok"), (0o640, "warning"), (0o644, "problem")])
def test_a_key_ring_that_others_may_read_is_found(tmp_path: Path, mode: int, health: str) -> None:
    ring = tmp_path / "keys.txt"
    ring.write_text(SECRET)
    ring.chmod(mode)
    tmp_path.chmod(0o700)
    settings = settings_from({"key_file": str(ring)}, {})
    [found] = security._keys(settings)
    assert (found.health, SECRET in found.says) == (health, False)
    tmp_path.chmod(0o777)
    [found] = security._keys(settings)
    assert found.health == ("problem" if health == "ok" else health)
    ring.unlink()
    [found] = security._keys(settings)
    assert found.health == "problem"


@pytest.mark.parametrize(
    ("url", "health"),
    [
        ("http://x@127.0.0.1:1/", ["ok"]),
        (f"http://{SECRET}@jobs.example/", ["problem"]),
        ("https://jobs.example/", []),
        ("sqlite:///x.db", []),
    ],
)
def test_a_served_store_without_tls_is_found(url: str, health: list[str]) -> None:
    found = list(security._way(url))
    assert [check.health for check in found] == health
    assert not any(SECRET in check.says for check in found)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["python", "-m", "windlass", "worker", "app", "--store", f"postgresql://ada:{SECRET}@db/x"], ["process list"]),
        (["/usr/bin/windlass", "jobs", "list", f"--store=postgresql://db/x?password={SECRET}"], ["process list"]),
        (["windlass", "worker", "app", "--store", f"https://{new_token()}@jobs.example/"], ["process list"]),
        (["windlass", "worker", "app", "--store", "postgresql://ada@db/x", "--metrics", "9100"], []),
        (["windlass", "worker", "app", "--store", "sqlite:////srv/a:b@c.db"], []),
        (["curl", f"https://ada:{SECRET}@example.com/"], []),
        (["windlass", "serve", "--host", "0.0.0.0"], ["server"]),  # noqa: S104
        (["windlass", "serve", "--host=::1"], []),
        (["windlass", "serve", "--host", "10.0.0.1", "--tls-cert=c", "--tls-key=k"], []),
        (["windlass", "worker", "app", "--metrics", "0.0.0.0:9100"], ["metrics"]),
        (["windlass", "worker", "app", "--metrics", "127.0.0.1:9100"], []),
    ],
)
def test_what_the_process_list_tells_is_found(arguments: list[str], names: list[str]) -> None:
    found = list(process_list.told_by(1, arguments))
    assert [check.name for check in found] == names
    for check in found:
        assert SECRET not in f"{check.says}{check.next}"


@pytest.mark.skipif(not process_list.PROC.is_dir(), reason="needs a list of processes")
def test_a_real_process_with_a_password_is_found_by_its_number(cli: Cli) -> None:  # noqa: F811
    assert cli("migrate").code == 0
    waits = "import sys; print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", waits, "windlass", "worker", "app", "--store", f"postgresql://ada:{SECRET}@db/x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = cli("doctor", "--security")
        process.communicate()
    assert done.code == 1
    assert f"process {process.pid} has a password" in done.out
    assert "try: WINDLASS_URL" in done.out
    assert SECRET not in done.out + done.err


def test_the_command_answers_with_every_check_and_fails_for_problems_only(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    tmp_path.chmod(0o700)
    url = f"sqlite:///{tmp_path}/jobs.db"
    assert cli("migrate", "--store", url).code == 0
    done = cli("doctor", "--security", "--store", url, "--json")
    checks = {check["name"]: check for check in done.json["checks"]}
    assert {"file", "tokens", "encryption"} <= checks.keys()
    assert checks["file"]["health"] == "ok"
    assert checks["tokens"]["next"].startswith("windlass tokens create")
    os.chmod(tmp_path / "jobs.db", 0o644)
    done = cli("doctor", "--security", "--store", url)
    assert done.code == 1
    assert f"try: chmod 600 {tmp_path}/jobs.db" in done.out
    assert cli("doctor", "--security", "--repair", "--store", url).code == 2


# ------------------------------------------------------------------------------------------------------------ PostgreSQL


@pytest.mark.parametrize(
    ("url", "encrypted", "health"),
    [
        ("postgresql://a@127.0.0.1/x", False, "ok"),
        ("postgresql://a@/x?host=/run/pg", False, "ok"),
        ("postgresql://a@db.example/x", False, "problem"),
        ("postgresql://a@db.example/x?sslmode=disable", False, "problem"),
        ("postgresql://a@db.example/x?sslmode=require", True, "warning"),
        ("postgresql://a@127.0.0.1,db.example/x", False, "problem"),
        ("postgresql://a@db.example/x?sslmode=verify-full", True, "ok"),
    ],
)
def test_how_jobs_travel_to_the_server_is_told(url: str, encrypted: bool, health: str) -> None:
    [found] = travel(Place.of(url), encrypted=encrypted)
    assert found.status == health


def test_behind_a_pooler_only_what_we_asked_for_is_believed() -> None:
    for mode, health in (("prefer", "problem"), ("require", "warning"), ("verify-full", "ok")):
        [found] = travel(Place.of(f"postgresql://a@db.example/x?sslmode={mode}", pooler="transaction"), encrypted=False)
        assert found.status == health


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ((True, True, True, True, True), "superuser"),
        ((True, False, False, True, True), "owns the schema"),
        ((True, False, True, False, False), "may make roles"),
        ((True, False, False, False, True), "audit log"),
        ((True, False, False, False, False), "no more than a part"),
    ],
)
def test_rights_beyond_a_part_are_told(facts: tuple[bool, ...], says: str) -> None:
    [found] = rights(Place.of("postgresql://a@db/x"), facts)
    assert says in found.text
    assert (found.status == "ok") == (says == "no more than a part")


def test_only_this_machine_is_here() -> None:
    assert [host for host in ("", "/run", "localhost", "127.0.0.9", "::1", "10.0.0.1", "db") if is_elsewhere(host)] == [
        "10.0.0.1",
        "db",
    ]


def test_the_rights_of_a_role_are_read_from_the_server(empty_store: tuple[str, str]) -> None:
    dsn, schema = empty_store
    role = f"little_{schema}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'x'")
        connection.execute(f'grant usage on schema "{schema}" to {role}')
        connection.execute(f'grant select on all tables in schema "{schema}" to {role}')
        try:
            parts = urlsplit(dsn)
            little = dsn.replace(parts.netloc, f"{role}:x@{parts.netloc.rpartition('@')[2]}")
            assert told_by_server(dsn, schema)["role"].says.endswith("has the whole server")
            found = told_by_server(little, schema)
            assert found["role"].health == "ok"
            assert found["other roles"].health == "ok"
            assert {"tokens", "encryption"} <= found.keys()
            connection.execute(f'revoke select on "{schema}".api_tokens, "{schema}".webhooks from {role}')
            found = told_by_server(little, schema)
            assert found.keys() & {"tokens", "webhooks", "store"} == set(), "what it may not read is left out"
            connection.execute(f'grant update on "{schema}".audit to {role}')
            assert "audit log" in told_by_server(little, schema)["role"].says
            connection.execute(f'grant select on "{schema}".jobs to public')
            found = told_by_server(little, schema)
            assert (found["other roles"].health, "jobs" in found["other roles"].says) == ("problem", True)
            assert found["other roles"].next == (
                f"psql {Place.of(little).url} -c 'revoke all on all tables in schema \"{schema}\" from public'"
            )
        finally:
            connection.execute(f'revoke all on "{schema}".jobs from public')
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


def told_by_server(dsn: str, schema: str) -> dict[str, Check]:
    async def ask() -> dict[str, Check]:
        app = Windlass(dsn, schema=schema, migrate="never", log_root="none")
        try:
            return {check.name: check for check in (await app.admin.security()).checks}
        finally:
            await app.close()

    return asyncio.run(ask())
