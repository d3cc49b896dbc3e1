"""The outcome of one execution → the settlement that records it. Every decision about failure is made here.

`same_job` queues (at least once) put the failed row back; `new_job` queues (never run a job id twice) end the row as
superseded and insert the next link of the chain. Which one holds is stored in the row, not in this process.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.changes import (
    Ack,
    Cancelled,
    CountMember,
    Ending,
    Fail,
    Release,
    Report,
    RetryChild,
    Rider,
    Settlement,
    Snooze,
)
from windlass.core.changes import Retry as RetryInPlace
from windlass.core.counters import one_more
from windlass.core.events import comes_back, true_of
from windlass.errors import InvalidInput
from windlass.policies import DEFAULT_RETRY, Retry, jittered
from windlass.types import Claimed, DeadKind, Job, Micros


class Succeeded(Struct, frozen=True):
    result: bytes | None = None


class Failed(Struct, frozen=True):
    """An exception, a timeout, a crash. `types` are qualified class names, matched against the policy's rules."""

    error: str
    types: tuple[str, ...] = ()
    retry_in: Micros | None = None  # the handler named the delay itself


class Rejected(Struct, frozen=True):
    """Dead at once: no handler, undecodable, or the handler said so."""

    reason: str


class Snoozed(Struct, frozen=True):
    delay: Micros


class Released(Struct, frozen=True):
    """Handed back by a worker that stops."""


class WasCancelled(Struct, frozen=True):
    """The execution was cancelled: by its handler, who gives the reason; or by somebody who asked for it, and the row has
    theirs."""

    reason: str | None = None


Outcome: TypeAlias = Succeeded | Failed | Rejected | Snoozed | Released | WasCancelled


class Execution(Struct, frozen=True, gc=False):
    """The circumstances of one outcome, all of them given: core has no clock and no randomness."""

    at: Micros
    started_at: Micros | None = None
    child_id: str = ""  # the id of the next link, should `new_job` need one
    roll: float = 0.0  # in [0, 1): spreads the delay when the policy has jitter
    report: Report | None = None


class Verdict(Struct, frozen=True):
    """Retry after `delay`, or dead."""

    delay: Micros | None
    kind: DeadKind = "exhausted"


def policy_of(job: Claimed) -> Retry:
    return DEFAULT_RETRY if job.retry_policy is None else Retry.decode(job.retry_policy)


def used_up(job: Claimed, attempts: int) -> bool:
    """Whether the failure or loss that makes `attempts` is the last one allowed. Runs that were skipped do not count."""
    return job.max_attempts > 0 and max(attempts, job.executions - job.skipped) >= job.max_attempts


def decide_failure(job: Claimed, failure: Failed, roll: float) -> Verdict:
    policy = policy_of(job)
    rule = policy.rule_for(failure.types)
    if rule is not None and rule.dead:
        return Verdict(None, "rejected")
    attempts = one_more(job.attempts)
    if used_up(job, attempts):
        return Verdict(None)
    if failure.retry_in is not None:
        return Verdict(failure.retry_in)
    backoff = rule.backoff if rule is not None and rule.backoff is not None else policy.backoff
    return Verdict(jittered(backoff.delay(attempts), policy.jitter, roll))


def settle(job: Claimed, outcome: Outcome, run: Execution) -> Settlement:
    match outcome:
        case Succeeded():
            return Ack(
                handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, report=run.report,
                riders=riders_of(job, "succeeded"), result=outcome.result,
            )  # fmt: skip
        case Failed():
            return fail(job, outcome, run)
        case Rejected():
            return dead(job, "rejected", outcome.reason, run)
        case Snoozed():
            return snooze(job, outcome.delay, run)
        case Released():
            return release(job, run)
        case WasCancelled():
            return Cancelled(
                handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, report=run.report,
                riders=riders_of(job, "cancelled"), reason=outcome.reason,
            )  # fmt: skip


def fail(job: Claimed, failure: Failed, run: Execution, *, lapsed: bool = False) -> Settlement:
    verdict = decide_failure(job, failure, run.roll)
    if verdict.delay is None:
        return dead(job, verdict.kind, failure.error, run, lapsed=lapsed)
    attempts, run_at = one_more(job.attempts), run.at + verdict.delay
    if job.retry_mode == "new_job":
        return supersede(job, RetryChild(_child(run), run_at, attempts), failure.error, run, lapsed=lapsed)
    return RetryInPlace(
        handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, lapsed=lapsed, report=run.report,
        riders=riders_of(job, None), run_at=run_at, attempts=attempts, error=failure.error,
    )  # fmt: skip


def dead(job: Claimed, kind: DeadKind, reason: str, run: Execution, *, lapsed: bool = False) -> Fail:
    return Fail(
        handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, lapsed=lapsed, report=run.report,
        riders=riders_of(job, "failed"), kind=kind, reason=reason, attempts=one_more(job.attempts),
    )  # fmt: skip


def supersede(
    job: Claimed, child: RetryChild, reason: str, run: Execution,
    *, lapsed: bool = False, run_status: Literal["failed", "skipped"] = "failed",
) -> Fail:  # fmt: skip
    """End a `new_job` row in favour of its next link. The chain goes on, so the group does not count it."""
    return Fail(
        handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, lapsed=lapsed, report=run.report,
        riders=(*riders_of(job, None), child), kind="superseded", reason=reason, run_status=run_status,
        attempts=child.attempts if run_status == "failed" else None, superseded_by=child.id,
    )  # fmt: skip


def snooze(job: Claimed, delay: Micros, run: Execution) -> Settlement:
    run_at = run.at + delay
    if job.retry_mode == "new_job":
        return supersede(job, RetryChild(_child(run), run_at, job.attempts), "snoozed", run, run_status="skipped")
    return Snooze(
        handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, report=run.report,
        riders=riders_of(job, None), run_at=run_at,
    )  # fmt: skip


def release(job: Claimed, run: Execution) -> Settlement:
    if job.retry_mode == "new_job":  # it may have had effects, and its id must never run again
        return fail(job, Failed("interrupted"), run)
    return Release(
        handle=job.handle, token=job.token, at=run.at, started_at=run.started_at, report=run.report,
        riders=riders_of(job, None),
    )  # fmt: skip


def riders_of(job: Claimed | Job, ending: Ending | None) -> tuple[Rider, ...]:
    """What always rides with the end of an execution: a finished member is counted in its group. Permits need no rider:
    the store gives back what the row holds."""
    return () if job.group_id is None or ending is None else (CountMember(job.group_id, ending),)


def honour_cancel(change: Settlement, *, cancel_requested: bool, group_id: str | None) -> Settlement:
    """A job that somebody asked to cancel never runs again: a change that would bring it back ends it instead. Of its
    events those stay that speak of what is done.

    Drivers call this with the row as it stands under the write, because the wish may be younger than the claim."""
    if not cancel_requested or not comes_back(change):
        riders = true_of(change)
        return change if riders is change.riders else replace(change, riders=riders)
    riders = tuple(r for r in change.riders if not isinstance(r, RetryChild))
    if group_id is not None:
        riders = (*riders, CountMember(group_id, "cancelled"))
    turned = Cancelled(
        handle=change.handle, token=change.token, at=change.at, started_at=change.started_at, lapsed=change.lapsed,
        riders=riders, report=change.report,
    )  # fmt: skip
    return replace(turned, riders=true_of(turned))


def _child(run: Execution) -> str:
    if not run.child_id:
        raise InvalidInput("child_id", "a new_job queue needs an id for the next link of the chain")
    return run.child_id
