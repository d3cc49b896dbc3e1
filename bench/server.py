"""A private PostgreSQL for the benchmark: durable, on loopback, gone with whoever started it.

Debian's PostgreSQL 15 where it is installed, else the 16 that comes with the development dependencies. Started by run.py
for all samples, or by a script that is run alone; each sample has a database of its own in it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from cost import Cost

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # they are no installed package

from postgres.binaries import NoPostgres, binaries
from postgres.server import Server, unique_name

VERSIONS: Final = ("15", "16")  # the first that is there
SETTINGS: Final[Mapping[str, object]] = {
    "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "shared_buffers": "1GB", "max_connections": 200,
}  # fmt: skip
COUNTING: Final = "pg_stat_statements"


@contextmanager
def private_server(parent: str | None = None) -> Iterator[str]:
    """Its URL. The cluster lies below `parent`, by default in the system's temporary directory."""
    before, tempfile.tempdir = tempfile.tempdir, parent or tempfile.tempdir
    version = available()
    counts = counts_statements(version)
    try:
        more = {"shared_preload_libraries": COUNTING} if counts else {}
        server = Server(version, durable=True, options={**SETTINGS, **more})
    finally:
        tempfile.tempdir = before
    with server:
        for database in ("postgres", "template1") if counts else ():  # and so in every database that is made from it
            with psycopg.connect(server.dsn(database), autocommit=True) as connection:
                connection.execute(f"create extension {COUNTING}".encode())
        yield server.dsn()


def counts_statements(version: str) -> bool:
    """Whether that installation has the library that counts them."""
    return (binaries(version).parent / "lib" / f"{COUNTING}.so").exists()


def available() -> str:
    for version in VERSIONS:
        try:
            binaries(version)
        except NoPostgres:
            continue
        return version
    raise SystemExit(f"none of the PostgreSQL versions {', '.join(VERSIONS)} is installed")


@contextmanager
def fresh_database(server: str | None, parent: str | None = None) -> Iterator[str]:
    """The URL of an empty database of that server (or of one that is started for it), dropped at the end."""
    if server is None:
        with private_server(parent) as started, fresh_database(started) as url:
            yield url
        return
    name = unique_name("bench")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    try:
        yield f"{server.rsplit('/', 1)[0]}/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


def cost_of(connection: psycopg.Connection[tuple[int]]) -> Cost:
    def number(query: str) -> int:
        [row] = connection.execute(query.encode()).fetchall()
        return row[0]

    return Cost(number)
