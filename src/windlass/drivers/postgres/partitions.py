"""Partitions of time: made ahead, and dropped whole when their time is over, in a transaction of their own.

Whoever drops one holds its table for a moment, and whoever makes one holds the default partition, so neither waits for
others for longer than 50 ms, with others waiting behind it: then it is left for the next time. What lies in a default
partition, or in one of which something is still needed, is left to the duty itself, row by row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from windlass.core.admission_of_workers import check_duty
from windlass.core.duties import ForgetEvents, ForgetUsage
from windlass.core.fields import check_now
from windlass.core.usage import DAY, day_of, month_of
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.fleet import is_allowed
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros

DAYS_AHEAD: Final = 3
MONTHS_AHEAD: Final = 2
LONGEST_MONTH: Final = 31 * DAY


def retire(db: Dialect, duty: ForgetEvents | ForgetUsage, epoch: int | None, now: Micros) -> Op[int]:
    """Make partitions for the time to come, and drop those that are over. Answers how many events, or hours of usage,
    went with them."""
    check_duty(duty)
    check_now(now)
    if not (yield from is_allowed(db, epoch, now)):
        return 0
    gone = 0
    match duty:
        case ForgetEvents():
            yield from _add(["outbox", "deliveries"], days(now))
            for (suffix,) in (yield SQL.old_partitions(parent="outbox", before=now - duty.keep)):
                [(rows,)] = yield SQL.drop_days(suffix=suffix)
                gone += rows or 0
        case ForgetUsage():
            yield from _add(["usage_hourly"], months(now))
            if duty.keep is not None:
                for (suffix,) in (yield SQL.old_partitions(parent="usage_hourly", before=now - duty.keep)):
                    [(rows,)] = yield SQL.drop_month(suffix=suffix)
                    gone += rows or 0
    return gone


def _add(parents: list[str], edges: list[Micros]) -> Op[None]:
    spans = list(pairwise(edges))
    yield SQL.add_partitions(
        parents=Texts(parents), lowers=Ints(lower for lower, _ in spans), uppers=Ints(upper for _, upper in spans)
    )


def days(now: Micros) -> list[Micros]:
    """Today and the days to come, by where each begins, and where the last one ends."""
    return [day_of(now) + number * DAY for number in range(DAYS_AHEAD + 2)]


def months(now: Micros) -> list[Micros]:
    edges = [month_of(now)]
    for _ in range(MONTHS_AHEAD + 1):
        edges.append(month_of(edges[-1] + LONGEST_MONTH))
    return edges
