"""Subscriptions, and what is announced to them: values → statements."""

from __future__ import annotations

import json
from collections.abc import Sequence

from windlass.core.alterations import AlterAnswer, PutWebhook
from windlass.core.changes import EXPIRED
from windlass.core.events import Lost, recovered
from windlass.drivers.rows import webhook_in
from windlass.drivers.statement import Blocks, Op, Row
from windlass.types import Micros


def put_webhook(sql: Blocks, change: PutWebhook, now: Micros) -> Op[AlterAnswer]:
    yield sql.put_webhook(
        webhook_id=change.webhook_id, url=change.url, events=json.dumps(list(change.events)), secret=change.secret,
        org_id=change.org_id, enabled=change.enabled, now=now,
    )  # fmt: skip
    return "applied"


def announce(sql: Blocks, taken_back: Sequence[Row], now: Micros) -> Op[None]:
    """Rows of `expire`. Who subscribed is only asked where something was taken back."""
    webhooks = [webhook_in(row) for row in (yield sql.all_webhooks())]
    if not webhooks:
        return
    lost = [Lost(*row[2:]) for row in sorted(taken_back, key=lambda row: row[0])]
    for event in recovered(webhooks, lost, EXPIRED):
        yield sql.add_event(event=event.event, job_id=event.job_id, org_id=event.org_id, body=event.body, now=now)
