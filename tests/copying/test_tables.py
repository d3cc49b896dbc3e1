"""No table and no column is forgotten: a new one is copied, or somebody says why it is not."""

from __future__ import annotations

import apsw
import psycopg

from windlass.core.copying import DERIVED, GUARDED, LEFT, TABLES, Table

from .ends import Places, filled

COPIED = {table.name: table for table in TABLES}
KINDS = {  # what PostgreSQL stores a kind of value as
    "bigint": "int", "integer": "int", "timestamp with time zone": "instant", "boolean": "flag", "text": "text",
    "jsonb": "json", "double precision": "real", "bytea": "blob",
}  # fmt: skip
STORED = {"int": "INTEGER", "instant": "INTEGER", "flag": "INTEGER", "text": "TEXT", "json": "TEXT", "real": "REAL",
          "blob": "BLOB"}  # fmt: skip


def expected(table: Table, words: dict[str, str] | None) -> dict[str, str]:
    return {name: kind if words is None else words[kind] for name, kind in table.columns}


def test_every_table_of_a_file_is_copied_or_left_for_a_reason(places: Places) -> None:
    place = places.new("sqlite")
    with place.end():
        connection = apsw.Connection(place.path)
        names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        assert names - {"sqlite_sequence"} == COPIED.keys() | (LEFT.keys() - {"barrier"})
        for name, table in COPIED.items():
            found = {row[1]: row[2] for row in connection.execute(f"pragma table_info({name})")}
            assert found == expected(table, STORED), name
        connection.close()


def test_every_table_of_a_schema_is_copied_or_left_for_a_reason(places: Places) -> None:
    place = places.new("postgres")
    with psycopg.connect(place.url) as connection:
        rows = connection.execute(
            "select c.relname from pg_class c join pg_namespace n on n.oid = relnamespace "
            "where nspname = %s and relkind in ('r', 'p') and not relispartition", [place.options["schema"]],
        ).fetchall()  # fmt: skip
        assert {name for (name,) in rows} == COPIED.keys() | LEFT.keys()
        for name, table in COPIED.items():
            columns = connection.execute(
                "select column_name, data_type from information_schema.columns where table_schema = %s and table_name = %s",
                [place.options["schema"], name],
            ).fetchall()
            found = {column: KINDS[kind] for column, kind in columns if (name, column) not in DERIVED}
            assert found == expected(table, None), name


def test_every_table_that_a_program_writes_is_guarded() -> None:
    """`meta` holds the mark itself, `migrations` what made the schema, `barrier` nothing."""
    assert set(GUARDED) == (COPIED.keys() | LEFT.keys()) - {"meta", "migrations", "barrier"}


def test_of_what_a_store_knows_of_itself_each_is_copied_or_its_own(places: Places) -> None:
    """Its name and its clock are its own; the rest of `meta` is about what it holds."""
    place = places.new("sqlite")
    filled(place)
    with place.end():
        connection = apsw.Connection(place.path)
        keys = {key for (key,) in connection.execute("select key from meta")}
        connection.close()
    assert keys - {"store_id", "clock"} == set(COPIED["meta"].only)
