"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.core.limits import has_rate
from windlass.drivers.ops.limits import Gate, Kind
from windlass.drivers.ops.picking import Candidate, Picking, candidate
from windlass.drivers.rows import to_json
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op
from windlass.drivers.values import Claim
from windlass.types import Limit, Micros


class SqliteGate(Gate):
    sql = SQL
    passes_over = False

    def texts(self, values: Iterable[str]) -> str:
        return to_json(list(values))

    def ints(self, values: Iterable[int]) -> str:
        return to_json(list(values))

    def unpark(self, kinds: Sequence[Kind], now: Micros) -> Op[list[int]]:
        got: list[int] = []
        for n, (key, queue, kind, room) in enumerate(kinds):
            rows = yield SQL.unpark(key=key, queue=queue, type=kind, room=room, now=now)
            got += [n] * len(rows)
        return got

    def parked_firsts(self, key: str, queue: str, kind: str, counts: Mapping[str, int]) -> Op[dict[str, list[int]]]:
        found: dict[str, list[int]] = {}
        for share, count in counts.items():
            rows = yield SQL.parked_of_share(key=key, queue=queue, type=kind, share=share, limit=count)
            found[share] = [row[0] for row in rows]
        return found

    def park(self, places: Mapping[int, str], now: Micros) -> Op[None]:
        yield SQL.park.many([(key, now, seq) for seq, key in places.items()])

    def write(self, changes: Sequence[tuple[Limit, int]]) -> Op[None]:
        permits = {limit.key: count for limit, count in changes if count}
        if permits:
            yield SQL.take_permits(permits=to_json(permits))
        rows = [limit for limit, _ in changes if has_rate(limit)]
        if rows:
            yield SQL.write_buckets.many([(row.tokens, row.refilled_at, row.wake_at, row.key) for row in rows])

    def set_wakes(self, limits: Sequence[Limit]) -> Op[None]:
        yield SQL.set_wake.many([(limit.wake_at, limit.key) for limit in limits])

    def try_hold(self, keys: Sequence[str]) -> Op[list[str]]:
        yield from ()
        return list(keys)

    def give_back(self, permits: Mapping[str, int]) -> Op[list[str]]:
        yield SQL.free_permits(permits=to_json(permits))
        return (yield from self.timed(list(permits)))

    def hold_claims(self) -> Op[None]:
        yield from ()


GATE: Final = SqliteGate()


class SqlitePicking(Picking):
    sql = SQL

    def __init__(self, wish: Claim, fair: Sequence[str]) -> None:
        super().__init__(fair)
        self._types = None if wish.types is None else to_json(wish.types)
        self._unhandled = wish.unhandled

    def line(self, queue: str, limit: int, *, whole: bool) -> Op[list[Candidate]]:
        block = SQL.pick_limited_rows if whole else SQL.pick_limited
        rows = yield block(queue=queue, limit=limit, types=self._types, unhandled=self._unhandled)
        return [candidate(queue, row) for row in rows]

    def of_shares(self, queue: str, counts: Mapping[str, int], *, whole: bool) -> Op[dict[str, list[Candidate]]]:
        """The next jobs of these organisations, as many of each as `counts` says. One statement answers for all of which
        one job is asked; with many organisations those are most."""
        found: dict[str, list[Candidate]] = {}
        ones = [share for share, count in counts.items() if count == 1]
        asked = {"queue": queue, "types": self._types, "unhandled": self._unhandled}
        if ones:
            firsts = SQL.pick_firsts_rows if whole else SQL.pick_firsts
            for row in (yield firsts(shares=to_json(ones), **asked)):
                found[row[8]] = [candidate(queue, row)]
        for share, count in counts.items():
            if count > 1:
                rows = yield SQL.pick_share(share=share, limit=count, **asked)
                found[share] = [candidate(queue, row) for row in rows]
        return found
