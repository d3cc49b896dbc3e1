"""Which queues need attention, and why, the most important reason first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, Literal

from msgspec import Struct

from windlass.clock import SECOND
from windlass.core.trends import failed_share
from windlass.records import QueueSample, WorkerInfo
from windlass.types import Hold, Micros, Queue

TroubleKind = Literal["paused", "held", "nobody", "late", "failing", "full"]

LATE: Final = 60 * SECOND  # a job that is due waits longer than this
FAILING: Final = 0.1  # a larger share of runs failed
ENOUGH: Final = 10  # runs that make a share
RECENT: Final = 600 * SECOND


class Trouble(Struct, frozen=True, kw_only=True):
    """A problem of a queue. `since`: when a pause or a hold began. `number`: microseconds for `late`, a share for
    `failing`, jobs for the others."""

    kind: TroubleKind
    since: Micros | None = None
    by: str | None = None
    number: float = 0


def troubles(
    samples: Sequence[QueueSample], row: Queue | None, hold: Hold | None, living: Collection[WorkerInfo]
) -> list[Trouble]:  # fmt: skip
    """The problems of one queue. `samples` are its last ones, oldest first; `hold` is a valid one."""
    last = samples[-1] if samples else None
    depth = last.depth if last is not None else {}
    waiting = depth.get("queued", 0)
    found: list[Trouble] = []
    if row is not None and row.paused_at is not None:
        found.append(Trouble(kind="paused", since=row.paused_at, number=waiting))
    if hold is not None:
        found.append(Trouble(kind="held", since=hold.reserved_at, by=hold.by, number=waiting))
    name = last.queue if last is not None else row.name if row is not None else ""
    if waiting and not any(name in worker.queues for worker in living):
        found.append(Trouble(kind="nobody", number=waiting))
    if last is not None and last.oldest is not None and last.oldest > LATE:
        found.append(Trouble(kind="late", number=last.oldest))
    ended: Counter[str] = Counter()
    for sample in samples:
        ended.update(sample.finished)
    share = failed_share(ended)
    if share is not None and share > FAILING and ended["completed"] + ended["failed"] >= ENOUGH:
        found.append(Trouble(kind="failing", number=share))
    if depth.get("parked", 0):
        found.append(Trouble(kind="full", number=depth["parked"]))
    return found
