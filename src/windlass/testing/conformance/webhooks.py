"""Webhooks and deliveries: each event to each who asked, taken by one sender at a time, ended by the one who took it."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import (
    ChangeWebhook,
    DeleteWebhook,
    EndDelivery,
    PingWebhook,
    ReplayDelivery,
    RotateSecret,
    TakeDelivery,
)
from windlass.core.changes import AddEvent
from windlass.core.duties import Done, FanOut, ForgetEvents
from windlass.core.events import DEAD, PING, SUCCEEDED
from windlass.core.queries import AllEvents, AllWebhooks, AuditLog, DeliveriesOf, DeliveryOf, DueDeliveries, WaitingEvents
from windlass.errors import InvalidInput
from windlass.records import Delivery, Try, Webhook
from windlass.testing.conformance.events import OTHER, SECRET, hook
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise

LEASE = 60 * SECOND


async def happened(t: Trial, event: str = DEAD, org_id: str | None = None) -> str:
    """A job ends, and its event is in the outbox."""
    job = await t.running(org_id=org_id)
    await t.ack(job, riders=(AddEvent(event, job.id, org_id, '{"v":1}'),))
    return job.id


async def due(t: Trial, *webhooks: str, each: int = 10) -> list[Delivery]:
    return await t.driver.read(DueDeliveries(webhooks=webhooks or ("h",), by=t.now, each=each))


async def sent_to(t: Trial, webhook_id: str = "h", **fields: Any) -> list[Delivery]:
    return await t.driver.read(DeliveriesOf(webhook_id=webhook_id, **fields))


async def one(t: Trial, webhook_id: str = "h") -> Delivery:
    """The one delivery to a webhook."""
    [row] = await sent_to(t, webhook_id)
    return row


def take(row: Delivery, until: int) -> TakeDelivery:
    return TakeDelivery(event_id=row.event_id, webhook_id=row.webhook_id, expected=row.next_attempt_at or 0, until=until)


async def taken(t: Trial, row: Delivery) -> Delivery:
    assert await t.alter(take(row, t.now + LEASE)) == "applied"
    [found] = await t.driver.read(DeliveryOf(event_id=row.event_id, webhook_id=row.webhook_id))
    return found


def ended(t: Trial, row: Delivery, **fields: Any) -> EndDelivery:
    told = {"status": "sent", "attempt": Try(t.now, 5, 200, None), "response": "ok"}
    return EndDelivery(
        event_id=row.event_id, webhook_id=row.webhook_id, expected=row.next_attempt_at or 0, **{**told, **fields}
    )  # fmt: skip


async def delivered(t: Trial, event: str = DEAD) -> Delivery:
    """An event on its way to the webhook h, taken."""
    await happened(t, event)
    await t.maintain(FanOut())
    [row] = await due(t)
    return await taken(t, row)


class WebhookPromises(Suite):
    # -------------------------------------------------------------------------------------------------- subscriptions

    @promise
    async def test_parts_of_a_subscription_can_be_changed(self, t: Trial) -> None:
        """What is not said stays; the same again is `unchanged`, one that is not there `not_found`."""
        await t.alter(hook(events=(DEAD,), org_id="acme"))
        assert await t.alter(ChangeWebhook(webhook_id="h", url="https://other.org/x")) == "applied"
        assert await t.alter(ChangeWebhook(webhook_id="h", events=(SUCCEEDED, DEAD), enabled=False)) == "applied"
        assert await t.alter(ChangeWebhook(webhook_id="h", enabled=False)) == "unchanged"
        assert await t.alter(ChangeWebhook(webhook_id="x", enabled=False)) == "not_found"
        assert await t.driver.read(AllWebhooks()) == [
            Webhook(
                webhook_id="h", url="https://other.org/x", events=(SUCCEEDED, DEAD), secret=SECRET, org_id="acme",
                enabled=False, created_at=t.now,
            )
        ]  # fmt: skip
        for field, value in (("url", "ftp://x"), ("events", ()), ("enabled", "no"), ("webhook_id", "a.b")):
            wrong: dict[str, Any] = {"webhook_id": "h", field: value}
            with pytest.raises(InvalidInput, match=field):
                await t.alter(ChangeWebhook(**wrong))

    @promise
    async def test_a_secret_is_replaced_and_the_old_one_kept_for_a_while(self, t: Trial) -> None:
        """The one before, and until when; a bad one is refused."""
        await t.alter(hook())
        assert await t.alter(RotateSecret(webhook_id="h", secret=OTHER, keep_until=t.now + MINUTE)) == "applied"
        [row] = await t.driver.read(AllWebhooks())
        assert (row.secret, row.old_secret, row.old_until) == (OTHER, SECRET, t.now + MINUTE)
        assert await t.alter(RotateSecret(webhook_id="x", secret=OTHER, keep_until=t.now)) == "not_found"
        with pytest.raises(InvalidInput, match="secret"):
            await t.alter(RotateSecret(webhook_id="h", secret=SECRET[:20], keep_until=t.now))

    @promise
    async def test_a_webhook_is_deleted_with_its_deliveries(self, t: Trial) -> None:
        """Those of others stay."""
        await t.alter(hook(events=(DEAD,)))
        await t.alter(hook("other", events=(DEAD,)))
        await happened(t)
        await t.maintain(FanOut())
        assert await t.alter(DeleteWebhook("h")) == "applied"
        assert await t.alter(DeleteWebhook("h")) == "not_found"
        assert (await sent_to(t), len(await sent_to(t, "other"))) == ([], 1)
        assert [row.webhook_id for row in await t.driver.read(AllWebhooks())] == ["other"]

    # --------------------------------------------------------------------------------------------------------- fan-out

    @promise
    async def test_an_event_goes_to_everybody_who_asked_for_it(self, t: Trial) -> None:
        """On, of its organisation or of all, and there when it happened: one delivery each, due at once; to nobody else."""
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("all", {}), ("mine", {"org_id": "acme"}), ("theirs", {"org_id": "other"}), ("off", {"enabled": False}),
            ("deaf", {"events": (SUCCEEDED,)}),
        )  # fmt: skip
        for name, fields in asked:
            await t.alter(hook(name, **{"events": (DEAD,), **fields}))
        job_id = await happened(t, org_id="acme")
        t.clock.advance(1)
        await t.alter(hook("later", events=(DEAD,)))
        assert await t.maintain(FanOut()) == Done(2)
        names = [name for name, _ in (*asked, ("later", {}))]
        rows = await due(t, *names)
        assert [(row.webhook_id, row.event, row.job_id, row.org_id, row.body) for row in rows] == [
            ("all", DEAD, job_id, "acme", '{"v":1}'), ("mine", DEAD, job_id, "acme", '{"v":1}'),
        ]  # fmt: skip
        assert all(
            (row.status, row.attempts, row.next_attempt_at, row.taken) == ("queued", 0, t.now, False) for row in rows
        )

    @promise
    async def test_deliveries_are_made_once(self, t: Trial) -> None:
        """A second fan-out finds nothing, also when nobody asked; a full bite says so."""
        await t.alter(hook(events=(DEAD,)))
        for _ in range(3):
            await happened(t)
        await happened(t, SUCCEEDED)
        assert len(await t.driver.read(WaitingEvents(limit=10))) == 4
        assert await t.maintain(FanOut(limit=2)) == Done(2, more=True)
        assert await t.maintain(FanOut(limit=3)) == Done(1)
        assert await t.maintain(FanOut()) == Done(0)
        assert await t.driver.read(WaitingEvents()) == []
        assert len(await sent_to(t)) == 3

    @promise
    async def test_a_ping_goes_to_one_webhook_whatever_it_asks_for(self, t: Trial) -> None:
        """Also to one that is switched off; not to the others."""
        await t.alter(hook(events=(DEAD,), enabled=False))
        await t.alter(hook("other", events=(DEAD,)))
        assert await t.alter(PingWebhook("h")) == "applied"
        assert await t.alter(PingWebhook("x")) == "not_found"
        assert await t.maintain(FanOut()) == Done(0)
        assert ((await one(t)).event, await sent_to(t, "other")) == (PING, [])

    # ------------------------------------------------------------------------------------------------------ deliveries

    @promise
    async def test_a_slow_webhook_does_not_hide_the_others(self, t: Trial) -> None:
        """Of each so many that are due, longest first; what is not due yet is not shown."""
        await t.alter(hook("a", events=(DEAD,)))
        for _ in range(4):
            await happened(t)
        await t.maintain(FanOut())
        t.clock.advance(1)
        await t.alter(hook("b", events=(DEAD,)))
        await happened(t)
        await t.maintain(FanOut())
        assert [row.webhook_id for row in await due(t, "a", "b", each=2)] == ["a", "a", "b"]
        assert [row.webhook_id for row in await due(t, "b", each=2)] == ["b"]
        early = await t.driver.read(DueDeliveries(webhooks=("a", "b"), by=t.now - 1, each=9))
        assert [row.webhook_id for row in early] == ["a"] * 4
        assert [row.event_id for row in early] == sorted(row.event_id for row in early)

    @promise
    async def test_a_delivery_is_taken_by_one(self, t: Trial) -> None:
        """Who read it before somebody took it is refused; it is due again when the taker's time is over."""
        await t.alter(hook(events=(DEAD,)))
        await happened(t)
        await t.maintain(FanOut())
        [row] = await due(t)
        assert await t.alter(take(row, t.now + LEASE)) == "applied"
        assert await t.alter(take(row, t.now + 2 * LEASE)) == "wrong_state"
        assert await due(t) == []
        missing = TakeDelivery(event_id=row.event_id + 9, webhook_id="h", expected=t.now, until=t.now + 1)
        assert await t.alter(missing) == "not_found"
        t.clock.advance(LEASE)
        [again] = await due(t)
        assert again.taken
        assert await t.alter(take(again, t.now + LEASE)) == "applied"

    @promise
    async def test_who_took_it_ends_it(self, t: Trial) -> None:
        """Sent: with the answer and the attempt, never due again. A second end is refused, as is a late one."""
        await t.alter(hook(events=(DEAD,)))
        row = await delivered(t)
        t.clock.advance(LEASE)
        later = await taken(t, row)
        assert await t.alter(ended(t, row)) == "wrong_state"
        assert await t.alter(ended(t, later)) == "applied"
        assert await t.alter(ended(t, later)) == "wrong_state"
        found = await one(t)
        assert (found.status, found.attempts, found.next_attempt_at, found.taken) == ("sent", 1, None, False)
        assert (found.finished_at, found.response, found.log) == (t.now, "ok", (Try(t.now, 5, 200, None),))
        t.clock.advance(LEASE)
        assert await due(t) == []

    @promise
    async def test_a_delivery_that_nobody_took_cannot_be_ended(self, t: Trial) -> None:
        """Even by who knows when it is due."""
        await t.alter(hook(events=(DEAD,)))
        await happened(t)
        await t.maintain(FanOut())
        [row] = await due(t)
        assert await t.alter(ended(t, row)) == "wrong_state"

    @promise
    async def test_a_failed_attempt_is_tried_again_at_its_time(self, t: Trial) -> None:
        """Not before; what went wrong is kept, attempt by attempt, the last twenty of them."""
        await t.alter(hook(events=(DEAD,)))
        row = await delivered(t)
        for number in range(25):
            failed = Try(t.now, number, 500, f"answered 500 ({number})")
            again = ended(t, row, status="queued", attempt=failed, next_attempt_at=t.now + MINUTE, response=None)
            assert await t.alter(again) == "applied"
            t.clock.advance(MINUTE - 1)
            assert await due(t) == []
            t.clock.advance(1)
            [row] = await due(t)
            row = await taken(t, row)
        found = await one(t)
        assert (found.attempts, found.status, [entry.took for entry in found.log]) == (25, "queued", list(range(5, 25)))

    @promise
    async def test_a_webhook_that_is_gone_is_switched_off(self, t: Trial) -> None:
        """With the reason, in the same step, and a line in the audit log; what waits for it stays."""
        await t.alter(hook(events=(DEAD,)))
        await t.alter(hook(webhook_id="other", events=(SUCCEEDED,)))
        row = await delivered(t)
        await t.alter(ended(t, row, status="failed", disable="it is gone"))
        webhook, other = await t.driver.read(AllWebhooks())
        assert (webhook.enabled, webhook.disabled_reason) == (False, "it is gone")
        assert (other.enabled, other.disabled_reason) == (True, None)
        await t.alter(DeleteWebhook("other"))
        assert [(line.action, line.subject, line.detail) for line in await t.driver.read(AuditLog())] == [
            ("webhook.disabled", "webhook:h", '{"reason": "it is gone"}')
        ]
        await happened(t)
        assert await t.maintain(FanOut()) == Done(0)
        await t.alter(ReplayDelivery(event_id=row.event_id, webhook_id="h"))
        [again] = await due(t)
        await t.alter(ended(t, await taken(t, again), status="failed", disable="it is still gone"))
        [webhook] = await t.driver.read(AllWebhooks())
        assert webhook.disabled_reason == "it is gone", "it says why it was switched off, once"
        assert len(await t.driver.read(AuditLog())) == 1
        await t.alter(ChangeWebhook(webhook_id="h", enabled=True))
        [webhook] = await t.driver.read(AllWebhooks())
        assert (webhook.enabled, webhook.disabled_reason) == (True, None)

    @promise
    async def test_a_webhook_that_took_something_else_stays_on(self, t: Trial) -> None:
        """Where the end says so: sent at that moment or later counts, earlier does not."""
        await t.alter(hook(events=(DEAD,)))
        await t.alter(hook(webhook_id="other", events=(SUCCEEDED,)))
        good = await delivered(t)
        await t.alter(ended(t, good))
        sent_at = t.now
        t.clock.advance(SECOND)
        await happened(t, SUCCEEDED)
        await t.maintain(FanOut())
        [elsewhere] = await due(t, "other")
        assert await t.alter(ended(t, await taken(t, elsewhere))) == "applied"
        for since, stays in ((sent_at, True), (sent_at + 1, False)):
            bad = await delivered(t)
            await t.alter(ended(t, bad, status="failed", disable="dead", unless_sent_since=since))
            webhook, other = await t.driver.read(AllWebhooks())
            assert (webhook.enabled, other.enabled) == (stays, True)

    @promise
    async def test_a_message_is_sent_once_more_when_somebody_asks(self, t: Trial) -> None:
        """Sent or failed or waiting: due at once, with its whole schedule, its log kept; not while it is being sent."""
        await t.alter(hook(events=(DEAD,)))
        row = await delivered(t)
        again = ReplayDelivery(event_id=row.event_id, webhook_id="h")
        assert await t.alter(again) == "busy"
        await t.alter(ended(t, row, status="failed"))
        assert await t.alter(again) == "applied"
        [found] = await due(t)
        assert (found.status, found.attempts, found.finished_at, len(found.log)) == ("queued", 0, None, 1)
        assert (found.event_id, found.body) == (row.event_id, row.body)
        await taken(t, found)
        t.clock.advance(LEASE)
        assert await t.alter(again) == "applied"
        assert await t.alter(ReplayDelivery(event_id=row.event_id, webhook_id="x")) == "not_found"

    @promise
    async def test_deliveries_are_listed_by_webhook_and_status(self, t: Trial) -> None:
        """Newest first, page by page."""
        await t.alter(hook(events=(DEAD,)))
        first, second = await delivered(t), await delivered(t)
        await t.alter(ended(t, first))
        await t.alter(ended(t, second, status="failed"))
        await happened(t)
        await t.maintain(FanOut())
        assert [row.status for row in await sent_to(t)] == ["queued", "failed", "sent"]
        assert [row.event_id for row in await sent_to(t, status="failed")] == [second.event_id]
        assert [row.event_id for row in await sent_to(t, before=second.event_id)] == [first.event_id]
        assert [row.status for row in await sent_to(t, limit=2)] == ["queued", "failed"]
        assert await sent_to(t, "nobody") == []

    # ------------------------------------------------------------------------------------------------------- forgetting

    @promise
    async def test_old_events_go_with_their_deliveries(self, t: Trial) -> None:
        """In bites, the oldest first; what is still to be sent stays, unless it waits for a webhook that is off or gone."""
        for name in ("a", "b"):
            await t.alter(hook(name, events=(DEAD,)))
        for _ in range(3):
            await happened(t)
        await t.maintain(FanOut())
        rows = {(row.event_id, row.webhook_id): row for row in await due(t, "a", "b")}
        first, second, third = sorted({event_id for event_id, _ in rows})
        for key in ((first, "a"), (first, "b"), (second, "a")):
            await t.alter(ended(t, await taken(t, rows[key])))
        t.clock.advance(MINUTE)
        await happened(t)
        assert await t.maintain(ForgetEvents(keep=MINUTE + 1)) == Done(0)
        assert await t.maintain(ForgetEvents(keep=MINUTE)) == Done(1)
        await t.alter(ChangeWebhook(webhook_id="b", enabled=False))
        assert await t.maintain(ForgetEvents(keep=MINUTE, limit=1)) == Done(1, more=True)
        assert [row.event_id for row in await sent_to(t, "b")] == [third]
        await t.alter(DeleteWebhook("a"))
        assert await t.maintain(ForgetEvents(keep=MINUTE)) == Done(1)
        assert await sent_to(t, "b") == []
        assert [row.fanned_at for row in await t.driver.read(AllEvents())] == [None]
