"""A PostgreSQL schema as one end of a copy: one trigger for each table, which a statement meets before it does anything.

Making a trigger waits for all who write to the table, and keeps others waiting until the commit: they meet it then, also
with statements that were prepared before. So nobody's write lies on both sides of the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from windlass.core.copying import GUARDED, MOVED, SAYS, Row, Table
from windlass.drivers.ops.copying import COUNTED, KEY, Guard, Hand
from windlass.drivers.postgres.arrays import Array, Blobs, Floats, Ints, Texts
from windlass.drivers.postgres.faults import MOVED_STATE, MOVING_STATE
from windlass.drivers.statement import Op, Statement

FOR_A_TABLE: Final = "5s"  # others wait behind us meanwhile; a vacuum gives way after one
_ARRAYS: Final[dict[str, tuple[Callable[[Iterable[Any]], Array], str]]] = {
    "int": (Ints, "bigint"), "instant": (Ints, "bigint"), "flag": (Ints, "bigint"), "text": (Texts, "text"),
    "json": (Texts, "text"), "real": (Floats, "double precision"), "blob": (Blobs, "bytea"),
}  # fmt: skip
_SHOWN: Final = {"instant": "windlass.micros({})", "flag": "{}::integer", "json": "{}::text"}
_GIVEN: Final = {"instant": "windlass.at({})", "flag": "({} <> 0)", "json": "{}::jsonb"}
# Beside the columns that every store has: the name of one, and where its value comes from.
_DERIVED: Final = {
    "deliveries": (
        "event_at",
        "coalesce((select created_at from windlass.outbox where outbox.event_id = given.event_id), "
        "windlass.at(coalesce(given.finished_at, given.next_attempt_at, 0)))",
    )
}
FUNCTION: Final = f"""create or replace function windlass.copy_guard() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_level = 'STATEMENT' and exists (select from windlass.meta where key = '{KEY}') then return null; end if;
  raise exception '%', coalesce((select value from windlass.meta where key = '{SAYS}'), '{MOVED}…')
    using errcode = tg_argv[0];
end $$"""  # noqa: S608 - a name of ours

_OURS: Final = ", ".join(f"'windlass.{table}'::regclass" for table in GUARDED)
REFERRED: Final = f"""select exists (
  select from pg_catalog.pg_constraint join pg_catalog.pg_class as theirs on theirs.oid = conrelid
   where contype = 'f' and confrelid in ({_OURS}) and conrelid not in ({_OURS}) and not relispartition)"""  # noqa: S608 - names of ours


class PostgresHand(Hand):
    mark = "$"
    schema = "windlass."

    def shown(self, name: str, kind: str) -> str:
        return _SHOWN.get(kind, "{}").format(name)

    def given(self, kind: str, parameter: str) -> str:
        return _GIVEN.get(kind, "{}").format(parameter)

    def put(self, table: Table, rows: Sequence[Row]) -> Op[None]:
        arrays = [_ARRAYS[kind] for kind in table.kinds]
        columns, values = list(table.names), [self.given(kind, f"given.{name}") for name, kind in table.columns]
        if table.name in _DERIVED:
            name, value = _DERIVED[table.name]
            columns.append(name)
            values.append(value)
        places = ", ".join(f"${n}::{kind}[]" for n, (_, kind) in enumerate(arrays, 1))
        names = ", ".join(table.names)
        sql = (
            f"insert into windlass.{table.name} ({', '.join(columns)}) overriding system value "  # noqa: S608 - names of ours
            f"select {', '.join(values)} from unnest({places}) as given ({names}) on conflict do nothing"
        )
        params = [make(column) for (make, _), column in zip(arrays, zip(*rows, strict=True), strict=True)]
        yield Statement(sql, params)

    def hold_marks(self) -> Op[None]:
        yield Statement("lock table windlass.meta in share row exclusive mode", ())

    def hold_all(self) -> Op[None]:
        yield Statement(f"set local lock_timeout = '{FOR_A_TABLE}'", ())
        names = ", ".join(f"windlass.{table}" for table in ("meta", *GUARDED))
        yield Statement(f"lock table {names} in share row exclusive mode", ())

    def guard(self, kind: Guard, saying: str) -> Iterator[str]:
        yield FUNCTION
        if kind == "claims":
            yield (
                "create trigger copy_guard before update of state on windlass.jobs for each row "
                "when (new.state = 'running' and old.state <> 'running') "
                f"execute function windlass.copy_guard('{MOVING_STATE}')"
            )
            return
        state = MOVED_STATE if saying.startswith(MOVED) else MOVING_STATE
        for table in GUARDED:
            yield (
                f"create trigger copy_guard before insert or update or delete or truncate on windlass.{table} "
                f"for each statement execute function windlass.copy_guard('{state}')"
            )

    def unguard(self) -> Iterator[str]:
        for table in GUARDED:
            yield f"drop trigger if exists copy_guard on windlass.{table}"
        yield "drop function if exists windlass.copy_guard()"

    def empty(self) -> Op[None]:
        """At once; but row by row where tables of an application have foreign keys to ours, which PostgreSQL takes for a
        reason not to truncate, whether they hold rows or not. The triggers that prevent deletion rest meanwhile."""
        [(referred,)] = yield Statement(REFERRED, ())
        if not referred:
            yield Statement(f"truncate {', '.join(f'windlass.{table}' for table in GUARDED)} restart identity", ())
            return
        # What is still to be looked at keeps a table from being altered.
        yield Statement("set constraints all immediate", ())
        for table in reversed(GUARDED):
            yield Statement(f"alter table windlass.{table} disable trigger user", ())
            yield Statement(f"delete from windlass.{table}", ())  # noqa: S608 - a name of ours
        for table in GUARDED:
            yield Statement(f"alter table windlass.{table} enable trigger user", ())
        for counted in COUNTED:
            yield Statement(f"alter sequence {_sequence(counted)} restart", ())

    def last_number(self, table: Table) -> Op[int]:
        [(last, used)] = yield Statement(f"select last_value, is_called from {_sequence(table)}", ())  # noqa: S608
        return int(last) if used else 0

    def go_on_after(self, table: Table, number: int) -> Op[None]:
        here = yield from self.last_number(table)
        yield Statement(f"select setval('{_sequence(table)}', $1)", (max(here, number),))


def _sequence(table: Table) -> str:
    name = "jobs_seq" if table.name == "jobs" else f"{table.name}_{table.key[0]}_seq"
    return f"windlass.{name}"


HAND: Final = PostgresHand()
