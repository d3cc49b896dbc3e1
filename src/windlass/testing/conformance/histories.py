"""`history="failures"`: what succeeds is counted and leaves no run, everything else leaves what it leaves with full."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutGroup, PutLimit, Revoke
from windlass.core.changes import Ack, Report
from windlass.core.duties import Done, Prune, RollUpUsage, SampleQueues
from windlass.core.queries import AllGroups, AllLimits, CountedUntil, SamplesSince, UsageSince
from windlass.core.sampling import bucket
from windlass.core.settle import Execution, Failed, Rejected, Released, Snoozed, Succeeded, WasCancelled, settle
from windlass.core.usage import HOUR, LATE
from windlass.errors import InvalidInput
from windlass.records import Usage
from windlass.testing.conformance.recovery import sweep
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise
from windlass.types import Claimed, Micros, Run

LEAN: dict[str, Any] = {"history": "failures"}


async def pair(t: Trial, **fields: Any) -> tuple[Claimed, Claimed]:
    """Two jobs that are alike, the first with full history, the second without; claimed together, begun later."""
    full, lean = await t.enqueue(**fields), await t.enqueue(**fields, **LEAN)
    t.clock.advance(7)
    first, second = await t.claim(fields.get("queue", "default"), start=False, worker_id="w")
    assert (first.id, second.id) == (full, lean)
    t.clock.advance(3)
    for job in (first, second):
        assert (await t.extend(job, started_at=t.now, progress=0.5)).answer == "applied"
    t.clock.advance(SECOND)
    return first, second


def acked(job: Claimed, at: Micros) -> Ack:
    return Ack(handle=job.handle, token=job.token, at=at)


def told(runs: list[Run]) -> list[dict[str, Any]]:
    """All that a run says of itself, but for whose it is."""
    return [
        {name: getattr(run, name) for name in Run.__struct_fields__ if name != "job_id"}
        | {"run_id": run.run_id.rsplit("-", 1)[0]}
        for run in runs
    ]


async def same_story(t: Trial, full: Claimed, lean: Claimed, runs: int = 1) -> None:
    one, other = await t.driver.runs(full.id), await t.driver.runs(lean.id)
    assert len(one) == runs
    assert told(one) == told(other)
    assert [run.run_id[-12:] for run in other] == [lean.run_id[-12:]] * runs


def usage(rows: list[Usage]) -> list[tuple[str, int, int, int, int, int | None]]:
    return sorted((row.outcome, row.runs, row.run_us, row.wait_us, row.cpu_us, row.peak_rss) for row in rows)


class HistoryPromises(Suite):
    # -------------------------------------------------------------------------------------------------------- successes

    @promise
    async def test_a_batch_may_name_some_by_their_id(self, t: Trial) -> None:
        """What runs without a row is known by its handle also beside others that are named by their ids."""
        full, kept, spared = await t.enqueue(), await t.enqueue(**LEAN), await t.enqueue(**LEAN)
        jobs = await t.claim()
        assert [job.id for job in jobs] == [full, kept, spared]
        failed = settle(jobs[1], Rejected("no"), Execution(at=t.now))
        await t.settle(replace(acked(jobs[0], t.now), handle=full), failed, acked(jobs[2], t.now))
        assert [[run.status for run in await t.driver.runs(job.id)] for job in jobs] == [["completed"], ["failed"], []]

    @promise
    async def test_a_success_without_history_leaves_no_run(self, t: Trial) -> None:
        """Neither the claim nor the settlement writes one; the job itself says by whom, when and how it ended."""
        full, lean = await pair(t)
        assert (
            await t.settle(*(Ack(handle=job.handle, token=job.token, at=t.now) for job in (full, lean))) == ["applied"] * 2
        )
        assert [run.status for run in await t.driver.runs(full.id)] == ["completed"]
        assert await t.driver.runs(lean.id) == []
        one, other = await t.jobs([full.id, lean.id])
        assert (other.history, other.state, other.executions, other.last_outcome) == ("failures", "succeeded", 1, "ack")
        assert (other.worker_id, other.claimed_at, other.started_at, other.finished_at) == (
            one.worker_id, one.claimed_at, one.started_at, one.finished_at,
        )  # fmt: skip

    @promise
    async def test_no_way_to_succeed_leaves_a_run(self, t: Trial) -> None:
        """With a result, a measure, a permit, a successor or a group; by handle or by id."""
        await t.alter(PutLimit("key:k", max_used=9))
        await t.alter(PutGroup("g", total=1))
        ways: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, {"result": b"1"}), ({}, {"report": Report(cpu_us=5)}), ({"limit_keys": ("key:k",)}, {}),
            ({"group_id": "g"}, {}), ({}, {"started_at": t.now}),
        ]  # fmt: skip
        for fields, how in ways:
            job = await t.running(**fields, **LEAN)
            assert await t.ack(job, **how) == "applied"
            assert await t.driver.runs(job.id) == []
        job = await t.running(**LEAN)
        after = await t.enqueue(after=(job.id,))
        assert await t.ack(job, handle=job.id) == "applied"
        assert await t.driver.runs(job.id) == []
        assert (await t.take()).id == after
        assert [limit.used for limit in await t.driver.read(AllLimits())] == [0]

    @promise
    async def test_artifacts_and_late_ends_keep_their_run(self, t: Trial) -> None:
        """Nothing else says where artifacts are; and an end that is told late may lie behind the watermark."""
        with_files, late = await t.running(**LEAN), await t.running(**LEAN)
        t.clock.advance(LEASE - 1)
        for job in (with_files, late):
            await t.extend(job, lease_for=10 * MINUTE)
        assert await t.ack(with_files, report=Report(artifacts=("a.png",), cpu_us=3)) == "applied"
        ended = t.now
        t.clock.advance(2 * MINUTE)
        assert await t.ack(late, at=ended) == "applied"
        [kept], [told_late] = await t.driver.runs(with_files.id), await t.driver.runs(late.id)
        assert (kept.status, kept.artifacts, kept.cpu_us, kept.run_id) == ("completed", ("a.png",), 3, with_files.run_id)
        assert (told_late.status, told_late.finished_at) == ("completed", ended)

    @promise
    async def test_who_runs_without_history_is_seen_running(self, t: Trial) -> None:
        """As long as it runs, its run is told as its row would tell it."""
        full, lean = await pair(t)
        await same_story(t, full, lean)
        [run] = await t.driver.runs(lean.id)
        assert (run.run_id, run.status, run.started_at) == (lean.run_id, None, t.now - SECOND)

    # --------------------------------------------------------------------------------------------------- everything else

    @promise
    async def test_what_does_not_succeed_leaves_a_whole_run(self, t: Trial) -> None:
        """Failed, dead, snoozed, released, cancelled: attempt, worker, wait, times, error and report are the same as with
        full history, and so is the id that its worker knew."""
        ends = (Failed("boom"), Snoozed(0), Released(), WasCancelled())
        for end in ends:
            jobs = await pair(t, queue=type(end).__name__, max_attempts=3)
            for job in jobs:
                assert await t.end(job, end) == "applied"
            await same_story(t, *jobs)
        jobs = await pair(t, queue="report")
        for job in jobs:
            assert await t.fail(job, report=Report("trace", 3, 4, 5, "a.log", ("x",)), started_at=t.now) == "applied"
        await same_story(t, *jobs)

    @promise
    async def test_a_success_after_failures_leaves_theirs(self, t: Trial) -> None:
        """Each failure has its run, under its own number; the success that follows has none."""
        job = await t.running(**LEAN)
        for number in (1, 2):
            await t.retry(job, attempts=number, error=f"no {number}")
            job = await t.take()
        assert await t.ack(job) == "applied"
        runs = await t.driver.runs(job.id)
        assert [(run.attempt_no, run.status, run.error) for run in runs] == [(1, "failed", "no 1"), (2, "failed", "no 2")]
        assert (await t.job(job.id)).executions == 3

    @promise
    async def test_a_crash_leaves_the_same_evidence(self, t: Trial) -> None:
        """A lapsed lease, taken back by a claim, by the sweep or by a decision: its run is written with its end."""
        back = await pair(t, queue="claimed")
        swept = await pair(t, queue="swept")
        decided = await pair(t, queue="decided", crash_policy="fail", max_attempts=1)
        wished = await pair(t, queue="wished")
        for job in wished:
            await t.alter(Cancel(job.id))
        t.clock.advance(LEASE)
        assert [job.executions for job in await t.claim("claimed")] == [2, 2]
        assert await sweep(t) == (2, ["applied"] * 4)
        for full, lean in (swept, decided, wished):
            await same_story(t, full, lean)
        assert told(await t.driver.runs(back[0].id)) == told(await t.driver.runs(back[1].id))
        lost, again = await t.driver.runs(back[1].id)
        assert (lost.status, lost.error, lost.worker_id) == ("failed", "lease expired", "w")
        assert (again.status, again.worker_id) == (None, "worker")

    @promise
    async def test_what_a_dead_worker_held_is_told_without_history_too(self, t: Trial) -> None:
        """A revoked lease is a lost one."""
        full, lean = await pair(t)
        await t.alter(Revoke("w"))
        assert [job.lost for job in await t.claim()] == [1, 1]
        assert told(await t.driver.runs(full.id)) == told(await t.driver.runs(lean.id))

    @promise
    async def test_the_fence_holds_without_history(self, t: Trial) -> None:
        """A stale token changes nothing and is not counted, also beside others in one batch; a repeat is told so, once it
        was applied, and counted once."""
        zombie = await t.running(**LEAN)
        t.clock.advance(LEASE)
        owner, other = await t.take(), await t.running(**LEAN)
        changes = [acked(job, t.now) for job in (zombie, other)]
        assert await t.settle(*changes) == ["mismatch", "applied"]
        assert await t.settle(*changes) == ["mismatch", "repeated"]
        assert await t.ack(owner) == "applied"
        assert await t.ack(owner) == "repeated"
        t.clock.advance(2 * LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(3)
        rows = await t.driver.read(UsageSince())
        assert sorted((row.outcome, row.runs) for row in rows) == [("completed", 2), ("failed", 1)]

    @promise
    async def test_who_waits_for_a_job_without_history_is_told_of_its_end(self, t: Trial) -> None:
        """Also of a plain success that comes in a batch with others, for whom nobody waits."""
        jobs = [await t.running(**LEAN) for _ in range(3)]
        after = await t.enqueue(after=(jobs[1].id,))
        assert await t.settle(*(acked(job, t.now) for job in jobs)) == ["applied"] * 3
        assert (await t.take()).id == after
        assert [await t.driver.runs(job.id) for job in jobs] == [[], [], []]

    @promise
    async def test_a_limit_that_came_after_the_claim_is_given_back_without_history_too(self, t: Trial) -> None:
        """By a plain success of which the worker knows of no limit."""
        jobs = [await t.running(**LEAN) for _ in range(2)]
        await t.alter(PutLimit("type:work", 2))
        waiting = await t.enqueue()
        assert await t.claim() == []
        assert await t.settle(*(acked(job, t.now) for job in jobs)) == ["applied"] * 2
        assert [limit.used for limit in await t.driver.read(AllLimits())] == [0]
        assert (await t.take()).id == waiting

    @promise
    async def test_a_lease_that_is_over_ends_nothing_without_history_either(self, t: Trial) -> None:
        """The instant of expiry is expired, though nobody has taken the job back yet; one that was renewed succeeds."""
        late, renewed = await t.running(**LEAN), await t.running(**LEAN)
        t.clock.advance(LEASE - 1)
        assert (await t.extend(renewed)).answer == "applied"
        t.clock.advance(1)
        assert await t.settle(acked(late, t.now), acked(renewed, t.now)) == ["expired", "applied"]
        assert [job.state for job in await t.jobs([late.id, renewed.id])] == ["running", "succeeded"]

    @promise
    async def test_those_with_and_without_history_succeed_in_one_batch(self, t: Trial) -> None:
        """Each is counted once; what ended before stays as it ended, and what others run goes on."""
        again = await t.running()
        await t.retry(again)
        again = await t.take()
        lean, other = await t.running(**LEAN), await t.running()
        assert await t.settle(acked(again, t.now), acked(lean, t.now)) == ["applied"] * 2
        runs = [[run.status for run in await t.driver.runs(job.id)] for job in (again, lean, other)]
        assert runs == [["failed", "completed"], [], [None]]
        t.clock.advance(2 * LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(3)
        rows = await t.driver.read(UsageSince())
        assert sorted((row.outcome, row.runs) for row in rows) == [("completed", 2), ("failed", 1)]

    # ------------------------------------------------------------------------------------------------------------- usage

    @promise
    async def test_usage_is_complete_without_history(self, t: Trial) -> None:
        """Runs, times, waits, CPU and memory add up to the same, by the hour in which each ended."""
        t.clock.advance(HOUR - t.now % HOUR - 2 * SECOND)
        for history in ("full", "failures"):
            ids = [await t.enqueue(queue=history, org_id="o", history=history) for _ in range(5)]
            t.clock.advance(11)
            jobs = await t.claim(history)
            assert [job.id for job in jobs] == ids
            at = [t.now + offset for offset in (1, 5, 0)]
            changes = [acked(job, end) for job, end in zip(jobs, at, strict=False)]
            changes.append(replace(acked(jobs[3], t.now + 2), report=Report(cpu_us=70, peak_rss=9)))
            assert await t.settle(*changes) == ["applied"] * 4
            await t.end(jobs[4], Failed("boom"))
        beyond = [await t.running(queue=history, history=history) for history in ("full", "failures")]
        t.clock.advance(3 * SECOND)
        for job in beyond:
            await t.ack(job)
        t.clock.advance(2 * LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(12)
        rows = await t.driver.read(UsageSince())
        assert {row.hour % HOUR for row in rows} == {0}
        assert len({row.hour for row in rows}) == 2
        one, other = ([row for row in rows if row.queue == queue] for queue in ("full", "failures"))
        assert usage(one) == usage(other)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(0)
        assert await t.maintain(RollUpUsage(until=t.now + 1)) == Done(0)
        assert await t.driver.read(UsageSince()) == rows

    @promise
    async def test_batches_are_counted_in_bites(self, t: Trial) -> None:
        """At most about so many rows at once, whole instants, and never twice."""
        for _ in range(3):
            for job in [await t.running(**LEAN) for _ in range(2)]:
                await t.ack(job)
            t.clock.advance(SECOND)
        t.clock.advance(2 * LATE)
        duty = RollUpUsage(until=t.now - LATE, limit=3)
        assert [await t.maintain(duty) for _ in range(3)] == [Done(4, more=True), Done(2), Done(0)]
        assert [row.runs for row in await t.driver.read(UsageSince())] == [6]
        assert await t.driver.read(CountedUntil()) == [t.now - LATE]

    @promise
    async def test_what_is_not_counted_is_not_pruned_without_history_either(self, t: Trial) -> None:
        """So that the samples of a minute miss nobody; and what was pruned stays counted."""
        rule: dict[str, Any] = {"succeeded": 0, "cancelled": None, "dead": None}
        await t.ack(await t.running(**LEAN))
        t.clock.advance(2 * LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(1)
        await t.alter(PutGroup("g", total=2))
        for job in [await t.running(**LEAN), await t.running(group_id="g", **LEAN), await t.running(group_id="g")]:
            await t.end(job, Succeeded())
        assert [group.remaining for group in await t.driver.read(AllGroups())] == [0]
        assert await t.maintain(Prune(**rule)) == Done(1)
        t.clock.advance(2 * LATE)
        assert await t.maintain(RollUpUsage(until=t.now)) == Done(3)
        assert await t.maintain(Prune(**rule)) == Done(3)
        assert sum(row.runs for row in await t.driver.read(UsageSince())) == 4

    @promise
    async def test_samples_know_of_runs_without_a_row(self, t: Trial) -> None:
        """How many ended, how long they had waited and run; those that left a row are not told twice."""
        t.clock.advance(MINUTE - t.now % MINUTE)
        await t.enqueue(**LEAN)
        await t.enqueue(**LEAN)
        await t.enqueue(**LEAN)
        t.clock.advance(3 * SECOND)
        plain, with_files, failed = await t.claim()
        t.clock.advance(SECOND)
        await t.ack(plain)
        await t.ack(with_files, report=Report(artifacts=("a",)))
        await t.fail(failed)
        t.clock.advance(MINUTE)
        await t.maintain(SampleQueues(keep=HOUR))
        [sample] = await t.driver.read(SamplesSince())
        assert sample.finished == {"completed": 2, "failed": 1}
        assert sample.waits == {bucket(3 * SECOND): 3}
        assert sample.runs == {bucket(SECOND): 3}

    @promise
    async def test_history_is_refused_where_each_link_is_told_by_its_run(self, t: Trial) -> None:
        """`new_job` has full history; and another word is none."""
        for fields in ({"retry_mode": "new_job", "crash_policy": "fail", **LEAN}, {"history": "some"}):
            with pytest.raises(InvalidInput, match="history"):
                await t.enqueue(**fields)
