"""Rows beside the jobs, as values like those in `types`: workers, samples, usage, webhooks, the audit log."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from windlass.types import Micros

DeliveryStatus = Literal["queued", "sent", "failed"]
FaultKind = Literal["orphan_run", "missing_run", "ended_run", "permits"]


class AuditLine(Struct, frozen=True, kw_only=True, gc=False):
    """What was done to the store by, or instead of, somebody; never changed, never removed."""

    at: Micros
    actor: str
    action: str
    subject: str
    detail: str | None = None  # a JSON object
    org_id: str | None = None  # to which the actor is bound
    selection: str | None = None  # how those that were changed were chosen, where they were not named
    count: int = 1  # how many were changed


class AuditEntry(Struct, frozen=True, gc=False):
    """A line and its number, by which the log is paged."""

    number: int
    line: AuditLine


class GroupOwner(Struct, frozen=True, gc=False):
    """A member of the group, or several, are of this org and queue."""

    group_id: str
    org_id: str | None
    queue: str


class WorkerInfo(Struct, frozen=True, kw_only=True, gc=False):
    """A worker as the registry knows it. `is_leader` and `leader_until` come from the leader's row, not from the worker."""

    id: str  # hostname:pid:random
    hostname: str
    pid: int
    pool_size: int
    version: str
    queues: tuple[str, ...]
    types: tuple[str, ...]  # the tasks it knows
    wakeups: str  # how it hears of new work at present
    running: int  # jobs that it holds
    started_at: Micros
    last_heartbeat: Micros = 0
    is_leader: bool = False
    leader_until: Micros | None = None


class QueueSample(Struct, frozen=True, kw_only=True):
    """A row of `queue_stats`: one queue in one minute. Depth and age as they were when the sample was taken; the rest is
    of the runs that ended within the minute. Histograms: bucket -> runs, `windlass.core.sampling.EDGES` has the bounds."""

    queue: str
    minute: Micros  # its beginning
    depth: dict[str, int]  # by label
    oldest: Micros | None  # for how long the job that is due longest has been due
    finished: dict[str, int]  # runs by outcome
    waits: dict[int, int]
    runs: dict[int, int]


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """A row of `usage_hourly`: the runs that ended in one hour, added up."""

    hour: Micros  # its beginning
    org_id: str  # "" = none
    queue: str
    type: str
    outcome: str  # the status of the runs
    runs: int = 0
    run_us: int = 0
    wait_us: int = 0
    cpu_us: int = 0
    peak_rss: int | None = None  # the largest


class Webhook(Struct, frozen=True, kw_only=True, gc=False):
    """A subscription to events, of one organisation or of all. After a change of secrets the old one also signs until
    `old_until`. `disabled_reason` says why it was switched off, if nobody did it by hand."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    secret: str
    org_id: str | None = None
    enabled: bool = True
    created_at: Micros = 0
    old_secret: str | None = None
    old_until: Micros | None = None
    disabled_reason: str | None = None


class ApiToken(Struct, frozen=True, kw_only=True, gc=False):
    """Lets a program in from outside. Its secret is not here, nor anywhere: only the SHA-256 of it."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    org_id: str | None = None  # bound to the jobs of one organisation
    queues: tuple[str, ...] | None = None  # bound to these queues
    expires_at: Micros | None = None
    last_used_at: Micros | None = None  # to the minute
    revoked_at: Micros | None = None
    created_at: Micros = 0


class Fault(Struct, frozen=True, gc=False):
    """Rows that contradict each other. The engine writes none: they come from other hands, with the guards switched off."""

    kind: FaultKind
    subject: str  # the id of the run or of the job, or the key of the limit
    detail: str


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """A row of the outbox: something a subscriber asked to hear of, written with the change it speaks of. `job_id` is its
    subject: a job, or the group, schedule, queue or webhook that it is about."""

    event: str
    job_id: str
    org_id: str | None
    body: str
    created_at: Micros = 0
    event_id: int = 0  # only their order is promised
    fanned_at: Micros | None = None  # when its deliveries were made


class Try(Struct, frozen=True, gc=False):
    """One attempt to deliver. `status` is the receiver's answer, None if there was none; `error` says what went wrong."""

    at: Micros
    took: Micros
    status: int | None = None
    error: str | None = None


class Delivery(Struct, frozen=True, kw_only=True, gc=False):
    """One event on its way to one webhook, and how far it is. While it is `taken`, `next_attempt_at` is when whoever took
    it must be done."""

    event_id: int
    webhook_id: str
    event: str
    job_id: str
    org_id: str | None
    body: str
    created_at: Micros  # of the event
    status: DeliveryStatus = "queued"
    attempts: int = 0
    next_attempt_at: Micros | None = None
    taken: bool = False
    finished_at: Micros | None = None
    response: str | None = None  # the beginning of the last answer
    log: tuple[Try, ...] = ()  # the last of them, oldest first


class Finding(Struct, frozen=True, gc=False):
    """What a store says of its own health. `status` is ok, warning or problem; `command` is what to type next."""

    name: str
    status: Literal["ok", "warning", "problem"]
    text: str
    command: str | None = None
