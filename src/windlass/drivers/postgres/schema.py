"""The schema: made when there is none, brought up to date when asked to, refused when it is not what this version knows.

A step is one transaction under a lock that other migrators wait for, so two at once are safe, and one that is killed
leaves nothing behind. A step that says `-- concurrently` builds indexes without stopping writers: its statements commit
one by one, each written so that it may be repeated.
"""

from __future__ import annotations

import secrets
from typing import Final, Literal

import psycopg

from windlass.drivers.migrations import Migration, known, missing
from windlass.drivers.postgres.faults import Taken, translate
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement
from windlass.errors import SchemaTooOld, StoreReadOnly, StoreUnavailable

Migrate = Literal["empty", "auto", "never"]

OLDEST: Final = 150_000
LOCK: Final = "windlass migrations of {}"
LOCK_TIMEOUT: Final = "5s"  # a step that cannot get its lock fails, rather than making every worker queue behind it
CONCURRENTLY: Final = "-- concurrently\n"
BOOTSTRAP: Final = """create table if not exists windlass.migrations (
  version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null);
create table if not exists windlass.meta (key text primary key, value text not null);
insert into windlass.meta values ('store_id', '{store_id}') on conflict do nothing;
"""


def steps() -> list[Migration]:
    return known("windlass.drivers.postgres.migrations")


def prepare(link: Link, place: Place, mode: Migrate) -> list[str]:
    """See that the schema is what this version needs; answers the steps that were applied."""
    try:
        _check_server(link, place)
        applied = applied_steps(link)
        left = missing(steps(), applied, str(place))
        if not left:
            return []
        if mode == "never" or (applied and mode == "empty"):
            raise SchemaTooOld(str(place), max(applied, default=0), len(steps()))
        [(standby,)] = link.execute(Statement("select pg_is_in_recovery()", ()))
        if standby:
            raise StoreReadOnly(str(place))
        return [done for step in left if (done := apply(link, place, step)) is not None]
    except (psycopg.Error, Taken) as error:
        raise translate(error, str(place)) from error


def _check_server(link: Link, place: Place) -> None:
    version = link.open().info.server_version
    if version < OLDEST:
        raise StoreUnavailable(f"{place}: PostgreSQL {version // 10_000} is too old; 15 or newer is needed")


def applied_steps(link: Link) -> dict[int, str]:
    [(there,)] = link.execute(Statement("select to_regclass('windlass.migrations') is not null", ()))
    if not there:
        return {}
    return {row[0]: row[1] for row in link.execute(Statement("select version, checksum from windlass.migrations", ()))}


def apply(link: Link, place: Place, step: Migration) -> str | None:
    """None when somebody else has done it meanwhile."""
    concurrent = step.text.startswith(CONCURRENTLY)
    if concurrent and place.pooled:
        raise StoreUnavailable(f"{place}: {step.version:04d}_{step.name} cannot run through a pooler; migrate directly")
    link.execute(Statement("begin", ()))
    try:
        _run(link, place, f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        link.execute(Statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", (LOCK.format(place.schema),)))
        [(there,)] = link.execute(Statement("select to_regnamespace($1) is not null", (place.schema,)))
        if not there:  # asking with `if not exists` would need the right to make one even then
            _run(link, place, f"create schema {place.schema}")
        _run(link, place, BOOTSTRAP.format(store_id=secrets.token_hex(16)))
        if step.version in applied_steps(link):
            link.execute(Statement("rollback", ()))
            return None
        if not concurrent:
            _run(link, place, step.text)
            _record(link, step)
        link.execute(Statement("commit", ()))
    except BaseException:
        link.close()  # whatever was half done is undone by the server
        raise
    if concurrent:
        _apply_concurrently(link, place, step)
    return f"{step.version:04d}_{step.name}"


def _apply_concurrently(link: Link, place: Place, step: Migration) -> None:
    """Outside of a transaction, under a lock of the session."""
    lock = LOCK.format(place.schema)
    link.execute(Statement("select pg_advisory_lock(hashtextextended($1, 0))", (lock,)))
    try:
        if step.version not in applied_steps(link):
            _run(link, place, "set statement_timeout = 0")
            for statement in step.text.removeprefix(CONCURRENTLY).split(";\n"):
                if statement.strip():
                    _run(link, place, statement)
            _record(link, step)
    finally:
        link.close()  # which gives the lock back, and the settings


def _record(link: Link, step: Migration) -> None:
    link.execute(
        Statement(
            "insert into windlass.migrations values ($1, $2, $3, clock_timestamp())",
            (step.version, step.name, step.checksum),
        )
    )


def _run(link: Link, place: Place, text: str) -> list[Row]:
    """A text of any number of statements, without parameters."""
    link.open().execute(place.text(text).encode(), prepare=False)
    return []


def script(place: Place, left: list[Migration]) -> str:
    """The same as text, for a person to look at or to run with psql."""
    parts = [
        f"create schema if not exists {place.schema};\n" + place.text(BOOTSTRAP.format(store_id=secrets.token_hex(16)))
    ]
    for step in left:
        values = f"({step.version}, '{step.name}', '{step.checksum}', clock_timestamp())"
        record = f"insert into windlass.migrations values {values};"  # noqa: S608 - of our own files
        parts.append(f"-- {step.version:04d}_{step.name}\n{place.text(step.text)}\n{place.text(record)}\n")
    return "begin;\n" + "\n".join(parts) + "commit;\n"


def status(place: Place) -> list[tuple[Migration, bool]]:
    """Each known step, and whether it was applied. Changes nothing."""
    link = Link(place)
    try:
        applied = applied_steps(link)
    except psycopg.Error as error:
        raise translate(error, str(place)) from error
    finally:
        link.close()
    missing(steps(), applied, str(place))
    return [(step, step.version in applied) for step in steps()]
