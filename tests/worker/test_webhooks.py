"""From the end of a job to a receiver: signed, at least once, under one id, beside the work and never in its way."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from outgoing.receiver import LOOPBACK, Receiver, Write, raw, receiving, status
from windlass import Context, Reject, Retry, Windlass, fixed
from windlass.clock import SECOND
from windlass.core.alterations import PutWebhook, TakeDelivery
from windlass.core.duties import FanOut
from windlass.core.events import CANCELLED, DEAD, EVENTS, RECOVERED, RETRIED, SUCCEEDED
from windlass.core.queries import AllEvents, AllWebhooks, DeliveriesOf, DueDeliveries, Query
from windlass.core.webhooks import RESPONSE_MOST, secret_of
from windlass.outgoing import Sender
from windlass.records import Delivery
from windlass.subscriptions import AGE
from worker.stage import Stage, on_stage

SECRET = secret_of(b"k" * 32)


def put(url: str, *events: str, name: str = "h") -> PutWebhook:
    return PutWebhook(webhook_id=name, url=url, events=events or EVENTS, secret=SECRET)


async def subscribe(stage: Stage, there: Receiver, *events: str, name: str = "h") -> None:
    """As another process would: this one is not told."""
    stage.app.client.sender = Sender(LOOPBACK, timeout=2 * SECOND)
    await stage.store.driver.alter([put(there.url, *events, name=name)], now=stage.clock.now())


async def sent(stage: Stage, name: str = "h") -> list[Delivery]:
    return (await stage.store.driver.read(DeliveriesOf(webhook_id=name)))[::-1]


async def told(stage: Stage) -> list[tuple[str, str]]:
    return [(row.event, row.job_id) for row in await stage.store.driver.read(AllEvents())]


def test_what_happened_reaches_the_receiver_signed(url: str) -> None:
    async def main() -> None:
        app = Windlass(url, poll="20ms", webhook_networks="127.0.0.1")
        await app.client.ready()

        @app.task
        async def work(n: int) -> int:
            if n:
                raise Reject("no good")
            return n

        async with receiving(status(200, "thanks")) as there:
            await app.client.driver.alter([put(there.url)], now=app.client.now())
            jobs = {(await work.using(org_id="acme").enqueue(n)).id: event for n, event in ((0, SUCCEEDED), (1, DEAD))}
            async with app.running():
                async with asyncio.timeout(8):
                    while len(there.requests) < 2:  # noqa: ASYNC110 - it is another program
                        await asyncio.sleep(0.01)
            seen: dict[str, str] = {}
            for request in there.requests:
                message: Any = Verifier(SECRET).verify(request.body, request.headers)
                seen[message["data"]["job_id"]] = message["type"]
                assert message["data"]["org_id"] == "acme"
            assert seen == jobs
            assert len({request.headers["webhook-id"] for request in there.requests}) == 2
        await app.close()

    asyncio.run(main())


def test_a_message_that_failed_is_sent_again_under_the_same_id(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        async with receiving(status(500, "oops"), status(503, retry_after="3600"), status(200, "ok")) as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            async with stage.working():
                for number, pause in ((1, 6), (2, 3_600), (3, 0)):
                    await stage.until(lambda number=number: attempts(stage, number))  # type: ignore[misc]
                    stage.clock.advance(pause * SECOND)
            assert len({(request.headers["webhook-id"], request.body) for request in there.requests}) == 1
            [row] = await sent(stage)
            assert (row.status, row.response) == ("sent", "ok")
            assert [(one.status, one.error) for one in row.log] == [
                (500, "answered 500"), (503, "answered 503"), (200, None),
            ]  # fmt: skip
            assert row.log[2].at - row.log[1].at >= 3_600 * SECOND

    on_stage(url, play)


async def attempts(stage: Stage, number: int) -> bool:
    return [row.attempts for row in await sent(stage)] == [number]


async def nothing() -> None:
    return


def test_a_receiver_that_is_gone_is_switched_off(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        async with receiving(status(410)) as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            async with stage.working():
                await stage.until(lambda: attempts(stage, 1))
                await work.enqueue()
                await stage.until(lambda: stage.app.client.subscriptions.is_fresh())
            [hook] = await stage.store.driver.read(AllWebhooks())
            assert (hook.enabled, hook.disabled_reason) == (False, "the receiver answered 410 Gone")
            assert len(there.requests) == 1

    on_stage(url, play)


@pytest.mark.parametrize("before", ["no such user: ", "x" * (RESPONSE_MOST - 8), '{"password": "'])
def test_what_the_job_keeps_secret_is_not_kept_of_an_answer(url: str, before: str) -> None:
    """A receiver may know it from elsewhere, and say so in words that do not tell what it is."""
    canary = "canary-3141592653"

    async def play(stage: Stage) -> None:
        @stage.app.task
        async def sign_in(password: str) -> None: ...

        async with receiving(status(400, f"{before}{canary}"), status(200, f"{before}{canary} it was")) as there:
            await subscribe(stage, there, SUCCEEDED)
            await sign_in.enqueue(canary)
            async with stage.working():
                for number in (1, 2):
                    await stage.until(lambda number=number: attempts(stage, number))  # type: ignore[misc]
                    [delivery] = await sent(stage)
                    assert delivery.response is not None
                    assert delivery.response.startswith(before[:8])
                    assert "canary" not in f"{delivery}"
                    stage.clock.advance(60 * SECOND)

    on_stage(url, play)


def test_a_slow_receiver_slows_nobody(url: str) -> None:
    """Neither the queue nor the messages to others."""

    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        async with receiving(raw(b"", then=60)) as slow, receiving() as quick:
            await subscribe(stage, slow, SUCCEEDED, name="a-slow")
            await subscribe(stage, quick, SUCCEEDED, name="b-quick")
            jobs = await stage.app.enqueue_many(work.job() for _ in range(60))
            async with stage.working():
                for job in jobs:
                    await stage.until_state(job.id, "succeeded")
                await stage.until(lambda: len(quick.requests) == 60)
            assert slow.connections <= 12, "it takes what others need"

    on_stage(url, play)


def test_so_many_are_sent_at_once_and_a_fifth_of_them_to_one(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        busy: Counter[str] = Counter()
        most: Counter[str] = Counter()

        def slowly(name: str) -> Write:
            async def write(writer: asyncio.StreamWriter) -> None:
                for key in (name, "all"):
                    busy[key] += 1
                    most[key] = max(most[key], busy[key])
                await asyncio.sleep(0.02)
                busy.subtract((name, "all"))
                await status(200)(writer)

            return write

        names = [f"h{n}" for n in range(8)]
        servers = [receiving(slowly(name)) for name in names]
        there = [await server.__aenter__() for server in servers]
        try:
            for name, receiver in zip(names, there, strict=True):
                await subscribe(stage, receiver, SUCCEEDED, name=name)
            await stage.app.enqueue_many(work.job() for _ in range(5))
            async with stage.working():
                await stage.until(lambda: sum(len(receiver.requests) for receiver in there) == 40)
        finally:
            for server in servers:
                await server.__aexit__(None, None, None)
        assert {name: most[name] for name in names} == dict.fromkeys(names, 1)
        assert most["all"] == 5

    on_stage(url, play, webhook_concurrency=5)


def test_a_worker_that_may_send_as_many_as_can_be_said_asks_for_no_more_than_a_store_answers(url: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async with receiving(status(200)) as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            async with stage.working():
                await stage.until(lambda: len(there.requests) == 1)

    on_stage(url, play, webhook_concurrency=10_000)


def test_what_a_dead_sender_had_taken_is_sent_by_another(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        async with receiving() as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            await stage.drain()
            driver, now = stage.store.driver, stage.clock.now()
            await driver.maintain(FanOut(), epoch=None, now=now)
            due = await driver.read(DueDeliveries(webhooks=("h",), by=now))
            for row in due:
                take = TakeDelivery(event_id=row.event_id, webhook_id="h", expected=now, until=now + 60 * SECOND)
                assert await driver.alter([take], now=now) == ["applied"]
            async with stage.working():
                await asyncio.sleep(0.1)
                assert len(there.requests) == 1 - len(due)
                stage.clock.advance(61 * SECOND)
                await stage.until(lambda: len(there.requests) == 1)

    on_stage(url, play)


def test_an_answer_that_could_not_be_stored_means_sending_again(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        async with receiving() as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            original = stage.app.client.sender

            class Breaking:
                async def post(self, *args: Any) -> Any:
                    answer = await original.post(*args)
                    stage.store.fail("alter")
                    return answer

            stage.app.client.sender = Breaking()
            async with stage.working():
                await stage.until(lambda: len(there.requests) == 1)
                await stage.until(lambda: stage.store.calls["alter"] >= 4)
                stage.app.client.sender = original
                stage.store.mend()
                stage.clock.advance(120 * SECOND)
                await stage.until(lambda: len(there.requests) == 2)
            assert len({request.headers["webhook-id"] for request in there.requests}) == 1

    on_stage(url, play)


def test_a_message_under_way_has_a_moment_when_the_worker_stops(url: str) -> None:
    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        begun, go = asyncio.Event(), asyncio.Event()

        async def waits(writer: asyncio.StreamWriter) -> None:
            begun.set()
            await go.wait()
            await status(200)(writer)

        async with receiving(waits) as there:
            await subscribe(stage, there, SUCCEEDED)
            await work.enqueue()
            async with stage.working() as worker:
                await begun.wait()
                worker.stop()
                asyncio.get_running_loop().call_later(0.1, go.set)
            assert [row.status for row in await sent(stage)] == ["sent"]

    on_stage(url, play)


# ------------------------------------------------------------------------------------------------------- who is told


def test_settling_asks_for_subscriptions_once_in_a_while(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each batch; and one that was made meanwhile is known of within that time."""

    async def play(stage: Stage) -> None:
        work = stage.app.task(name="work")(nothing)
        asked: Counter[str] = Counter()
        read = stage.store.driver.read

        async def counting(query: Query[Any]) -> list[Any]:
            asked[type(query).__name__] += 1
            return await read(query)

        monkeypatch.setattr(stage.store.driver, "read", counting)
        async with receiving() as there, stage.working(concurrency=1):
            for _ in range(30):
                await stage.until_state((await work.enqueue()).id, "succeeded")
            assert asked["AllWebhooks"] <= 3
            await subscribe(stage, there, SUCCEEDED)
            missed = await work.enqueue()
            await stage.until_state(missed.id, "succeeded")
            stage.clock.advance(AGE)
            job = await work.enqueue()
            await stage.until_state(job.id, "succeeded")
            assert (SUCCEEDED, job.id) in await told(stage)
            assert (SUCCEEDED, missed.id) not in await told(stage)

    on_stage(url, play, webhook_concurrency=0)


