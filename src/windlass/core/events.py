"""What leaves the store: an event is written to the outbox with the change it speaks of, and only when somebody subscribed.

Drivers announce what they take back by themselves; whoever decides about a lapsed job gives the event along as a rider.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from windlass.core.changes import AddEvent
from windlass.records import Webhook
from windlass.types import Claimed

RECOVERED: Final = "job.recovered"
EVENTS: Final = frozenset({RECOVERED})


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


def recovered(webhooks: Collection[Webhook], lost: Iterable[Lost], error: str) -> list[AddEvent]:
    return [
        AddEvent(RECOVERED, one.job_id, one.org_id, _body(one, error))
        for one in lost
        if wanted(webhooks, RECOVERED, one.org_id)
    ]


def lost_of(job: Claimed) -> Lost:
    return Lost(job.id, job.org_id, job.type, job.queue, job.executions, job.lost + 1)


def _body(one: Lost, error: str) -> str:
    told = {
        "v": 1, "event": RECOVERED, "job_id": one.job_id, "org_id": one.org_id, "type": one.type, "queue": one.queue,
        "execution": one.execution, "lost": one.lost, "error": error,
    }  # fmt: skip
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
