"""Text in the file that is none. SQLite keeps any bytes as text when SQL says so (`cast(x'ff' as text)`); who reads them
learns neither the row nor, with one of the libraries, the column. So it is said which table was read and how to look."""

from __future__ import annotations

import re
import shlex
import sqlite3
from typing import Final

from windlass.errors import StoreCorrupt

SHOWN: Final = 60  # bytes by which such a text is known
_TABLE: Final = re.compile(r"\b(?:from|update|into|join)\s+([a-z_]+)", re.IGNORECASE)
_SAID: Final = re.compile(r"Could not decode to UTF-8 column '(?:(\w+)')?")  # by the standard library; or an expression
TEXTS_OF: Final = "select name from pragma_table_info(?) where type = 'TEXT' order by cid"


class NotText(UnicodeError):
    """A statement met it: in one of these columns of these tables, these bytes if they are known."""

    def __init__(self, columns: dict[str, list[str]], found: bytes | None) -> None:
        self.columns, self.found = columns, found
        super().__init__("text that is not UTF-8")


def is_no_text(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or (
        isinstance(error, sqlite3.OperationalError) and _SAID.match(str(error)) is not None
    )


def tables_in(sql: str) -> list[str]:
    """Every name that may be one, each once."""
    return list(dict.fromkeys(name.lower() for name in _TABLE.findall(sql)))


def column_in(error: Exception) -> str | None:
    found = _SAID.match(str(error))
    return None if found is None else found[1]


def unreadable(error: NotText, path: str) -> StoreCorrupt:
    tables = {table: columns for table, columns in error.columns.items() if columns}
    where = " or ".join(tables) or "the file"
    one = next(iter(tables.values()), [])
    if len(tables) == 1 and len(one) == 1:
        where += f", column {one[0]},"
    found = "" if error.found is None else f" ({error.found[:SHOWN]!r})"
    looks = [_look(table, columns, error.found) for table, columns in tables.items()]
    typed = " and ".join(f"sqlite3 {shlex.quote(path)} {shlex.quote(look)}" for look in looks)
    way_out = f"find it with: {typed}; then correct or delete the row" if typed else "correct or delete what SQL wrote"
    return StoreCorrupt(path, f"a row of {where} holds text that is not UTF-8{found}", way_out)


def _look(table: str, columns: list[str], found: bytes | None) -> str:
    """The statement that a person can type to find the row. It has only names of our own tables and columns, and
    hexadecimal digits."""
    if found is None:
        return f"select {', '.join(f'hex({column})' for column in columns)}, * from {table}"  # noqa: S608
    texts = ", ".join(f"substr(cast({column} as blob), 1, {SHOWN})" for column in columns)
    return f"select * from {table} where x'{found[:SHOWN].hex()}' in ({texts})"  # noqa: S608
