"""What leaves the store: an event is written to the outbox with the change it speaks of, and only when somebody subscribed.

Whoever settles gives the events of a job's end along as riders, by a list of subscriptions that is a few seconds old at
most. Drivers announce by themselves what only they see: what a claim takes back, who is cancelled with another, the end of
a group, a schedule that came late, a queue that is not well. They ask who subscribed at that moment, and only then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT, moment
from windlass.core.alterations import Missed
from windlass.core.changes import (
    Ack,
    AddEvent,
    Cancelled,
    Expire,
    Fail,
    Release,
    Retry,
    RetryChild,
    Rider,
    Settlement,
    Snooze,
    due_of,
    effect_of,
)
from windlass.core.groups import status_of
from windlass.core.health import Trouble
from windlass.records import Webhook
from windlass.types import Claimed, Group, Job, Micros, Schedule

SUCCEEDED: Final = "job.succeeded"
RETRIED: Final = "job.retried"
DEAD: Final = "job.dead"
CANCELLED: Final = "job.cancelled"
RECOVERED: Final = "job.recovered"
GROUP_FINISHED: Final = "group.finished"
SCHEDULE_MISSED: Final = "schedule.missed"
QUEUE_UNHEALTHY: Final = "queue.unhealthy"
EVENTS: Final = (
    SUCCEEDED, RETRIED, DEAD, CANCELLED, RECOVERED, GROUP_FINISHED, SCHEDULE_MISSED, QUEUE_UNHEALTHY,
)  # fmt: skip
SETTLED: Final = (SUCCEEDED, RETRIED, DEAD, CANCELLED)  # what one worker knows of, because it settled it
PING: Final = "webhook.ping"  # sent to one webhook because somebody asked for it; nobody subscribes to it
ERROR_MOST: Final = 1_000  # characters: an event is a hint, the store has the whole


class Lost(Struct, frozen=True, gc=False):
    """A job that was taken back: what its event tells. `execution` is the one that was lost."""

    job_id: str
    org_id: str | None
    type: str
    queue: str
    execution: int
    lost: int  # this loss included


def wanted(webhooks: Iterable[Webhook], event: str, org_id: str | None) -> bool:
    """Whether anybody subscribed: of this organisation, or of all."""
    return any(hook.enabled and event in hook.events and hook.org_id in (None, org_id) for hook in webhooks)


def is_asked_for(webhooks: Iterable[Webhook], event: str) -> bool:
    """Whether anybody at all subscribed."""
    return any(hook.enabled and event in hook.events for hook in webhooks)


# -------------------------------------------------------------------------------------------- of what a worker settles


def event_of(change: Settlement) -> str | None:
    """What a settlement means to those outside. A link that another takes over from is not dead: it was retried, unless it
    only went to sleep."""
    match change:
        case Ack():
            return SUCCEEDED
        case Retry():
            return RETRIED
        case Fail(kind="superseded"):
            return RETRIED if change.run_status == "failed" else None
        case Fail():
            return DEAD
        case Cancelled():
            return CANCELLED
        case _:
            return None


def comes_back(change: Settlement) -> bool:
    """Whether the job, or a link that takes over from it, is to run again."""
    if isinstance(change, Fail):
        return change.kind == "superseded"
    return isinstance(change, Retry | Snooze | Release | Expire)


def announced(webhooks: Collection[Webhook], job: Claimed, change: Settlement, *, recovers: bool = False) -> Settlement:
    """The settlement with its events as riders. A settlement that brings the job back may become a cancellation where it
    is applied, so it carries that event too; `true_of` keeps those that came true. `recovers`: the job is taken back
    although its lease has not expired."""
    if not webhooks:
        return change
    names = {event_of(change)}
    if comes_back(change):
        names.add(CANCELLED)
    if change.lapsed or recovers:
        names.add(RECOVERED)
    told = tuple(
        AddEvent(name, job.id, job.org_id, _settled_data(name, job, change))
        for name in EVENTS
        if name in names and wanted(webhooks, name, job.org_id)
    )
    return replace(change, riders=(*change.riders, *told)) if told else change


def true_of(change: Settlement) -> tuple[Rider, ...]:
    """The riders of a change as it is applied: a job that comes back was not cancelled, one that was is not retried."""
    if isinstance(change, Cancelled):
        false = RETRIED
    elif comes_back(change):
        false = CANCELLED
    else:
        return change.riders
    true = tuple(rider for rider in change.riders if not (isinstance(rider, AddEvent) and rider.event == false))
    return true if len(true) < len(change.riders) else change.riders


def _settled_data(name: str, job: Claimed, change: Settlement) -> str:
    effect = effect_of(change)
    told: dict[str, Any] = {"execution": job.executions}
    if job.group_id is not None:
        told["group_id"] = job.group_id
    if name == RETRIED:
        child = next((rider.id for rider in change.riders if isinstance(rider, RetryChild)), None)
        told |= {"attempts": effect.attempts, "error": _short(effect.error), "retry_at": _iso(due_of(change))}
        told |= {} if child is None else {"next_id": child}
    elif name == DEAD:
        told |= {"attempts": effect.attempts, "kind": effect.dead_kind, "error": _short(effect.dead_reason)}
    elif name == RECOVERED:
        told |= {"lost": job.lost + 1, "error": _short(effect.error)}
    elif name == CANCELLED:
        told |= {"reason": _short(effect.last_error) if isinstance(change, Cancelled) else None}
    return _data(job.id, job.org_id, job.type, job.queue, **told)


# ---------------------------------------------------------------------------------------------- of what a driver sees


def recovered(webhooks: Collection[Webhook], lost: Iterable[Lost], error: str) -> list[AddEvent]:
    return [
        AddEvent(
            RECOVERED, one.job_id, one.org_id,
            _data(one.job_id, one.org_id, one.type, one.queue, execution=one.execution, lost=one.lost, error=error),
        )
        for one in lost
        if wanted(webhooks, RECOVERED, one.org_id)
    ]  # fmt: skip


def cancelled(webhooks: Collection[Webhook], jobs: Iterable[Job]) -> list[AddEvent]:
    """Jobs that were cancelled while they waited, as they are now."""
    return [
        AddEvent(
            CANCELLED, job.id, job.org_id,
            _data(
                job.id, job.org_id, job.type, job.queue, execution=job.executions,
                **({} if job.group_id is None else {"group_id": job.group_id}), reason=_short(job.last_error),
            ),
        )
        for job in jobs
        if wanted(webhooks, CANCELLED, job.org_id)
    ]  # fmt: skip


def finished(webhooks: Collection[Webhook], group: Group, orgs: Collection[str | None]) -> list[AddEvent]:
    """A group whose last member has ended. It is of an organisation when all its members are (`orgs`: theirs)."""
    org_id = next(iter(orgs)) if len(set(orgs)) == 1 else None
    told = {
        "v": 1, "group_id": group.group_id, "name": group.name, "org_id": org_id, "status": status_of(group, begun=True),
        "total": group.total, "succeeded": group.succeeded, "failed": group.failed, "cancelled": group.cancelled,
    }  # fmt: skip
    return _beside(webhooks, GROUP_FINISHED, group.group_id, org_id, told)


def missed(webhooks: Collection[Webhook], schedule: Schedule, late: Missed) -> list[AddEvent]:
    told = {
        "v": 1, "schedule_id": schedule.schedule_id, "name": schedule.name, "missed": late.times, "first": _iso(late.first),
        "last": _iso(late.last), "made": late.made,
    }  # fmt: skip
    return _beside(webhooks, SCHEDULE_MISSED, schedule.schedule_id, None, told)


def unhealthy(webhooks: Collection[Webhook], trouble: Trouble) -> list[AddEvent]:
    told = {
        "v": 1, "queue": trouble.queue, "minute": _iso(trouble.minute), "reasons": list(trouble.reasons),
        "waiting": trouble.waiting, "oldest_seconds": trouble.oldest // 1_000_000,
    }  # fmt: skip
    return _beside(webhooks, QUEUE_UNHEALTHY, trouble.queue, None, told)


def ping(webhook_id: str) -> AddEvent:
    return AddEvent(PING, webhook_id, None, _json({"v": 1, "webhook_id": webhook_id}))


def _beside(
    webhooks: Collection[Webhook], event: str, subject: str, org_id: str | None, told: dict[str, Any]
) -> list[AddEvent]:
    return [AddEvent(event, subject, org_id, _json(told))] if wanted(webhooks, event, org_id) else []


# --------------------------------------------------------------------------------------------------------------- words


def _data(job_id: str, org_id: str | None, task: str, queue: str, /, **more: Any) -> str:
    """Thin: enough to decide whether to look. Neither payload nor result ever leaves by this door."""
    return _json({"v": 1, "job_id": job_id, "org_id": org_id, "type": task, "queue": queue, **more})


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= ERROR_MOST else text[: ERROR_MOST - 1] + "…"


def _iso(at: Micros | None) -> str | None:
    """None also for what lies beyond every calendar: a delay of centuries, a time that a hand wrote."""
    return None if at is None or not 0 <= at <= LAST_INSTANT else moment(at).isoformat().replace("+00:00", "Z")
