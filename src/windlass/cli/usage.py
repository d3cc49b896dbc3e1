"""`windlass usage`: what ran and what it cost, by the hour or day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from windlass.admin.usage import Dimension, UsageList, UsageRow, as_csv
from windlass.cli.output import Part
from windlass.cli.session import Common, Flag, opened
from windlass.clock import SECOND, duration, moment
from windlass.wording import in_words, plural


async def usage(
    *,
    since: Annotated[str, Parameter(help="of the last so long, such as 24h or 30d")] = "30d",
    step: Annotated[Literal["hour", "day", "all"], Parameter(help="a row per hour or day (UTC), or one for all")] = "day",
    by: Annotated[tuple[Dimension, ...], Parameter(help="a row for each; give it again for more", negative=())] = (),
    org: Annotated[str | None, Parameter(help="only of this organisation; '' is none")] = None,
    queue: Annotated[str | None, Parameter(help="only of this queue")] = None,
    type: Annotated[str | None, Parameter(help="only of this type")] = None,  # noqa: A002
    limit: Annotated[int, Parameter(help="at most so many rows")] = 1_000,
    csv: Annotated[Flag, Parameter(help="for a spreadsheet")] = False,
    count: Annotated[Flag, Parameter(help="first add up what has ended, but for the last minute")] = False,
    common: Common = Common(),
) -> None:  # fmt: skip
    """How many runs there were, how long they waited and ran, and their CPU and memory where that is measured.

    It is added up by the leader of the workers, some minutes late, and stays when jobs are pruned.
    """
    async with opened(common) as admin:
        if count:
            await admin.count_usage()
        begin = moment(admin.client.now()) - timedelta(seconds=duration(since, field="since") / SECOND)
        found = await admin.usage(since=begin, step=step, by=by, org=org, queue=queue, type=type, limit=limit)
    if common.json:
        common.out.emit(found)
    elif csv:
        common.out.text(as_csv(found))
    elif found.rows:
        _table(common, found)
    if not common.json and not found.rows:
        common.out.note("nothing was counted" + ("" if found.counted_until else " yet; --count does it now"))
    if not common.json and not found.complete:
        common.out.note(f"this is the beginning, {plural(limit, 'row')}; --limit shows more, --since fewer days")


def _table(common: Common, found: UsageList) -> None:
    names = [name for name in ("at", "org", "queue", "type", "outcome") if getattr(found.rows[0], name) is not None]
    heads = (*(name.upper() for name in names), "RUNS", "WAITED", "RAN", "CPU", "PEAK RSS")
    common.out.table(heads, [(*(_name(getattr(row, name)) for name in names), *_numbers(row)) for row in found.rows])
    if found.counted_until is not None:
        common.out.note(f"counted up to {found.counted_until:%Y-%m-%d %H:%M:%S} UTC")


def _name(value: str | datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value or "-"


def _numbers(row: UsageRow) -> tuple[Part, ...]:
    memory = "-" if row.peak_rss is None else f"{row.peak_rss / 2**20:,.0f} MiB"
    return (f"{row.runs:,}", _time(row.waited), _time(row.ran), _time(row.cpu), memory)


def _time(seconds: float) -> str:
    return in_words(round(seconds * SECOND)) if seconds else "-"
