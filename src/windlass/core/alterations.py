"""The changes that people and services ask of a store, as values. Each is guarded by the state of its row instead of by a
lease.

A new kind of change is a new value here, not a new method of the drivers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.core.alterations_webhooks import ChangeWebhook as ChangeWebhook
from windlass.core.alterations_webhooks import DeleteWebhook as DeleteWebhook
from windlass.core.alterations_webhooks import EndDelivery as EndDelivery
from windlass.core.alterations_webhooks import OfWebhooks as OfWebhooks
from windlass.core.alterations_webhooks import PingWebhook as PingWebhook
from windlass.core.alterations_webhooks import PutWebhook as PutWebhook
from windlass.core.alterations_webhooks import ReplayDelivery as ReplayDelivery
from windlass.core.alterations_webhooks import RotateSecret as RotateSecret
from windlass.core.alterations_webhooks import TakeDelivery as TakeDelivery
from windlass.core.named import Named
from windlass.types import CatchUp, End, GroupMode, Micros, NewJob, OnFailure, Order, Overlap, Positions, Side


class Cancel(Named, frozen=True):
    """Cancel a queued job at once; ask a running one to stop at its next heartbeat."""

    job_id: str
    reason: str = "cancelled"


class Replay(Named, frozen=True):
    """Run a dead job again: in place (`same_job`), or as a manual child named `child_id` (`new_job`)."""

    job_id: str
    child_id: str
    reset_attempts: bool = True


class RunNow(Named, frozen=True):
    """Make a queued job that waits for its time due at once. It keeps its place in the order."""

    job_id: str


class Move(Named, frozen=True):
    """Move a queued job before, or behind, every other job of its queue and priority that is queued now, whatever they
    wait for. The others keep their positions."""

    job_id: str
    to: End


class MoveBeside(Named, frozen=True):
    """Move a queued job directly before, or behind, another queued job of its queue. If that one has another priority the
    answer is `apart`, unless the job is to take over that priority. If there is no room between two jobs, all jobs of
    that queue and priority get new positions in the same order."""

    job_id: str
    other_id: str
    side: Side
    take_priority: bool = False


class Swap(Named, frozen=True):
    """Exchange the places of two queued jobs of one queue and priority. No other job changes its place."""

    job_id: str
    other_id: str


class SetPriority(Named, frozen=True):
    """Give a queued job another priority, and the last place among the jobs that have it."""

    job_id: str
    priority: int


class Renormalise(Named, frozen=True):
    """Give the queued jobs of a queue new positions, by priority and in the same order: 100, 200, 300 … if positions are
    dense; else a gap apart, up to that of the last one, so that jobs which come back from running still find their
    place."""

    queue: str


class Delete(Named, frozen=True):
    """Remove a finished job with its runs, and with it all links of its retry chain. Idempotency keys stay.
    `referred`: rows of another table, that of an application, refer to it and would be left behind; `busy`: somebody holds
    its row. Neither is waited for."""

    job_id: str


class Revoke(Named, frozen=True):
    """End the leases of a worker that is known to be dead, so that the next claim or sweep takes its jobs back."""

    worker_id: str


class Leave(Named, frozen=True):
    """Remove the registry row of a worker that ends in good order, and end its leadership if it has it."""

    worker_id: str


class PutQueue(Named, frozen=True):
    """Declare a queue, or change its settings. Whether it is paused is not one of them."""

    name: str
    positions: Positions = "tail"
    preset: str | None = None
    settings: str | None = None
    order: Order = "strict"
    age_after: Micros | None = None
    age_to: int | None = None


class SetPaused(Named, frozen=True):
    """Stop claims from a queue, or let them begin again; one that is under way may still begin what it has found. Its
    settings stay, and `PutQueue` leaves this alone."""

    queue: str
    paused: bool


class PutLimit(Named, frozen=True):
    """Set the limit of a key: how many valid leases, and how many claims per second. What is not given is not limited. A
    new limit counts running jobs too; lowering one takes no permit away. Whether it is paused does not change."""

    key: str
    max_used: int | None = None
    per_second: float | None = None
    burst: float | None = None  # with per_second; the bucket is full at first
    weight: float = 1.0
    declared: bool = False  # by a program, which says the same at every start: obeyed when it says something new


class RemoveLimit(Named, frozen=True):
    """Remove the limit of a key, and its pause. Jobs that wait for it can be claimed."""

    key: str


class PauseLimit(Named, frozen=True):
    """Stop claims of the jobs of a type, an org, a tag, a key or all, or let them begin again. Makes the limit if there is
    none."""

    key: str
    paused: bool


class PutGroup(Named, frozen=True):
    """Declare a group of `total` members before they are enqueued one by one. Nothing is known of their order then, so
    it is parallel; a sequential group comes with its members (`NewGroup`)."""

    group_id: str
    total: int
    name: str = ""
    mode: GroupMode = "parallel"
    on_failure: OnFailure = "stop"


class CancelGroup(Named, frozen=True):
    """Cancel the queued members of a group at once and ask the running ones to stop. `requested`: there were only running
    ones."""

    group_id: str
    reason: str = "cancelled"


class RetryGroup(Named, frozen=True):
    """Run members of a group again that died or were cancelled: (the member's id, an id for the job that takes over from
    it). A dead `same_job` row comes back in place, every other is taken over by a manual child, because neither a
    cancelled row nor a `new_job` row ever moves again. Those that are brought back wait for each other as they did
    before; jobs outside stay as they are. Members in another state are passed over; an id that is no member of the
    group is `not_found`, a dedupe key that somebody else holds is `duplicate`, and then nothing is changed."""

    group_id: str
    members: tuple[tuple[str, str], ...]


class PutTemplate(Named, frozen=True, kw_only=True):
    """Make a template, or by the same name a new version of it; one that is archived is in use again. `template_id` is
    that of a new one: an old one keeps its own."""

    template_id: str
    name: str
    type: str
    queue: str = "default"
    params: bytes = b"{}"
    settings: str | None = None


class ArchiveTemplate(Named, frozen=True):
    """Make no more jobs of a template; its schedules go on without making any. Existing jobs do not change."""

    name: str


class DeleteTemplate(Named, frozen=True):
    """Remove a template with all its versions, unless a schedule uses it."""

    name: str


class PutSchedule(Named, frozen=True, kw_only=True):
    """Make a schedule, or change the one of this name. `schedule_id` is that of a new one: an old one keeps its own.

    A change of rule, zone or `enabled` computes the next time from now on; anything else leaves it alone. No job that
    exists is touched. `enabled` None: as it was, and a new one runs. `declared` is the fingerprint of code that declares
    it: while that is the same, what people changed meanwhile stays. With `as_of`, its `updated_at` as it was read, it only
    changes what is there and still is as it was seen."""

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
    as_of: Micros | None = None


class RenameSchedule(Named, frozen=True):
    """Give a schedule another name. It keeps its id and the jobs that it made."""

    name: str
    to: str


class SetEnabled(Named, frozen=True):
    """Pause a schedule, or let it go on from now. Times that passed while it was paused were not missed."""

    schedule: str
    enabled: bool


class DeleteSchedule(Named, frozen=True):
    """Remove a schedule. The jobs that it made stay."""

    name: str


class Missed(Struct, frozen=True, kw_only=True, gc=False):
    """Times of a schedule that nobody fired when they came, from the first to the last of them. `made`: for how many of
    them jobs are to be made now; what is announced says for how many they were. Where they are very many, `times` are
    those that were looked at."""

    times: int
    first: Micros
    last: Micros
    made: int


class Fire(Named, frozen=True, kw_only=True):
    """A schedule's time has come: make its jobs and move on to the next time, if `expected` still is the next time and
    neither the schedule (`as_of`: its `updated_at` then) nor a template has changed since the jobs were made of them. The
    schedule's overlap rule is judged for each job, in the order given. Without jobs it only moves on. What was `missed` is
    announced (`schedule.missed`) where a webhook asks for it."""

    schedule_id: str
    expected: Micros
    next_trigger_at: Micros | None
    jobs: tuple[NewJob, ...] = ()
    missed: Missed | None = None
    as_of: Micros | None = None  # None: whatever it says


class Acquire(Named, frozen=True):
    """Take a queue: from now on no job of it is claimed. At most one hold of a queue is active; one whose time is over
    ends here, with a line in the audit log. The hold is not granted yet: that takes a later `Grant`."""

    hold_id: str
    queue: str
    by: str
    expires_in: Micros


class Grant(Named, frozen=True):
    """Give an active hold fresh time, never less than it has, and grant it when no job of its queue has a valid lease, nor
    can get one from a claim that is under way. Leases that have lapsed cannot be extended any more from then on, whatever
    clock their worker has. `requested`: not yet, ask again."""

    hold_id: str
    expires_in: Micros


class Renew(Named, frozen=True):
    """Give an active hold fresh time, never less than it has."""

    hold_id: str
    expires_in: Micros


class ReleaseHold(Named, frozen=True):
    """End a hold. `by` is somebody who ends a hold of another, which leaves a line in the audit log."""

    hold_id: str
    by: str | None = None


class CreateToken(Named, frozen=True, kw_only=True):
    """Create a token, known by the SHA-256 of its secret. No other token of its org that is not revoked may have its
    name."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    org_id: str | None = None
    queues: tuple[str, ...] | None = None
    expires_at: Micros | None = None


