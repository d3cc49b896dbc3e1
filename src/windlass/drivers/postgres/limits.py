"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again.

Limit rows are locked before job rows, in the order of their keys, by everybody; what is decided under that lock is written
as deltas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from windlass.core.changes import AlterAnswer, PutLimit
from windlass.core.counters import take
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros

Candidate = tuple[int, tuple[str, ...]]  # seq, limit keys


def lock(keys: Iterable[str]) -> Op[dict[str, tuple[int, int | None]]]:
    """The limits of these keys as they stand: used and maximum."""
    names = sorted(set(keys))
    rows = (yield SQL.lock_limits(keys=Texts(names))) if names else []
    return {key: (used, most) for key, used, most in rows}


def allowed(candidates: Sequence[Candidate], limits: dict[str, tuple[int, int | None]], now: Micros) -> Op[list[int]]:
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
            if (yield from unpark(others, now)):
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
        yield from unpark(keys, now)


def unpark(keys: Sequence[str], now: Micros) -> Op[int]:
    """Let the first jobs that wait for a key with room be considered again."""
    count = 0
    for key in keys:
        count += len((yield SQL.unpark(key=key, now=now)))
    return count


def put_limit(change: PutLimit, now: Micros) -> Op[AlterAnswer]:
    """Everybody may try again: those who find no room are parked by the next claim that meets them."""
    yield SQL.put_limit(key=change.key, max_used=change.max_used)
    yield SQL.unpark_all(key=change.key, now=now)
    return "applied"
