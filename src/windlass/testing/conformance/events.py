"""Events that leave the store: written with the change they speak of, where a webhook asks for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import (
    Acquire,
    Cancel,
    CancelGroup,
    Fire,
    Missed,
    PutSchedule,
    PutTemplate,
    PutWebhook,
    ReleaseHold,
    SetPaused,
)
from windlass.core.changes import AddEvent
from windlass.core.duties import SampleQueues
from windlass.core.events import (
    CANCELLED,
    DEAD,
    EVENTS,
    GROUP_FINISHED,
    QUEUE_UNHEALTHY,
    RECOVERED,
    RETRIED,
    SCHEDULE_MISSED,
    SUCCEEDED,
    announced,
)
from windlass.core.queries import AllEvents, AllSchedules, AllWebhooks
from windlass.core.settle import Execution, Failed, Outcome, Rejected, Snoozed, Succeeded, settle
from windlass.errors import InvalidInput
from windlass.records import Webhook
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise
from windlass.types import Claimed, NewGroup

SECRET, OTHER = (f"whsec_{letter * 32}" for letter in "AB")


def hook(name: str = "h", **fields: Any) -> PutWebhook:
    told = {"webhook_id": name, "url": "https://example.org/hook", "events": (RECOVERED,), "secret": SECRET}
    return PutWebhook(**{**told, **fields})


async def told_of(t: Trial) -> list[str]:
    return [event.job_id for event in await t.driver.read(AllEvents())]


async def end(t: Trial, job: Claimed, outcome: Outcome) -> str:
    """As a worker does: with the events that are asked for at this moment."""
    change = settle(job, outcome, Execution(t.now, child_id=t.name("link")))
    [answer] = await t.settle(announced(await t.driver.read(AllWebhooks()), job, change))
    return answer


async def told(t: Trial) -> list[tuple[str, str]]:
    return [(event.event, event.job_id) for event in await t.driver.read(AllEvents())]


async def data(t: Trial, event: str) -> list[dict[str, Any]]:
    return [json.loads(row.body) for row in await t.driver.read(AllEvents()) if row.event == event]


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
            ("webhook_id", ""), ("webhook_id", "a b"), ("webhook_id", "é"), ("url", "ftp://x"), ("url", "https://"),
            ("url", "https://u:p@x.org/"), ("url", "https://x.org/#a"), ("url", "https://x.org:99999/"), ("events", ()),
            ("events", ("job.exploded",)), ("secret", 7), ("secret", "plain"), ("secret", "whsec_c2hvcnQ="),
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

    # ------------------------------------------------------------------------------------------------ events of a job's end

    @promise
    async def test_the_end_of_a_job_is_announced_with_it(self, t: Trial) -> None:
        """Success, retry and death, each once, in the transaction that stores them; going to sleep is no event."""
        await t.alter(hook(events=EVENTS))
        good, bad, tired = [await t.running(max_attempts=2) for _ in range(3)]
        assert await end(t, good, Succeeded()) == "applied"
        assert await end(t, good, Succeeded()) == "repeated"
        await end(t, bad, Failed("boom"))
        await end(t, tired, Snoozed(SECOND))
        t.clock.advance(60 * SECOND)
        again = await t.take()
        await end(t, again, Failed("boom"))
        assert await told(t) == [(SUCCEEDED, good.id), (RETRIED, bad.id), (DEAD, bad.id)]
        [dead] = await data(t, DEAD)
        assert (dead["kind"], dead["attempts"], dead["error"]) == ("exhausted", 2, "boom")

    @promise
    async def test_a_refused_end_is_not_announced(self, t: Trial) -> None:
        """What came too late leaves no event."""
        await t.alter(hook(events=(SUCCEEDED, DEAD)))
        job = await t.running()
        t.clock.advance(LEASE)
        assert await end(t, job, Succeeded()) == "expired"
        assert await end(t, job, Rejected("no")) == "expired"
        assert await told(t) == []

    @promise
    async def test_a_link_that_another_takes_over_from_was_retried(self, t: Trial) -> None:
        """It is not dead to those outside, and its event names the job that runs next."""
        await t.alter(hook(events=EVENTS))
        first = await t.running(retry_mode="new_job", crash_policy="fail", max_attempts=2)
        await end(t, first, Failed("boom"))
        t.clock.advance(60 * SECOND)
        second = await t.take()
        await end(t, second, Failed("boom"))
        assert await told(t) == [(RETRIED, first.id), (DEAD, second.id)]
        assert [row["next_id"] for row in await data(t, RETRIED)] == [second.id]

    @promise
    async def test_a_retry_that_became_a_cancellation_is_announced_as_one(self, t: Trial) -> None:
        """Whoever asked to cancel turned the change where it was applied; the event says what was done."""
        await t.alter(hook(events=(RETRIED, CANCELLED)))
        jobs = [await t.running(max_attempts=3) for _ in range(3)]
        for job in jobs[:2]:
            await t.alter(Cancel(job.id))
        await end(t, jobs[0], Failed("boom"))
        await end(t, jobs[1], Snoozed(SECOND))
        await end(t, jobs[2], Failed("boom"))
        assert await told(t) == [(CANCELLED, jobs[0].id), (CANCELLED, jobs[1].id), (RETRIED, jobs[2].id)]

    @promise
    async def test_events_of_one_batch_are_all_written(self, t: Trial) -> None:
        """Each with the unit that it rides with, and none of a unit that was refused."""
        jobs = [await t.running(org_id=org) for org in ("acme", None, "acme")]
        webhooks = [Webhook(webhook_id="h", url="https://x", events=(SUCCEEDED,), secret=SECRET)]
        units = [announced(webhooks, job, settle(job, Succeeded(), Execution(t.now))) for job in jobs]
        assert await t.settle(units[0]) == ["applied"]
        assert await t.settle(*units) == ["repeated", "applied", "applied"]
        assert sorted(await told_of(t)) == sorted(job.id for job in jobs)
        rows = {row.job_id: row.org_id for row in await t.driver.read(AllEvents())}
        assert rows == {jobs[0].id: "acme", jobs[1].id: None, jobs[2].id: "acme"}

    @promise
    async def test_an_odd_text_leaves_as_it_was_written(self, t: Trial) -> None:
        """Quotes, newlines, emoji, other scripts: the body is kept to the letter."""
        body = json.dumps({"error": "\"'\\n\n\t{}[]%s :now 🦆 שלום \u2028"}, ensure_ascii=False)
        job = await t.running()
        await t.ack(job, riders=(AddEvent(DEAD, job.id, "ö'\"", body),))
        [row] = await t.driver.read(AllEvents())
        assert (row.body, row.org_id) == (body, "ö'\"")

    # ------------------------------------------------------------------------------------------- what only a driver sees

    @promise
    async def test_a_job_that_is_cancelled_while_it_waits_is_announced(self, t: Trial) -> None:
        """Once, with the reason; not where it is only asked for, nor where nobody subscribed."""
        before = await t.enqueue()
        await t.alter(Cancel(before))
        await t.alter(hook("theirs", events=(CANCELLED,), org_id="other"))
        mine, theirs = await t.enqueue(org_id="acme"), await t.enqueue(org_id="other")
        running = await t.take()
        for job_id in (mine, theirs, theirs):
            await t.alter(Cancel(job_id, "enough"))
        assert running.id == mine
        [row] = await t.driver.read(AllEvents())
        assert (row.event, row.job_id, json.loads(row.body)["reason"]) == (CANCELLED, theirs, "enough")

    @promise
    async def test_jobs_that_go_with_another_are_announced(self, t: Trial) -> None:
        """Each that is skipped because a predecessor failed, and so on down."""
        await t.alter(hook(events=(CANCELLED,)))
        first = await t.enqueue(max_attempts=1)
        second = await t.enqueue(after=(first,))
        third = await t.enqueue(after=(second,))
        await end(t, await t.take(), Failed("boom"))
        assert await told(t) == [(CANCELLED, second), (CANCELLED, third)]

    @promise
    async def test_the_end_of_a_group_is_announced_once(self, t: Trial) -> None:
        """With its last member, whatever ended that; it is of an organisation when all members are."""
        await t.alter(hook(events=(GROUP_FINISHED,)))
        await t.alter(hook("acme", events=(GROUP_FINISHED,), org_id="acme"))
        group = NewGroup(group_id="g", name="nightly", on_failure="continue")
        jobs = [t.new(group_id="g", opens=group, group_seq=n, org_id="acme") for n in range(3)]
        await t.driver.enqueue(jobs, now=t.now)
        await t.enqueue(queue="elsewhere", group_id="another", org_id="other")
        one, two = await t.claim(limit=2)
        await end(t, one, Succeeded())
        await t.alter(Cancel(jobs[2].id))
        assert await told(t) == []
        await end(t, two, Rejected("no"))
        [row] = await t.driver.read(AllEvents())
        assert (row.event, row.job_id, row.org_id) == (GROUP_FINISHED, "g", "acme")
        counts = {"total": 3, "succeeded": 1, "failed": 1, "cancelled": 1}
        assert json.loads(row.body) == {
            "v": 1, "group_id": "g", "name": "nightly", "org_id": "acme", "status": "partial", **counts,
        }  # fmt: skip

    @promise
    async def test_a_group_that_is_cancelled_has_ended(self, t: Trial) -> None:
        """Its members first, then the group."""
        await t.alter(hook(events=(CANCELLED, GROUP_FINISHED)))
        group = NewGroup(group_id="g", name="nightly")
        jobs = [t.new(group_id="g", opens=group, group_seq=n) for n in range(2)]
        await t.driver.enqueue(jobs, now=t.now)
        await t.alter(CancelGroup("g"))
        assert await told(t) == [(CANCELLED, jobs[0].id), (CANCELLED, jobs[1].id), (GROUP_FINISHED, "g")]

    @promise
    async def test_a_schedule_that_came_late_is_announced(self, t: Trial) -> None:
        """With the firing that makes up for it, if that is applied; and for how many times jobs were made: not for those
        that the overlap rule holds back, or that have one already."""
        await t.alter(hook(events=(SCHEDULE_MISSED,)))
        await t.alter(PutTemplate(template_id="t", name="t", type="work"))
        rule: dict[str, Any] = {"name": "nightly", "template": "t", "cron_expression": "0 * * * *"}
        await t.alter(PutSchedule(schedule_id="s", overlap="skip", **rule))
        [row] = await t.driver.read(AllSchedules())
        first = row.next_trigger_at or 0
        late = Missed(times=3, first=first, last=first + 2 * 60 * MINUTE, made=3)
        jobs = tuple(t.new(schedule_id="s", fire_at=first + n * 60 * MINUTE) for n in range(4))
        fire = Fire(schedule_id="s", expected=first, next_trigger_at=first, jobs=jobs, missed=late)
        assert await t.alter(fire) == "applied"
        await t.alter(PutSchedule(schedule_id="s", overlap="allow", **rule))
        again = tuple(replace(job, id=f"{job.id}-again") for job in jobs)
        later = replace(fire, next_trigger_at=first + 4 * 60 * MINUTE, jobs=again)
        assert await t.alter(later) == "applied"
        assert await t.alter(later) == "wrong_state"
        events = await t.driver.read(AllEvents())
        assert [(event.event, event.job_id) for event in events] == [(SCHEDULE_MISSED, "s")] * 2
        said = [json.loads(event.body) for event in events]
        assert [(one["name"], one["missed"], one["made"]) for one in said] == [("nightly", 3, 1), ("nightly", 3, 2)]

    @promise
    async def test_a_queue_that_is_not_well_is_announced_when_that_is_news(self, t: Trial) -> None:
        """With the sample that shows it; not while it lasts, not of a queue that is paused, again after it was well."""
        await t.alter(hook(events=(QUEUE_UNHEALTHY,)))
        waits = SampleQueues(keep=60 * MINUTE, waits_over=2 * MINUTE)
        await t.alter(SetPaused("paused", True))
        slow, resting = await t.enqueue(queue="slow"), await t.enqueue(queue="paused")
        for minutes, told_of_it in ((1, 0), (2, 1), (1, 1), (1, 1)):
            t.clock.advance(minutes * MINUTE)
            await t.maintain(waits)
            assert len(await told(t)) == told_of_it, minutes
        await t.ack(await t.take("slow"))
        t.clock.advance(MINUTE)
        await t.maintain(waits)
        await t.enqueue(queue="slow")
        t.clock.advance(2 * MINUTE)
        await t.maintain(waits)
        assert await told(t) == [(QUEUE_UNHEALTHY, "slow")] * 2
        [first, _] = await data(t, QUEUE_UNHEALTHY)
        assert (first["queue"], first["waiting"], first["oldest_seconds"]) == ("slow", 1, 180)
        assert slow != resting

    @promise
    async def test_a_queue_that_rests_is_announced_only_once_that_is_over(self, t: Trial) -> None:
        """Nothing is supposed to run in one that somebody has paused, or holds; what has waited meanwhile, and still does,
        is news when it goes on. So it is after a long time without samples."""
        await t.alter(hook(events=(QUEUE_UNHEALTHY,)))
        waits = SampleQueues(keep=60 * MINUTE, waits_over=2 * MINUTE)
        await t.alter(SetPaused("paused", True))
        await t.alter(Acquire("h", "held", "ada", 4 * MINUTE))
        await t.alter(Acquire("over", "plain", "ada", 60 * MINUTE))
        await t.alter(ReleaseHold("over"))
        for queue in ("paused", "held", "plain"):
            await t.enqueue(queue=queue)
        for _ in range(3):
            t.clock.advance(MINUTE)
            await t.maintain(waits)
        assert await told(t) == [(QUEUE_UNHEALTHY, "plain")]
        await t.alter(SetPaused("paused", False))
        t.clock.advance(MINUTE)
        await t.maintain(waits)
        assert sorted(await told(t)) == [(QUEUE_UNHEALTHY, name) for name in ("held", "paused", "plain")]
        t.clock.advance(MINUTE)
        await t.maintain(waits)
        assert len(await told(t)) == 3
        t.clock.advance(30 * MINUTE)
        await t.maintain(waits)
        assert len(await told(t)) == 6
