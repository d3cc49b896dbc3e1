"""Job Scheduler: a process dies while a schedule fires; another comes after it. Each fire time makes one job."""

from __future__ import annotations

from windlass.clock import SECOND
from windlass.types import Job

from .crashing import Crash, on
from .place import rows

PERIOD = 300 * SECOND


async def scheduled(crash: Crash, *names: str) -> int:
    """Schedules with the same rhythm, which miss nothing; their first time."""
    await crash.app.templates.put("story", "story")
    made = [await crash.app.schedules.put(name, "story", "*/5 * * * *", catch_up="all") for name in names]
    [first] = {row.next_trigger_at for row in made}
    assert first is not None
    crash.place.clock.advance(first - crash.place.clock.now())
    return first


async def fired(crash: Crash) -> list[tuple[str | None, int | None]]:
    names = {row.schedule_id: row.name for row in await crash.app.schedules.list()}
    return sorted((names[job.schedule_id or ""], job.fire_at) for job in await rows(crash.app))


async def next_times(crash: Crash) -> list[int | None]:
    return [row.next_trigger_at for row in await crash.app.schedules.list()]


async def resumed(crash: Crash) -> list[Job]:
    """A scheduler that comes back, and another one, which finds nothing left to do."""
    await crash.restarted().tick(100)
    after = [await crash.state(), await crash.app.schedules.list()]
    await crash.restarted().tick(100)
    assert [await crash.state(), await crash.app.schedules.list()] == after, "recovery run twice changes nothing"
    return await rows(crash.app)


def test_a_firing_that_was_not_stored_is_made_up_for_and_one_that_was_is_not_repeated(crash: Crash) -> None:
    """JS-089, JS-118: the jobs of a firing and the schedule's next time are one transaction."""

    async def play() -> None:
        first = await scheduled(crash, "story")
        crash.place.clock.advance(2 * PERIOD)
        crash.die("fire:before_commit")
        assert (await fired(crash), await next_times(crash)) == ([], [first])
        crash.die("fire:after_commit")
        expected = [("story", first + n * PERIOD) for n in range(3)]
        assert (await fired(crash), await next_times(crash)) == (expected, [first + 3 * PERIOD])
        jobs = await resumed(crash)
        assert [job.state for job in jobs] == ["succeeded"] * 3
        assert await fired(crash) == expected
        assert sorted(crash.executed()) == sorted(job.id for job in jobs)

    on(crash, play)


def test_one_of_several_firings_that_was_stored_is_not_repeated_and_the_others_are_not_lost(crash: Crash) -> None:
    """JS-089, JS-118: the process dies between two schedules that are due at the same time."""

    async def play() -> None:
        first = await scheduled(crash, "one", "two")
        crash.die("fire:after_commit")
        assert len(await fired(crash)) == 1
        await resumed(crash)
        assert await fired(crash) == [("one", first), ("two", first)]
        assert await next_times(crash) == [first + PERIOD] * 2

    on(crash, play)
