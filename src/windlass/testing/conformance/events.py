"""Events that leave the store: written with the change they speak of, where a webhook asks for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.core.alterations import PutWebhook
from windlass.core.events import RECOVERED
from windlass.core.queries import AllEvents, AllWebhooks
from windlass.errors import InvalidInput
from windlass.records import Webhook
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise

SECRET, OTHER = (f"whsec_{letter * 32}" for letter in "AB")


def hook(name: str = "h", **fields: Any) -> PutWebhook:
    told = {"webhook_id": name, "url": "https://example.org/hook", "events": (RECOVERED,), "secret": SECRET}
    return PutWebhook(**{**told, **fields})


async def told_of(t: Trial) -> list[str]:
    return [event.job_id for event in await t.driver.read(AllEvents())]


class EventPromises(Suite):
    @promise
    async def test_a_subscription_is_kept_and_can_be_changed(self, t: Trial) -> None:
        """Every field; created_at stays. Sorted by id."""
        began = t.now
        await t.alter(hook("b", org_id="acme"))
        await t.alter(hook("a"))
        t.clock.advance(1)
        assert await t.alter(hook("a", url="http://other", secret=OTHER, enabled=False)) == "applied"
        assert await t.driver.read(AllWebhooks()) == [
            Webhook(
                webhook_id="a", url="http://other", events=(RECOVERED,), secret=OTHER, enabled=False, created_at=began
            ),
            Webhook(
                webhook_id="b", url="https://example.org/hook", events=(RECOVERED,), secret=SECRET, org_id="acme",
                created_at=began,
            ),
        ]  # fmt: skip

    @promise
    async def test_a_bad_subscription_is_refused(self, t: Trial) -> None:
        """With the field that is wrong, and nothing is stored."""
        for field, value in (
            ("webhook_id", ""), ("url", "ftp://x"), ("events", ()), ("events", ("job.exploded",)), ("secret", 7),
            ("org_id", ""), ("enabled", "yes"),
        ):  # fmt: skip
            wrong: dict[str, Any] = {"webhook_id": "h", field: value}
            with pytest.raises(InvalidInput, match=field):
                await t.alter(hook(**wrong))
        assert await t.driver.read(AllWebhooks()) == []

    @promise
    async def test_nobody_asks_nothing_is_written(self, t: Trial) -> None:
        """Without a subscription that is switched on and of the job's organisation, a loss leaves no event."""
        await t.alter(hook("off", enabled=False))
        await t.alter(hook("theirs", org_id="other"))
        await t.running(org_id="acme")
        t.clock.advance(LEASE)
        assert len(await t.claim()) == 1
        assert await t.driver.read(AllEvents()) == []

    @promise
    async def test_a_loss_is_announced_by_the_claim_that_takes_the_job_back(self, t: Trial) -> None:
        """Once, in the transaction that does it; it names the execution that was lost."""
        await t.alter(hook())
        job = await t.running(org_id="acme")
        t.clock.advance(LEASE)
        assert len(await t.claim()) == 1
        [event] = await t.driver.read(AllEvents())
        assert (event.event, event.job_id, event.org_id, event.created_at) == (RECOVERED, job.id, "acme", t.now)
        assert json.loads(event.body) == {
            "v": 1, "job_id": job.id, "org_id": "acme", "type": "work", "queue": "default",
            "execution": 1, "lost": 1, "error": "lease expired",
        }  # fmt: skip
        assert await t.claim() == []
        assert len(await told_of(t)) == 1

    @promise
    async def test_a_loss_is_announced_by_the_sweep(self, t: Trial) -> None:
        """Each of them, in the order of their numbers, and again nothing by the next sweep."""
        await t.alter(hook("mine", org_id="acme"))
        jobs = [await t.running(org_id=org) for org in ("acme", "other", "acme")]
        t.clock.advance(LEASE)
        assert (await t.driver.expire(now=t.now, limit=10))[0] == 3
        await t.driver.expire(now=t.now, limit=10)
        assert await told_of(t) == [jobs[0].id, jobs[2].id]
