"""Which jobs, as options: the fields of a filter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from windlass.admin import Filter
from windlass.cli.session import Common, Which
from windlass.clock import duration, moment
from windlass.errors import InvalidInput
from windlass.types import Label, Micros


@Parameter(name="*")
@dataclass(frozen=True)
class WhichJobs(Which):
    state: Annotated[
        str | None,
        Parameter(help="queued, running, succeeded, dead, cancelled; or a label: scheduled, blocked, parked, claimed"),
    ] = None
    label: Annotated[Label | None, Parameter(help="only what is exactly that: queued is due, running has begun")] = None
    tag: Annotated[str | None, Parameter(help="only with this tag")] = None
    group: Annotated[str | None, Parameter(help="only members of this group")] = None
    schedule: Annotated[str | None, Parameter(help="only what this schedule made")] = None
    worker: Annotated[str | None, Parameter(help="only what this worker runs, or ran last")] = None
    error: Annotated[str | None, Parameter(help="a part of the last error, or its fingerprint")] = None
    since: Annotated[str | None, Parameter(help="created since: 24h, or 2026-03-01T09:00Z")] = None
    until: Annotated[str | None, Parameter(help="created before: the same")] = None
    ended_since: Annotated[str | None, Parameter(help="ended since: the same")] = None
    ended_until: Annotated[str | None, Parameter(help="ended before: the same")] = None

    def filter(self, common: Common, now: Micros) -> Filter:
        return Filter(
            state=self.state, system=common.words, label=self.label, queue=self.queue, type=self.type, org_id=self.org,
            tag=self.tag, group_id=self.group, schedule=self.schedule, worker_id=self.worker, error=self.error,
            created_from=when("since", self.since, now), created_until=when("until", self.until, now),
            finished_from=when("ended_since", self.ended_since, now),
            finished_until=when("ended_until", self.ended_until, now),
        )  # fmt: skip


def when(field: str, text: str | None, now: Micros) -> datetime | None:
    """A time ago, or an instant; one without a time zone is the reader's own."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return moment(now - duration(text, field=field))
        except InvalidInput:
            raise InvalidInput(
                field, f"{text!r} is neither a time ago, such as 24h, nor an instant, such as 2026-03-01T09:00Z"
            ) from None
    try:
        return at.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidInput(field, f"{text!r} is at the edge of the calendar, beyond it in another time zone") from None
