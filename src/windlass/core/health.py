"""When a queue is not well, from two minutes of it. What it did before says whether that is news."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from windlass.records import QueueSample
from windlass.types import Micros

EARLIER: Final = 600_000_000  # microseconds before it in which a sample says how a queue was
FEWEST: Final = 10  # runs that ended within the minute, of which at least half failed
WAITS: Final = ("queued", "scheduled", "blocked", "parked")


class Trouble(Struct, frozen=True, kw_only=True):
    queue: str
    minute: Micros
    reasons: tuple[str, ...]
    waiting: int
    oldest: Micros


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
    samples: Iterable[QueueSample], before: Iterable[QueueSample], resting: Collection[str], waits_over: Micros
) -> list[Trouble]:
    """What is news in these samples. `before`: earlier ones, in the order of their minutes; of each queue the last one
    counts. `resting`: queues that somebody has paused, in which nothing is supposed to run."""
    last = {sample.queue: sample for sample in before}
    found: list[Trouble] = []
    for sample in samples:
        reasons, earlier = reasons_of(sample, waits_over), last.get(sample.queue)
        was_well = earlier is None or not reasons_of(earlier, waits_over)
        if reasons and was_well and sample.queue not in resting:
            waiting = sum(sample.depth.get(label, 0) for label in WAITS)
            found.append(
                Trouble(
                    queue=sample.queue, minute=sample.minute, reasons=reasons, waiting=waiting, oldest=sample.oldest or 0
                )
            )
    return found
