"""When a queue is unhealthy, judged from one of its minutes. What was told of it before says whether that is news."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from windlass.records import QueueSample
from windlass.types import Micros

EARLIER: Final = 600_000_000  # microseconds for which it is known how a queue was
FEWEST: Final = 10  # runs that ended within the minute, of which at least half failed
WAITS: Final = ("queued", "scheduled", "blocked", "parked")


class Trouble(Struct, frozen=True, kw_only=True):
    queue: str
    minute: Micros
    reasons: tuple[str, ...]
    waiting: int
    oldest: Micros


class Told(Struct, frozen=True, kw_only=True):
    """Queues that were not well in the samples of a minute, as was told by then."""

    minute: Micros = 0
    queues: tuple[str, ...] = ()


def reasons_of(sample: QueueSample, waits_over: Micros) -> tuple[str, ...]:
    """Why a queue is not well: a job that is due waits for longer than it should, or half of what ended has failed."""
    found: list[str] = []
    if sample.oldest is not None and sample.oldest >= waits_over:
        found.append(f"a job has waited for {sample.oldest // 1_000_000} s")
    failed, ended = sample.finished.get("failed", 0), sum(sample.finished.values())
    if ended >= FEWEST and failed * 2 >= ended:
        found.append(f"{failed} of {ended} runs failed within a minute")
    return tuple(found)


def troubles(
    samples: Iterable[QueueSample], told: Told, resting: Collection[str], waits_over: Micros
) -> tuple[list[Trouble], Told]:
    """What is news in the samples of a minute, and whom there is nothing new to tell of in the next. `resting`: queues that
    somebody has paused or holds, in which nothing is supposed to run; what waits there is news once that is over."""
    found: list[Trouble] = []
    minute, unwell = 0, list[str]()
    for sample in samples:
        minute, reasons = sample.minute, reasons_of(sample, waits_over)
        if not reasons or sample.queue in resting:
            continue
        unwell.append(sample.queue)
        if sample.queue not in told.queues or abs(minute - told.minute) > EARLIER:
            waiting = sum(sample.depth.get(label, 0) for label in WAITS)
            found.append(
                Trouble(queue=sample.queue, minute=minute, reasons=reasons, waiting=waiting, oldest=sample.oldest or 0)
            )
    return found, Told(minute=minute, queues=tuple(unwell))
