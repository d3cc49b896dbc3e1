"""Webhooks, and what is on its way to them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

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
from windlass.core.queries import AllEvents, AllWebhooks, DeliveriesOf, DeliveryOf, DueDeliveries, WaitingEvents
from windlass.drivers.memory.events import add
from windlass.drivers.memory.tables import Tables
from windlass.records import Delivery, Event, Webhook
from windlass.types import Micros


def alter(tables: Tables, change: OfWebhooks, now: Micros) -> AlterAnswer:
    match change:
        case PutWebhook():
            write(tables, rules.put(tables.webhooks.get(change.webhook_id), change, now))
            return "applied"
        case TakeDelivery():
            return take(tables, change)
        case EndDelivery():
            return end(tables, change, now)
        case ReplayDelivery():
            return replay(tables, change, now)
        case ChangeWebhook() | RotateSecret() | DeleteWebhook() | PingWebhook():
            webhook = tables.webhooks.get(change.webhook_id)
            return "not_found" if webhook is None else alter_webhook(tables, webhook, change, now)


def alter_webhook(
    tables: Tables, webhook: Webhook, change: ChangeWebhook | RotateSecret | DeleteWebhook | PingWebhook, now: Micros
) -> AlterAnswer:
    match change:
        case ChangeWebhook():
            after = rules.changed(webhook, change)
            if after == webhook:
                return "unchanged"
            write(tables, after)
        case RotateSecret():
            write(tables, rules.rotated(webhook, change))
        case DeleteWebhook():
            tables.drop_from(tables.webhooks, webhook.webhook_id)
            for key in [key for key in tables.deliveries if key[1] == webhook.webhook_id]:
                tables.drop_from(tables.deliveries, key)
        case PingWebhook():
            for event in add(tables, [ping(webhook.webhook_id)], now, fanned_at=now):
                put(tables, rules.delivery_of(webhook.webhook_id, event, now))
    return "applied"


def write(tables: Tables, webhook: Webhook) -> None:
    tables.put_in(tables.webhooks, webhook.webhook_id, webhook)


def put(tables: Tables, delivery: Delivery) -> None:
    tables.put_in(tables.deliveries, (delivery.event_id, delivery.webhook_id), delivery)


# ---------------------------------------------------------------------------------------------------------- deliveries


def take(tables: Tables, change: TakeDelivery) -> AlterAnswer:
    found = tables.deliveries.get((change.event_id, change.webhook_id))
    if found is None:
        return "not_found"
    if not rules.is_takable(found, change.expected):
        return "wrong_state"
    put(tables, rules.taken(found, change.until))
    return "applied"


def end(tables: Tables, change: EndDelivery, now: Micros) -> AlterAnswer:
    found = tables.deliveries.get((change.event_id, change.webhook_id))
    if found is None:
        return "not_found"
    if not rules.is_takers(found, change.expected):
        return "wrong_state"
    put(tables, rules.ended(found, change, now))
    webhook = tables.webhooks.get(change.webhook_id)
    if change.disable is not None and webhook is not None and webhook.enabled:
        since = change.unless_sent_since
        if since is None or not was_sent(tables, change.webhook_id, since):
            write(tables, replace(webhook, enabled=False, disabled_reason=change.disable))
            tables.add_audit(rules.disabled(change, now))
    return "applied"


def was_sent(tables: Tables, webhook_id: str, since: Micros) -> bool:
    return any(
        row.webhook_id == webhook_id and row.status == "sent" and (row.finished_at or 0) >= since
        for row in tables.deliveries.values()
    )


def replay(tables: Tables, change: ReplayDelivery, now: Micros) -> AlterAnswer:
    found = tables.deliveries.get((change.event_id, change.webhook_id))
    if found is None:
        return "not_found"
    if rules.is_being_sent(found, now):
        return "busy"
    put(tables, rules.replayed(found, now))
    return "applied"


# -------------------------------------------------------------------------------------------------------------- duties


def fan_out(tables: Tables, duty: FanOut, now: Micros) -> Done:
    hooks = [hook for _, hook in sorted(tables.webhooks.items())]
    waiting = events_waiting(tables, WaitingEvents(limit=duty.limit))
    made = [delivery for event in waiting for delivery in rules.made_for(hooks, event, now)]
    for delivery in made:
        put(tables, delivery)
    for event in waiting:
        tables.put_in(tables.outbox, event.event_id, replace(event, fanned_at=now))
    return Done(len(made), more=len(waiting) == duty.limit)


def forget_events(tables: Tables, duty: ForgetEvents, now: Micros) -> Done:
    living = {hook.webhook_id for hook in tables.webhooks.values() if hook.enabled}
    needed = {row.event_id for row in tables.deliveries.values() if row.status == "queued" and row.webhook_id in living}
    old = [
        event for event in sorted(tables.outbox.values(), key=lambda event: (event.created_at, event.event_id))
        if event.fanned_at is not None and event.created_at <= now - duty.keep and event.event_id not in needed
    ]  # fmt: skip
    doomed = {event.event_id for event in old[: duty.limit]}
    for key in [key for key in tables.deliveries if key[0] in doomed]:
        tables.drop_from(tables.deliveries, key)
    for event_id in doomed:
        tables.drop_from(tables.outbox, event_id)
    return Done(len(doomed), more=len(doomed) == duty.limit)


# ------------------------------------------------------------------------------------------------------------- reading


def read(
    tables: Tables, query: AllWebhooks | AllEvents | WaitingEvents | DueDeliveries | DeliveriesOf | DeliveryOf
) -> Sequence[Webhook | Event | Delivery]:
    match query:
        case AllWebhooks():
            return [hook for _, hook in sorted(tables.webhooks.items())]
        case AllEvents():
            return [event for _, event in sorted(tables.outbox.items())]
        case WaitingEvents():
            return events_waiting(tables, query)
        case DueDeliveries():
            return due(tables, query)
        case DeliveriesOf():
            return deliveries(tables, query)
        case DeliveryOf():
            found = tables.deliveries.get((query.event_id, query.webhook_id))
            return [] if found is None else [found]


def events_waiting(tables: Tables, query: WaitingEvents) -> list[Event]:
    return [event for _, event in sorted(tables.outbox.items()) if event.fanned_at is None][: query.limit]


def due(tables: Tables, query: DueDeliveries) -> list[Delivery]:
    found: list[Delivery] = []
    for webhook_id in sorted(set(query.webhooks)):
        rows = [row for row in tables.deliveries.values() if row.webhook_id == webhook_id and row.status == "queued"]
        found += sorted((row for row in rows if (row.next_attempt_at or 0) <= query.by), key=by_time)[: query.each]
    return sorted(found, key=by_time)


def by_time(row: Delivery) -> tuple[Micros, int, str]:
    return row.next_attempt_at or 0, row.event_id, row.webhook_id


def deliveries(tables: Tables, query: DeliveriesOf) -> list[Delivery]:
    rows = [
        row for row in tables.deliveries.values()
        if row.webhook_id == query.webhook_id and query.status in (None, row.status)
        and (query.before is None or row.event_id < query.before)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.event_id)[: query.limit]
