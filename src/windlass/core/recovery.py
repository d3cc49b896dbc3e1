"""A lapsed lease → what becomes of the job. Recovery run twice changes nothing: each settlement names the lapsed token.

Drivers take back what needs no decision by themselves (`Expire`, inside a claim); everything else comes here.
"""

from __future__ import annotations

from typing import Final

from windlass.core.changes import Expire, Settlement
from windlass.core.settle import Execution, Failed, dead, fail, policy_of, riders_of, used_up
from windlass.types import Claimed

CRASH_ERROR: Final = "Scheduler crash recovery"


def recover(job: Claimed, run: Execution) -> Settlement:
    lost = job.lost + 1
    if job.crash_policy == "fail":  # it may have had effects: a crash is a failure, never a silent second start
        return fail(job, Failed(CRASH_ERROR), run, lapsed=True)
    if job.max_lost > 0 and lost >= job.max_lost:
        return dead(job, "lost", f"its workers died or stalled {lost} times", run, lapsed=True)
    if used_up(job, job.attempts + 1) and policy_of(job).count_lost:
        return dead(
            job, "lost", f"lost in execution {job.executions - job.skipped} of {job.max_attempts}", run, lapsed=True
        )
    return Expire(handle=job.handle, token=job.token, at=run.at, lapsed=True, riders=riders_of(job, None))
