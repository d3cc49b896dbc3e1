"""Webhooks, and what is on its way to them: values → statements."""

from __future__ import annotations

from typing import Final, get_args

from windlass.core import webhooks as rules
from windlass.core.alterations import (
    AlterAnswer,
    ChangeWebhook,
    DeleteWebhook,
    EndDelivery,
    OfWebhooks,
    PingWebhook,
    PutWebhook,
    ReplayDelivery,
    RotateSecret,
    TakeDelivery,
)
from windlass.core.duties import Done, FanOut, ForgetEvents
from windlass.core.events import ping
from windlass.core.queries import DeliveriesOf, DueDeliveries
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import webhooks
from windlass.drivers.ops.notes import note
from windlass.drivers.rows import delivery_in, event_in, to_json
from windlass.drivers.statement import Op, Row, Statement
from windlass.records import Delivery, DeliveryStatus, Webhook
from windlass.types import Micros

LAST: Final = 2**63 - 1


def alter(db: Dialect, change: OfWebhooks, now: Micros) -> Op[AlterAnswer]:
    match change:
        case PutWebhook():
            yield from write(db, rules.put((yield from find_webhook(db, change.webhook_id)), change, now))
            return "applied"
        case TakeDelivery():
            return (yield from take(db, change))
        case EndDelivery():
            return (yield from end(db, change, now))
        case ReplayDelivery():
            return (yield from replay(db, change, now))
        case ChangeWebhook() | RotateSecret() | DeleteWebhook() | PingWebhook():
            webhook = yield from find_webhook(db, change.webhook_id)
            return "not_found" if webhook is None else (yield from alter_webhook(db, webhook, change, now))


def alter_webhook(
    db: Dialect, webhook: Webhook, change: ChangeWebhook | RotateSecret | DeleteWebhook | PingWebhook, now: Micros
) -> Op[AlterAnswer]:
    match change:
        case ChangeWebhook():
            after = rules.changed(webhook, change)
            if after == webhook:
                return "unchanged"
            yield from write(db, after)
        case RotateSecret():
            yield from write(db, rules.rotated(webhook, change))
        case DeleteWebhook():
            yield db.sql.delete_webhook(webhook_id=webhook.webhook_id)
            yield db.sql.delete_deliveries_to(webhook_id=webhook.webhook_id)
        case PingWebhook():
            said = ping(webhook.webhook_id)
            [(event_id,)] = yield db.sql.add_fanned_event(
                event=said.event, job_id=said.job_id, org_id=said.org_id, body=said.body, now=now
            )
            yield db.sql.insert_deliveries(items=to_json([(event_id, webhook.webhook_id)]), now=now)
    return "applied"


def find_webhook(db: Dialect, webhook_id: str) -> Op[Webhook | None]:
    return next((hook for hook in (yield from webhooks(db.sql)) if hook.webhook_id == webhook_id), None)


def write(db: Dialect, webhook: Webhook) -> Op[None]:
    yield db.sql.put_webhook(
        webhook_id=webhook.webhook_id, url=webhook.url, events=to_json(webhook.events), secret=webhook.secret,
        org_id=webhook.org_id, enabled=webhook.enabled, created_at=webhook.created_at, old_secret=webhook.old_secret,
        old_until=webhook.old_until, disabled_reason=webhook.disabled_reason,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- deliveries


def find(db: Dialect, event_id: int, webhook_id: str) -> Op[Delivery | None]:
    rows = yield db.sql.get_delivery(event_id=event_id, webhook_id=webhook_id)
    return delivery_in(rows[0]) if rows else None


def put(db: Dialect, row: Delivery) -> Op[None]:
    yield db.sql.write_delivery(
        event_id=row.event_id, webhook_id=row.webhook_id, status=row.status, attempts=row.attempts,
        next_attempt_at=row.next_attempt_at, taken=row.taken, finished_at=row.finished_at, response=row.response,
        log=to_json([(one.at, one.took, one.status, one.error) for one in row.log]),
    )  # fmt: skip


def take(db: Dialect, change: TakeDelivery) -> Op[AlterAnswer]:
    found = yield from find(db, change.event_id, change.webhook_id)
    if found is None:
        return "not_found"
    if not rules.is_takable(found, change.expected):
        return "wrong_state"
    yield from put(db, rules.taken(found, change.until))
    return "applied"


def end(db: Dialect, change: EndDelivery, now: Micros) -> Op[AlterAnswer]:
    found = yield from find(db, change.event_id, change.webhook_id)
    if found is None:
        return "not_found"
    if not rules.is_takers(found, change.expected):
        return "wrong_state"
    yield from put(db, rules.ended(found, change, now))
    if change.disable is not None and (
        yield db.sql.disable_webhook(
            webhook_id=change.webhook_id, reason=change.disable, since=change.unless_sent_since
        )
    ):  # fmt: skip
        yield from note(db, [rules.disabled(change, now)])
    return "applied"


def replay(db: Dialect, change: ReplayDelivery, now: Micros) -> Op[AlterAnswer]:
    found = yield from find(db, change.event_id, change.webhook_id)
    if found is None:
        return "not_found"
    if rules.is_being_sent(found, now):
        return "busy"
    yield from put(db, rules.replayed(found, now))
    return "applied"


# -------------------------------------------------------------------------------------------------------------- duties


def fan_out(db: Dialect, duty: FanOut, now: Micros) -> Op[Done]:
    yield from db.lock("share_webhooks")
    yield from db.lock("lock_waiting_events", limit=duty.limit)
    hooks = yield from webhooks(db.sql)
    waiting = [event_in(row) for row in (yield db.sql.waiting_events(limit=duty.limit))]
    made = [delivery for event in waiting for delivery in rules.made_for(hooks, event, now)]
    if made:
        yield db.sql.insert_deliveries(items=to_json([(one.event_id, one.webhook_id) for one in made]), now=now)
    if waiting:
        yield db.sql.fan_events(ids=db.ints(event.event_id for event in waiting), now=now)
    return Done(len(made), more=len(waiting) == duty.limit)


def forget_events(db: Dialect, duty: ForgetEvents, now: Micros) -> Op[Done]:
    found = [row[0] for row in (yield db.sql.forgettable(before=now - duty.keep, limit=duty.limit))]
    held = [row[0] for row in (yield db.sql.forgettable_still(ids=db.ints(found)))] if found else []
    if held:
        yield db.sql.delete_deliveries(ids=db.ints(held))
        yield db.sql.delete_events(ids=db.ints(held))
    return Done(len(held), more=len(found) == duty.limit)


# ------------------------------------------------------------------------------------------------------------- reading


def due(db: Dialect, query: DueDeliveries) -> Statement:
    return db.sql.due_deliveries(webhooks=db.texts(sorted(set(query.webhooks))), by=query.by, each=query.each)


def deliveries(db: Dialect, query: DeliveriesOf) -> Op[list[Delivery]]:
    """Each status has its own stretch of the index."""
    before = LAST if query.before is None else query.before
    found: list[Row] = []
    for status in get_args(DeliveryStatus) if query.status is None else (query.status,):
        found += yield db.sql.deliveries_of(
            webhook_id=query.webhook_id, status=status, before=before, limit=query.limit
        )  # fmt: skip
    return sorted(map(delivery_in, found), key=lambda row: -row.event_id)[: query.limit]
