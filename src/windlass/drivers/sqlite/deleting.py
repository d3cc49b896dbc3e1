"""Deleting ended jobs where an application's rows may refer to them.

A foreign key that is deferred is looked at by the commit, where nobody knows any more which row it was, and where it would
keep everything else that is committed with it. SQLite cannot be told to look at once, nor does it tell which keys are
deferred, so every one that could be is looked at before. Django makes all of its foreign keys so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from windlass.drivers.ops.deleting import Gone, Link, Refusal, delete_chains
from windlass.drivers.rows import to_json
from windlass.drivers.sqlite.library import CONSTRAINT
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row, Statement

FAILED: Final = "constraint failed"  # what both libraries say of any kind; a trigger that refuses says words of its own
REFERRED: Final = "select 1 from jobs where seq in (select value from json_each(?1)) and exists (select 1 from {} where {})"


def delete_unreferred(links: Sequence[Link]) -> Op[Gone]:
    looks = yield from _looks()

    def delete(seqs: Sequence[int]) -> Op[list[Row]]:
        these = to_json(list(seqs))
        for look in looks:
            if (yield Statement(f"{look} limit 1", (these,))):
                raise sqlite3.IntegrityError(f"FOREIGN KEY {FAILED}")
        return (yield SQL.delete_jobs(seqs=these))

    return (yield from delete_chains(links, delete, _refusal))


def _looks() -> Op[list[str]]:
    """For each foreign key to jobs that may refuse as late as that: is a job referred to?"""
    columns = yield SQL.referring()
    looks: list[str] = []
    for (table, _), pairs in groupby(columns, key=lambda row: row[:2]):
        equal = " and ".join(f"jobs.{_quoted(to)} = theirs.{_quoted(own)}" for _, _, own, to in pairs)
        looks.append(REFERRED.format(f"{_quoted(table)} theirs", equal))
    return looks


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refusal(error: Exception) -> Refusal | None:
    """A key that sets its rows to null breaks another rule of theirs, where they must not be null."""
    words = str(error)
    return Refusal(words) if isinstance(error, CONSTRAINT) and FAILED in words else None
