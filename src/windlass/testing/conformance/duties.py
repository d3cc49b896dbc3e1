"""What a leader does for all: forgetting, removing the dead, sampling, adding up."""

from __future__ import annotations

from typing import Any

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutGroup, PutQueue
from windlass.core.changes import Report
from windlass.core.duties import Done, ForgetKeys, Prune, RemoveDeadWorkers, RollUpUsage, SampleQueues
from windlass.core.queries import AllGroups, AllWorkers, SamplesSince, UsageSince
from windlass.core.sampling import EDGES, bucket
from windlass.core.settle import Failed, Succeeded
from windlass.core.usage import HOUR, LATE
from windlass.records import QueueSample, Usage
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise

KEEP_NOTHING: dict[str, Any] = {"succeeded": 0, "cancelled": 0, "dead": 0}
WEEK = 7 * 24 * HOUR


class DutyPromises(Suite):
    # ---------------------------------------------------------------------------------------------- dead workers

    @promise
    async def test_what_dead_workers_hold_is_free_at_once(self, t: Trial) -> None:
        """Silent for so long, to the instant: the row goes and its valid leases end now, so that the next claim takes
        the jobs back with the loss counted. The living, and leases that lapsed before, are left as they are."""
        t.clock.advance(MINUTE)
        for name in ("dead", "alive", "lapsed"):
            await t.enqueue(queue=name)
            await t.take(name, worker_id=name, lease_for=SECOND if name == "lapsed" else WEEK)
        rows = await t.jobs(["job-1", "job-3", "job-5"])
        await t.beat("dead")
        await t.beat("lapsed")
        t.clock.advance(1)
        await t.beat("alive")
        t.clock.advance(MINUTE - 2)
        assert await t.maintain(RemoveDeadWorkers(silent_for=MINUTE)) == Done(0)
        t.clock.advance(1)
        assert await t.maintain(RemoveDeadWorkers(silent_for=MINUTE)) == Done(2)
        assert [row.id for row in await t.driver.read(AllWorkers())] == ["alive"]
        dead, alive, lapsed = await t.jobs([row.id for row in rows])
        assert (dead.state, dead.lease_expires_at, dead.lost) == ("running", t.now, 0)
        assert [alive, lapsed] == rows[1:]
        [again] = await t.claim("dead", "alive")
        assert (again.id, again.lost) == (dead.id, 1)
        assert await t.maintain(RemoveDeadWorkers(silent_for=MINUTE)) == Done(0)

    # ------------------------------------------------------------------------------------------------ forgetting

    @promise
    async def test_keys_are_forgotten_when_their_time_is_over(self, t: Trial) -> None:
        """To the instant, at most `limit`, those that ended first; keys without an end stay, also the same ones of another
        scope, and so does their job."""
        ids = [await t.enqueue(idempotency_scope="other", idempotency_key=str(number)) for number in range(3)]
        for number, life in enumerate((2, 1, 3, None)):
            expires_at = None if life is None else t.now + life * SECOND
            await t.enqueue(idempotency_scope="s", idempotency_key=str(number), idempotency_expires_at=expires_at)
        t.clock.advance(SECOND - 1)
        assert await t.maintain(ForgetKeys()) == Done(0)
        t.clock.advance(2 * SECOND)
        assert await t.maintain(ForgetKeys(limit=1)) == Done(1, more=True)
        assert await t.maintain(ForgetKeys(limit=2)) == Done(1)
        t.clock.advance(1)
        assert await t.maintain(ForgetKeys()) == Done(1)
        assert len(await t.claim()) == 7
        others = [await t.answer(idempotency_scope="other", idempotency_key=str(number)) for number in range(3)]
        assert [answer.id for answer in others] == ids
        assert [(await t.answer(idempotency_scope="s", idempotency_key=str(number))).existed for number in range(4)] == [
            False,
            False,
            False,
            True,
        ]

    @promise
    async def test_a_group_is_forgotten_with_its_last_member(self, t: Trial) -> None:
        """Its row stays as long as a job names it; other groups are not touched."""
        await t.alter(PutGroup("g", total=2))
        await t.alter(PutGroup("other", total=1))
        for _ in range(2):
            await t.end(await t.running(group_id="g"), Succeeded())
        assert await t.prune(**KEEP_NOTHING, limit=1) == 1
        assert [group.group_id for group in (await t.driver.read(AllGroups()))] == ["g", "other"]
        assert await t.prune(**KEEP_NOTHING, limit=1) == 1
        assert [group.group_id for group in (await t.driver.read(AllGroups()))] == ["other"]

    @promise
    async def test_pruning_says_when_its_bite_was_full(self, t: Trial) -> None:
        """So that whoever asks goes on at once."""
        for _ in range(3):
            await t.ack(await t.running())
        assert await t.maintain(Prune(**KEEP_NOTHING, limit=2)) == Done(2, more=True)
        assert await t.maintain(Prune(**KEEP_NOTHING, limit=2)) == Done(1)

    @promise
    async def test_pruning_never_passes_the_watermark(self, t: Trial) -> None:
        """A run that is not counted keeps its job; without any roll-up nothing does, and what never ran is not held."""
        await t.ack(await t.running())
        assert await t.prune(**KEEP_NOTHING) == 1
        await t.maintain(RollUpUsage(until=t.now - LATE))
        await t.ack(await t.running())
        retried = await t.running(max_attempts=3)
        await t.end(retried, Failed("boom"))
        never_ran = await t.enqueue()
        for job_id in (never_ran, retried.id):
            await t.alter(Cancel(job_id))
        t.clock.advance(LATE)
        assert await t.prune(**KEEP_NOTHING) == 1
        assert await t.driver.get([never_ran]) == [None]
        await t.maintain(RollUpUsage(until=t.now - LATE - 1))
        assert await t.prune(**KEEP_NOTHING) == 0
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(2)
        assert await t.prune(**KEEP_NOTHING) == 2
        assert sum(row.runs for row in await t.driver.read(UsageSince(since=0))) == 2

    @promise
    async def test_an_uncounted_run_keeps_its_whole_chain_and_its_group(self, t: Trial) -> None:
        """Also when the later link, on another clock, ended before the earlier one."""
        chain: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 2}
        await t.end(await t.running(**chain), Failed("boom"))
        ended = t.now
        await t.end(await t.running(group_id="g"), Succeeded())
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Succeeded(), at=ended - 5)
        await t.end(await t.running(group_id="g"), Succeeded(), at=ended - 5)
        t.clock.advance(LATE)
        assert await t.maintain(RollUpUsage(until=ended - 1)) == Done(2)
        assert await t.prune(**KEEP_NOTHING) == 0
        assert await t.maintain(RollUpUsage(until=ended)) == Done(2)
        assert await t.prune(**KEEP_NOTHING) == 4

    # -------------------------------------------------------------------------------------------------- samples

    @promise
    async def test_a_minute_of_a_queue_is_one_row(self, t: Trial) -> None:
        """Depth by label, the age of what is due longest, and of the runs that ended within the minute the number by
        outcome and how long they had waited and run."""
        t.clock.advance(MINUTE - t.now % MINUTE)
        minute = t.now
        await t.alter(PutQueue("declared"))
        await t.ack(await t.running())  # at the first instant of the minute
        await t.enqueue()
        t.clock.advance(3 * SECOND)
        slow = await t.take()
        broken = await t.running(max_attempts=9)
        t.clock.advance(20 * SECOND)
        await t.ack(slow)
        await t.retry(broken)
        t.clock.advance(MINUTE - 1 - t.now % MINUTE)
        await t.ack(await t.running(queue="other"))
        await t.alter(Cancel(broken.id))
        t.clock.advance(1)
        late = await t.running(queue="late")
        await t.ack(late)  # in the next minute
        await t.enqueue(run_at=t.now + 2 * SECOND)
        await t.enqueue(run_at=t.now + 30 * SECOND)
        t.clock.advance(5 * SECOND)
        assert await t.maintain(SampleQueues(keep=WEEK)) == Done(3)
        assert await t.driver.read(SamplesSince(since=0)) == [
            QueueSample(queue="declared", minute=minute, depth={}, oldest=None, finished={}, waits={}, runs={}),
            QueueSample(
                queue="default", minute=minute, depth={"queued": 1, "scheduled": 1}, oldest=3 * SECOND,
                finished={"completed": 2, "failed": 1}, waits={0: 2, bucket(3 * SECOND): 1},
                runs={0: 1, bucket(20 * SECOND): 2},
            ),
            QueueSample(
                queue="other", minute=minute, depth={}, oldest=None, finished={"completed": 1}, waits={0: 1}, runs={0: 1}
            ),
        ]  # fmt: skip

    @promise
    async def test_durations_fall_into_buckets_on_a_log_scale(self, t: Trial) -> None:
        """At every bound, and just below it, of waiting and of running."""
        t.clock.advance(MINUTE - t.now % MINUTE)
        spans = sorted({0, *EDGES, *(edge - 1 for edge in EDGES)})
        for span in spans:
            await t.driver.enqueue([t.new(id=f"wait-{span}", priority=1)], now=t.now - span)
            await t.ack(await t.take())
            await t.enqueue(id=f"run-{span}")
            await t.ack(await t.take(start=False), started_at=t.now - span)
        t.clock.advance(MINUTE)
        await t.maintain(SampleQueues(keep=WEEK))
        [row] = await t.driver.read(SamplesSince(since=0))
        expected = dict.fromkeys(range(1, len(EDGES)), 2) | {0: 2, len(EDGES): 1}
        assert row.waits == {**expected, 0: 2 + len(spans)}
        assert row.runs == {**expected, 0: 2 + len(spans)}

    @promise
    async def test_the_age_is_that_of_the_job_that_is_due_longest(self, t: Trial) -> None:
        """Since it was enqueued or since its time came, whichever is later; neither order nor priority matters, and what
        is leased or waits for its time is not due."""
        t.clock.advance(MINUTE - t.now % MINUTE)
        start = t.now
        for queue, waits in (("a", (40, 10, 30)), ("b", (None, 5)), ("c", (20, None)), ("d", (200,)), ("e", (None,))):
            for wait in waits:
                t.clock.advance(1)
                run_at = None if wait is None else start + wait * SECOND
                await t.enqueue(queue=queue, run_at=run_at, priority=-(wait or 0))
        await t.take("e")
        t.clock.advance(50 * SECOND)
        await t.claim("a", limit=1, types=("none",))  # promotes what is due, takes nothing
        t.clock.advance(50 * SECOND)
        await t.maintain(SampleQueues(keep=WEEK))
        ages = {row.queue: row.oldest for row in await t.driver.read(SamplesSince(since=0))}
        since = {"a": start + 10 * SECOND, "b": start + 4, "c": start + 7}
        assert ages == {queue: t.now - due for queue, due in since.items()} | {"d": None, "e": None}

    @promise
    async def test_a_minute_is_sampled_once(self, t: Trial) -> None:
        """A second call in the same minute writes nothing, whatever has happened; the next minute has rows of its own. Rows
        of minutes that began longer than `keep` ago are dropped."""
        t.clock.advance(MINUTE - t.now % MINUTE)
        await t.alter(PutQueue("q"))
        assert await t.maintain(SampleQueues(keep=WEEK)) == Done(1)
        first = await t.driver.read(SamplesSince(since=0))
        t.clock.advance(MINUTE - 1)
        await t.enqueue(queue="q")
        await t.enqueue(queue="new")
        assert await t.maintain(SampleQueues(keep=WEEK)) == Done(0)
        assert await t.driver.read(SamplesSince(since=0)) == first
        t.clock.advance(1)
        assert await t.maintain(SampleQueues(keep=2 * MINUTE)) == Done(2)
        rows = await t.driver.read(SamplesSince(since=0))
        assert [(row.minute, row.queue) for row in rows] == [
            (t.now - 2 * MINUTE, "q"), (t.now - MINUTE, "new"), (t.now - MINUTE, "q"),
        ]  # fmt: skip
        assert await t.driver.read(SamplesSince(since=t.now - MINUTE)) == rows[1:]
        t.clock.advance(1)
        assert await t.maintain(SampleQueues(keep=2 * MINUTE)) == Done(0)
        assert await t.driver.read(SamplesSince(since=0)) == rows[1:]

    # ---------------------------------------------------------------------------------------------------- usage

    @promise
    async def test_usage_is_added_up_by_the_hour(self, t: Trial) -> None:
        """By the hour in which a run ended, org ("" for none), queue, type and outcome: numbers, and the largest memory."""
        t.clock.advance(HOUR - t.now % HOUR)
        hour = t.now
        for cpu, rss in ((5, 100), (7, None), (None, 300)):
            job_id = await t.enqueue(org_id="acme", queue="q", type="x")
            t.clock.advance(3)
            job = await t.take("q")
            t.clock.advance(10)
            await t.ack(job, report=Report(cpu_us=cpu, peak_rss=rss))
            assert job.id == job_id
        await t.end(await t.running(max_attempts=1), Failed("boom"))
        await t.ack(await t.running(), at=hour + HOUR - 1)
        t.clock.advance(hour + HOUR - t.now)
        await t.ack(await t.running())
        await t.running()  # has not ended
        t.clock.advance(LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(6)
        rows = [
            Usage(hour=hour, org_id="", queue="default", type="work", outcome="completed", runs=1, run_us=HOUR - 40),
            Usage(hour=hour, org_id="", queue="default", type="work", outcome="failed", runs=1),
            Usage(
                hour=hour, org_id="acme", queue="q", type="x", outcome="completed", runs=3, run_us=30, wait_us=9, cpu_us=12,
                peak_rss=300,
            ),
            Usage(hour=hour + HOUR, org_id="", queue="default", type="work", outcome="completed", runs=1),
        ]  # fmt: skip
        assert await t.driver.read(UsageSince(since=0)) == rows
        assert await t.driver.read(UsageSince(since=hour)) == rows
        assert await t.driver.read(UsageSince(since=hour + 1)) == rows[3:]

    @promise
    async def test_a_run_is_counted_exactly_once(self, t: Trial) -> None:
        """Over several bites, which never divide an instant, over repeats, and over calls that look back."""
        for after in (1, 0, 0, 1, 1, 1):
            t.clock.advance(after)
            await t.ack(await t.running())
        t.clock.advance(LATE)
        end = t.now - LATE
        for expected in (Done(3, more=True), Done(2, more=True), Done(1)):
            assert await t.maintain(RollUpUsage(until=end, limit=2)) == expected
            assert await t.maintain(RollUpUsage(until=end - 10, limit=2)) == Done(0)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(0)
        assert [row.runs for row in await t.driver.read(UsageSince(since=0))] == [6]
        await t.ack(await t.running())
        t.clock.advance(LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(1)
        assert sum(row.runs for row in await t.driver.read(UsageSince(since=0))) == 7

    @promise
    async def test_the_last_minute_is_not_counted_yet(self, t: Trial) -> None:
        """What ended in it may still be on its way to the store."""
        await t.ack(await t.running())
        t.clock.advance(LATE - 1)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(0)
        t.clock.advance(1)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(1)

    @promise
    async def test_a_run_that_is_settled_late_is_counted_all_the_same(self, t: Trial) -> None:
        """Once, whether the roll-up has passed its end or not, by whatever outcome, and only if the settlement held."""
        await t.driver.enqueue([t.new(max_attempts=1) for _ in range(5)], now=t.now)
        jobs, ended = await t.claim(lease_for=WEEK), t.now
        t.clock.advance(LATE + 5)
        await t.ack(jobs[0], at=ended)
        assert await t.driver.read(UsageSince(since=0)) == []
        assert await t.maintain(RollUpUsage(until=ended + 1)) == Done(1)
        assert await t.ack(jobs[1], at=ended, token=t.name("wrong")) == "mismatch"
        assert sum(row.runs for row in await t.driver.read(UsageSince(since=0))) == 1
        assert await t.ack(jobs[1], at=ended, report=Report(cpu_us=7, peak_rss=9)) == "applied"
        assert await t.ack(jobs[1], at=ended) == "repeated"
        assert await t.end(jobs[2], Failed("boom"), at=ended + 1) == "applied"
        assert await t.ack(jobs[3], at=ended + 2) == "applied"  # long ago, but not behind the watermark
        assert await t.ack(jobs[4], at=ended) == "applied"
        found = {row.outcome: row for row in await t.driver.read(UsageSince(since=0))}
        assert (found["completed"].runs, found["failed"].runs) == (3, 1)
        assert (found["completed"].cpu_us, found["completed"].peak_rss, found["failed"].run_us) == (7, 9, 1)
        t.clock.advance(LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(1)
        assert {row.outcome: row.runs for row in await t.driver.read(UsageSince(since=0))} == {"completed": 4, "failed": 1}
