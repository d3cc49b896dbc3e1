"""Who else may read a store, or change more of it than their part, and how what is said travels to its server."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.drivers.postgres.health import psql
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.records import Finding
from windlass.urls import is_loopback

ROLES: Final = "psql -f deploy/postgres/roles.sql, then a login of your own in one of its roles"


def exposure(place: Place) -> Op[list[Finding]]:
    facts = yield SQL.role_facts(schema=place.schema)
    public = yield SQL.public_rights(schema=place.schema)
    return [
        *travel(place, encrypted=bool(facts[0][0])),
        *rights(place, facts[0]),
        *others(place, [row[0] for row in public]),
    ]


def travel(place: Place, *, encrypted: bool) -> Iterator[Finding]:
    """`encrypted` is as the server sees it; behind a pooler that tells of the pooler's own way, and is not believed."""
    if not any(is_elsewhere(host) for host in place.hosts):
        yield Finding("way to the server", "ok", "does not leave this machine")
    elif not encrypted and (not place.pooled or place.sslmode in ("disable", "allow", "prefer")):
        yield Finding(
            "way to the server", "problem", f"jobs and the password travel to {place.hosts[0]} unencrypted, or may",
            "add sslmode=verify-full&sslrootcert=system to the URL",
        )  # fmt: skip
    elif place.sslmode not in ("verify-ca", "verify-full"):
        yield Finding(
            "way to the server", "warning", f"sslmode is {place.sslmode}: encrypted, but nobody checks that it is "
            f"{place.hosts[0]} who answers", "add sslmode=verify-full&sslrootcert=system to the URL",
        )  # fmt: skip
    else:
        yield Finding("way to the server", "ok", f"encrypted, and the server's certificate is checked ({place.sslmode})")


def is_elsewhere(host: str) -> bool:
    """Nothing, a directory and an abstract name are sockets of this machine."""
    return bool(host) and not host.startswith(("/", "@")) and not is_loopback(host)


def rights(place: Place, facts: Row) -> Iterator[Finding]:
    _, superuser, creates, owns, rewrites = facts
    if superuser:
        yield Finding("role", "warning", f"{place.user} is a superuser: whoever has this URL has the whole server", ROLES)
    elif owns or creates:
        yield Finding(
            "role", "warning", f"{place.user} {'owns the schema' if owns else 'may make roles'}: a worker and a web server "
            "need less, and whoever takes one over could change tables, triggers and the audit log", ROLES,
        )  # fmt: skip
    elif rewrites:
        yield Finding(
            "role", "warning", f"{place.user} may change lines of the audit log",
            psql(place, f"revoke update, delete, truncate on windlass.audit from {place.user}"),
        )  # fmt: skip
    else:
        yield Finding("role", "ok", f"{place.user} has no more than a part: it cannot change tables or the audit log")


def others(place: Place, tables: Sequence[str]) -> Iterator[Finding]:
    if tables:
        names = ", ".join(tables[:5]) + (" …" if len(tables) > 5 else "")
        statement = f'revoke all on all tables in schema "{place.schema}" from public'
        yield Finding(
            "other roles", "problem", f"every role of the server may use {names}",
            f"psql {place.url} -c {shlex.quote(statement)}",
        )  # fmt: skip
    else:
        yield Finding("other roles", "ok", "nothing is granted to everybody")
