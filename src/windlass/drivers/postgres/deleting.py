"""Deleting ended jobs, and emptied groups, where an application's rows may refer to them, or be held: none is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from windlass.drivers.ops.deleting import Gone, Link, Refusal, delete_chains, delete_emptied
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.faults import is_locked_out, said
from windlass.drivers.postgres.savepoints import guarded
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row

BRIEFLY: Final = "100"  # milliseconds; the jobs are locked, but what refers to them goes with them, or is looked at


def delete_briefly(links: Sequence[Link]) -> Op[Gone]:
    [(usual, _)] = yield SQL.be_brief(timeout=BRIEFLY)
    yield SQL.check_at_once()
    gone = yield from delete_chains(links, lambda seqs: guarded(_delete(seqs)), _refusal)
    yield SQL.be_brief(timeout=usual)
    return gone


def delete_groups_briefly(groups: Sequence[str]) -> Op[str]:
    """After their members, in the same transaction: what is looked at late is looked at once already."""
    [(usual, _)] = yield SQL.be_brief(timeout=BRIEFLY)
    refused = yield from delete_emptied(groups, lambda some: guarded(_delete_groups(some)), _refusal)
    yield SQL.be_brief(timeout=usual)
    return refused


def _delete_groups(groups: Sequence[str]) -> Op[list[Row]]:
    return (yield SQL.delete_groups(groups=Texts(groups)))


def _delete(seqs: Sequence[int]) -> Op[list[Row]]:
    return (yield SQL.delete_jobs(seqs=Ints(seqs)))


def _refusal(error: Exception) -> Refusal | None:
    if is_locked_out(error):
        return Refusal("")
    return Refusal(said(error)) if isinstance(error, psycopg.IntegrityError) else None
