"""What is on its way to webhooks, sent beside the work of a worker: in tasks of its own, so many at once and no more.

Any worker may do it. A delivery is taken for a while by compare-and-set, sent, and ended by whoever took it; a sender that
dies in between leaves it to be sent again under the same id. So a message arrives at least once, in no promised order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from windlass.backoff import Backoff
from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.alterations import EndDelivery, TakeDelivery
from windlass.core.duties import FanOut
from windlass.core.events import PING
from windlass.core.queries import DueDeliveries, WaitingEvents
from windlass.core.webhooks import Answer, content_of, ending, message_id, signed_headers
from windlass.errors import InvalidInput, StoreError
from windlass.records import Delivery, Webhook
from windlass.redaction import redact_text, scrubber_of
from windlass.types import Micros
from windlass.urls import HIDDEN

IDLE: Final[Micros] = 5 * SECOND  # between looks where nobody subscribed
MARGIN: Final[Micros] = 40 * SECOND  # that a taking outlasts the longest attempt, for the store to be told
TRIES: Final = 3  # to tell the store what came of an attempt; after that somebody sends it again
log: Final = logging.getLogger("windlass.webhooks")


async def take(client: Client, due: Sequence[Delivery]) -> list[Delivery]:
    """Those of them that are ours to send."""
    now = client.now()
    until = now + client.settings.webhook_timeout + MARGIN
    wishes = [
        TakeDelivery(event_id=row.event_id, webhook_id=row.webhook_id, expected=row.next_attempt_at or 0, until=until)
        for row in sorted(due, key=lambda row: (row.event_id, row.webhook_id))
    ]
    answers = await client.driver.alter(wishes, now=now) if wishes else []
    ours = {(w.event_id, w.webhook_id) for w, answer in zip(wishes, answers, strict=True) if answer == "applied"}
    return [replace(row, taken=True, next_attempt_at=until) for row in due if (row.event_id, row.webhook_id) in ours]


async def deliver(client: Client, webhook: Webhook, delivery: Delivery) -> EndDelivery:
    """Send what was taken, and write what came of it."""
    content = content_of(delivery)
    try:
        headers = signed_headers(webhook, delivery, content, client.now())
    except InvalidInput as error:  # a secret that others have written
        answer = Answer(took=0, error=str(error))
    else:
        answer = await client.sender.post(webhook.url, headers, content)
    scrub = await _scrubber(client, delivery) if answer.body else redact_text
    change = ending(delivery, answer, client.now(), client.ids.random.random(), scrub)
    await _tell(client, delivery, change)
    if change.disable is not None:
        client.subscriptions.forget()
    if change.status == "failed" and delivery.event != PING:
        log.error("message %s failed for good: %s", message_id(delivery), change.attempt.error)
    return change


async def _scrubber(client: Client, delivery: Delivery) -> Callable[[str], str]:
    """A receiver may know what the job keeps secret, and say so."""
    try:
        [job] = await client.driver.get([delivery.job_id])
    except StoreError:
        return lambda text: HIDDEN if text else text
    return redact_text if job is None else scrubber_of(job.payload, job.headers)


async def _tell(client: Client, delivery: Delivery, change: EndDelivery) -> None:
    backoff = Backoff(client.ids.random)
    for _ in range(TRIES):
        try:
            [told] = await client.driver.alter([change], now=client.now())
        except StoreError as error:
            log.warning("what came of message %s is not stored yet: %s", message_id(delivery), error)
            await backoff.pause()
        else:
            if told != "applied":
                log.info("message %s was sent too late: %s", message_id(delivery), told)
            return
    log.warning("message %s is sent again, because what came of it could not be stored", message_id(delivery))


class Deliverer:
    """A tick makes deliveries of new events and sends what is due, as far as there is room. It waits for no receiver."""

    name: Final = "webhooks"
    patience: Final[Micros] = 60 * SECOND

    def __init__(self, client: Client) -> None:
        self._client = client
        self._most = client.settings.webhook_concurrency
        self._each = max(self._most // 5, 1)
        self._sending: dict[asyncio.Task[None], str] = {}
        self._freed = asyncio.Event()
        self._pause: Micros = 0
        self._is_full = False  # the last look left something that was due

    async def tick(self) -> Micros:
        if self._is_full:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause / SECOND):
                    await self._freed.wait()
        self._freed.clear()
        client = self._client
        hooks = {hook.webhook_id: hook for hook in await client.subscriptions.current() if hook.enabled}
        if not hooks:
            self._is_full = False
            return IDLE
        self._pause = client.settings.poll
        if await client.driver.read(WaitingEvents()):
            await client.driver.maintain(FanOut(), epoch=None, now=client.now())
        self._is_full = await self._look(hooks)
        return 0 if self._is_full else self._pause

    async def _look(self, hooks: Mapping[str, Webhook]) -> bool:
        """Whether more is due than there is room for."""
        busy = Counter(self._sending.values())
        room = {name: self._each - busy[name] for name in hooks if busy[name] < self._each}
        free = self._most - len(self._sending)
        if not room or free <= 0:
            return True
        by = self._client.now()
        due = await self._client.driver.read(DueDeliveries(webhooks=tuple(room), by=by, each=self._each + 1))
        chosen: list[Delivery] = []
        for delivery in due:
            if room[delivery.webhook_id] > 0 and len(chosen) < free:
                room[delivery.webhook_id] -= 1
                chosen.append(delivery)
        for delivery in await take(self._client, chosen):
            self._begin(hooks[delivery.webhook_id], delivery)
        return len(chosen) < len(due)

    def _begin(self, webhook: Webhook, delivery: Delivery) -> None:
        task = asyncio.get_running_loop().create_task(self._send(webhook, delivery), name="windlass-webhook")
        self._sending[task] = webhook.webhook_id
        task.add_done_callback(self._ended)

    async def _send(self, webhook: Webhook, delivery: Delivery) -> None:
        await deliver(self._client, webhook, delivery)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._sending[task]
        self._freed.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a message could not be sent, and is sent again later", exc_info=task.exception())

    async def idle(self) -> None:
        """Return once nothing is being sent."""
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def stop(self) -> None:
        """What is under way is given up: its time passes, and somebody sends it again."""
        for task in list(self._sending):
            task.cancel()
        await self.idle()
