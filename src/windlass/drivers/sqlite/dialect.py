"""SQLite's part of the shared operations: batches are json arrays, and the one writer needs no locks on rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.core.alterations import Alteration
from windlass.core.changes import RetryChild
from windlass.core.duties import Done, ReturnSpace
from windlass.drivers import tongue
from windlass.drivers.filters import find_statement
from windlass.drivers.ops.deleting import Gone
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.rows import to_json
from windlass.drivers.sqlite.deleting import delete_unreferred, delete_unreferred_groups
from windlass.drivers.sqlite.jobs import enqueue, insert_children
from windlass.drivers.sqlite.limits import GATE
from windlass.drivers.sqlite.space import return_space
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row, Statement
from windlass.drivers.values import Enqueued, JobQuery
from windlass.errors import DuplicateId
from windlass.types import Micros, NewJob


class Sqlite(Dialect):
    sql = SQL
    gate = GATE
    tongue = tongue.SQLITE

    def texts(self, values: Iterable[str]) -> str:
        return to_json(list(values))

    def ints(self, values: Iterable[int]) -> str:
        return to_json(list(values))

    def lock(self, block: str, **params: Any) -> Op[None]:
        yield from ()

    def lock_for(self, changes: Sequence[Alteration], now: Micros) -> Op[None]:
        yield from ()

    def hold_parents(self, ids: Sequence[str]) -> Op[list[Row]]:
        return (yield SQL.heads_of(ids=self.texts(ids)))

    def find(self, query: JobQuery) -> Statement:
        return find_statement(SQL.get_jobs.sql, query)

    def ended_alike(self, minute: Micros, *, unkept: bool) -> Statement:
        return SQL.ended_alike(minute=minute, unkept=unkept)

    def keep_runs(self, unkept: Mapping[int, str]) -> Op[None]:
        yield SQL.keep_runs(items=to_json(unkept))

    def insert_child(self, parent_seq: int, queue: str, priority: int, child: RetryChild, now: Micros) -> Op[None]:
        yield from insert_children([(parent_seq, queue, priority, child)], now)

    def enqueue(self, jobs: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
        return (yield from enqueue(jobs, now))

    def is_taken(self, error: Exception) -> bool:
        return isinstance(error, DuplicateId)

    def delete_ended(self, heads: Mapping[int, Micros], groups: Mapping[str, Micros | None]) -> Op[Gone]:
        """Nobody else writes between the look and this."""
        links = yield SQL.chains(seqs=self.ints(heads))
        return (yield from delete_unreferred([(head, seq, group) for head, seq, group in links]))

    def delete_chain(self, seqs: Sequence[int]) -> Op[Gone]:
        return (yield from delete_unreferred([(seqs[0], seq, None) for seq in seqs]))

    def delete_groups(self, groups: Sequence[str]) -> Op[str]:
        return (yield from delete_unreferred_groups(groups))

    def return_space(self, duty: ReturnSpace) -> Op[Done]:
        return (yield from return_space(duty))

    def outlast_claims(self) -> Op[bool]:
        yield from ()
        return True


DIALECT: Final = Sqlite()
