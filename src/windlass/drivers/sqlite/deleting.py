"""Deleting ended jobs, and emptied groups, where an application's rows may refer to them.

A foreign key that is deferred is looked at by the commit, where nobody knows any more which row it was, and where it would
keep everything else that is committed with it. SQLite cannot be told to look at once, nor does it tell which keys are
deferred, so every one that could be is looked at before: those to jobs, and those to rows that go with them. Django makes
all of its foreign keys so.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

from windlass.drivers.ops.deleting import Gone, Link, Refusal, delete_chains, delete_emptied
from windlass.drivers.rows import to_json
from windlass.drivers.sqlite.library import CONSTRAINT
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row, Statement

FAILED: Final = "constraint failed"  # what both libraries say of any kind; a trigger that refuses says words of its own
THESE: Final = {
    "jobs": "{0}.seq in (select value from json_each(?1))",
    "groups": "{0}.group_id in (select value from json_each(?1)) "
    "and not exists (select 1 from jobs where jobs.group_id = {0}.group_id)",
}
FARTHEST: Final = 4  # keys that are followed from table to table; there may be many ways, and SQLite joins no more than 64
REFERRED: Final = "select 1 from {} t0{} where {}{} limit 1"
GOES: Final = "exists (select 1 from {} {} where {} and {})"


class Key(NamedTuple):
    """A foreign key of a table."""

    table: str
    parent: str
    cascades: bool
    late: bool  # it may refuse as late as the commit
    columns: tuple[tuple[str, str], ...]  # its own, and whose value they have

    def equal(self, parent: str, own: str) -> str:
        return " and ".join(f"{parent}.{_quoted(to)} = {own}.{_quoted(column)}" for column, to in self.columns)


def delete_unreferred(links: Sequence[Link]) -> Op[Gone]:
    looks = yield from _looks("jobs")

    def delete(seqs: Sequence[int]) -> Op[list[Row]]:
        these = to_json(list(seqs))
        yield from _ask(looks, these)
        return (yield SQL.delete_jobs(seqs=these))

    return (yield from delete_chains(links, delete, _refusal))


def delete_unreferred_groups(groups: Sequence[str]) -> Op[str]:
    looks = yield from _looks("groups")

    def delete(some: Sequence[str]) -> Op[list[Row]]:
        these = to_json(list(some))
        yield from _ask(looks, these)
        return (yield SQL.delete_groups(groups=these))

    return (yield from delete_emptied(groups, delete, _refusal))


def _ask(looks: Sequence[str], these: str) -> Op[None]:
    for look in looks:
        if (yield Statement(look, (these,))):
            raise sqlite3.IntegrityError(f"FOREIGN KEY {FAILED}")


def _looks(root: str) -> Op[list[str]]:
    """For each foreign key that may refuse as late as that: is one of these referred to, or a row that would go along?"""
    rows = yield SQL.foreign_keys()
    keys: defaultdict[str, list[Key]] = defaultdict(list)  # by whom they refer to
    for (table, _, parent, cascades, late), columns in groupby(rows, key=lambda row: row[:5]):
        pairs = tuple((own, to) for *_, own, to in columns)
        if all(to is not None for _, to in pairs):  # else there is no such table, and SQLite takes no row for it
            keys[_folded(parent)].append(Key(table, _folded(parent), bool(cascades), bool(late), pairs))
    going = [key for keys_of in keys.values() for key in keys_of if key.cascades]
    looks: list[str] = []
    ways: list[tuple[Key, ...]] = [()]
    for way in ways:
        for key in keys[_folded(way[-1].table) if way else root]:
            if key.late:
                looks.append(_look(root, (*way, key), going))
            elif key.cascades and key not in way and len(way) < FARTHEST:
                ways.append((*way, key))
    return looks


def _look(root: str, way: tuple[Key, ...], going: Sequence[Key]) -> str:
    """Are there rows at the end of this way that would not go themselves?"""
    joins = [f" join {_quoted(key.table)} t{n} on {key.equal(f't{n - 1}', f't{n}')}" for n, key in enumerate(way, 1)]
    goes = _goes(root, way[-1].table, f"t{len(way)}", going)
    stays = f" and not ({goes})" if goes else ""
    return REFERRED.format(root, "".join(joins), THESE[root].format("t0"), stays)


def _goes(root: str, table: str, name: str, going: Sequence[Key]) -> str:
    """The condition that a row of this table is one of these, or goes along; empty if none does."""
    if _folded(table) == root:
        return THESE[root].format(name)
    if name.count("_") == FARTHEST:
        return ""
    ways: list[str] = []
    for key in going:
        if _folded(key.table) == _folded(table):
            parent = f"{name}_{len(ways)}"
            goes = _goes(root, key.parent, parent, [other for other in going if other is not key])
            if goes:
                ways.append(GOES.format(_quoted(key.parent), parent, key.equal(parent, name), goes))
    return f"({' or '.join(ways)})" if ways else ""


def _folded(table: str) -> str:
    return table.lower()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refusal(error: Exception) -> Refusal | None:
    """A key that sets its rows to null breaks another rule of theirs, where they must not be null."""
    words = str(error)
    return Refusal(words) if isinstance(error, CONSTRAINT) and FAILED in words else None
