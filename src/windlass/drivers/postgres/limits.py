"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again.

Limit rows are locked before job rows, in the order of their keys, by everybody; what is decided under that lock is written
as deltas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.core.limits import has_rate
from windlass.drivers.ops.limits import Gate, Kind, limit_in
from windlass.drivers.ops.picking import Candidate, Picking, candidate
from windlass.drivers.postgres.arrays import Floats, Ints, Texts
from windlass.drivers.postgres.faults import is_locked_out
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import to_json
from windlass.drivers.statement import Op
from windlass.drivers.values import Claim
from windlass.types import Limit, Micros

TRIES: Final = 5
BRIEFLY: Final = 300  # milliseconds for which a new limit may keep everybody from claiming, at a time
Limits = dict[str, Limit]


class PostgresGate(Gate):
    sql = SQL
    passes_over = True

    def texts(self, values: Iterable[str]) -> Texts:
        return Texts(values)

    def ints(self, values: Iterable[int]) -> Ints:
        return Ints(values)

    def unpark(self, kinds: Sequence[Kind], now: Micros) -> Op[list[int]]:
        keys, queues, types, rooms = zip(*kinds, strict=True)
        rows = yield SQL.unpark(keys=Texts(keys), queues=Texts(queues), types=Texts(types), rooms=Ints(rooms), now=now)
        return [row[0] - 1 for row in rows]

    def parked_firsts(self, key: str, queue: str, kind: str, counts: Mapping[str, int]) -> Op[dict[str, list[int]]]:
        rows = yield SQL.parked_firsts(
            key=key, queue=queue, type=kind, shares=Texts(counts), counts=Ints(counts.values())
        )  # fmt: skip
        found: dict[str, list[int]] = {}
        for share, seq in rows:
            found.setdefault(share, []).append(seq)
        return found

    def park(self, places: Mapping[int, str], now: Micros) -> Op[None]:
        yield SQL.park(seqs=Ints(places), places=to_json(places), now=now)

    def write(self, changes: Sequence[tuple[Limit, int]]) -> Op[None]:
        permits = {limit.key: count for limit, count in changes if count}
        if permits:
            yield SQL.take_permits(keys=Texts(permits), permits=to_json(permits))
        rows = [limit for limit, _ in changes if has_rate(limit)]
        if rows:
            yield SQL.write_buckets(
                keys=Texts(row.key for row in rows), tokens=Floats(row.tokens for row in rows),
                refilled_at=Ints(row.refilled_at for row in rows), wake_at=Ints(row.wake_at for row in rows),
            )  # fmt: skip

    def set_wakes(self, limits: Sequence[Limit]) -> Op[None]:
        yield SQL.set_wakes(keys=Texts(row.key for row in limits), wake_at=Ints(row.wake_at for row in limits))

    def try_hold(self, keys: Sequence[str]) -> Op[list[str]]:
        elsewhere = {row[0] for row in (yield SQL.try_limits(keys=Texts(keys))) if not row[-1]}
        return [key for key in keys if key not in elsewhere]

    def give_back(self, permits: Mapping[str, int]) -> Op[list[str]]:
        return [row[0] for row in (yield SQL.free_permits(keys=Texts(permits), permits=to_json(permits)))]

    def hold_claims(self) -> Op[None]:
        """Everybody waits behind one who waits for this, so none waits long, and in between they go on."""
        for tries_left in reversed(range(TRIES)):
            yield SQL.begin_hold()
            [(usual, _)] = yield SQL.be_brief(timeout=str(BRIEFLY))
            try:
                yield SQL.hold_claims()
            except Exception as error:
                if not (tries_left and is_locked_out(error)):
                    raise
                yield SQL.undo_hold()
            else:
                yield SQL.end_hold()
                yield SQL.be_brief(timeout=usual)
                return


GATE: Final = PostgresGate()


class PostgresPicking(Picking):
    sql = SQL

    def __init__(self, wish: Claim, fair: Sequence[str]) -> None:
        super().__init__(fair)
        self._types = None if wish.types is None else Texts(wish.types)
        self._unhandled = wish.unhandled
        self.passed = Ints()  # jobs that others hold

    def line(self, queue: str, limit: int, *, whole: bool) -> Op[list[Candidate]]:
        rows = yield SQL.pick_limited(
            queue=queue, limit=limit, types=self._types, unhandled=self._unhandled, passed=self.passed
        )
        return [candidate(queue, row) for row in rows]

    def of_shares(self, queue: str, counts: Mapping[str, int], *, whole: bool) -> Op[dict[str, list[Candidate]]]:
        rows = yield SQL.pick_shares(
            queue=queue, shares=Texts(counts), counts=Ints(counts.values()), types=self._types,
            unhandled=self._unhandled, passed=self.passed,
        )  # fmt: skip
        found: dict[str, list[Candidate]] = {}
        for row in rows:
            found.setdefault(row[8], []).append(candidate(queue, row))
        return found

    def charge(self) -> Op[None]:
        for queue, clock, charges in self.charges():
            shares, starts, finishes = zip(*charges, strict=True)
            yield SQL.charge_shares(
                queue=queue, clock=clock, shares=Texts(shares), starts=Floats(starts), finishes=Floats(finishes),
                later=to_json({share: later for share, *later in charges}),
            )  # fmt: skip


class Locked:
    """The limits that a transaction holds. Only those that come later in the order are waited for."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def lock(self, keys: Iterable[str]) -> Op[tuple[Limits, set[str]]]:
        """The limits of these keys as they stand, and the keys that others hold and nobody may wait for."""
        names, last = set(keys), max(self._held, default="")
        early = {key for key in names if key < last and key not in self._held}
        tried = (yield SQL.try_limits(keys=Texts(sorted(early)))) if early else []
        limits = {row[0]: limit_in(row[:-1]) for row in tried if row[-1]}
        late = sorted(names - early)
        rows = (yield SQL.lock_limits(keys=Texts(late))) if late else []
        limits.update((row[0], limit_in(row)) for row in rows)
        self._held.update(limits)
        return limits, {row[0] for row in tried if not row[-1]}


def lock(keys: Iterable[str]) -> Op[None]:
    """Hold the limits of these keys. Once in a transaction; see `Locked` for more."""
    names = sorted(set(keys))
    if names:
        yield SQL.hold_limits(keys=Texts(names))


def hold_claims_for_new(keys: Iterable[str]) -> Op[None]:
    """Before a limit is made that counts who runs: nobody begins or ends a run until the transaction does. First of all
    locks, as with all others who come to it."""
    names = set(keys)
    if names and len((yield SQL.limits_there(keys=Texts(names)))) < len(names):
        yield from GATE.hold_claims()
