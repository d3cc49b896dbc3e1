"""The nouns: frozen values that every layer shares. No behaviour, no IO.

Instants are integer microseconds since 1970-01-01 UTC and durations are microseconds (`timeout_ns` alone is in
nanoseconds), because every driver must agree on every comparison to the last digit. `windlass.clock` converts.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

Micros: TypeAlias = int

State = Literal["queued", "running", "succeeded", "dead", "cancelled"]
Label = Literal["queued", "scheduled", "blocked", "parked", "claimed", "running", "succeeded", "dead", "cancelled"]
DeadKind = Literal["exhausted", "rejected", "lost", "superseded"]
RunStatus = Literal["completed", "failed", "skipped"]
RetryMode = Literal["same_job", "new_job"]
CrashPolicy = Literal["requeue", "fail"]
OnUnknown = Literal["wait", "dead"]
History = Literal["full", "failures"]  # failures: an execution that succeeds leaves no run row
OnDuplicate = Literal["ignore", "touch", "replace", "raise"]
AfterRule = Literal["cancel", "continue"]
Positions = Literal["tail", "dense"]
Order = Literal["strict", "fair"]  # fair: orgs take turns by weight, each in the usual order
GroupMode = Literal["parallel", "sequential"]
OnFailure = Literal["stop", "continue", "skip"]
CatchUp = Literal["skip", "last", "all"]  # of times that passed while nobody could fire them
Overlap = Literal["allow", "skip", "queue-one"]  # when a job of the same schedule has not ended
End = Literal["top", "bottom"]  # of the jobs of one queue and priority
Side = Literal["before", "after"]
HoldStatus = Literal["ACTIVE", "RELEASED", "EXPIRED"]

STATES: Final[tuple[State, ...]] = get_args(State)
LABELS: Final[tuple[Label, ...]] = get_args(Label)
TERMINAL: Final[frozenset[State]] = frozenset({"succeeded", "dead", "cancelled"})
ACTIVE: Final[frozenset[State]] = frozenset({"queued", "running"})

# What a claim returns and a settlement gives back: only the driver that made it looks inside. A job's id is accepted
# wherever a handle is.
Handle: TypeAlias = Any


class NewGroup(Struct, frozen=True, kw_only=True, gc=False):
    """A group that comes into being with its members, in the transaction that stores them. Its members are those jobs of
    the batch that name it; with `sequential` each waits for the one before it, in the order of their `group_seq`."""

    group_id: str
    name: str = ""
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job as a caller describes it. Policies are part of it: what happens after a crash depends only on this row.

    `max_attempts` is the total of executions that decides (0 = no limit); whoever encodes a `Retry` into `retry_policy`
    writes its `executions` here, because the policy itself only says how long to wait and what not to retry."""

    id: str
    type: str
    queue: str = "default"
    org_id: str | None = None
    priority: int = 0
    run_at: Micros | None = None
    timeout_ns: int = 0
    attempts: int = 0
    max_attempts: int = 0
    max_lost: int = 0
    retry_mode: RetryMode = "same_job"
    crash_policy: CrashPolicy = "requeue"
    on_unknown: OnUnknown = "wait"
    retry_policy: str | None = None
    idempotency_scope: str | None = None
    idempotency_key: str | None = None
    dedupe_key: str | None = None
    template_id: str | None = None
    template_version: int | None = None
    schedule_id: str | None = None
    fire_at: Micros | None = None
    group_id: str | None = None
    group_seq: int | None = None
    limit_keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    headers: dict[str, str] | None = None
    codec: str = "json"
    payload: bytes = b"{}"
    idempotency_expires_at: Micros | None = None
    on_duplicate: OnDuplicate = "ignore"
    after: tuple[str, ...] = ()  # ids of jobs that must have ended before, of the same batch too
    after_rule: AfterRule = "cancel"  # when one of them ends badly
    opens: NewGroup | None = None  # said by at least one of the members
    history: History = "full"


class Job(Struct, frozen=True, kw_only=True, gc=False):
    """One durable unit of work, as stored: a column each, explained in the schema (drivers/sqlite/migrations)."""

    seq: int
    id: str
    queue: str
    type: str
    org_id: str | None
    state: State
    ready: bool
    priority: int
    position: int
    created_at: Micros
    queued_at: Micros
    updated_at: Micros
    run_at: Micros | None
    timeout_ns: int
    attempts: int
    executions: int
    skipped: int
    lost: int
    max_attempts: int
    max_lost: int
    lease_token: str | None
    lease_expires_at: Micros | None
    worker_id: str | None
    claimed_at: Micros | None
    started_at: Micros | None
    finished_at: Micros | None
    failed_at: Micros | None
    last_token: str | None
    last_outcome: str | None
    dead_kind: DeadKind | None
    dead_at: Micros | None
    dead_reason: str | None
    retry_mode: RetryMode
    crash_policy: CrashPolicy
    on_unknown: OnUnknown
    history: History
    retry_policy: str | None
    idempotency_scope: str | None
    idempotency_key: str | None
    dedupe_key: str | None
    template_id: str | None
    template_version: int | None
    schedule_id: str | None
    fire_at: Micros | None
    group_id: str | None
    group_seq: int | None
    waiting_on: int
    after_rule: AfterRule
    awaited: bool
    parked_on: str | None
    limit_keys: tuple[str, ...]
    permits: tuple[str, ...]  # limits that the claim counted it in; whoever ends the lease gives them back
    aged_at: Micros | None  # when its priority was last raised for waiting
    tags: tuple[str, ...]
    retry_of: str | None
    manual: bool
    superseded_by: str | None
    cancel_requested_at: Micros | None
    progress: float | None
    progress_note: str | None
    headers: dict[str, str]
    codec: str
    last_error: str
    result: bytes | None
    payload: bytes


