"""What people and services ask of a store, as values. Each has its own guard, by state instead of by lease.

A new wish is a new value here, not a new method of the drivers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.types import End, GroupMode, OnFailure, Positions


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


class SetPaused(Struct, frozen=True):
    """Stop claims from a queue, or let them begin again. Its settings stay, and `PutQueue` leaves this alone."""

    queue: str
    paused: bool


class PutLimit(Struct, frozen=True):
    """Set the cap of a key. Lowering it never takes a permit away from a running job."""

    key: str
    max_used: int | None


class PutGroup(Struct, frozen=True):
    """Declare a group of `total` members before they are enqueued."""

    group_id: str
    total: int
    name: str = ""
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"


class PutWebhook(Struct, frozen=True, kw_only=True):
    """Subscribe to events, or change a subscription. From now on each of them leaves a row in the outbox."""

    webhook_id: str
    url: str
    events: tuple[str, ...]
    secret: str
    org_id: str | None = None
    enabled: bool = True


Alteration: TypeAlias = (
    Cancel | Replay | RunNow | Move | Delete | Revoke | Leave | SetPaused | PutQueue | PutLimit | PutGroup | PutWebhook
)
AlterAnswer = Literal["applied", "requested", "unchanged", "not_found", "wrong_state", "duplicate"]
