"""A store with the roles of deploy/postgres/roles.sql, and a login for each of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from postgres.binaries import binaries
from postgres.server import Server, unique_name
from windlass.drivers import migrate

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
ROLES = ("owner", "producer", "worker", "observer", "operator")
Role = Literal["owner", "producer", "worker", "observer", "operator"]


class Store:
    """A database whose roles have a prefix of their own: roles belong to the server, which tests share."""

    def __init__(self, admin: str) -> None:
        self.admin = admin
        self.prefix = unique_name("r")

    def script(self) -> str:
        """Run deploy/postgres/roles.sql as its first lines say."""
        words = ("-q", "-v", f"prefix={self.prefix}", "-f", str(DEPLOY / "postgres" / "roles.sql"))
        done = subprocess.run([binaries() / "psql", *words, self.admin], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def url(self, role: Role) -> str:
        return self.admin.replace("postgres@", f"{self.prefix}_{role}_login@")

    def execute(self, text: str, role: Role | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(self.admin if role is None else self.url(role), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def store(postgres_server: Server) -> Iterator[Store]:
    """Made as the page on deployment says: roles, logins, migration by the owner, roles again."""
    database = unique_name("db")
    store = Store(postgres_server.create_database(database))
    assert "Now run windlass migrate" in store.script()
    for role in ROLES:
        store.execute(f"create role {store.prefix}_{role}_login login in role {store.prefix}_{role}")
    store.execute(f"alter role {store.prefix}_owner_login set role {store.prefix}_owner")
    migrate(store.url("owner"))
    assert store.script() == ""
    yield store
    for role in ROLES:
        store.execute(f"drop owned by {store.prefix}_{role}_login, {store.prefix}_{role} cascade")
    names = ", ".join(f"{store.prefix}_{role}_login, {store.prefix}_{role}" for role in ROLES)
    store.execute(f"drop role {names}")
    postgres_server.drop_database(database)
