"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.drivers.ops.limits import unpark
from windlass.drivers.rows import strings_in, to_json
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros


def allowed(seqs: Sequence[int], now: Micros) -> Op[list[int]]:
    """Those of the picked jobs that got all their permits. The others are parked; as soon as parking one lets another
    job through, the rest is left for a fresh pick, because that job may stand before them."""
    rows = yield SQL.limit_keys(seqs=to_json(seqs))
    keys_of = {seq: strings_in(keys) for seq, keys in rows}
    granted: list[int] = []
    for seq in seqs:
        keys = keys_of[seq]
        full = (yield SQL.full_key(keys=to_json(keys))) if keys else []
        if not full:
            if keys:
                yield SQL.take_permits(keys=to_json(keys))
            granted.append(seq)
            continue
        yield SQL.park(seq=seq, key=full[0][0], now=now)
        if (yield from unpark(SQL, [key for key in keys if key != full[0][0]], now)):
            break
    return granted


def free_permits(keys: Sequence[str], now: Micros) -> Op[None]:
    if keys:
        yield SQL.free_permits.many([(1, key) for key in keys])
        yield from unpark(SQL, keys, now)
