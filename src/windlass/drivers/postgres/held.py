"""Settlements that touch rows which somebody may hold: those are waited for one by one while nothing else is held, so that
nobody waits behind us for limits and groups that are his as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.core.changes import Ack, Answer, Settlement
from windlass.drivers.postgres.arrays import Ints
from windlass.drivers.postgres.faults import is_locked_out
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.locking import reached
from windlass.drivers.postgres.settlement import addressed, groups_of, settle
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Statement
from windlass.types import Micros

BRIEFLY: Final = 0.3  # seconds for which a row may be waited for while others are held, at a time


def settle_in_time(link: Link, changes: Sequence[Settlement], now: Micros, until: float) -> list[Answer] | None:
    """None: somebody still holds a row, and nothing was changed."""
    while True:
        try:
            for seq in link.run(in_the_way(changes)):
                link.transact(wait_for(seq, until - ticking()))
            return link.transact(settle_briefly(changes, now, until - ticking()))
        except psycopg.Error as error:
            if not is_locked_out(error):
                raise
            if ticking() >= until:
                return None


def in_the_way(changes: Sequence[Settlement]) -> Op[list[int]]:
    """Jobs that the changes end, or that their ends touch, whose rows somebody holds now. Statements that commit by
    themselves: they keep nothing."""
    seqs, _ = yield from addressed([change.handle for change in changes])
    deep = any(type(change) is not Ack for change in changes)
    groups = groups_of((yield SQL.shared_rows_of(seqs=Ints(seqs))), changes) if deep else ()
    more, _, _ = yield from reached(seqs, groups, deep=deep)
    touched = sorted({*seqs, *more})
    free = {row[0] for row in (yield SQL.try_jobs(seqs=Ints(touched)))}
    return [seq for seq in touched if seq not in free]


def wait_for(seq: int, patience: float) -> Op[None]:
    """Until nobody holds the row of this job, in a transaction of its own."""
    yield _be_patient(patience)
    yield SQL.lock_jobs(seqs=Ints([seq]))


def settle_briefly(changes: Sequence[Settlement], now: Micros, patience: float) -> Op[list[Answer]]:
    """In a transaction that gives up where somebody has taken a row meanwhile."""
    yield _be_patient(min(patience, BRIEFLY))
    return (yield from settle(changes, now))


def among_others(changes: Sequence[Settlement], now: Micros, patience: float) -> Op[list[Answer]]:
    """In a transaction of the caller's, who may have said himself how long to wait for a lock: else it would be until the
    call is given up, and his connection with it."""
    [(usual, _)] = yield _be_patient(patience)
    if usual != "0":
        yield SQL.be_brief(timeout=usual)
    answers = yield from settle(changes, now)
    yield SQL.be_brief(timeout=usual)
    return answers


def _be_patient(seconds: float) -> Statement:
    return SQL.be_brief(timeout=str(max(round(seconds * 1000), 1)))  # 0 would be for ever