def test_every_way_to_settle_is_announced(url: str) -> None:
    """Handlers, their own transactions, the repository, unknown types, lapsed leases."""

    async def play(stage: Stage) -> None:
        app = stage.app

        @app.task(context=True)
        async def own(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        @app.task(context=True, run="thread")
        def threaded(ctx: Context) -> None:
            with ctx.transaction():
                pass

        @app.task(retry=Retry(max_retries=1, backoff=fixed(0)))
        async def bad() -> None:
            raise ValueError("boom")

        async with receiving() as there:
            await subscribe(stage, there)
            jobs = [await own.enqueue(), await threaded.enqueue(), await bad.enqueue()]
            strange = await app.repository.enqueue("stranger")
            [held] = await app.repository.claim(queues=("default",), limit=1)
            assert held.id == jobs[0].id
            stage.clock.advance(app.client.settings.lease + 1)
            await stage.drain()
            await app.repository.claim()
            await app.repository.mark_failure(strange, "boom")
        expected = {
            (RECOVERED, jobs[0].id), (SUCCEEDED, jobs[0].id), (SUCCEEDED, jobs[1].id), (RETRIED, jobs[2].id),
            (DEAD, jobs[2].id), (RETRIED, strange),
        }  # fmt: skip
        assert sorted(await told(stage)) == sorted(expected)

    on_stage(url, play, webhook_concurrency=0)


def test_a_job_that_was_to_be_cancelled_is_told_as_cancelled(url: str) -> None:
    async def play(stage: Stage) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @stage.app.task
        async def stubborn() -> None:
            begun.set()
            await go.wait()
            raise ValueError("boom")

        heard: list[str] = []
        stage.app.on(CANCELLED)(lambda event: heard.append(event.job_id))
        stage.app.on(RETRIED)(lambda event: heard.append("retried"))
        async with receiving() as there:
            await subscribe(stage, there)
            job = await stubborn.enqueue()
            async with stage.working():
                await begun.wait()
                await job.cancel("enough")
                go.set()  # it fails before its worker hears of the wish
                await stage.until_state(job.id, "cancelled")
        assert await told(stage) == [(CANCELLED, job.id)]
        assert heard == [job.id]

    on_stage(url, play, webhook_concurrency=0, lease="3s")


def test_networks_come_from_the_settings(url: str) -> None:
    async def main() -> None:
        app = Windlass(url, webhook_networks="127.0.0.0/8", webhook_ports="443, 8443", webhook_timeout="3s")
        sender = app.client.sender
        assert isinstance(sender, Sender)
        assert sender.timeout == 3 * SECOND
        assert await sender.check("http://127.0.0.1:99/") == ["127.0.0.1"]
        await app.close()

    asyncio.run(main())
