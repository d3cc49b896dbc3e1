"""What one worker process counts beyond its plain numbers: how long jobs waited and ran, how long the store took."""

from __future__ import annotations

from collections import Counter

from windlass.clock import SECOND
from windlass.telemetry.exposition import Histogram
from windlass.types import Claimed, Micros

Key = tuple[str, ...]


class Measures:
    """Its parts are written by the worker's event loop alone. A scrape reads them there, too."""

    def __init__(self) -> None:
        self.waits: dict[Key, Histogram] = {}  # by queue
        self.runs: dict[Key, Histogram] = {}  # by queue and task
        self.ended: Counter[Key] = Counter()  # by queue, task and outcome
        self.claims = Histogram()
        self.settles = Histogram()
        self.rescued = 0

    def claimed(self, jobs: list[Claimed], seconds: float) -> None:
        self.claims.observe(seconds)
        self.rescued += sum(job.lost > 0 for job in jobs)

    def settled(self, job: Claimed, outcome: str, started_at: Micros | None, ended_at: Micros) -> None:
        """One run. Without a start its handler never began: it is counted, and neither waited nor ran."""
        self.ended[job.queue, job.type, outcome] += 1
        if started_at is not None:
            _of(self.waits, (job.queue,)).observe(max(started_at - job.due_at, 0) / SECOND)
            _of(self.runs, (job.queue, job.type)).observe(max(ended_at - started_at, 0) / SECOND)


def _of(histograms: dict[Key, Histogram], key: Key) -> Histogram:
    found = histograms.get(key)
    if found is None:
        found = histograms[key] = Histogram()
    return found
