"""What the admin service returns: frozen values that an edge can print or encode directly. Instants are aware datetimes.

The payload and the result of a job are shown as plain data; bytes that are not JSON are shown as text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from windlass.admin.showing import Part, scrub_of, shown
from windlass.clock import moment
from windlass.core.eligibility import label_of
from windlass.core.holds import is_valid
from windlass.core.why import Kind
from windlass.records import Fault
from windlass.redaction import Scrubber
from windlass.types import AfterRule, DeadKind, History, Hold, HoldStatus, Job, Label, Micros, Queue, Run, RunStatus, State
from windlass.wording import policy_in_words
from windlass.words import System, Words, words_of

Health = Literal["ok", "warning", "problem"]
EntryKind = Literal[
    "enqueued", "due", "claimed", "started", "progress", "failed", "skipped", "lost", "waits",
    "cancel requested", "superseded", "succeeded", "dead", "cancelled", "replayed",
]  # fmt: skip


class Filter(Struct, frozen=True, kw_only=True):
    """Which jobs. `state` is a state, a label, or with `system` a word of that system. `label` tells *queued* from
    *scheduled* and *running* from *claimed*. Spans of time include their beginning and exclude their end."""

    state: str | None = None
    system: System | None = None
    label: Label | None = None
    queue: str | None = None
    queues: tuple[str, ...] = ()  # any of them
    type: str | None = None
    org_id: str | None = None
    tag: str | None = None
    group_id: str | None = None
    schedule: str | None = None  # its name or its id
    worker_id: str | None = None  # who runs it, or ran it last
    created_from: datetime | None = None
    created_until: datetime | None = None
    finished_from: datetime | None = None
    finished_until: datetime | None = None
    error: str | None = None  # a fingerprint, or a part of the last error's text
    fingerprint: str | None = None  # of the last error: one group of `Admin.errors`, and nothing else
    older_than: Micros | None = None  # finished, or else created, at least this long ago
    ids: tuple[str, ...] = ()


class JobView(Struct, frozen=True, kw_only=True):
    """One job as people see it."""

    id: str
    type: str
    queue: str
    state: State
    label: Label
    words: Words | None
    org_id: str | None
    priority: int
    position: int
    created_at: datetime
    run_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    failed_at: datetime | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    worker_id: str | None
    attempts: int
    executions: int  # that count against max_attempts: not those that were snoozed, released, or forgiven by a replay
    runs: int  # all of them
    max_attempts: int
    lost: int
    timeout: float | None  # seconds
    policy: str
    history: History
    progress: float | None
    progress_note: str | None
    last_error: str | None
    dead_kind: DeadKind | None
    dead_reason: str | None
    idempotency_key: str | None
    dedupe_key: str | None
    parked_on: str | None
    group_id: str | None
    template_id: str | None
    schedule_id: str | None
    retry_of: str | None
    superseded_by: str | None
    tags: tuple[str, ...]
    headers: dict[str, str]
    payload: Any
    result: Any
    redacted: bool  # something of payload, result or headers is hidden
    hidden: tuple[Part, ...]  # of which of them


class RunView(Struct, frozen=True, kw_only=True):
    """One execution."""

    run_id: str
    job_id: str
    attempt: int
    worker_id: str | None
    status: RunStatus | None
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    waited: float | None  # seconds from due to claimed
    took: float | None  # seconds from begin to end
    error: str | None
    traceback: str | None
    exit_code: int | None  # of its process; negative: the signal that killed it
    cpu: float | None  # seconds, of runs in processes of their own
    peak_rss: int | None  # bytes, likewise
    artifacts: tuple[str, ...]
    log_path: str | None  # below the log root of the worker's machine


class LogView(Struct, frozen=True, kw_only=True):
    """The log of a run. `text` is None if there is none, or if it is not on this machine."""

    job_id: str
    run: int | None  # None: there is no run yet
    worker_id: str | None
    path: str | None  # below the log root
    text: str | None


class Entry(Struct, frozen=True):
    """One line of the timeline of a job."""

    at: datetime
    what: EntryKind
    text: str
    job_id: str
    attempt: int | None = None


class Link(Struct, frozen=True):
    """One link of a retry chain. `manual`: a person made it. `error` says why the next one took over."""

    id: str
    label: str
    attempts: int
    manual: bool
    error: str | None


class JobDetail(Struct, frozen=True, kw_only=True):
    """A job with its retry chain. `job` is the link that was asked for, `head` the last one."""

    at: datetime
    job: JobView
    head: JobView
    links: tuple[str, ...]  # the ids of the chain, first to last
    chain: tuple[Link, ...]  # the same with what became of each
    runs: tuple[RunView, ...]
    timeline: tuple[Entry, ...]
    earlier_runs: int = 0  # older than those, of which there are the newest thousand
    unkept: str | None = None  # why the run in which it succeeded is not among them
    parents: tuple[LinkView, ...] = ()
    dependants: tuple[LinkView, ...] = ()  # the first hundred


class Runs(Struct, frozen=True, kw_only=True):
    """Executions of a job and of its chain, in order, with their timeline. `earlier` is the number of older ones;
    `before`, the number of the first run, with the job of that run, leads to them."""

    at: datetime
    runs: tuple[RunView, ...]
    timeline: tuple[Entry, ...]
    earlier: int


class LinkView(Struct, frozen=True, kw_only=True):
    """A job at the other end of a dependency."""

    id: str
    type: str | None  # None: it was pruned
    state: State | None
    rule: AfterRule  # of the one that waits, when the other ends badly
    done: bool  # the end of the one was told to the other


class WhyReason(Struct, frozen=True, kw_only=True):
    """One reason why a job does not run. `until`: when it ends by itself. `command`: what a person can type."""

    kind: Kind
    text: str
    until: datetime | None
    command: str | None


class Why(Struct, frozen=True, kw_only=True):
    """Why a job is not running, the most important reason first."""

    at: datetime
    job_id: str
    state: State
    reasons: tuple[WhyReason, ...]


class JobList(Struct, frozen=True, kw_only=True):
    """A page of jobs. `cursor` leads to the next page, `back` to the one before; None: there is none. `stopped`: the
    search paused after so many jobs; the cursor goes on from there."""

    at: datetime
    jobs: tuple[JobView, ...]
    cursor: str | None
    back: str | None = None
    looked_at: int = 0
    stopped: bool = False


class QueueView(Struct, frozen=True, kw_only=True):
    name: str
    paused_at: datetime | None
    preset: str | None
    positions: str
    counts: dict[Label, int]  # of what has not ended, and of dead letters
    held_by: str | None = None


class Overview(Struct, frozen=True, kw_only=True):
    at: datetime
    queues: tuple[QueueView, ...]


class HoldView(Struct, frozen=True, kw_only=True):
    """A queue that is, or was, held for direct execution. `stale`: its time is over, and it has not been ended yet."""

    id: str
    queue: str
    by: str
    status: HoldStatus
    stale: bool
    reserved_at: datetime
    granted_at: datetime | None
    expires_at: datetime
    ended_at: datetime | None


class Holds(Struct, frozen=True, kw_only=True):
    at: datetime
    holds: tuple[HoldView, ...]


class WorkerView(Struct, frozen=True, kw_only=True):
    """A registered worker. `leader_until` of the last leader may lie in the past."""

    id: str
    hostname: str
    pid: int
    pool_size: int
    running: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    wakeups: str
    version: str
    started_at: datetime
    last_heartbeat: datetime
    alive: bool
    is_leader: bool
    leader_until: datetime | None


class Fleet(Struct, frozen=True, kw_only=True):
    at: datetime
    leader: str | None
    workers: tuple[WorkerView, ...]


class Changed(Struct, frozen=True):
    """The answer to a change. `job_id` is the link that was changed, or the job that will run."""

    job_id: str
    what: Literal[
        "cancelled", "cancel requested", "queued again", "due now", "moved", "swapped", "priority changed", "deleted"
    ]


class Queued(Struct, frozen=True):
    job_id: str
    existed: bool


class Check(Struct, frozen=True):
    name: str
    health: Health
    says: str
    next: str | None = None


class Diagnosis(Struct, frozen=True):
    checks: tuple[Check, ...]

    @property
    def health(self) -> Health:
        found = {check.health for check in self.checks}
        return "problem" if "problem" in found else "warning" if "warning" in found else "ok"


class Mended(Struct, frozen=True):
    """How many rows were put right, how many jobs were ended or retried, and what is still wrong."""

    rows: int
    jobs: int
    left: tuple[Fault, ...] = ()


class MigrationStep(Struct, frozen=True):
    name: str
    applied: bool
    concurrent: bool  # outside of transactions, while workers go on
    sql: str


class MigrationStatus(Struct, frozen=True):
    where: str
    steps: tuple[MigrationStep, ...]
    script: str = ""  # applies the missing ones in the store's own shell
    unsure: str = ""  # why some that are said to be missing may have been applied

    @property
    def missing(self) -> tuple[MigrationStep, ...]:
        return tuple(step for step in self.steps if not step.applied)


def job_view(
    job: Job, now: Micros, system: System | None = None, run: RunStatus | None = None, *, reveal: bool = False,
    brief: bool = False,
) -> JobView:  # fmt: skip
    label, seen = label_of(job, now), shown(job, reveal=reveal, brief=brief)
    scrub = seen.scrub
    return JobView(
        id=job.id, type=job.type, queue=job.queue, state=job.state, label=label,
        words=None if system is None else words_of(label, job.dead_kind, system, run),
        org_id=job.org_id, priority=job.priority, position=job.position, created_at=moment(job.created_at),
        run_at=_at(job.run_at), started_at=_at(job.started_at), finished_at=_at(job.finished_at),
        failed_at=_at(job.failed_at), lease_expires_at=_at(job.lease_expires_at),
        cancel_requested_at=_at(job.cancel_requested_at), worker_id=job.worker_id, attempts=job.attempts,
        executions=job.executions - job.skipped, runs=job.executions, max_attempts=job.max_attempts, lost=job.lost,
        timeout=job.timeout_ns / 1e9 if job.timeout_ns else None, policy=policy_in_words(job), history=job.history,
        progress=job.progress, progress_note=_told(scrub, job.progress_note),
        last_error=_told(scrub, job.last_error or None), dead_kind=job.dead_kind, dead_reason=_told(scrub, job.dead_reason),
        idempotency_key=_told(scrub, job.idempotency_key), dedupe_key=_told(scrub, job.dedupe_key), parked_on=job.parked_on,
        group_id=job.group_id, template_id=job.template_id, schedule_id=job.schedule_id,
        retry_of=job.retry_of, superseded_by=job.superseded_by, tags=job.tags, headers=seen.headers,
        payload=seen.payload, result=seen.result, redacted=seen.hidden != (), hidden=seen.hidden,
    )  # fmt: skip


def run_view(run: Run, scrub: Scrubber) -> RunView:
    took = None if run.finished_at is None else run.finished_at - (run.started_at or run.claimed_at)
    return RunView(
        run_id=run.run_id, job_id=run.job_id, attempt=run.attempt_no, worker_id=run.worker_id, status=run.status,
        claimed_at=moment(run.claimed_at), started_at=_at(run.started_at), finished_at=_at(run.finished_at),
        waited=None if run.wait_us is None else run.wait_us / 1e6, took=None if took is None else max(took, 0) / 1e6,
        error=_told(scrub, run.error), traceback=_told(scrub, run.traceback), exit_code=run.exit_code,
        cpu=None if run.cpu_us is None else run.cpu_us / 1e6, peak_rss=run.peak_rss, artifacts=run.artifacts,
        log_path=run.log_path,
    )  # fmt: skip


def queue_view(name: str, row: Queue | None, counts: dict[Label, int], hold: Hold | None = None) -> QueueView:
    """The view of a queue, which has no row if nobody declared it."""
    row = Queue(name=name) if row is None else row
    return QueueView(
        name=name, paused_at=_at(row.paused_at), preset=row.preset, positions=row.positions, counts=counts,
        held_by=None if hold is None else hold.by,
    )  # fmt: skip


def hold_view(hold: Hold, now: Micros) -> HoldView:
    return HoldView(
        id=hold.hold_id, queue=hold.queue, by=hold.by, status=hold.status,
        stale=hold.status == "ACTIVE" and not is_valid(hold, now), reserved_at=moment(hold.reserved_at),
        granted_at=_at(hold.granted_at), expires_at=moment(hold.expires_at), ended_at=_at(hold.ended_at),
    )  # fmt: skip


def _told(scrub: Scrubber, text: str | None) -> str | None:
    return None if text is None else scrub(text)


def _at(value: Micros | None) -> datetime | None:
    return None if value is None else moment(value)


def link_view(job: Job, now: Micros) -> Link:
    label = job.dead_kind if job.state == "dead" and job.dead_kind is not None else label_of(job, now)
    return Link(job.id, label, job.attempts, job.manual, _told(scrub_of(job), job.last_error or None))
