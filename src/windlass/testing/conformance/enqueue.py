"""Enqueueing: what is stored, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT, from_nanoseconds
from windlass.core.admission import PAYLOAD_LIMIT
from windlass.core.alterations import PutLimit, PutQueue, RemoveLimit
from windlass.core.counters import MOST_COUNTED
from windlass.core.settle import Execution, Failed, settle
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, InvalidInput
from windlass.policies import Retry
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class EnqueuePromises(Suite):
    @promise
    async def test_enqueue_rejects_invalid_record(self, t: Trial) -> None:
        """An invalid job is refused with the name of the field, and nothing of its batch is stored."""
        bad: list[tuple[dict[str, object], str]] = [
            ({"id": ""}, "id"), ({"id": " "}, "id"), ({"id": "x" * 201}, "id"), ({"type": ""}, "type"),
            ({"type": "x" * 201}, "type"), ({"type": "a\nb"}, "type"), ({"queue": ""}, "queue"),
            ({"queue": "q" * 201}, "queue"), ({"timeout_ns": -1}, "timeout_ns"), ({"attempts": -1}, "attempts"),
            ({"attempts": MOST_COUNTED + 1}, "attempts"), ({"run_at": LAST_INSTANT + 1}, "run_at"),
            ({"max_attempts": -1}, "max_attempts"), ({"max_lost": -1}, "max_lost"),
            ({"attempts": 3, "max_attempts": 2}, "attempts"), ({"payload": b"x" * (PAYLOAD_LIMIT + 1)}, "payload"),
            ({"idempotency_key": "k"}, "idempotency_key"), ({"priority": 2**31}, "priority"), ({"run_at": -5}, "run_at"),
            ({"retry_mode": "new_job"}, "crash_policy"), ({"limit_keys": ("a", "a")}, "limit_keys"),
            ({"id": 5}, "id"), ({"type": None}, "type"), ({"payload": "text"}, "payload"), ({"priority": 1.5}, "priority"),
            ({"run_at": 1.5}, "run_at"), ({"retry_mode": "never"}, "retry_mode"), ({"retry_policy": "{"}, "retry_policy"),
            ({"org_id": ""}, "org_id"), ({"org_id": "\ud800"}, "org_id"), ({"tags": ("",)}, "tags"),
            ({"dedupe_key": "\ud800"}, "dedupe_key"), ({"dedupe_key": " "}, "dedupe_key"),
            ({"attempts": None}, "attempts"), ({"codec": None}, "codec"), ({"codec": "\ud800"}, "codec"),
            ({"tags": "ab"}, "tags"), ({"limit_keys": ["a"]}, "limit_keys"),
            ({"group_id": "g", "group_seq": "x"}, "group_seq"),
            ({"template_id": 5}, "template_id"), ({"schedule_id": "s", "fire_at": "x"}, "fire_at"),
            ({"retry_policy": '{"backoff":{"type":"table","pauses":[]}}'}, "retry_policy"),
            ({"dedupe_key": "x" * 1_001}, "dedupe_key"), ({"headers": {"a": "\x00"}}, "headers"),
            ({"fire_at": -1}, "fire_at"), ({"group_seq": "x"}, "group_seq"),
            ({"template_version": 2**70}, "template_version"), ({"idempotency_expires_at": -1}, "idempotency_expires_at"),
            ({"max_lost": 10**5000}, "max_lost"), ({"after": ("",)}, "after"), ({"headers": []}, "headers"),
            ({"on_unknown": []}, "on_unknown"),
        ]  # fmt: skip
        for fields, field in bad:
            with pytest.raises(InvalidInput) as caught:
                await t.driver.enqueue([t.new(id="good"), t.new(**fields)], now=t.now)
            assert caught.value.field == field
        assert await t.driver.get(["good"]) == [None]

    @promise
    async def test_a_batch_is_stored_as_its_jobs_would_be_one_by_one(self, t: Trial) -> None:
        """Also one whose jobs differ in nothing but id and payload, for which a store may know a shorter way."""
        await t.alter(PutQueue("dense", positions="dense"))
        await t.alter(PutQueue("fair", order="fair"))
        kinds: list[dict[str, object]] = [
            {}, {"run_at": t.now + 1}, {"run_at": t.now}, {"run_at": t.now - 1, "priority": -3}, {"queue": "dense"},
            {"queue": "fair", "org_id": "acme"}, {"queue": "fair"}, {"org_id": "acme", "tags": ("a", "b"), "codec": "raw"},
            {"headers": {"trace": "1"}, "limit_keys": ("k",), "timeout_ns": 7, "attempts": 1, "max_attempts": 2},
            {"retry_mode": "new_job", "crash_policy": "fail", "on_unknown": "dead", "retry_policy": Retry().encode()},
            {"template_id": "t", "template_version": 4},
        ]  # fmt: skip
        for fields in kinds:
            payloads = [b"1", b"22", b""]
            together = [t.new(payload=payload, **fields) for payload in payloads]
            await t.driver.enqueue(together, now=t.now)
            alone = [t.new(payload=payload, **fields) for payload in payloads]
            for job in alone:
                await t.driver.enqueue([job], now=t.now)
            stored = await t.jobs([job.id for job in (*together, *alone)])
            assert [job.payload for job in stored] == payloads * 2
            assert sorted(stored, key=lambda job: job.position) == sorted(stored, key=lambda job: job.seq) == stored
            same = [replace(job, id="", seq=0, position=0, payload=b"") for job in stored]
            assert same == same[:1] * 6, fields
            if fields.get("queue") == "dense":
                assert [job.position for job in stored] == [100, 200, 300, 400, 500, 600]

    @promise
    async def test_names_hold_any_printable_text_up_to_200_characters(self, t: Trial) -> None:
        """Ids, types and queues are any printable text of 1 to 200 characters and at most 512 bytes (as UTF-8)."""
        names = ["service:nextjs", "a/b", "ünïcødé ✓", "x" * 200, "🙂", "🙂" * 128, "'; drop table jobs; --", '"><script>']
        for name in names:
            await t.enqueue(id=name, type=name, queue=name)
        for job in await t.jobs(names):
            assert job.id == job.type == job.queue
            assert (await t.take(job.queue)).id == job.id

    @promise
    async def test_the_longest_names_can_have_limits(self, t: Trial) -> None:
        """A limit's key has room for its kind (`queue:`) before a name of 200 characters or 512 bytes."""
        for name in ("x" * 200, "🙂" * 128):
            for kind in ("queue", "type", "org", "tag", "key"):
                assert await t.alter(PutLimit(f"{kind}:{name}", 1)) == "applied"
            fields = {"queue": name, "type": name, "org_id": name, "tags": (name,), "limit_keys": (f"key:{name}",)}
            first, second = await t.enqueue(**fields), await t.enqueue(**fields)
            [job] = await t.claim(name)
            assert job.id == first
            assert len(job.permits) == 5
            await t.alter(RemoveLimit(f"queue:{name}"))
            assert await t.claim(name) == []
            assert (await t.job(second)).parked_on == f"key:{name}"
            assert await t.ack(job) == "applied"
            assert [job.id for job in await t.claim(name)] == [second]

    @promise
    async def test_enqueue_ready_is_reservable_immediately(self, t: Trial) -> None:
        """A job without a time is runnable at once."""
        job_id = await t.enqueue(payload=b"\x00\xff{}", codec="bytes", headers={"trace": "1"}, org_id="acme")
        job = await t.take()
        assert (job.id, job.payload, job.codec, job.headers, job.org_id) == (
            job_id, b"\x00\xff{}", "bytes", {"trace": "1"}, "acme",
        )  # fmt: skip
        assert job.lease_expires_at > t.now
        assert job.token

    @promise
    async def test_schedule_blocks_before_due_then_reserves_after_due(self, t: Trial) -> None:
        """A job is due at its time exactly: not a microsecond (or a nanosecond) before."""
        due = from_nanoseconds((t.now + MINUTE) * 1_000 - 1, not_before=True)
        assert due == t.now + MINUTE
        job_id = await t.enqueue(run_at=due)
        t.clock.advance(MINUTE - 1)
        assert await t.claim() == []
        t.clock.advance(1)
        assert (await t.take()).id == job_id

    @promise
    async def test_a_time_in_the_past_is_due_at_once(self, t: Trial) -> None:
        """run_at <= now is due."""
        now = await t.enqueue(run_at=t.now)
        past = await t.enqueue(run_at=t.now - MINUTE)
        assert [job.id for job in await t.claim()] == [now, past]

    @promise
    async def test_a_new_row_is_complete(self, t: Trial) -> None:
        """A new job is queued, unleased, not dead; counters are zero; every time of birth is the given now."""
        job = await t.job(await t.enqueue(run_at=t.now + 1, tags=("a", "b"), timeout_ns=7, max_attempts=3, max_lost=2))
        assert (job.state, job.ready) == ("queued", False)
        assert (job.lease_token, job.lease_expires_at, job.dead_kind) == (None, None, None)
        assert (job.attempts, job.executions, job.skipped, job.lost, job.last_error) == (0, 0, 0, 0, "")
        assert job.created_at == job.queued_at == job.updated_at == t.now
        assert (job.run_at, job.tags, job.timeout_ns, job.max_attempts, job.max_lost) == (
            t.now + 1,
            ("a", "b"),
            7,
            3,
            2,
        )
        assert (job.started_at, job.finished_at, job.failed_at, job.dead_at, job.worker_id) == (None,) * 5

    @promise
    async def test_a_used_id_is_an_error_and_nothing_is_stored(self, t: Trial) -> None:
        """A used id raises DuplicateId, which names it, within a batch too; the whole batch is refused."""
        await t.enqueue(id="one", payload=b"1")
        with pytest.raises(DuplicateId, match="'one'"):
            await t.driver.enqueue([t.new(id="new"), t.new(id="one", payload=b"2")], now=t.now)
        with pytest.raises(DuplicateId):
            await t.driver.enqueue([t.new(id="three"), t.new(id="three")], now=t.now)
        for key in ({"dedupe_key": "k"}, {"idempotency_scope": "s", "idempotency_key": "k"}):
            with pytest.raises(DuplicateId, match="'one'"):
                await t.driver.enqueue([t.new(id="one", payload=b"2", **key)], now=t.now)
        assert await t.driver.get(["new", "three"]) == [None, None]
        assert (await t.job("one")).payload == b"1"

    @promise
    async def test_an_empty_batch_is_answered_empty(self, t: Trial) -> None:
        """Batches of nothing are fine everywhere."""
        assert await t.driver.enqueue([], now=t.now) == []
        assert await t.driver.settle([], now=t.now) == []
        assert await t.driver.extend([], lease_for=1, now=t.now) == []
        assert await t.driver.alter([], now=t.now) == []
        assert await t.driver.get([]) == []

    @promise
    async def test_a_blocking_enqueue_answers_like_an_awaited_one(self, t: Trial) -> None:
        """enqueue_sync works inside a running event loop: same rows, same answers, same refusals."""
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        jobs = [t.new(id="plain"), t.new(id="keyed", **key), t.new(id="later", run_at=t.now + 1)]
        told = [Enqueued("plain"), Enqueued("keyed"), Enqueued("later")]
        assert t.driver.enqueue_sync(jobs, now=t.now) == told
        assert t.driver.enqueue_sync([t.new(**key)], now=t.now) == [Enqueued("keyed", existed=True)]
        assert t.driver.enqueue_sync([], now=t.now) == []
        with pytest.raises(DuplicateId):
            t.driver.enqueue_sync([t.new(id="new"), t.new(id="plain")], now=t.now)
        with pytest.raises(InvalidInput):
            t.driver.enqueue_sync([t.new(id="new"), t.new(queue="")], now=t.now)
        assert await t.driver.get(["new"]) == [None]
        assert [job.id for job in await t.claim()] == ["plain", "keyed"]

    @promise
    async def test_a_blocking_enqueue_works_from_plain_threads(self, t: Trial) -> None:
        """enqueue_sync needs no event loop: many threads at once, and every job is there when its call returns."""
        answers: list[list[Enqueued]] = []

        def call(number: int) -> None:
            answers.extend(t.driver.enqueue_sync([t.new(id=f"{number}-{n}")], now=t.now) for n in range(5))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # the loop stands still meanwhile: a driver that needed it would hang here
        names = sorted(f"{number}-{n}" for number in range(8) for n in range(5))
        assert sorted(answer.id for [answer] in answers) == names
        assert sorted(job.id for job in await t.claim()) == names

    @promise
    async def test_a_blocking_enqueue_wakes_who_waits(self, t: Trial) -> None:
        """A waiter hears of jobs that came by enqueue_sync, from its own thread or another."""
        for call in (self._here, asyncio.to_thread):
            await t.quiet()
            waiter = asyncio.ensure_future(t.driver.wait(timeout=30))
            await asyncio.sleep(0.01)
            await call(t.driver.enqueue_sync, [t.new()], now=t.now)
            assert await asyncio.wait_for(waiter, 5) is True

    @staticmethod
    async def _here(call: Callable[..., object], *args: object, **fields: object) -> None:
        call(*args, **fields)

    @promise
    async def test_large_numbers_survive(self, t: Trial) -> None:
        """Numbers beyond 2**31 and 2**53 come back as they went in."""
        job = await t.job(
            await t.enqueue(timeout_ns=2**53 + 1, run_at=LAST_INSTANT - 3, max_attempts=2**31 + 1, priority=-(2**31))
        )
        assert (job.timeout_ns, job.run_at, job.max_attempts, job.priority) == (
            2**53 + 1,
            LAST_INSTANT - 3,
            2**31 + 1,
            -(2**31),
        )

    @promise
    async def test_the_most_that_a_job_may_have_failed_stays_that(self, t: Trial) -> None:
        """It fails once more, in place or as the next link of a chain, and so does its neighbour in the batch."""
        await t.enqueue(attempts=MOST_COUNTED)
        await t.enqueue(attempts=MOST_COUNTED, retry_mode="new_job", crash_policy="fail")
        await t.enqueue()
        for turn in range(2):
            jobs = await t.claim()
            assert sorted(job.attempts for job in jobs) == [turn, MOST_COUNTED, MOST_COUNTED]
            ends = [settle(job, Failed("boom", retry_in=0), Execution(at=t.now, child_id=t.name())) for job in jobs]
            assert await t.settle(*ends) == ["applied"] * 3
