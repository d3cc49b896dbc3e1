"""What must hold of one row, whatever happened to it."""

from __future__ import annotations

from windlass.testing.simulator.conduct import require
from windlass.types import TERMINAL, Job


def check_row(job: Job) -> None:
    leased = job.lease_token is not None and job.lease_expires_at is not None
    require((job.state == "running") == leased, "running means leased", job.id)
    require((job.state in TERMINAL) == (job.finished_at is not None), "finished_at means terminal", job.id)
    require((job.state == "dead") == (job.dead_kind is not None), "dead has a kind", job.id)
    require((job.dead_kind == "superseded") == (job.superseded_by is not None), "superseded names its successor", job.id)
    require(job.retry_mode == "same_job" or job.executions <= 1, "a never-twice row is claimed once", job.id)


def check_maxima(job: Job) -> None:
    require(job.max_attempts == 0 or job.attempts <= job.max_attempts, "attempts stay within the maximum", job.id)
    if job.max_attempts and job.retry_mode == "same_job" and job.retry_policy is None:
        require(job.executions - job.skipped <= job.max_attempts, "executions stay within the maximum", job.id)
    lost_too_often = job.max_lost > 0 and job.crash_policy == "requeue" and job.lost > job.max_lost
    require(not lost_too_often, "a job that kills its workers ends", job.id)
