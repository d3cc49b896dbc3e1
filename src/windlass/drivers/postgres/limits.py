"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again.

Limit rows are locked before job rows, in the order of their keys, by everybody; what is decided under that lock is written
as deltas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from windlass.core.counters import take
from windlass.drivers.ops.limits import unpark
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.faults import is_locked_out
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros

TRIES: Final = 5
BRIEFLY: Final = 300  # milliseconds for which a new limit may keep everybody from claiming, at a time
Candidate = tuple[int, tuple[str, ...]]  # seq, limit keys
Limits = dict[str, tuple[int, int | None]]  # key: used, maximum


class Locked:
    """The limits that a transaction holds. Only those that come later in the order are waited for."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def lock(self, keys: Iterable[str]) -> Op[tuple[Limits, set[str]]]:
        """The limits of these keys as they stand, and the keys that others hold and nobody may wait for."""
        names, last = set(keys), max(self._held, default="")
        early = {key for key in names if key < last and key not in self._held}
        tried = (yield SQL.try_limits(keys=Texts(sorted(early)))) if early else []
        limits = {key: (used, most) for key, used, most, free in tried if free}
        limits.update((yield from lock(names - early)))
        self._held.update(limits)
        return limits, {key for key, _, _, free in tried if not free}


def lock(keys: Iterable[str]) -> Op[Limits]:
    """The limits of these keys as they stand. Once in a transaction; see `Locked` for more."""
    names = sorted(set(keys))
    rows = (yield SQL.lock_limits(keys=Texts(names))) if names else []
    return {key: (used, most) for key, used, most in rows}


def allowed(candidates: Sequence[Candidate], limits: Limits, now: Micros) -> Op[list[int]]:
    """Those of the candidates that got all their permits; both they and the limits are locked. The others are parked; as
    soon as parking one lets another job through, the rest is left for a fresh pick, because that job may stand before
    them."""
    used = {key: in_use for key, (in_use, _) in limits.items()}
    granted: list[int] = []
    taken: Counter[str] = Counter()
    parked: dict[int, str] = {}
    for seq, keys in candidates:
        mine = [key for key in keys if key in limits]
        full = next((key for key in mine if take(used[key], limits[key][1]) is None), None)
        if full is None:
            for key in mine:
                used[key] += 1
                taken[key] += 1
            granted.append(seq)
            continue
        parked[seq] = full
        others = [key for key in keys if key != full]
        if others:
            yield from _write(taken, parked, now)
            if (yield from unpark(SQL, others, now)):
                return granted
    yield from _write(taken, parked, now)
    return granted


def _write(taken: Counter[str], parked: dict[int, str], now: Micros) -> Op[None]:
    if taken:
        yield SQL.take_permits(keys=Texts(taken), permits=Ints(taken.values()))
        taken.clear()
    if parked:
        places = sorted(parked.items())
        yield SQL.park(seqs=Ints(seq for seq, _ in places), keys=Texts(key for _, key in places), now=now)
        parked.clear()


def free_permits(keys: Sequence[str], now: Micros) -> Op[None]:
    """The limits are locked."""
    if keys:
        yield SQL.free_permits(keys=Texts(keys))
        yield from unpark(SQL, keys, now)


def hold_runs_for_new(keys: Iterable[str]) -> Op[None]:
    """Before a limit is made that counts who runs: nobody begins or ends a run until the transaction does. First of all
    locks, as with all others who come to it. Everybody waits behind one who waits for this, so none waits long, and in
    between they go on."""
    names = set(keys)
    if not names or len((yield SQL.limits_there(keys=Texts(names)))) == len(names):
        return
    for tries_left in reversed(range(TRIES)):
        yield SQL.begin_hold()
        [(usual, _)] = yield SQL.be_brief(timeout=str(BRIEFLY))
        try:
            yield SQL.hold_runs()
        except Exception as error:
            if not (tries_left and is_locked_out(error)):
                raise
            yield SQL.undo_hold()
        else:
            yield SQL.end_hold()
            yield SQL.be_brief(timeout=usual)
            return
