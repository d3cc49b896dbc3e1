"""In whose name a change is made, and what that person may change. The line of the audit log is written in the same
transaction as the change; a row that is not theirs does not exist for them.

Somebody who is bound to an org or to queues can change their own jobs, and groups of such jobs. What all share, such as
limits, schedules or a queue with jobs of several orgs, they cannot change.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.core.alterations import (
    Acquire,
    Alteration,
    Cancel,
    CancelGroup,
    CreateToken,
    Delete,
    Grant,
    Move,
    MoveBeside,
    Note,
    NoteUse,
    PutQueue,
    ReleaseHold,
    Renew,
    Renormalise,
    Replay,
    RetryGroup,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
    Unchanged,
)
from windlass.errors import OutOfScope
from windlass.records import ApiToken
from windlass.types import Job

OF_JOBS = Cancel | Replay | RunNow | Delete | Move | MoveBeside | Swap | SetPriority
OF_QUEUES = SetPaused | PutQueue | Renormalise | Acquire
OF_HOLDS = Grant | Renew | ReleaseHold
OF_GROUPS = CancelGroup | RetryGroup


class By(Struct, frozen=True, kw_only=True):
    """In whose name a change is made. `org_id` and `queues` bound what they see and change; None = not bounded.
    `selection`: the words of a filter, if all that match are changed, a batch at a time."""

    actor: str
    org_id: str | None = None
    queues: tuple[str, ...] | None = None
    selection: str | None = None

    @property
    def bounded(self) -> bool:
        return self.org_id is not None or self.queues is not None


def within(by: By, org_id: str | None, queue: str) -> bool:
    """Whether a job of this org and queue is theirs."""
    return (by.org_id is None or org_id == by.org_id) and (by.queues is None or queue in by.queues)


def is_theirs(by: By, job: Job | None) -> bool:
    """A job that is not there is nobody's: it is reported like a foreign one."""
    return job is None or within(by, job.org_id, job.queue)


def has_token(by: By, token: ApiToken) -> bool:
    """Whether a token reaches no further than they do."""
    return (by.org_id is None or token.org_id == by.org_id) and _inside(by, token.queues)


def owns_all(by: By, owners: Sequence[Sequence[str | None]]) -> bool:
    """`owners`: the orgs and queues of a group's members. One without members is nobody's."""
    return bool(owners) and all(within(by, org_id, queue or "") for org_id, queue in owners)


def jobs_of(change: Alteration) -> tuple[str, ...]:
    """The jobs that a change names."""
    if isinstance(change, Unchanged):
        return jobs_of(change.change)
    if isinstance(change, MoveBeside | Swap):
        return change.job_id, change.other_id
    return (change.job_id,) if isinstance(change, OF_JOBS) else ()


def queue_of(change: OF_QUEUES) -> str:
    return change.name if isinstance(change, PutQueue) else change.queue


def check_within(by: By, changes: Sequence[Alteration]) -> None:
    """Refuse what a bounded actor cannot do to anything; whose a row is, the store tells."""
    if not by.bounded:
        return
    for change in changes:
        match change:
            case CreateToken():
                reaches = (by.org_id is None or change.org_id == by.org_id) and _inside(by, change.queues)
            case SetPaused() | PutQueue() | Renormalise() | Acquire() | Grant() | Renew() | ReleaseHold():
                reaches = by.org_id is None
            case RevokeToken() | NoteUse() | Note():
                reaches = True
            case _:
                reaches = isinstance(change, OF_JOBS | OF_GROUPS | Unchanged)
        if not reaches:
            raise beyond(by, type(change).__name__)


def beyond(by: By, what: str) -> OutOfScope:
    return OutOfScope(by.actor, by.org_id, by.queues, what)


def _inside(by: By, queues: tuple[str, ...] | None) -> bool:
    return by.queues is None or (queues is not None and set(queues) <= set(by.queues))
