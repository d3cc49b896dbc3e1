"""Which executions leave a run row. With `history="full"` all of them, from the claim on. With `history="failures"` the
claim writes none: one that fails, is handed back, cancelled or lost gets its whole row when that is settled, and one that
succeeds is only counted, in a row of `usage_batches` for all of its batch.

Two kinds of success keep a row all the same: one with artifacts, because nothing else would say where they are, and one
that reaches the store so late that it may lie behind the watermark of usage, which counts runs and not batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.changes import Ack, Settlement
from windlass.core.fields import check_limit
from windlass.core.rows import run_id_of, run_of
from windlass.core.usage import duration, hour_of, late_until
from windlass.errors import InvalidInput, shown
from windlass.records import Usage
from windlass.types import Job, Micros, Run

MINUTE: Final = 60 * SECOND
RUNS_LIMIT: Final = 1_000  # executions of a job that are read at once, unless somebody asks for another number
BEYOND: Final = 2**63 - 1  # no execution has this number
SAMPLED: Final = 10 * MINUTE  # so long a batch is kept when it was counted: a minute that has one is looked at more closely


def keeps_run(change: Settlement, now: Micros) -> bool:
    """Whether an execution of a job with `history="failures"` leaves a row when it ends like this."""
    if not isinstance(change, Ack) or change.at <= late_until(now):
        return True
    return change.report is not None and bool(change.report.artifacts)


def check_page(before: object, limit: object) -> None:
    """Of the executions of a job."""
    check_limit(limit)
    if before is not None and (not isinstance(before, int) or isinstance(before, bool) or not 1 <= before <= BEYOND):
        raise InvalidInput("before", f"must be the number of an execution, got {shown(before)}")


def is_last(kept: Sequence[Run], job: Job) -> bool:
    """Whether the job's last execution is the last of those: of a job with many, only the newest are at hand."""
    return bool(kept) and kept[-1].attempt_no >= job.executions


def earlier_runs(job: Job, kept: Sequence[Run]) -> int:
    """How many executions are older than those at hand, which are the newest."""
    if kept:
        return kept[0].attempt_no - 1
    return job.executions - (unkept_run(job, kept) is not None)


def unkept_run(job: Job, kept: Sequence[Run]) -> Run | None:
    """What the job still says of its last execution, when that succeeded and left no row among those that were kept."""
    if job.history == "full" or job.state != "succeeded" or is_last(kept, job) or job.claimed_at is None:
        return None
    run = run_of(job, run_id_of(job.last_token or "", job.claimed_at, job.seq))
    started_at = job.finished_at if job.started_at is None else job.started_at
    return replace(run, status="completed", started_at=started_at, finished_at=job.finished_at)


class UsageBatch(Struct, frozen=True, kw_only=True):
    """A row of `usage_batches`: runs without a row that were stored together, of one kind, and ended within one minute."""

    at: Micros  # when the last of them ended
    org_id: str | None
    queue: str
    type: str
    outcome: str
    runs: int
    run_us: int
    wait_us: int
    cpu_us: int
    peak_rss: int | None


def usage_of(batch: UsageBatch) -> Usage:
    return Usage(
        hour=hour_of(batch.at), org_id=batch.org_id or "", queue=batch.queue, type=batch.type, outcome=batch.outcome,
        runs=batch.runs, run_us=batch.run_us, wait_us=batch.wait_us, cpu_us=batch.cpu_us, peak_rss=batch.peak_rss,
    )  # fmt: skip


def batches(ended: Iterable[Run]) -> list[UsageBatch]:
    """What is stored of runs of which no row is."""
    found: dict[object, UsageBatch] = {}
    for run in ended:
        assert run.finished_at is not None, "only a run that has ended is counted"
        assert run.status is not None, "a run that has ended has a status"
        key = (run.finished_at // MINUTE, run.org_id, run.queue, run.type, run.status)
        found[key] = _with(found.get(key), run, run.finished_at, run.status)
    return list(found.values())


def _with(batch: UsageBatch | None, run: Run, ended_at: Micros, status: str) -> UsageBatch:
    if batch is None:
        batch = UsageBatch(
            at=ended_at, org_id=run.org_id, queue=run.queue, type=run.type, outcome=status, runs=0, run_us=0, wait_us=0,
            cpu_us=0, peak_rss=None,
        )  # fmt: skip
    peaks = [peak for peak in (batch.peak_rss, run.peak_rss) if peak is not None]
    return replace(
        batch, at=max(batch.at, ended_at), runs=batch.runs + 1, run_us=batch.run_us + duration(run),
        wait_us=batch.wait_us + (run.wait_us or 0), cpu_us=batch.cpu_us + (run.cpu_us or 0),
        peak_rss=max(peaks, default=None),
    )  # fmt: skip
