"""A SQLite file as one end of a copy: triggers that refuse, one for each table and kind of write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from windlass.core.copying import GUARDED, Row, Table
from windlass.drivers.ops.copying import COUNTED, KEY, Guard, Hand
from windlass.drivers.statement import Op, Statement

WRITES: Final = ("insert", "update", "delete")
UNLESS: Final = f"not exists (select 1 from meta where key = '{KEY}')"  # noqa: S608 - a name of ours


class SqliteHand(Hand):
    mark = "?"
    schema = ""

    def shown(self, name: str, kind: str) -> str:
        return name

    def given(self, kind: str, parameter: str) -> str:
        return parameter

    def put(self, table: Table, rows: Sequence[Row]) -> Op[None]:
        places = ", ".join(f"?{n}" for n in range(1, len(table.names) + 1))
        sql = f"insert into {table.name} ({', '.join(table.names)}) values ({places}) on conflict do nothing"  # noqa: S608
        yield Statement(sql, rows, many=True)

    def hold_marks(self) -> Op[None]:
        yield from ()

    def hold_all(self) -> Op[None]:
        """There is one writer at a time, and this is it."""
        yield from ()

    def guard(self, kind: Guard, saying: str) -> Iterator[str]:
        said = saying.replace("'", "''")
        if kind == "claims":
            yield (
                "create trigger copy_guard_claims before update of state on jobs "
                f"when new.state = 'running' and old.state <> 'running' begin select raise(abort, '{said}'); end"
            )
            return
        for table in GUARDED:
            for write in WRITES:
                yield (
                    f"create trigger copy_guard_{table}_{write} before {write} on {table} when {UNLESS} "
                    f"begin select raise(abort, '{said}'); end"
                )

    def unguard(self) -> Iterator[str]:
        yield "drop trigger if exists copy_guard_claims"
        for table in GUARDED:
            for write in WRITES:
                yield f"drop trigger if exists copy_guard_{table}_{write}"

    def empty(self) -> Op[None]:
        """Delete all rows. The triggers that prevent deletion are dropped meanwhile; others see neither."""
        triggers = yield Statement(
            "select '\"' || replace(name, '\"', '\"\"') || '\"', sql from sqlite_master "
            "where type = 'trigger' and name not like 'copy@_guard@_%' escape '@'",
            (),
        )
        for name, _ in triggers:  # those of an application, too
            yield Statement(f"drop trigger {name}", ())
        for table in reversed(GUARDED):
            yield Statement(f"delete from {table}", ())  # noqa: S608 - a name of ours
        for counted in COUNTED:
            yield Statement("delete from sqlite_sequence where name = ?1", (counted.name,))
        for _, sql in triggers:
            yield Statement(sql, ())

    def last_number(self, table: Table) -> Op[int]:
        rows = yield Statement("select seq from sqlite_sequence where name = ?1", (table.name,))
        return int(rows[0][0]) if rows else 0

    def go_on_after(self, table: Table, number: int) -> Op[None]:
        here = yield from self.last_number(table)
        yield Statement("delete from sqlite_sequence where name = ?1", (table.name,))
        yield Statement("insert into sqlite_sequence (name, seq) values (?1, ?2)", (table.name, max(here, number)))


HAND: Final = SqliteHand()
