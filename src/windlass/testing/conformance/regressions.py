"""What other queues shipped and had to take back. Each of these was a bug of somebody who is trusted."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.clock import SECOND
from windlass.core.alterations import Leave, PutLimit
from windlass.core.duties import Done, ForgetKeys, RecountLimits
from windlass.core.queries import AllGroups, AllLimits
from windlass.core.settle import Snoozed
from windlass.drivers.values import Leadership
from windlass.policies import Retry
from windlass.testing.conformance.recovery import sweep
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise
from windlass.types import Job, NewGroup, NewJob

DAY = 24 * 60 * MINUTE
NOT_A_COLUMN = {"idempotency_expires_at", "on_duplicate", "after", "opens"}


class RegressionPromises(Suite):
    @promise
    async def test_a_batch_forgets_no_field_of_its_jobs(self, t: Trial) -> None:
        """Everything that a job says is stored, also when many are stored at once: its group, its keys, its schedule."""
        await t.enqueue(id="parent", queue="other")
        group = NewGroup(group_id="g", name="nightly")
        common: dict[str, Any] = {
            "type": "t", "queue": "q", "org_id": "acme", "priority": 3, "run_at": t.now + MINUTE, "timeout_ns": 5,
            "attempts": 1, "max_attempts": 4, "max_lost": 6, "on_unknown": "dead", "retry_policy": Retry().encode(),
            "idempotency_scope": "scope", "idempotency_expires_at": t.now + DAY, "on_duplicate": "raise",
            "template_id": "tpl", "template_version": 2, "schedule_id": "s", "limit_keys": ("k",), "tags": ("big",),
            "headers": {"a": "b"}, "codec": "raw", "after": ("parent",), "after_rule": "continue", "group_id": "g",
            "opens": group, "crash_policy": "fail",
        }  # fmt: skip
        ways: list[dict[str, Any]] = [{"history": "failures"}, {"retry_mode": "new_job"}]
        jobs = [
            NewJob(
                id=f"j{n}", idempotency_key=f"k{n}", dedupe_key=f"d{n}", fire_at=t.now + n, group_seq=n,
                payload=b"%d" % n, **common, **ways[n % 2],
            )
            for n in range(1, 5)
        ]  # fmt: skip
        said = {name for job in jobs for name in NewJob.__struct_fields__ if getattr(job, name) != _usual(name)}
        assert said == set(NewJob.__struct_fields__), "a new field: give it a value here that is not its usual one"
        await t.driver.enqueue(jobs, now=t.now)
        for job, row in zip(jobs, await t.jobs([job.id for job in jobs]), strict=True):
            for name in set(NewJob.__struct_fields__) - NOT_A_COLUMN:
                assert getattr(row, name) == getattr(job, name), name
            assert row.waiting_on == 1
        [counted] = await t.driver.read(AllGroups())
        assert (counted.group_id, counted.name, counted.total) == ("g", "nightly", 4)

    @promise
    async def test_a_unique_job_that_waits_for_its_retry_is_no_duplicate_of_itself(self, t: Trial) -> None:
        """It waits, is promoted among others of its kind and runs again; whoever enqueues it meanwhile is told of it."""
        ids = [await t.enqueue(dedupe_key=f"d{n}", max_attempts=9) for n in range(3)]
        for attempt in range(1, 3):
            for job in await t.claim():
                assert await t.retry(job, run_at=t.now + SECOND, attempts=attempt) == "applied"
            assert [(await t.answer(dedupe_key=f"d{n}")).id for n in range(3)] == ids
            t.clock.advance(SECOND)
        again = await t.claim()
        assert [(job.id, job.attempts) for job in again] == [(job_id, 2) for job_id in ids]
        assert [await t.ack(job) for job in again] == ["applied"] * 3

    @promise
    async def test_who_comes_back_under_an_old_name_keeps_nothing_of_the_dead(self, t: Trial) -> None:
        """Two workers of one name are two: each has its own leases, and one that lives renews none of the other's."""
        await t.beat("worker", pid=1)
        lost, mine = await t.running(), await t.running()
        t.clock.advance(LEASE - 1)
        await t.beat("worker", pid=2)
        assert (await t.extend(mine)).answer == "applied"
        t.clock.advance(1)
        again = await t.take()
        assert (again.id, again.lost, (await t.job(lost.id)).worker_id) == (lost.id, 1, "worker")
        assert await t.ack(lost) == "mismatch"
        assert [await t.ack(job) for job in (mine, again)] == ["applied"] * 2

    @promise
    async def test_jobs_of_a_worker_that_nobody_remembers_come_back(self, t: Trial) -> None:
        """Recovery asks leases and not the registry: with the row of their worker gone, jobs are taken back in time."""
        await t.beat("gone")
        await t.enqueue()
        job = await t.take(worker_id="gone")
        await t.alter(Leave("gone"))
        assert await t.claim() == []
        t.clock.advance(LEASE)
        assert [one.id for one in await t.claim()] == [job.id]

    @promise
    async def test_a_delay_that_is_longer_than_any_lease_runs_a_job_once(self, t: Trial) -> None:
        """A job that waits for its time is nobody's: no sweep counts it as lost, and it begins once, when it is due."""
        later = await t.enqueue(run_at=t.now + 30 * DAY, max_lost=1)
        for _ in range(5):
            assert (await t.claim(), await sweep(t)) == ([], (0, []))
            t.clock.advance(6 * DAY)
        [job] = await t.claim()
        assert (job.id, job.executions, job.lost) == (later, 1, 0)
        assert (await t.claim(), await sweep(t)) == ([], (0, []))

    @promise
    async def test_a_leader_that_leaves_too_late_ends_no_other_term(self, t: Trial) -> None:
        """Its term lapsed and another leads: the word of the old one, sent before and heard after, changes nothing."""
        await t.beat("old")
        await t.beat("new")
        await t.lead("old")
        t.clock.advance(LEASE)
        led = await t.lead("new")
        await t.alter(Leave("old"))
        await t.beat("old")
        assert await t.lead("old") == led == Leadership(worker_id="new", epoch=2, until=t.now + LEASE)
        assert await t.maintain(ForgetKeys(), led.epoch) == Done(0)

    @promise
    async def test_who_dies_of_its_last_loss_leaves_its_permit_to_the_next(self, t: Trial) -> None:
        """Nobody was there to give it back: the limit is free all the same, and what waited for it runs."""
        await t.alter(PutLimit("key:serial", 1))
        for fields in ({"max_lost": 1}, {"max_attempts": 1}, {"max_attempts": 1, "crash_policy": "fail"}):
            last = await t.enqueue(limit_keys=("key:serial",), **fields)
            following = await t.enqueue(limit_keys=("key:serial",))
            assert [job.id for job in await t.claim()] == [last]
            t.clock.advance(LEASE)
            assert await sweep(t) == (0, ["applied"])
            assert (await t.job(last)).state == "dead"
            [job] = await t.claim()
            assert job.id == following
            await t.ack(job)
        [limit] = await t.driver.read(AllLimits())
        assert limit.used == 0
        assert await t.maintain(RecountLimits()) == Done(0)

    @promise
    async def test_a_job_that_is_put_off_for_ever_stays_as_large_as_it_was(self, t: Trial) -> None:
        """What it has been through is in its runs and in numbers; nothing in its row grows with each time."""
        job_id = await t.enqueue(max_attempts=2)
        sizes = set[int]()
        for turn in range(15):
            await t.end(await t.take(worker_id=f"worker-{turn:02}"), Snoozed(SECOND))
            t.clock.advance(SECOND)
            sizes.add(_letters(await t.job(job_id)))
        job = await t.job(job_id)
        assert (job.state, job.attempts, job.skipped, job.executions) == ("queued", 0, 15, 15)
        assert max(sizes) - min(sizes) < 3, "a digit of the number in a token's name"


def _usual(name: str) -> object:
    return getattr(NewJob(id="", type=""), name)


def _letters(job: Job) -> int:
    """What is stored beside numbers."""
    return sum(not chr(byte).isdigit() for byte in msgspec.json.encode(job))
