"""Usage as people read it: what ran, how long it waited and ran, what it cost; by time, org, queue, type and outcome."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from windlass.client import Client
from windlass.clock import SECOND, instant, moment
from windlass.core.duties import RollUpUsage
from windlass.core.queries import CountedUntil, UsageBy
from windlass.core.usage import HOUR, hour_of
from windlass.errors import InvalidInput, shown
from windlass.records import Usage
from windlass.types import Micros
from windlass.words import did_you_mean

Step = Literal["hour", "day", "all"]
Dimension = Literal["org", "queue", "type", "outcome"]

STEPS: Final[dict[Step, Micros]] = {"hour": HOUR, "day": 24 * HOUR, "all": 0}
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
MOST: Final = 10_000
BITES: Final = 100
FIRST: Final = instant(datetime.min.replace(tzinfo=UTC))
LAST: Final = instant(datetime.max.replace(tzinfo=UTC))
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet would obey what begins so


class UsageRow(Struct, frozen=True, kw_only=True):
    """The runs that ended in one span of time, of one org, queue, type and outcome. What was not asked for is None: then
    the row is of all of them. Times in seconds, added up over the runs."""

    at: datetime | None  # the beginning of the hour or of the day, in UTC
    org: str | None  # "": of no org
    queue: str | None
    type: str | None
    outcome: str | None
    runs: int
    waited: float
    ran: float
    cpu: float  # where it was measured
    peak_rss: int | None  # bytes; the largest of the runs that had a process of their own


class UsageList(Struct, frozen=True, kw_only=True):
    """`counted_until`: runs that ended later are not in it yet; None: nothing was counted so far. `complete`: there was
    room for all rows."""

    at: datetime
    since: datetime
    until: datetime
    counted_until: datetime | None
    complete: bool
    rows: tuple[UsageRow, ...]


async def usage(
    client: Client, since: datetime | None, until: datetime | None, step: str, by: Sequence[str], org: str | None,
    queue: str | None, type: str | None, limit: int,  # noqa: A002
) -> UsageList:  # fmt: skip
    now = client.now()
    begin = hour_of(now - 30 * 24 * HOUR) if since is None else hour_of(_shown(since, "since"))
    end = now if until is None else _shown(until, "until")
    _check(begin, end, step, by, limit)
    asked = UsageBy(
        since=begin, until=end, step=STEPS[step], by_org="org" in by, by_queue="queue" in by,  # type: ignore[index]
        by_type="type" in by, by_outcome="outcome" in by, org_id=org, queues=None if queue is None else (queue,),
        type=type, limit=min(limit + 1, MOST),
    )  # fmt: skip
    rows = await client.driver.read(asked)
    counted = await client.driver.read(CountedUntil())
    return UsageList(
        at=moment(now), since=moment(begin), until=moment(end), counted_until=moment(counted[0]) if counted else None,
        complete=len(rows) < limit + (limit < MOST), rows=tuple(_row(row, asked) for row in rows[:limit]),
    )  # fmt: skip


def _shown(said: datetime, field: str) -> Micros:
    """One that has a UTC: at the end of the calendar another zone is beyond it."""
    return min(max(instant(said, field=field), FIRST), LAST)


def _check(begin: Micros, end: Micros, step: str, by: Sequence[str], limit: int) -> None:
    if step not in STEPS:
        raise InvalidInput("step", f"must be one of {', '.join(STEPS)}, got {step!r}{did_you_mean(step, STEPS)}")
    for name in by:
        if name not in DIMENSIONS:
            hint = did_you_mean(name, DIMENSIONS)
            raise InvalidInput("by", f"must be of {', '.join(DIMENSIONS)}, got {name!r}{hint}")
    if end <= begin:
        raise InvalidInput("until", "must be after since")
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise InvalidInput("limit", f"must be between 1 and {MOST:,}, got {shown(limit)}")


async def count_now(client: Client) -> int:
    """Add up what has ended, but for the last minute, without waiting for a leader. Answers how many runs."""
    counted = 0
    for _ in range(BITES):
        done = await client.driver.maintain(RollUpUsage(until=client.now()), epoch=None, now=client.now())
        counted += 0 if done is None else done.rows
        if done is None or not done.more:
            break
    return counted


def _row(row: Usage, asked: UsageBy) -> UsageRow:
    return UsageRow(
        at=moment(row.hour) if asked.step else None, org=row.org_id if asked.by_org else None,
        queue=row.queue if asked.by_queue else None, type=row.type if asked.by_type else None,
        outcome=row.outcome if asked.by_outcome else None, runs=row.runs, waited=row.wait_us / SECOND,
        ran=row.run_us / SECOND, cpu=row.cpu_us / SECOND, peak_rss=row.peak_rss,
    )  # fmt: skip


def as_csv(found: UsageList) -> str:
    """For a spreadsheet. Names come from callers, so none of them may begin as a formula does: it gets a ' before it."""
    fields = UsageRow.__struct_fields__
    shown = [name for name in fields if any(getattr(row, name) is not None for row in found.rows)] or list(fields)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(shown)
    for row in found.rows:
        writer.writerow([_cell(getattr(row, name)) for name in shown])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text
