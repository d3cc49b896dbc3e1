"""What is refused of the wishes of people and services, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from windlass.core.admission import (
    GROUP_MODES,
    LATEST,
    ON_FAILURE,
    check_id,
    check_name,
    check_number,
    check_one_of,
    check_priority,
    check_text,
)
from windlass.core.admission_schedules import check_of_schedules
from windlass.core.alterations import (
    Acquire,
    Alteration,
    CancelGroup,
    Grant,
    Holding,
    Leave,
    Move,
    MoveBeside,
    OfSchedules,
    PutGroup,
    PutLimit,
    PutQueue,
    PutWebhook,
    ReleaseHold,
    Renew,
    Renormalise,
    Replay,
    RetryGroup,
    Revoke,
    SetPaused,
    SetPriority,
    Swap,
)
from windlass.core.events import EVENTS
from windlass.errors import InvalidInput
from windlass.types import End, Positions, Side

POSITIONS: Final = frozenset(get_args(Positions))
ENDS: Final = frozenset(get_args(End))
SIDES: Final = frozenset(get_args(Side))


def check_alterations(changes: Sequence[Alteration]) -> None:
    for change in changes:
        check_alteration(change)
    acquired = {change.hold_id for change in changes if isinstance(change, Acquire)}
    for change in changes:
        if isinstance(change, Grant) and change.hold_id in acquired:
            raise InvalidInput("hold_id", f"{change.hold_id!r} is acquired in this very call; grant it in a later one")


def check_alteration(change: Alteration) -> None:
    match change:
        case PutQueue():
            check_name("queue", change.name)
            check_one_of("positions", change.positions, POSITIONS)
        case PutLimit():
            check_name("limit key", change.key)
            if change.max_used is not None:
                check_number("max_used", change.max_used)
        case PutGroup():
            check_name("group_id", change.group_id)
            check_number("total", change.total)
            check_one_of("mode", change.mode, GROUP_MODES)
            check_one_of("on_failure", change.on_failure, ON_FAILURE)
            if change.total == 0:
                raise InvalidInput("total", "a group has at least one member")
            if change.mode == "sequential":
                raise InvalidInput("mode", "a sequential group comes with its members; enqueue them together (NewGroup)")
        case CancelGroup():
            check_name("group_id", change.group_id)
        case RetryGroup():
            check_name("group_id", change.group_id)
            for _, child_id in change.members:
                check_id(child_id)
        case PutWebhook():
            check_webhook(change)
        case Replay():
            check_id(change.child_id)
        case Move():
            check_one_of("to", change.to, ENDS)
        case MoveBeside() | Swap():
            if change.job_id == change.other_id:
                raise InvalidInput("other_id", f"is the job itself, {change.job_id!r}; name another one")
            if isinstance(change, MoveBeside):
                check_one_of("side", change.side, SIDES)
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
            if not isinstance(change.paused, bool):
                raise InvalidInput("paused", f"must be True or False, got {change.paused!r}")
        case _ if isinstance(change, OfSchedules):
            check_of_schedules(change)
        case _:
            pass


def check_hold(change: Holding) -> None:
    check_name("hold_id", change.hold_id)
    if isinstance(change, Acquire):
        check_name("queue", change.queue)
        check_name("by", change.by)
    if isinstance(change, ReleaseHold):
        if change.by is not None:
            check_name("by", change.by)
    elif type(change.expires_in) is not int or not 0 < change.expires_in <= LATEST:
        raise InvalidInput("expires_in", f"must be more than zero, got {change.expires_in!r}")


def check_webhook(change: PutWebhook) -> None:
    check_name("webhook_id", change.webhook_id)
    for field in ("url", "secret"):
        check_text(field, getattr(change, field))
    if not change.url.startswith(("http://", "https://")):
        raise InvalidInput("url", f"must begin with http:// or https://, got {change.url!r:.80}")
    named: object = change.events
    if not isinstance(named, tuple | list) or not named:
        raise InvalidInput("events", f"give a non-empty sequence of event names, got {change.events!r}")
    for event in change.events:
        check_one_of("events", event, EVENTS)
    if change.org_id is not None:
        check_name("org_id", change.org_id)
    if not isinstance(change.enabled, bool):
        raise InvalidInput("enabled", f"must be True or False, got {change.enabled!r}")