class RevokeToken(Named, frozen=True):
    """Revoke a token. Its row stays, so that old lines of the audit log can be understood."""

    token_id: str


class NoteUse(Named, frozen=True):
    """Note that a token was used, unless that was noted within the last minute."""

    token_id: str


class Note(Named, frozen=True):
    """Add a line to the audit log for something that changes no row. Only in somebody's name."""

    action: str
    subject: str
    count: int = 1
    detail: str | None = None


OfTokens: TypeAlias = CreateToken | RevokeToken | NoteUse


class Unchanged(Named, frozen=True):
    """Change one job if it still is what somebody saw: `seen` is its `updated_at` then, which every write raises. If it
    is not, the answer is `changed` and the job stays as it is."""

    change: OfOneJob
    seen: Micros


OfOneJob: TypeAlias = Cancel | Replay | RunNow | Move | SetPriority | Delete


Ordering: TypeAlias = Move | MoveBeside | Swap | SetPriority | Renormalise
Holding: TypeAlias = Acquire | Grant | Renew | ReleaseHold
OfSchedules: TypeAlias = (
    PutTemplate | ArchiveTemplate | DeleteTemplate | PutSchedule | RenameSchedule | SetEnabled | DeleteSchedule | Fire
)
Alteration: TypeAlias = (
    Cancel
    | Replay
    | RunNow
    | Delete
    | Revoke
    | Leave
    | SetPaused
    | PutQueue
    | PutLimit
    | RemoveLimit
    | PauseLimit
    | PutGroup
    | Ordering
    | Holding
    | OfSchedules
    | OfTokens
    | Note
    | OfWebhooks
    | CancelGroup
    | RetryGroup
    | Unchanged
)
AlterAnswer = Literal[
    "applied", "requested", "unchanged", "not_found", "wrong_state", "duplicate", "apart", "busy", "changed", "referred"
]
