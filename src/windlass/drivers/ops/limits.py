"""Letting jobs through that wait for a permit."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.alterations import AlterAnswer, PutLimit
from windlass.drivers.statement import Blocks, Op
from windlass.types import Micros


def unpark(sql: Blocks, keys: Sequence[str], now: Micros) -> Op[int]:
    """Let the first jobs that wait for a key with room be considered again."""
    count = 0
    for key in keys:
        count += len((yield sql.unpark(key=key, now=now)))
    return count


def put_limit(sql: Blocks, change: PutLimit, now: Micros) -> Op[AlterAnswer]:
    """Everybody may try again: those who find no room are parked by the next claim that meets them."""
    yield sql.put_limit(key=change.key, max_used=change.max_used)
    yield sql.unpark_all(key=change.key, now=now)
    return "applied"
