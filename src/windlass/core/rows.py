"""What each change makes of a row. Drivers that keep rows as values (memory, the example in examples/) apply these
functions as they are; SQL drivers write the same columns in one statement each.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeVar

from msgspec.structs import replace

from windlass.core.alterations import Replay
from windlass.core.changes import Effect, RetryChild, Settlement, bounded, stored_report
from windlass.core.counters import MOST_COUNTED
from windlass.core.eligibility import is_due
from windlass.core.sampling import due_since
from windlass.types import Claimed, Job, Micros, NewJob, Run

T = TypeVar("T")
OVERTAKEN_BY: Final[Micros] = 1_000_000  # clocks of machines agree far better than that


def touched(job: Job, now: Micros) -> Micros:
    """updated_at strictly increases with every write, whatever the clock does, so that it doubles as a revision."""
    return max(now, job.updated_at + 1)


def enqueued(new: NewJob, *, seq: int, position: int, now: Micros) -> Job:
    return Job(
        seq=seq, id=new.id, queue=new.queue, type=new.type, org_id=new.org_id, state="queued",
        ready=is_due(new.run_at, now), priority=new.priority, position=position, created_at=now, queued_at=now,
        updated_at=now, run_at=new.run_at, timeout_ns=new.timeout_ns, attempts=new.attempts, executions=0, skipped=0,
        lost=0, max_attempts=new.max_attempts, max_lost=new.max_lost, lease_token=None, lease_expires_at=None,
        worker_id=None, claimed_at=None, started_at=None, finished_at=None, failed_at=None, last_token=None,
        last_outcome=None, dead_kind=None, dead_at=None, dead_reason=None, retry_mode=new.retry_mode,
        crash_policy=new.crash_policy, on_unknown=new.on_unknown, history=new.history, retry_policy=new.retry_policy,
        idempotency_scope=new.idempotency_scope, idempotency_key=new.idempotency_key, dedupe_key=new.dedupe_key,
        template_id=new.template_id, template_version=new.template_version, schedule_id=new.schedule_id,
        fire_at=new.fire_at, group_id=new.group_id, group_seq=new.group_seq, waiting_on=0, after_rule="cancel",
        awaited=False, parked_on=None, limit_keys=new.limit_keys, permits=(), aged_at=None, tags=new.tags,
        retry_of=None, manual=False,
        superseded_by=None, cancel_requested_at=None, progress=None, progress_note=None, headers=new.headers or {},
        codec=new.codec, last_error="", result=None, payload=new.payload,
    )  # fmt: skip


def child_of(parent: Job, child: RetryChild, *, seq: int, position: int, now: Micros) -> Job:
    """The next link of a chain. It inherits the work and its place in a group, not the idempotency key."""
    return Job(
        seq=seq, id=child.id, queue=parent.queue, type=parent.type, org_id=parent.org_id, state="queued",
        ready=is_due(child.run_at, now), priority=parent.priority, position=position, created_at=now, queued_at=now,
        updated_at=now, run_at=bounded(child.run_at), timeout_ns=parent.timeout_ns, attempts=child.attempts, executions=0,
        skipped=0, lost=0, max_attempts=parent.max_attempts, max_lost=parent.max_lost, lease_token=None,
        lease_expires_at=None, worker_id=None, claimed_at=None, started_at=None, finished_at=None, failed_at=None,
        last_token=None, last_outcome=None, dead_kind=None, dead_at=None, dead_reason=None,
        retry_mode=parent.retry_mode, crash_policy=parent.crash_policy, on_unknown=parent.on_unknown,
        history=parent.history, retry_policy=parent.retry_policy, idempotency_scope=None,
        idempotency_key=None, dedupe_key=parent.dedupe_key,
        template_id=parent.template_id, template_version=parent.template_version, schedule_id=parent.schedule_id,
        fire_at=parent.fire_at, group_id=parent.group_id, group_seq=parent.group_seq, waiting_on=0,
        after_rule=parent.after_rule, awaited=False, parked_on=None, limit_keys=parent.limit_keys, permits=(), aged_at=None,
        tags=parent.tags, retry_of=parent.id, manual=child.manual, superseded_by=None, cancel_requested_at=None,
        progress=None, progress_note=None, headers=parent.headers, codec=parent.codec, last_error="", result=None,
        payload=parent.payload,
    )  # fmt: skip


def replaced(job: Job, new: NewJob, now: Micros) -> Job:
    """A duplicate with on_duplicate="replace": new payload and time, same identity and place. It asks for its permits
    again when its time has come."""
    return replace(
        job, payload=new.payload, codec=new.codec, headers=new.headers or {}, run_at=new.run_at, parked_on=None,
        ready=is_due(new.run_at, now) and job.waiting_on == 0, updated_at=touched(job, now),
    )  # fmt: skip


def claimed(
    job: Job, *, token: str, worker_id: str, lease_for: Micros, start: bool, now: Micros, permits: tuple[str, ...] = ()
) -> Job:
    return replace(
        job, state="running", lease_token=token, lease_expires_at=now + lease_for, worker_id=worker_id,
        claimed_at=now, started_at=now if start else None, executions=job.executions + 1, permits=permits, progress=None,
        progress_note=None, updated_at=touched(job, now),
    )  # fmt: skip


def run_prefix(token: str, now: Micros) -> str:
    """All but the end of the run ids of one claim: a time-ordered UUID (version 7) whose last twelve digits are the
    job's seq, so that a run is found by its id without an index of its own. From seq 2**48 on there are more digits: no
    UUID any more, but never cut and never the same twice."""
    digest = hashlib.blake2b(token.encode(), digest_size=4).hexdigest()
    millis = f"{(now // 1_000) & 0xFFFFFFFFFFFF:012x}"
    return f"{millis[:8]}-{millis[8:]}-7{digest[:3]}-{'89ab'[int(digest[3], 16) & 3]}{digest[4:7]}-"


def run_of(job: Job, run_id: str) -> Run:
    """The run row of a job that was just claimed."""
    assert job.claimed_at is not None, "claimed without claimed_at"
    return Run(
        run_id=run_id, job_id=job.id, attempt_no=job.executions, worker_id=job.worker_id, org_id=job.org_id,
        queue=job.queue, type=job.type, template_id=job.template_id, template_version=job.template_version,
        claimed_at=job.claimed_at, started_at=job.started_at, finished_at=None, status=None,
        wait_us=max(job.claimed_at - max(job.queued_at, job.run_at or 0), 0), cpu_us=None, peak_rss=None, exit_code=None,
        log_path=None, artifacts=(), params=job.payload, error=None, traceback=None,
    )  # fmt: skip


def run_under_way(job: Job) -> Run:
    """The run of a running job of which no row is kept: made of the job, as the claim would have written it."""
    assert job.lease_token is not None, "running without a lease"
    assert job.claimed_at is not None, "running without claimed_at"
    return run_of(job, run_id_of(job.lease_token, job.claimed_at, job.seq))


def run_id_of(token: str, claimed_at: Micros, seq: int) -> str:
    return f"{run_prefix(token, claimed_at)}{seq:012x}"


def as_claimed(job: Job, run_id: str, handle: object) -> Claimed:
    assert job.lease_token is not None, "claimed without a lease"
    assert job.lease_expires_at is not None, "claimed without an expiry"
    assert job.claimed_at is not None, "claimed without claimed_at"
    return Claimed(
        handle, run_id, job.lease_token, job.claimed_at, job.lease_expires_at, job.id, job.type, job.queue, job.org_id,
        job.priority, due_since(job), job.timeout_ns, job.attempts, job.executions, job.skipped, job.lost,
        job.max_attempts, job.max_lost, job.retry_mode, job.crash_policy, job.on_unknown, job.retry_policy, job.group_id,
        job.created_at, job.codec, job.payload, job.headers, job.permits,
    )  # fmt: skip


def extended(
    job: Job, *, expires_at: Micros, started_at: Micros | None, progress: float | None, note: str | None, now: Micros
) -> Job:
    if now + OVERTAKEN_BY < job.updated_at:  # it was on its way for so long that its holder has renewed since
        expires_at = max(expires_at, job.lease_expires_at or 0)
        progress, note = _first(job.progress, progress), _first(job.progress_note, note)
    return replace(
        job, lease_expires_at=expires_at, started_at=_first(job.started_at, started_at),
        progress=_first(progress, job.progress), progress_note=_first(note, job.progress_note),
        updated_at=touched(job, now),
    )  # fmt: skip


def _first(value: T | None, other: T | None) -> T | None:
    return other if value is None else value


def settled(job: Job, change: Settlement, effect: Effect, now: Micros) -> Job:
    """The job after a settlement whose guard held."""
    terminal = effect.finished_at is not None
    run_at = job.run_at if effect.keep_run_at else effect.run_at
    started_at = job.started_at if job.started_at is not None else change.started_at
    return replace(
        job, state=effect.state, ready=job.ready if terminal else is_due(run_at, now), run_at=run_at,
        attempts=job.attempts if effect.attempts is None else effect.attempts, skipped=job.skipped + effect.skipped,
        lost=min(job.lost + effect.lost, MOST_COUNTED), lease_token=None, lease_expires_at=None, permits=(),
        worker_id=job.worker_id if terminal else None, started_at=started_at, finished_at=effect.finished_at,
        failed_at=job.failed_at if effect.failed_at is None else effect.failed_at, last_token=change.token,
        last_outcome=effect.outcome, dead_kind=effect.dead_kind,
        dead_at=effect.finished_at if effect.state == "dead" else None, dead_reason=effect.dead_reason,
        superseded_by=effect.superseded_by if effect.superseded_by is not None else job.superseded_by,
        last_error=job.last_error if effect.last_error is None else effect.last_error, result=effect.result,
        updated_at=touched(job, now),
    )  # fmt: skip


def closed(run: Run, change: Settlement, effect: Effect) -> Run:
    """The run after a settlement. A run that never began has started_at = finished_at."""
    report = stored_report(change.report)
    started_at = run.started_at if run.started_at is not None else change.started_at
    return replace(
        run, status=effect.run_status, started_at=change.at if started_at is None else started_at,
        finished_at=change.at, error=effect.error,
        traceback=report.traceback, exit_code=report.exit_code,
        cpu_us=report.cpu_us, peak_rss=report.peak_rss, log_path=report.log_path,
        artifacts=run.artifacts + report.artifacts,
    )  # fmt: skip


def cancelled(job: Job, reason: str, now: Micros) -> Job:
    """A queued job that a person cancelled."""
    return replace(job, state="cancelled", parked_on=None, finished_at=now, last_error=reason, updated_at=touched(job, now))


def cancel_requested(job: Job, reason: str, now: Micros) -> Job:
    return replace(job, cancel_requested_at=now, last_error=reason, updated_at=touched(job, now))


def replayed(job: Job, change: Replay, now: Micros) -> Job:
    """A dead `same_job` row back in the queue. Its runs stay; its skipped counter takes the spent executions in, so
    that a replayed job has its whole allowance again when the attempts are reset."""
    reset = change.reset_attempts
    return replace(
        job, state="queued", ready=True, run_at=None, attempts=0 if reset else job.attempts,
        skipped=job.executions if reset else job.skipped, lost=0 if reset else job.lost, finished_at=None, dead_kind=None,
        dead_at=None, dead_reason=None, worker_id=None, cancel_requested_at=None, updated_at=touched(job, now),
    )  # fmt: skip


def placed(job: Job, priority: int, position: int, now: Micros) -> Job:
    return replace(job, priority=priority, position=position, updated_at=touched(job, now))


def revoked(job: Job, now: Micros) -> Job:
    """The lease of a worker that is dead ends now; everything else is left to whoever takes the job back."""
    return replace(job, lease_expires_at=now, updated_at=touched(job, now))


def fenced(job: Job, now: Micros) -> Job:
    """A lapsed lease that nobody can extend any more, however far behind the clock of its worker is: that clock has passed
    the moment of the claim."""
    return replace(job, lease_expires_at=job.claimed_at, updated_at=touched(job, now))


def brought_forward(job: Job, now: Micros) -> Job:
    return replace(job, run_at=None, ready=job.waiting_on == 0 and job.parked_on is None, updated_at=touched(job, now))
