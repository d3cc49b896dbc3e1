"""Opening the file: pragmas, schema, and the clock that all processes of the machine share."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.clock import SECOND, AnchoredClock, since_boot, wall
from windlass.drivers.migrations import Migration, Status, known, missing
from windlass.drivers.sqlite.files import prepare
from windlass.drivers.sqlite.library import BUSY, ERRORS, Connection, Library, connect, translate
from windlass.drivers.sqlite.looking import look
from windlass.drivers.sqlite.space import WAL_KEPT, make_shrinkable
from windlass.drivers.sqlite.splitting import statements
from windlass.types import Micros

log: Final = logging.getLogger("windlass.sqlite")
LARGEST_LAG: Final[Micros] = SECOND
REFRESHED: Final[Micros] = 60 * SECOND  # the same line told from a younger moment: what a reboot may go back to
PAUSE: Final = 0.005
UNSEEN: Final = (
    "steps that are in {0}-wal alone are not seen here, since only opening the file reads that log, and puts it into the "
    "file: windlass migrate does, and so does sqlite3 {0} 'pragma wal_checkpoint(truncate)'"
)
BUSY_S: Final = 5.0  # how long a migration waits for the locks of others

_BOOTSTRAP: Final = """
create table if not exists migrations (version integer primary key, name text not null, checksum text not null,
                                       applied_at integer not null) strict;
create table if not exists meta (key text primary key, value text not null) strict, without rowid;
"""


_NOW: Final = "cast((julianday('now') - 2440587.5) * 86400000000 as integer)"
_NAMED: Final = "insert into meta values ('store_id', lower(hex(randomblob(16)))) on conflict do nothing;"


class Anchor(Struct, frozen=True):
    """A moment, told by two clocks: UTC, and the time since this boot of this machine."""

    boot_id: str
    boot: Micros
    utc: Micros


def open_connection(library: Library, path: str, *, busy_s: float, durable: bool) -> Connection:
    try:
        connection = connect(library, path, int(busy_s * 1000))
        try:
            _configure(connection, durable=durable, busy_s=busy_s)
        except BaseException:
            connection.close()
            raise
    except ERRORS as error:
        raise translate(error, path, busy_s) from error
    return connection


def _configure(connection: Connection, *, durable: bool, busy_s: float) -> None:
    make_shrinkable(connection)  # before anything is written
    [(mode,)] = connection.execute("pragma journal_mode")
    if mode != "wal":
        _switch_to_wal(connection, busy_s)
    connection.execute(f"pragma journal_size_limit = {WAL_KEPT}")
    connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma cache_size = -65536")
    connection.execute("pragma temp_store = memory")


def _switch_to_wal(connection: Connection, busy_s: float) -> None:
    """Switching needs the file alone, and SQLite answers busy at once when two openers try it together."""
    for _ in range(int(busy_s / PAUSE)):
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except BUSY:
            time.sleep(PAUSE)
    connection.execute("pragma journal_mode = wal")


def migrate(connection: Connection, path: str, busy_s: float) -> list[str]:
    """Bring the schema up to date under the write lock; two openers at once are fine. Answers the steps applied."""
    try:
        if _is_current(connection, path):
            return []
        connection.execute("begin immediate")
        try:
            applied = _migrate(connection, path)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction():
                connection.execute("rollback")
            raise
    except ERRORS as error:
        raise translate(error, path, busy_s) from error
    return applied


def bring_up_to_date(path: str, library: Library) -> list[str]:
    """Apply the missing migrations, and answer them. A missing file is created, as every other way to open one does it:
    readable by its owner only, on a local disk."""
    path = os.path.realpath(path)
    prepare(path)
    connection = open_connection(library, path, busy_s=BUSY_S, durable=True)
    try:
        return migrate(connection, path, BUSY_S)
    finally:
        connection.close()


def migration_status(path: str, library: Library) -> Status:
    """By the file's real path. A file that is not there is not made, and one that is there stays as it is."""
    path, steps = os.path.realpath(path), known("windlass.drivers.sqlite.migrations")
    found = look(path, library) if os.path.exists(path) else None
    left = missing(steps, (found.applied if found is not None else None) or {}, path)
    unsure = UNSEEN.format(path) if left and found is not None and not found.whole else ""
    return Status(path, tuple((step, step not in left) for step in steps), script(left), unsure)


