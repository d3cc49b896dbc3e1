"""A lapsed lease → what becomes of the job. Recovery run twice changes nothing: each settlement names the lapsed token.

Drivers take back what needs no decision by themselves (`Expire`, inside a claim); everything else comes here.
"""

from __future__ import annotations

from typing import Final

from windlass.core.changes import Ack, Cancelled, Expire, Settlement
from windlass.core.settle import Execution, Failed, dead, fail, policy_of, riders_of, used_up
from windlass.types import Claimed, Run

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


def reconcile(job: Claimed, last: Run, run: Execution) -> Settlement:
    """A running job whose rows somebody else has written: it ends as its run says, and one whose run was missing, and was
    given to it, has crashed. The run itself stays as it is when it has ended."""
    lapsed = job.lease_expires_at <= run.at
    match last.status:
        case "completed":
            return Ack(handle=job.handle, token=job.token, at=run.at, lapsed=lapsed, riders=riders_of(job, "succeeded"))
        case "skipped":
            return Cancelled(
                handle=job.handle, token=job.token, at=run.at, lapsed=lapsed, riders=riders_of(job, "cancelled"),
                reason=last.error,
            )  # fmt: skip
        case _:
            return fail(job, Failed(last.error or CRASH_ERROR), run, lapsed=lapsed)