class Claimed(Struct, frozen=True, gc=False):
    """A leased job with what its run, its settlement and its recovery need, and no more."""

    handle: Handle
    run_id: str
    token: str
    claimed_at: Micros
    lease_expires_at: Micros
    id: str
    type: str
    queue: str
    org_id: str | None
    priority: int
    due_at: Micros  # since when it could have run: queued, or its time had come
    timeout_ns: int
    attempts: int
    executions: int
    skipped: int
    lost: int
    max_attempts: int
    max_lost: int
    retry_mode: RetryMode
    crash_policy: CrashPolicy
    on_unknown: OnUnknown
    retry_policy: str | None
    group_id: str | None
    created_at: Micros
    codec: str
    payload: bytes
    headers: dict[str, str] = {}
    permits: tuple[str, ...] = ()


class Run(Struct, frozen=True, kw_only=True, gc=False):
    """One execution of a job. Immutable once it has a status, but for appended artifacts."""

    run_id: str
    job_id: str
    attempt_no: int
    worker_id: str | None
    org_id: str | None
    queue: str
    type: str
    template_id: str | None
    template_version: int | None
    claimed_at: Micros
    started_at: Micros | None
    finished_at: Micros | None
    status: RunStatus | None
    wait_us: int | None
    cpu_us: int | None
    peak_rss: int | None
    exit_code: int | None
    log_path: str | None
    artifacts: tuple[str, ...]
    params: bytes
    error: str | None
    traceback: str | None


class Group(Struct, frozen=True, kw_only=True, gc=False):
    """Jobs that belong together. The counters are deltas applied by the store, never values read earlier."""

    group_id: str
    name: str = ""
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"
    total: int = 0
    remaining: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    created_at: Micros = 0
    finished_at: Micros | None = None


class Dependency(Struct, frozen=True, kw_only=True, gc=False):
    """One job waits for another, or has waited: `done` once the end of the parent has been told to the job."""

    job_id: str
    parent_id: str
    rule: AfterRule
    done: bool


class MemberCount(Struct, frozen=True, kw_only=True, gc=False):
    """How many members of a group are in one state; `begun`: they have run, or are running. Links of retry chains that
    others took over from are not counted."""

    group_id: str
    state: State
    begun: bool
    jobs: int


class RunningCount(Struct, frozen=True, kw_only=True, gc=False):
    """How many jobs of a queue a worker has taken and not given back."""

    worker_id: str | None
    queue: str
    jobs: int


class Limit(Struct, frozen=True, kw_only=True, gc=False):
    """What bounds the jobs of one key: how many valid leases, how many claims per second, and whether any at all."""

    key: str  # global, queue:x, type:y, key:z, tag:t, org:o
    max_used: int | None = None
    used: int = 0
    per_second: float | None = None  # a token bucket, with the next three; all or none
    burst: float | None = None
    tokens: float | None = None
    refilled_at: Micros | None = None
    wake_at: Micros | None = None  # when a claim lets those through who wait
    weight: float = 1.0  # of an org, in queues with order="fair"
    paused_at: Micros | None = None
    declared: str | None = None  # as a program last described it: only another description is obeyed


class LimitUse(Struct, frozen=True, kw_only=True, gc=False):
    """Who waits for a limit, and who holds its permits."""

    key: str
    waiting: int
    holders: tuple[str, ...]


class Queue(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    positions: Positions = "tail"
    preset: str | None = None
    settings: str | None = None
    paused_at: Micros | None = None
    order: Order = "strict"
    age_after: Micros | None = None  # a job that waits for so long gets one more priority, and again after as long
    age_to: int | None = None  # up to this one


class Template(Struct, frozen=True, kw_only=True, gc=False):
    """One version of a reusable job. Versions are never changed, but for `archived_at` of the newest."""

    template_id: str
    version: int
    name: str
    type: str
    queue: str
    params: bytes  # a JSON object
    settings: str | None = None  # `core.templates.Policies` as JSON; None = all as usual
    archived_at: Micros | None = None
    created_at: Micros = 0


class Schedule(Struct, frozen=True, kw_only=True, gc=False):
    """A rule that makes jobs of a template. `next_trigger_at` is None while it is paused, and when no time is to come."""

    schedule_id: str
    template_id: str
    name: str
    cron_expression: str  # five or six fields, an alias such as @daily, or `every 15m`
    timezone: str = "UTC"
    enabled: bool = True
    param_overrides: bytes | None = None  # a JSON object over the template's
    catch_up: CatchUp = "last"
    catch_up_cap: int = 100
    overlap: Overlap = "allow"
    jitter: Micros = 0
    declared: str | None = None  # the fingerprint of the code that declared it; None = made at run time
    declared_at: Micros | None = None  # when code last did
    last_triggered_at: Micros | None = None
    next_trigger_at: Micros | None = None
    created_at: Micros = 0
    updated_at: Micros = 0


class Hold(Struct, frozen=True, kw_only=True, gc=False):
    """A queue taken for direct execution: a row of `reservations`. Active from `reserved_at`, granted once nothing of the
    queue runs any more."""

    hold_id: str
    queue: str
    by: str
    status: HoldStatus
    reserved_at: Micros
    granted_at: Micros | None
    expires_at: Micros
    ended_at: Micros | None = None
