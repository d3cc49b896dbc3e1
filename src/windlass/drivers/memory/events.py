"""Subscriptions, and what is announced to them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.alterations import AlterAnswer, PutWebhook
from windlass.core.changes import EXPIRED
from windlass.core.events import Lost, recovered
from windlass.drivers.memory.tables import Tables
from windlass.records import Event, Webhook
from windlass.types import Job, Micros


def put_webhook(tables: Tables, change: PutWebhook, now: Micros) -> AlterAnswer:
    before = tables.webhooks.get(change.webhook_id)
    row = Webhook(
        webhook_id=change.webhook_id, url=change.url, events=tuple(change.events), secret=change.secret,
        org_id=change.org_id, enabled=change.enabled, created_at=now if before is None else before.created_at,
    )  # fmt: skip
    tables.put_in(tables.webhooks, row.webhook_id, row)
    return "applied"


def announce(tables: Tables, taken_back: Sequence[Job], now: Micros) -> None:
    """Jobs as they were before they were taken back, in the order of their numbers."""
    lost = [Lost(j.id, j.org_id, j.type, j.queue, j.executions, j.lost + 1) for j in taken_back]
    for event in recovered(tables.webhooks.values(), lost, EXPIRED):
        tables.add_event(
            Event(event=event.event, job_id=event.job_id, org_id=event.org_id, body=event.body, created_at=now)
        )
