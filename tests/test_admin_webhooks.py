"""Webhooks through the service: what people see, what they are refused, and that a secret is shown once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from outgoing.receiver import LOOPBACK, receiving, status
from windlass.admin import Admin
from windlass.admin.webhooks import checks
from windlass.client import Client
from windlass.clock import SECOND, ManualClock
from windlass.config import Settings
from windlass.core.alterations import DeleteWebhook, PingWebhook
from windlass.core.changes import AddEvent
from windlass.core.duties import FanOut
from windlass.core.events import DEAD, SUCCEEDED
from windlass.core.queries import AllWebhooks
from windlass.delivering import Deliverer
from windlass.drivers.memory import MemoryDriver
from windlass.errors import InvalidInput, UnknownDelivery, UnknownWebhook
from windlass.outgoing import Sender
from windlass.testing.conformance.trial import Trial


class Place:
    """A store with a clock that stands still, and a sender that may call this machine."""

    def __init__(self) -> None:
        driver = MemoryDriver()
        self.trial = Trial(driver)
        self.clock: ManualClock = self.trial.clock
        self.client = Client("memory://", Settings(), driver=driver, clock=self.clock)
        self.client.sender = Sender(LOOPBACK, timeout=2 * SECOND)
        self.admin = Admin(self.client)

    async def happened(self, event: str = DEAD) -> None:
        job = await self.trial.running()
        await self.trial.ack(job, riders=(AddEvent(event, job.id, None, '{"v":1}'),))
        await self.trial.maintain(FanOut())

    async def deliver(self) -> None:
        """As a worker would."""
        deliverer = Deliverer(self.client)
        await deliverer.tick()
        await deliverer.idle()


def run(play: Callable[[Place], Awaitable[None]]) -> None:
    async def main() -> None:
        await play(Place())

    asyncio.run(main())


def test_a_secret_is_shown_once_and_later_only_how_it_ends() -> None:
    async def play(place: Place) -> None:
        made = await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])
        assert made.secret.startswith("whsec_")
        other = await place.admin.rotate_webhook(made.webhook.webhook_id)
        assert other.secret != made.secret
        shown = [await place.admin.webhooks(), await place.admin.webhook(made.webhook.webhook_id), other.webhook]
        text = msgspec.json.encode(shown).decode()
        assert made.secret not in text
        assert other.secret not in text
        assert other.webhook.secret_ends == other.secret[-4:]

    run(play)


def test_an_old_secret_is_named_while_it_signs() -> None:
    async def play(place: Place) -> None:
        made = await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])
        view = (await place.admin.rotate_webhook(made.webhook.webhook_id, keep="1h")).webhook
        assert view.old_secret_until is not None
        place.clock.advance(3_600 * SECOND)
        assert (await place.admin.webhook(view.webhook_id)).old_secret_until is None

    run(play)


@pytest.mark.parametrize(
    ("url", "events", "field"),
    [
        ("https://169.254.169.254/", [DEAD], "url"), ("https://0xa9fea9fe/", [DEAD], "url"),
        ("http://10.0.0.1/", [DEAD], "url"), ("ftp://example.com/", [DEAD], "url"),
        ("https://a:b@example.com/", [DEAD], "url"), ("https://exa mple/", [DEAD], "url"),
        ("http://127.0.0.1/", [], "events"), ("http://127.0.0.1/", ["job.died"], "events"), (7, [DEAD], "url"),
    ],
)  # fmt: skip
def test_a_bad_webhook_is_refused_and_nothing_is_stored(url: Any, events: list[str], field: str) -> None:
    async def play(place: Place) -> None:
        with pytest.raises(InvalidInput, match=field):
            await place.admin.create_webhook(url, events)
        good = await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])
        if field == "url":
            with pytest.raises(InvalidInput, match=field):
                await place.admin.update_webhook(good.webhook.webhook_id, url=url)
        assert [row.url for row in await place.client.driver.read(AllWebhooks())] == ["http://127.0.0.1:9/"]

    run(play)


def test_a_name_that_nobody_knows_at_present_is_accepted() -> None:
    async def play(place: Place) -> None:
        async def nowhere(host: str, port: int) -> list[str]:
            raise OSError("no such name")

        place.client.sender = Sender(resolve=nowhere)
        assert (await place.admin.create_webhook("https://later.example/", [DEAD])).webhook.enabled

    run(play)


def test_what_is_not_said_stays() -> None:
    async def play(place: Place) -> None:
        made = (await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD], org_id="acme")).webhook
        view = await place.admin.update_webhook(made.webhook_id, events=[SUCCEEDED], enabled=False)
        assert (view.url, view.events, view.enabled, view.org_id) == (made.url, (SUCCEEDED,), False, "acme")
        await place.admin.delete_webhook(made.webhook_id)
        assert (await place.admin.webhooks()).webhooks == ()
        for call in (place.admin.webhook, place.admin.delete_webhook, place.admin.ping_webhook, place.admin.deliveries):
            with pytest.raises(UnknownWebhook):
                await call(made.webhook_id)

    run(play)


def test_a_ping_is_sent_now_and_its_answer_is_told() -> None:
    async def play(place: Place) -> None:
        async with receiving(status(202, "pong"), status(500, "oops")) as there:
            made = (await place.admin.create_webhook(there.url, [DEAD])).webhook
            await place.admin.update_webhook(made.webhook_id, enabled=False)
            done = await place.admin.ping_webhook(made.webhook_id)
            assert (done.status, done.last_status, done.response, done.event) == ("sent", 202, "pong", "webhook.ping")
            assert there.requests[0].json["data"] == {"v": 1, "webhook_id": made.webhook_id}
            bad = await place.admin.ping_webhook(made.webhook_id)
            assert (bad.status, bad.last_error, bad.next_attempt_at) == ("failed", "answered 500", None)
            assert not (await place.admin.webhook(made.webhook_id)).enabled

    run(play)


def test_a_ping_tells_of_itself_though_something_else_happens_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(place: Place) -> None:
        driver = place.client.driver
        alter, happens = driver.alter, True

        async def meanwhile(changes: Any, **how: Any) -> Any:
            nonlocal happens
            answers = await alter(changes, **how)
            if happens and isinstance(changes[0], PingWebhook):
                happens = False
                await place.happened()
            return answers

        async with receiving(status(202, "pong"), status(200)) as there:
            made = (await place.admin.create_webhook(there.url, [DEAD])).webhook
            monkeypatch.setattr(driver, "alter", meanwhile)
            done = await place.admin.ping_webhook(made.webhook_id)
            assert (done.event, done.status, done.response) == ("webhook.ping", "sent", "pong")

    run(play)


def test_a_ping_to_what_is_removed_meanwhile_finds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(place: Place) -> None:
        driver = place.client.driver
        alter, made = driver.alter, (await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])).webhook

        async def meanwhile(changes: Any, **how: Any) -> Any:
            answers = await alter(changes, **how)
            await alter([DeleteWebhook(made.webhook_id)], now=place.client.now())
            return answers

        monkeypatch.setattr(driver, "alter", meanwhile)
        with pytest.raises(UnknownWebhook):
            await place.admin.ping_webhook(made.webhook_id)

    run(play)


def test_deliveries_are_listed_page_by_page_and_sent_once_more() -> None:
    async def play(place: Place) -> None:
        async with receiving(status(410), status(200)) as there:
            made = (await place.admin.create_webhook(there.url, [DEAD])).webhook
            for _ in range(3):
                await place.happened()
            first = await place.admin.deliveries(made.webhook_id, limit=2)
            rest = await place.admin.deliveries(made.webhook_id, limit=2, cursor=first.cursor)
            assert ([len(page.deliveries) for page in (first, rest)], rest.cursor) == ([2, 1], None)
            with pytest.raises(InvalidInput, match="cursor"):
                await place.admin.deliveries(made.webhook_id, cursor="x")
            place.client.settings = Settings(webhook_concurrency=1)
            await place.deliver()
            [failed] = (await place.admin.deliveries(made.webhook_id, status="failed")).deliveries
            assert (failed.last_status, failed.attempts) == (410, 1)
            checks = (await place.admin.doctor()).checks
            assert any(check.name == "webhooks" and "410" in repr(check) for check in checks)
            again = await place.admin.replay_delivery(failed.id)
            assert (again.status, again.id, again.attempts) == ("queued", failed.id, 0)
            await place.admin.update_webhook(made.webhook_id, enabled=True)
            for _ in range(3):
                await place.deliver()
            done = await place.admin.delivery(failed.id)
            assert (done.status, [one.status for one in done.log]) == ("sent", [410, 200])
            ids = [request.headers["webhook-id"] for request in there.requests]
            assert (ids.count(failed.id), len(set(ids))) == (2, 3)

    run(play)


def test_everything_that_failed_is_sent_once_more() -> None:
    async def play(place: Place) -> None:
        async with receiving(status(410)) as there:
            made = (await place.admin.create_webhook(there.url, [DEAD])).webhook
            for _ in range(2):
                await place.happened()
            await place.deliver()
            assert await place.admin.replay_failed(made.webhook_id) == 2
            assert await place.admin.replay_failed(made.webhook_id) == 0

    run(play)


@pytest.mark.parametrize("message", ["", "x", "wh_1", "wh_1_2", "wh_1_99999999999999999999999"])
def test_a_message_that_is_not_there_is_unknown(message: str) -> None:
    async def play(place: Place) -> None:
        with pytest.raises(UnknownDelivery):
            await place.admin.replay_delivery(message)

    run(play)


def test_somebody_else_s_webhook_is_not_there() -> None:
    async def play(place: Place) -> None:
        theirs = (await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD], org_id="other")).webhook
        await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])
        assert (await place.admin.webhooks(org_id="acme")).webhooks == ()
        assert [one.webhook_id for one in (await place.admin.webhooks(org_id="other")).webhooks] == [theirs.webhook_id]
        for call in (place.admin.webhook, place.admin.rotate_webhook, place.admin.delete_webhook, place.admin.deliveries):
            with pytest.raises(UnknownWebhook):
                await call(theirs.webhook_id, org_id="acme")

    run(play)


def test_a_webhook_whose_events_cannot_be_read_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """It hears of nothing, and whoever wonders why finds the reason in the log, once, and in the doctor's words."""

    async def play(place: Place) -> None:
        made = (await place.admin.create_webhook("http://127.0.0.1:9/", [DEAD])).webhook
        assert await checks(place.client) == []
        driver = place.client.driver
        assert isinstance(driver, MemoryDriver)
        tables = driver._tables
        tables.webhooks[made.webhook_id] = replace(tables.webhooks[made.webhook_id], events=())
        for _ in range(3):
            place.clock.advance(10 * SECOND)
            await place.client.subscriptions.current()
        assert caplog.text.count(f"webhook {made.webhook_id} hears of nothing") == 1
        [check] = await checks(place.client)
        assert (check.health, check.next) == ("warning", f"windlass webhooks update {made.webhook_id} --events {DEAD}")

    run(play)
