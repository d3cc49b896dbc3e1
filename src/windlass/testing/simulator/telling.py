"""A webhook of a simulated fleet, its receiver, and what must hold of them: each end of a job leaves one event with it, and
each event reaches the receiver, whatever happens to those who send it.

The receiver is no process of the fleet: it does not die. It is slow, it refuses, and its answers are lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from windlass.clock import SECOND
from windlass.core.alterations import EndDelivery, PutWebhook, TakeDelivery
from windlass.core.events import CANCELLED, DEAD, EVENTS, SUCCEEDED
from windlass.core.webhooks import Answer, message_id
from windlass.records import Delivery, Event
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.conduct import require
from windlass.testing.simulator.history import History
from windlass.types import Job

if TYPE_CHECKING:
    from windlass.testing.simulator.world import Process

WEBHOOK: Final = PutWebhook(webhook_id="hook", url="https://receiver.example/", events=EVENTS, secret="whsec_" + "A" * 32)
ENDS: Final = {"succeeded": SUCCEEDED, "dead": DEAD, "cancelled": CANCELLED}


class Leaving(Protocol):
    """The rows of what leaves a store."""

    def events(self) -> Iterable[Event]: ...
    def deliveries(self) -> Iterable[Delivery]: ...


class Telling:
    """A ledger of ends and of what was told of them, kept from rows."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.is_on = False
        self._ended: Counter[tuple[str, str]] = Counter()
        self._told: Counter[tuple[str, str]] = Counter()
        self._seen = 0  # the last event that was looked at
        self.received: Counter[str] = Counter()
        self._content: dict[str, bytes] = {}

    def ended(self, old: Job | None, job: Job) -> None:
        before = None if old is None else old.state
        if job.state in ENDS and job.state != before and job.superseded_by is None:
            self._ended[ENDS[job.state], job.id] += 1

    def judge(self, call: Call, rows: Leaving) -> None:
        """After every call: what ended by it is told of, by it, once."""
        if not self.is_on or call.error is not None:
            return
        for event in rows.events():
            if event.event_id > self._seen:
                self._seen = event.event_id
                if event.event in ENDS.values():
                    self._told[event.event, event.job_id] += 1
        wrong = (self._ended - self._told) | (self._told - self._ended)
        require(not wrong, "each end leaves one event", str(wrong))
        if call.method == "alter":
            for change, answer in zip(call.batch, call.answer, strict=True):
                if isinstance(change, TakeDelivery) and answer == "wrong_state":
                    self._history.sometimes("taken_by_another")
                if isinstance(change, EndDelivery) and answer == "wrong_state":
                    self._history.sometimes("sent_too_late")

    # ------------------------------------------------------------------------------------------------------ receiving

    def receive(self, headers: Mapping[str, str], content: bytes) -> None:
        message = headers["webhook-id"]
        self.received[message] += 1
        if self.received[message] > 1:
            self._history.sometimes("told_again")
        same = self._content.setdefault(message, content)
        if same != content or "data" not in json.loads(content):
            self._history.break_rule("a message is the same whenever it is sent", message)

    def outstanding(self, rows: Leaving) -> list[str]:
        """What the receiver has not taken yet."""
        if not self.is_on:
            return []
        unsent = [f"event {event.event_id}" for event in rows.events() if event.fanned_at is None]
        return unsent + [message_id(row) for row in rows.deliveries() if row.status != "sent"]

    def check(self, rows: Leaving) -> None:
        for row in rows.deliveries() if self.is_on else ():
            require(self.received[message_id(row)] > 0, "what was sent has arrived", message_id(row))


class Caller:
    """How one process of the fleet calls the receiver."""

    def __init__(self, telling: Telling, process: Process, *, raging: bool) -> None:
        self._telling = telling
        self._process = process
        self.is_bad = raging

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        rng = self._process.random
        await asyncio.sleep(rng.choice((0.001, 0.05, 2.0)))
        roll = rng.random() if self.is_bad else 1.0
        if roll < 0.1:
            return Answer(took=1, error="no route (simulated)")
        self._telling.receive(headers, content)
        await asyncio.sleep(rng.choice((0.0, 0.05)))
        if roll < 0.2:
            return Answer(took=SECOND, error="no whole answer (simulated)")
        return Answer(took=1, status=500 if roll < 0.3 else 200)