def script(left: list[Migration]) -> str:
    """The missing migrations as a script for the sqlite3 shell."""
    if not left:
        return ""
    parts = [
        f"-- {', '.join(step.label for step in left)}. Run it with: sqlite3 -bail FILE < SCRIPT\n"
        "pragma auto_vacuum = incremental;\nbegin immediate;",
        _BOOTSTRAP,
    ]
    for step in left:
        values = f"({step.version}, '{step.name}', '{step.checksum}', {_NOW})"
        parts.append(f"{step.text}\ninsert into migrations values {values};\n")
    return "\n".join([*parts, f"{_NAMED}\ncommit;\n"])


def _is_current(connection: Connection, path: str) -> bool:
    return not missing(known("windlass.drivers.sqlite.migrations"), _applied(connection), path)


def _applied(connection: Connection) -> dict[int, str]:
    if not connection.execute("select 1 from sqlite_master where name = 'migrations'"):
        return {}
    return {row[0]: row[1] for row in connection.execute("select version, checksum from migrations")}


def _migrate(connection: Connection, path: str) -> list[str]:
    for statement in statements(_BOOTSTRAP):
        connection.execute(statement)
    steps = missing(known("windlass.drivers.sqlite.migrations"), _applied(connection), path)
    for step in steps:
        for statement in statements(step.text):
            connection.execute(statement)
        connection.execute("insert into migrations values (?, ?, ?, ?)", (step.version, step.name, step.checksum, wall()))
    connection.execute(_NAMED)
    return [step.label for step in steps]


# -------------------------------------------------------------------------------------------------------------- clock


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux: the moment of boot, to the minute, tells one boot from another well enough
        return f"boot-{(wall() - since_boot()) // (60 * SECOND)}"


def next_anchor(stored: Anchor | None, boot: str, since: Micros, utc: Micros) -> Anchor:
    """The anchor to use from now on. Time only ever moves forward: a wall clock set back changes nothing."""
    if stored is None:
        return Anchor(boot, since, utc)
    if stored.boot_id != boot:
        return Anchor(boot, since, max(utc, stored.utc))
    told = stored.utc + since - stored.boot
    if utc - told > LARGEST_LAG:
        return Anchor(boot, since, utc)
    return Anchor(boot, since, told) if since - stored.boot > REFRESHED else stored


def read_anchor(connection: Connection, path: str, busy_s: float) -> Anchor:
    """Read the machine's anchor, and move it forward under the write lock where it must be."""
    try:
        stored = _stored_anchor(connection)
        if stored is not None and next_anchor(stored, boot_id(), since_boot(), wall()) == stored:
            return stored
        connection.execute("begin immediate")
        stored = _stored_anchor(connection)
        anchor = next_anchor(stored, boot_id(), since_boot(), wall())
        text = msgspec.json.encode(anchor).decode()
        connection.execute("insert into meta values ('clock', ?) on conflict do update set value = excluded.value", (text,))
        connection.execute("commit")
    except ERRORS as error:
        if connection.in_transaction():
            connection.execute("rollback")
        raise translate(error, path, busy_s) from error
    return anchor


def _stored_anchor(connection: Connection) -> Anchor | None:
    rows = connection.execute("select value from meta where key = 'clock'")
    return msgspec.json.decode(rows[0][0], type=Anchor) if rows else None


def clock_at(anchor: Anchor) -> AnchoredClock:
    return AnchoredClock(anchor.utc, anchor.boot)
