"""What people and services ask of a store, as values. Each has its own guard, by state instead of by lease.

A new wish is a new value here, not a new method of the drivers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.types import CatchUp, End, GroupMode, Micros, NewJob, OnFailure, Order, Overlap, Positions


class Cancel(Struct, frozen=True):
    """A queued job is cancelled at once; a running one is asked to stop at its next heartbeat."""

    job_id: str
    reason: str = "cancelled"


class Replay(Struct, frozen=True):
    """Run a dead job again: in place (`same_job`), or as a manual child named `child_id` (`new_job`)."""

    job_id: str
    child_id: str
    reset_attempts: bool = True


class RunNow(Struct, frozen=True):
    """A queued job that waits for its time is due at once. Its place in the order stays."""

    job_id: str


class Move(Struct, frozen=True):
    """A queued job goes before, or behind, every other job of its queue and priority that is queued now, whatever they
    wait for. The others keep their positions."""

    job_id: str
    to: End


class Delete(Struct, frozen=True):
    """Remove a finished job with its runs, and with it all links of its retry chain. Idempotency keys stay."""

    job_id: str


class Revoke(Struct, frozen=True):
    """A worker is known to be dead: its leases expire now, so that the next claim or sweep takes its jobs back."""

    worker_id: str


class Leave(Struct, frozen=True):
    """A worker goes in good order: its registry row is removed, and leadership that it holds ends now."""

    worker_id: str


class PutQueue(Struct, frozen=True):
    """Declare a queue, or change its settings. Whether it is paused is not one of them."""

    name: str
    positions: Positions = "tail"
    preset: str | None = None
    settings: str | None = None
    order: Order = "strict"
    age_after: Micros | None = None
    age_to: int | None = None


class SetPaused(Struct, frozen=True):
    """Stop claims from a queue, or let them begin again. Its settings stay, and `PutQueue` leaves this alone."""

    queue: str
    paused: bool


class PutLimit(Struct, frozen=True):
    """Set what bounds the jobs of a key: so many valid leases, so many claims per second. What is not said is not bounded.
    A new limit counts those who run already; lowering one never takes a permit away. Whether it is paused stays."""

    key: str
    max_used: int | None = None
    per_second: float | None = None
    burst: float | None = None  # with per_second; the bucket is full at first
    weight: float = 1.0
    declared: bool = False  # by a program, which says the same at every start: obeyed when it says something new


class RemoveLimit(Struct, frozen=True):
    """Bound a key no more: whoever waits for it may be claimed, and a pause ends with it."""

    key: str


class PauseLimit(Struct, frozen=True):
    """Stop claims of the jobs of a type, an org, a tag, a key or all, or let them begin again. Makes the limit if there is
    none."""

    key: str
    paused: bool


class PutGroup(Struct, frozen=True):
    """Declare a group of `total` members before they are enqueued."""

    group_id: str
    total: int
    name: str = ""
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"


class PutTemplate(Struct, frozen=True, kw_only=True):
    """Make a template, or by the same name a new version of it; one that is archived is in use again. `template_id` is
    that of a new one: an old one keeps its own."""

    template_id: str
    name: str
    type: str
    queue: str = "default"
    params: bytes = b"{}"
    settings: str | None = None


class ArchiveTemplate(Struct, frozen=True):
    """No more jobs are made of it; its schedules go on without making any. Jobs that exist stay as they are."""

    name: str


class DeleteTemplate(Struct, frozen=True):
    """Remove a template with all its versions, unless a schedule uses it."""

    name: str


class PutSchedule(Struct, frozen=True, kw_only=True):
    """Make a schedule, or change the one of this name. `schedule_id` is that of a new one: an old one keeps its own.

    A change of rule, zone or `enabled` computes the next time from now on; anything else leaves it alone. No job that
    exists is touched. `enabled` None: as it was, and a new one runs. `declared` is the fingerprint of code that declares
    it: while that is the same, what people changed meanwhile stays."""

    schedule_id: str
    name: str
    template: str  # its name
    cron_expression: str
    timezone: str = "UTC"
    enabled: bool | None = None
    param_overrides: bytes | None = None
    catch_up: CatchUp = "last"
    catch_up_cap: int = 100
    overlap: Overlap = "allow"
    jitter: Micros = 0
    declared: str | None = None


class RenameSchedule(Struct, frozen=True):
    """Give a schedule another name. Its id, and with it the jobs that it made, stay its own."""

    name: str
    to: str


class SetEnabled(Struct, frozen=True):
    """Pause a schedule, or let it go on from now: what passed meanwhile was not missed."""

    schedule: str
    enabled: bool


class DeleteSchedule(Struct, frozen=True):
    """Remove a schedule. The jobs that it made stay."""

    name: str


class Fire(Struct, frozen=True, kw_only=True):
    """A schedule's time has come: make its jobs and move on to the next time, if `expected` still is the next time. The
    schedule's overlap rule is judged for each job, in the order given. Without jobs it only moves on."""

    schedule_id: str
    expected: Micros
    next_trigger_at: Micros | None
    jobs: tuple[NewJob, ...] = ()


Alteration: TypeAlias = (
    Cancel | Replay | RunNow | Move | Delete | Revoke | Leave | SetPaused | PutQueue | PutLimit | RemoveLimit | PauseLimit
    | PutGroup | PutTemplate | ArchiveTemplate | DeleteTemplate | PutSchedule | RenameSchedule | SetEnabled
    | DeleteSchedule | Fire
)  # fmt: skip
OfSchedules: TypeAlias = (
    PutTemplate | ArchiveTemplate | DeleteTemplate | PutSchedule | RenameSchedule | SetEnabled | DeleteSchedule | Fire
)
AlterAnswer = Literal["applied", "requested", "unchanged", "not_found", "wrong_state", "duplicate"]
