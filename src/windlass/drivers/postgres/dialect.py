"""How PostgreSQL does what the shared operations ask for: batches are arrays, and everybody locks rows in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.core.alterations import Alteration
from windlass.core.changes import RetryChild
from windlass.core.duties import Done, ReturnSpace
from windlass.core.sampling import EDGES
from windlass.drivers import tongue
from windlass.drivers.filters import POSTGRES, find_statement
from windlass.drivers.ops.deleting import Gone
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.postgres import keys
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.deleting import delete_briefly, delete_groups_briefly
from windlass.drivers.postgres.faults import Taken, is_conflict
from windlass.drivers.postgres.jobs import insert_child
from windlass.drivers.postgres.limits import GATE
from windlass.drivers.postgres.locking import hold_parents, lock_all, still_ended
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row, Statement
from windlass.drivers.values import Enqueued, JobQuery
from windlass.errors import DuplicateId
from windlass.types import Micros, NewJob

PAUSES: Final = (0.001, 0.002, 0.005, 0.01, 0.02)  # seconds between looks at claims that are under way


class Postgres(Dialect):
    sql = SQL
    gate = GATE
    tongue = tongue.POSTGRES

    def __init__(self, *, ours: bool) -> None:
        self.ours = ours

    def texts(self, values: Iterable[str]) -> Texts:
        return Texts(values)

    def ints(self, values: Iterable[int]) -> Ints:
        return Ints(values)

    def lock(self, block: str, **params: Any) -> Op[None]:
        yield getattr(SQL, block)(**params)

    def lock_for(self, changes: Sequence[Alteration], now: Micros) -> Op[None]:
        yield from lock_all(self, changes, now)

    def hold_parents(self, ids: Sequence[str]) -> Op[list[Row]]:
        return (yield from hold_parents(ids, ours=self.ours))

    def find(self, query: JobQuery) -> Statement:
        return find_statement(SQL.get_jobs.sql, query, POSTGRES)

    def ended_alike(self, minute: Micros, *, unkept: bool) -> Statement:
        return SQL.ended_alike(minute=minute, edges=Ints(EDGES), unkept=unkept)

    def keep_runs(self, unkept: Mapping[int, str]) -> Op[None]:
        seqs = sorted(unkept)
        yield SQL.keep_runs(seqs=Ints(seqs), prefixes=Texts(unkept[seq] for seq in seqs))

    def insert_child(self, parent_seq: int, queue: str, priority: int, child: RetryChild, now: Micros) -> Op[None]:
        yield from insert_child(parent_seq, queue, priority, child, now)

    def enqueue(self, jobs: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
        return (yield from keys.enqueue(jobs, now, ours=self.ours))

    def is_taken(self, error: Exception) -> bool:
        return isinstance(error, Taken | DuplicateId) and not is_conflict(error)

    def delete_ended(self, heads: Mapping[int, Micros], groups: Mapping[str, Micros | None]) -> Op[Gone]:
        links = yield from still_ended(heads, groups)
        gone = (yield from delete_briefly(links)) if links else Gone()
        return gone._replace(left={*gone.left, *(set(heads) - {head for head, _, _ in links})})

    def delete_chain(self, seqs: Sequence[int]) -> Op[Gone]:
        if len((yield SQL.lock_ended(seqs=Ints(seqs)))) < len(seqs):
            return Gone(left={*seqs})
        return (yield from delete_briefly([(seqs[0], seq, None) for seq in seqs]))

    def delete_groups(self, groups: Sequence[str]) -> Op[str]:
        return (yield from delete_groups_briefly(groups))

    def return_space(self, duty: ReturnSpace) -> Op[Done]:
        """Vacuum does it, and partitions that are dropped."""
        yield from ()
        return Done(0)

    def outlast_claims(self) -> Op[bool]:
        under_way = Texts(row[0] for row in (yield SQL.claims_under_way()))
        for pause in PAUSES:
            if not under_way or not (yield SQL.still_under_way(transactions=under_way)):
                return True
            yield SQL.pause(seconds=pause)
        return not (yield SQL.still_under_way(transactions=under_way))


DIALECT: Final = Postgres(ours=True)
CALLERS: Final = Postgres(ours=False)
