"""Checks of the changes that people and services ask for, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from windlass.core.acting import OF_JOBS, By, check_within
from windlass.core.admission import GROUP_MODES, ON_FAILURE, PAYLOAD_LIMIT
from windlass.core.admission_of_tokens import check_access
from windlass.core.admission_schedules import check_of_schedules
from windlass.core.admission_webhooks import check_of_webhooks
from windlass.core.alterations import (
    Acquire,
    Alteration,
    Cancel,
    CancelGroup,
    CreateToken,
    Delete,
    Grant,
    Holding,
    Leave,
    Move,
    MoveBeside,
    Note,
    NoteUse,
    OfOneJob,
    OfSchedules,
    OfWebhooks,
    PauseLimit,
    PutGroup,
    PutLimit,
    PutQueue,
    ReleaseHold,
    RemoveLimit,
    Renew,
    Renormalise,
    Replay,
    RetryGroup,
    Revoke,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
    Unchanged,
)
from windlass.core.fields import (
    LATEST,
    check_all,
    check_characters,
    check_flag,
    check_id,
    check_limit_key,
    check_name,
    check_number,
    check_one_of,
    check_priority,
    check_text,
    is_number,
)
from windlass.errors import InvalidInput, shown
from windlass.types import End, Order, Positions, Side

POSITIONS: Final = frozenset(get_args(Positions))
ORDERS: Final = frozenset(get_args(Order))
ENDS: Final = frozenset(get_args(End))
SIDES: Final = frozenset(get_args(Side))
MOST: Final = 1e9  # of what is counted by the second


def check_alterations(changes: Sequence[Alteration], by: By | None = None) -> None:
    if by is not None:
        check_name("actor", by.actor)
        if by.org_id is not None:
            check_name("org_id", by.org_id)
        if by.queues is not None:
            check_all("queues", by.queues)
        if by.selection is not None:
            check_characters("selection", by.selection)
    elif any(isinstance(change, Note) for change in changes):
        raise InvalidInput("actor", "a note in the audit log is somebody's")
    for change in changes:
        check_alteration(change)
    if by is not None:
        check_within(by, changes)  # it relies on what was checked
    acquired = {change.hold_id for change in changes if isinstance(change, Acquire)}
    for change in changes:
        if isinstance(change, Grant) and change.hold_id in acquired:
            raise InvalidInput("hold_id", f"{change.hold_id!r} is acquired in this very call; grant it in a later one")


def check_alteration(change: Alteration) -> None:
    if isinstance(change, OF_JOBS):
        check_characters("job_id", change.job_id)
    match change:
        case PutQueue():
            check_name("queue", change.name)
            check_one_of("positions", change.positions, POSITIONS)
            check_one_of("order", change.order, ORDERS)
            if change.preset is not None:
                check_text("preset", change.preset)
            if change.settings is not None:
                check_text("settings", change.settings, most=PAYLOAD_LIMIT)
            check_ageing(change)
        case PutLimit():
            check_put_limit(change)
        case RemoveLimit():
            check_limit_key("limit", change.key)
        case PauseLimit():
            check_pause_limit(change)
        case PutGroup() | CancelGroup() | RetryGroup():
            check_group(change)
        case CreateToken() | RevokeToken() | NoteUse() | Note():
            check_access(change)
        case Unchanged():
            check_unchanged(change)
        case Cancel():
            check_reason(change.reason)
        case Replay():
            check_id(change.child_id)
            check_flag("reset_attempts", change.reset_attempts)
        case Move():
            check_one_of("to", change.to, ENDS)
        case MoveBeside() | Swap():
            check_characters("other_id", change.other_id)
            if change.job_id == change.other_id:
                raise InvalidInput("other_id", f"is the job itself, {change.job_id!r}; name another one")
            if isinstance(change, MoveBeside):
                check_one_of("side", change.side, SIDES)
                check_flag("take_priority", change.take_priority)
        case SetPriority():
            check_priority(change.priority)
        case Renormalise():
            check_name("queue", change.queue)
        case Acquire() | Grant() | Renew() | ReleaseHold():
            check_hold(change)
        case Revoke() | Leave():
            check_name("worker_id", change.worker_id)
        case SetPaused():
            check_name("queue", change.queue)
            check_flag("paused", change.paused)
        case _ if isinstance(change, OfSchedules):
            check_of_schedules(change)
        case _ if isinstance(change, OfWebhooks):
            check_of_webhooks(change)
        case RunNow() | Delete():
            pass
        case _:
            raise InvalidInput("changes", f"are wishes such as Cancel, got {shown(change)}")


def check_unchanged(change: Unchanged) -> None:
    if not isinstance(change.change, OfOneJob):
        raise InvalidInput("change", f"must be one that is made to one job, got {shown(change.change)}")
    check_alteration(change.change)
    check_number("seen", change.seen)


def check_group(change: PutGroup | CancelGroup | RetryGroup) -> None:
    check_name("group_id", change.group_id)
    if isinstance(change, CancelGroup):
        check_reason(change.reason)
    if isinstance(change, PutGroup):
        check_text("name", change.name)
        check_number("total", change.total)
        check_one_of("mode", change.mode, GROUP_MODES)
        check_one_of("on_failure", change.on_failure, ON_FAILURE)
        if change.total == 0:
            raise InvalidInput("total", "a group has at least one member")
        if change.mode == "sequential":
            raise InvalidInput("mode", "a sequential group comes with its members; enqueue them together (NewGroup)")
    if isinstance(change, RetryGroup):
        for member_id, child_id in _pairs(change.members):
            check_characters("members", member_id)
            check_id(child_id)
        if len({job_id for job_id, _ in change.members}) < len(change.members):
            raise InvalidInput("members", f"names a member of the group {change.group_id!r} twice")
        if len({child_id for _, child_id in change.members}) < len(change.members):
            raise InvalidInput("members", f"gives two of the group {change.group_id!r} one id for what takes over")


def _pairs(members: object) -> Sequence[tuple[object, object]]:
    if not isinstance(members, tuple | list) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in members
    ):
        raise InvalidInput("members", f"must be pairs of a member's id and an id for what takes over, got {shown(members)}")
    return members


def check_reason(reason: object) -> None:
    """Free words: drivers make of them what they can keep (`storable`), if they are words at all."""
    if not isinstance(reason, str):
        raise InvalidInput("reason", f"must be text, got {shown(reason)}")


def check_pause_limit(change: PauseLimit) -> None:
    check_limit_key("limit", change.key)
    check_flag("paused", change.paused)
    if change.key.startswith("queue:"):
        raise InvalidInput("limit", f"{change.key!r} is a queue; pause the queue itself")


def check_put_limit(change: PutLimit) -> None:
    check_limit_key("limit", change.key)
    check_flag("declared", change.declared)
    if change.max_used is not None:
        check_number("max_used", change.max_used)
    if change.per_second is not None:
        check_amount("rate", change.per_second, "claims per second")
    if change.burst is not None:
        if change.per_second is None:
            raise InvalidInput("burst", "is how many claims a rate lets pass at once; give the rate, too")
        if not is_number(change.burst) or not 1 <= change.burst <= MOST:
            raise InvalidInput(
                "burst", f"must be at least 1, or nothing would ever pass, and at most 1e9, got {shown(change.burst)}"
            )
    check_amount("weight", change.weight, "turns beside other orgs")
    if change.weight != 1 and not change.key.startswith("org:"):
        raise InvalidInput("weight", f"is of orgs, such as 'org:acme'; {change.key!r} is none")


def check_ageing(change: PutQueue) -> None:
    if (change.age_after is None) != (change.age_to is None):
        raise InvalidInput("ageing", "needs how long a job waits, and up to which priority it is raised")
    if change.age_after is not None and (type(change.age_after) is not int or not 0 < change.age_after <= LATEST):
        raise InvalidInput("ageing", f"must be longer than nothing, got {shown(change.age_after)}")
    if change.age_to is not None and (type(change.age_to) is not int or not -(2**31) <= change.age_to < 2**31):
        raise InvalidInput("ageing", f"the priority must be a whole number of 32 bits, got {shown(change.age_to)}")


def check_amount(field: str, value: object, what: str) -> None:
    if not is_number(value) or not 1e-6 <= value <= MOST:
        raise InvalidInput(field, f"must be {what}, more than nothing and at most 1e9, got {shown(value)}")


def check_hold(change: Holding) -> None:
    check_name("hold_id", change.hold_id)
    if isinstance(change, Acquire):
        check_name("queue", change.queue)
        check_name("by", change.by)
    if isinstance(change, ReleaseHold):
        if change.by is not None:
            check_name("by", change.by)
    elif type(change.expires_in) is not int or not 0 < change.expires_in <= LATEST:
        raise InvalidInput(
            "expires_in", f"must be more than zero and end before the year 9999, got {shown(change.expires_in)}"
        )
