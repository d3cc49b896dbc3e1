"""What a schedule makes when its time has come: each time once, whoever fires it."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.core.alterations import Alteration, ArchiveTemplate, DeleteSchedule, Fire, PutQueue
from windlass.core.queries import AllSchedules, AllTemplates
from windlass.core.schedules import firing as rule
from windlass.core.settle import Failed
from windlass.testing.conformance.schedules import HOUR, all_jobs, firing, made, schedule, stored, template
from windlass.testing.conformance.trial import Suite, Trial, promise


class FiringPromises(Suite):
    @promise
    async def test_a_firing_makes_its_jobs_and_moves_on(self, t: Trial) -> None:
        """The jobs, last_triggered_at and next_trigger_at become true together."""
        row = await made(t)
        at = row.next_trigger_at or 0
        t.clock.advance(2 * HOUR)
        assert await t.alter(firing(t, row, at, at + HOUR)) == "applied"
        assert [(job.schedule_id, job.fire_at, job.state, job.ready) for job in await all_jobs(t)] == [
            ("s-1", at, "queued", True), ("s-1", at + HOUR, "queued", True),
        ]  # fmt: skip
        after = await stored(t)
        assert (after.last_triggered_at, after.next_trigger_at) == (at + HOUR, at + 2 * HOUR)
        assert len(await t.claim()) == 2

    @promise
    async def test_a_firing_moves_no_other_schedule_on(self, t: Trial) -> None:
        """What is due of that is made when its own time is fired."""
        row = await made(t)
        await t.alter(schedule(schedule_id="s-2", name="weekly"))
        other = await stored(t, "weekly")
        assert await t.alter(firing(t, row)) == "applied"
        assert await stored(t, "weekly") == other

    @promise
    async def test_a_time_is_fired_once(self, t: Trial) -> None:
        """Whoever read it before somebody else fired is refused; so is one who read it before its rule was changed."""
        row = await made(t)
        assert await t.alter(firing(t, row)) == "applied"
        assert await t.alter(firing(t, row)) == "wrong_state"
        row = await stored(t)
        await t.alter(schedule(cron_expression="15 * * * *"))
        assert await t.alter(firing(t, row)) == "wrong_state"
        await t.alter(DeleteSchedule("nightly"))
        assert await t.alter(firing(t, row)) == "not_found"
        assert len(await all_jobs(t)) == 1

    @promise
    async def test_a_time_whose_job_exists_is_not_fired_again(self, t: Trial) -> None:
        """Whoever made it, and even if the schedule has gone back to it. Nothing was triggered then."""
        row = await made(t)
        at = row.next_trigger_at or 0
        await t.enqueue(schedule_id="s-1", fire_at=at)
        assert await t.alter(firing(t, row, after=at + HOUR)) == "applied"
        assert (await stored(t)).last_triggered_at is None
        back = Fire(schedule_id="s-1", expected=at + HOUR, next_trigger_at=at)
        assert await t.alter(back) == "applied"
        assert await t.alter(firing(t, await stored(t), at, at + HOUR)) == "applied"
        assert [job.fire_at for job in await all_jobs(t)] == [at, at + HOUR]
        assert (await stored(t)).last_triggered_at == at + HOUR

    @promise
    async def test_a_firing_that_names_a_job_which_is_there_leaves_it_as_it_is(self, t: Trial) -> None:
        """It is that time's job under its very id; the time passes, and nothing was triggered."""
        row = await made(t)
        fire = firing(t, row)
        [job] = fire.jobs
        await t.driver.enqueue([job], now=t.now)
        before = await t.job(job.id)
        t.clock.advance(1)
        assert await t.alter(fire) == "applied"
        assert await all_jobs(t) == [before]
        after = await stored(t)
        assert (after.last_triggered_at, after.next_trigger_at) == (None, fire.next_trigger_at)

    @promise
    async def test_a_firing_that_is_older_than_a_change_is_refused(self, t: Trial) -> None:
        """Its jobs were made of what somebody has changed since, and was told so. The next firing makes them anew."""
        row = await made(t)
        [used] = await t.driver.read(AllTemplates())
        t.clock.advance(HOUR)

        async def refused(change: Alteration) -> None:
            [schedule_row] = await t.driver.read(AllSchedules())
            [template_row] = await t.driver.read(AllTemplates())
            fire = rule(schedule_row, template_row, t.now, lambda: t.name("job"))
            assert fire is not None
            assert fire.jobs
            assert await t.alter(change) == "applied"
            assert await t.alter(fire) == "wrong_state"
            assert await all_jobs(t) == []

        await refused(schedule(param_overrides=b'{"day": 2}'))
        await refused(template(params=b'{"day": 3}'))
        await refused(ArchiveTemplate(used.name))
        assert (await stored(t)).next_trigger_at == row.next_trigger_at

    @promise
    async def test_a_firing_is_held_against_the_versions_of_its_own_template(self, t: Trial) -> None:
        """However many another template has."""
        row = await made(t)
        [used] = await t.driver.read(AllTemplates())
        for queue in ("x", "y"):
            await t.alter(template(template_id="t-2", name="another", queue=queue))
        t.clock.advance(HOUR)
        fire = rule(row, used, t.now, lambda: t.name("job"))
        assert fire is not None
        assert await t.alter(fire) == "applied"
        assert {(job.template_id, job.template_version) for job in await all_jobs(t)} == {(used.template_id, 1)}

    @promise
    async def test_a_firing_without_jobs_only_moves_on(self, t: Trial) -> None:
        """The last time that something was made stays."""
        row = await made(t)
        at = row.next_trigger_at or 0
        await t.alter(Fire(schedule_id="s-1", expected=at, next_trigger_at=None))
        after = await stored(t)
        assert (after.last_triggered_at, after.next_trigger_at) == (None, None)
        assert await all_jobs(t) == []

    @promise
    async def test_overlap_skip_makes_nothing_beside_an_unfinished_job(self, t: Trial) -> None:
        """Queued or running, also as the retry of one; the time passes, and the last success of the schedule stays."""
        row = await made(t, overlap="skip")
        at = row.next_trigger_at or 0
        t.clock.advance(12 * HOUR)
        assert await t.alter(firing(t, row, at, at + HOUR)) == "applied"
        assert [job.fire_at for job in await all_jobs(t)] == [at]
        await t.alter(firing(t, await stored(t)))
        running = await t.take()
        await t.alter(firing(t, await stored(t)))
        assert len(await all_jobs(t)) == 1
        assert (await stored(t)).last_triggered_at == at
        await t.ack(running)
        await t.alter(firing(t, await stored(t)))
        assert len(await all_jobs(t)) == 2

    @promise
    async def test_overlap_sees_every_link_of_a_chain(self, t: Trial) -> None:
        """A retry that waits for its time has not ended."""
        row = await made(t, overlap="skip")
        at = row.next_trigger_at or 0
        job = t.new(schedule_id="s-1", fire_at=at, retry_mode="new_job", crash_policy="fail", max_attempts=3)
        await t.alter(Fire(schedule_id="s-1", expected=at, next_trigger_at=at + HOUR, jobs=(job,)))
        await t.end(await t.take(), Failed("no"), child_id="link")
        await t.alter(firing(t, await stored(t)))
        assert [job.id for job in await all_jobs(t)] == [job.id, "link"]

    @promise
    async def test_overlap_queue_one_lets_one_wait_behind_one_that_runs(self, t: Trial) -> None:
        """Never two that wait."""
        row = await made(t, overlap="queue-one")
        at = row.next_trigger_at or 0
        t.clock.advance(12 * HOUR)
        await t.alter(firing(t, row, at, at + HOUR))
        assert len(await all_jobs(t)) == 1
        await t.take()
        await t.alter(firing(t, await stored(t)))
        await t.alter(firing(t, await stored(t)))
        assert [job.state for job in await all_jobs(t)] == ["running", "queued"]

    @promise
    async def test_overlap_is_about_the_jobs_of_one_schedule(self, t: Trial) -> None:
        """Those of another, and jobs of the same type, are nobody's business."""
        row = await made(t, overlap="skip")
        await t.enqueue(schedule_id="another", fire_at=1)
        await t.enqueue()
        await t.alter(firing(t, row))
        assert len(await all_jobs(t)) == 3

    @promise
    async def test_a_schedule_fires_into_any_queue(self, t: Trial) -> None:
        """Also one with dense positions, where its jobs stand at the tail."""
        await t.alter(PutQueue("dense", "dense"))
        first = await t.enqueue(queue="dense")
        row = await made(t)
        at = row.next_trigger_at or 0
        job = t.new(schedule_id="s-1", fire_at=at, queue="dense")
        await t.alter(Fire(schedule_id="s-1", expected=at, next_trigger_at=at + HOUR, jobs=(job,)))
        assert [claimed.id for claimed in await t.claim("dense")] == [first, job.id]

    @promise
    async def test_two_leaders_fire_each_time_once(self, t: Trial) -> None:
        """Both read, both fire: of every time there is one job, and the schedule is where the last of them left it."""
        await made(t)
        other = self.another(t.driver)

        async def lead(driver: Any) -> None:
            for _ in range(12):
                [row] = await driver.read(AllSchedules())
                await driver.alter([firing(t, row)], now=t.now)

        try:
            await asyncio.gather(lead(t.driver), lead(other), lead(other))
        finally:
            if other is not t.driver:
                await other.close()
        fired = sorted(job.fire_at or 0 for job in await all_jobs(t))
        assert len(fired) == len(set(fired)) >= 12
        first = fired[0]
        assert fired == [first + n * HOUR for n in range(len(fired))]
        assert (await stored(t)).next_trigger_at == first + len(fired) * HOUR
