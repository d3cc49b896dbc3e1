"""Webhooks' part of the state machine in `model.py`: who subscribes, what is fanned out, taken, ended, sent once more and
forgotten, also by who read too early. It keeps a ledger of its own: who has taken what, until when."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import (
    Alteration,
    ChangeWebhook,
    DeleteWebhook,
    EndDelivery,
    PingWebhook,
    PutWebhook,
    ReplayDelivery,
    RotateSecret,
    TakeDelivery,
)
from windlass.core.duties import FanOut, ForgetEvents
from windlass.core.events import EVENTS
from windlass.core.queries import AllEvents, AllWebhooks, DeliveriesOf, DueDeliveries, WaitingEvents
from windlass.core.webhooks import Answer, ending
from windlass.drivers.protocol import Driver
from windlass.records import Delivery, Event, Webhook
from windlass.testing.model_machine import Machine

HOOKS = ("h1", "h2")
SECRETS = ("whsec_" + "A" * 32, "whsec_" + "B" * 32)
LEASE = 20 * SECOND
Pair = tuple[Delivery, Delivery]  # the same delivery as memory and as the driver under test has it

some_events = st.lists(st.sampled_from(EVENTS), min_size=1, max_size=5, unique=True).map(tuple)
answers = st.sampled_from((
    Answer(took=1, status=200, body="ok"), Answer(took=2, status=500), Answer(took=3, error="no route"),
    Answer(took=4, status=410), Answer(took=5, status=429, retry_after=90 * SECOND),
))  # fmt: skip


class WebhookRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.seen_deliveries: list[Pair] = []  # as somebody read them, now or long ago
        self.takers: dict[tuple[int, str], int] = {}  # who may still be sending, and until when

    def subscribed(self) -> list[Webhook]:
        rows: list[Webhook] = self._ask(self.spec, "read", AllWebhooks())
        return rows

    # ---------------------------------------------------------------------------------------------------------- rules

    @rule(
        change=st.one_of(
            st.builds(
                PutWebhook, webhook_id=st.sampled_from(HOOKS), url=st.just("https://x.org/"), events=some_events,
                secret=st.just(SECRETS[0]), org_id=st.sampled_from((None, None, "o")), enabled=st.booleans(),
            ),
            st.builds(
                ChangeWebhook, webhook_id=st.sampled_from(HOOKS), url=st.sampled_from((None, "https://y.org/")),
                events=st.none() | some_events, enabled=st.sampled_from((None, True, True, False)),
            ),
            st.builds(PingWebhook, st.sampled_from(HOOKS)),
        )
    )  # fmt: skip
    def change_webhook(self, change: Alteration) -> None:
        self.both("alter", [change], now=self.now)

    @rule(hook=st.sampled_from(HOOKS), keep=st.sampled_from((0, SECOND)), gone=st.sampled_from((False, False, False, True)))
    def rotate_or_delete(self, hook: str, keep: int, gone: bool) -> None:
        rotate = RotateSecret(webhook_id=hook, secret=SECRETS[1], keep_until=self.now + keep)
        self.both("alter", [DeleteWebhook(hook) if gone else rotate], now=self.now)
        if gone:
            self.takers = {key: until for key, until in self.takers.items() if key[1] != hook}

    @rule()
    def fan_out(self) -> None:
        """All at once: in a bite, events of one instant may come in another order."""
        self.both("maintain", FanOut(), epoch=None, now=self.now)

    @rule(hooks=st.sampled_from((HOOKS, HOOKS[:1])))
    def read_deliveries(self, hooks: tuple[str, ...]) -> None:
        query = DueDeliveries(webhooks=hooks, by=self.now, each=1_000)
        mine, theirs = (sorted(self._ask(driver, "read", query), key=self._rank) for driver in (self.spec, self.driver))
        pairs = list(zip(mine, theirs, strict=True))
        assert [self._plain(a) for a, _ in pairs] == [self._plain(b) for _, b in pairs], "other deliveries are due"
        self.seen_deliveries = [*self.seen_deliveries, *pairs][-6:]

    @staticmethod
    def _rank(row: Delivery) -> tuple[Any, ...]:
        return (row.next_attempt_at, repr(replace(row, event_id=0)), row.event_id)

    @precondition(lambda self: self.seen_deliveries)
    @rule(pick=st.integers(0, 5))
    def take_delivery(self, pick: int) -> None:
        """By what somebody read, which may be long out of date."""
        pair = self.seen_deliveries[pick % len(self.seen_deliveries)]
        until = self.now + LEASE
        if (pair[0].next_attempt_at or 0) >= until:
            return
        changes = [
            TakeDelivery(event_id=row.event_id, webhook_id=row.webhook_id, expected=row.next_attempt_at or 0, until=until)
            for row in pair
        ]
        [answer] = self._alter_pair(*changes)
        if answer == "applied":
            key = (pair[0].event_id, pair[0].webhook_id)
            assert self.takers.get(key, 0) <= self.now, "somebody else is sending it"
            self.takers[key] = until
            self.seen_deliveries.append(
                (replace(pair[0], taken=True, next_attempt_at=until), replace(pair[1], taken=True, next_attempt_at=until))
            )

    @precondition(lambda self: self.seen_deliveries)
    @rule(pick=st.integers(0, 6), answer=answers)
    def end_delivery(self, pick: int, answer: Answer) -> None:
        pair = self.seen_deliveries[-1 - pick % len(self.seen_deliveries)]
        changes: list[EndDelivery] = [ending(row, answer, self.now, 0.5) for row in pair]
        [told] = self._alter_pair(*changes)
        if told == "applied":
            key = (pair[0].event_id, pair[0].webhook_id)
            assert self.takers.pop(key, None) == changes[0].expected, "ended by one who had not taken it"

    @precondition(lambda self: self.seen_deliveries)
    @rule(pick=st.integers(0, 5))
    def replay_delivery(self, pick: int) -> None:
        pair = self.seen_deliveries[pick % len(self.seen_deliveries)]
        [told] = self._alter_pair(*(ReplayDelivery(event_id=row.event_id, webhook_id=row.webhook_id) for row in pair))
        key = (pair[0].event_id, pair[0].webhook_id)
        if told == "applied":
            assert self.takers.pop(key, 0) <= self.now, "sent once more while it was being sent"

    @rule(keep=st.sampled_from((0, SECOND, 100 * SECOND)))
    def forget_events(self, keep: int) -> None:
        self.both("maintain", ForgetEvents(keep=keep), epoch=None, now=self.now)
        there = {event.event_id for event in self._events(self.spec)}
        self.takers = {key: until for key, until in self.takers.items() if key[0] in there}

    def _alter_pair(self, mine: Alteration, theirs: Alteration) -> Any:
        told, _ = self.both("alter", [mine], theirs=([theirs],), now=self.now)
        return told

    # ----------------------------------------------------------------------------------------------------- invariants

    @staticmethod
    def _plain(row: Event | Delivery) -> Event | Delivery:
        """Without its number, of which only the order is promised."""
        return replace(row, event_id=0)

    def _events(self, driver: Driver) -> list[Event]:
        rows: list[Event] = self._ask(driver, "read", AllEvents())
        return rows

    @invariant()
    def the_same_leaves(self) -> None:
        """Events of one instant may be written in another order where a batch was stored in two steps."""

        def shown(driver: Driver) -> list[Any]:
            return sorted(map(self._plain, self._events(driver)), key=repr)

        assert shown(self.driver) == shown(self.spec), "other events are in the outbox"
        waiting = [len(self._ask(driver, "read", WaitingEvents(limit=1_000))) for driver in (self.spec, self.driver)]
        assert waiting[0] == waiting[1], "other events wait for their deliveries"
        self.both("read", AllWebhooks())
        for hook in HOOKS:
            assert self._sent(self.spec, hook) == self._sent(self.driver, hook), f"other deliveries to {hook}"

    def _sent(self, driver: Driver, hook: str) -> list[Any]:
        rows = self._ask(driver, "read", DeliveriesOf(webhook_id=hook, limit=1_000))
        return sorted(map(self._plain, rows), key=repr)
