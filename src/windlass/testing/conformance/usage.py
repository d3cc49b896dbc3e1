"""Usage as it is asked for: added up by time, org, queue, type and outcome, and still there when jobs are gone."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.changes import Ack, Report
from windlass.core.duties import Done, ForgetUsage, RollUpUsage
from windlass.core.queries import CountedUntil, UsageBy, UsageSince
from windlass.core.settle import Failed, Succeeded
from windlass.core.usage import DAY, HOUR, LATE, key_of_row, merged, spread
from windlass.errors import InvalidInput
from windlass.records import Usage
from windlass.testing.conformance.trial import Suite, Trial, promise


class UsagePromises(Suite):
    @promise
    async def test_usage_is_added_up_as_it_is_asked_for(self, t: Trial) -> None:
        """By any of org, queue, type and outcome, and by hours or days; what is not asked for is one."""
        day = await history(t)
        whole = Usage(hour=0, org_id="", queue="", type="", outcome="", runs=4, run_us=40, cpu_us=10, peak_rss=300)
        assert await ask(t) == [whole]
        assert [(row.hour, row.runs) for row in await ask(t, step=DAY)] == [(day, 3), (day + DAY, 1)]
        assert [(row.hour, row.runs) for row in await ask(t, step=HOUR)] == [
            (day, 2), (day + HOUR, 1), (day + DAY, 1),
        ]  # fmt: skip
        assert [(row.org_id, row.runs, row.cpu_us) for row in await ask(t, by_org=True)] == [("", 1, 4), ("acme", 3, 6)]
        assert [(row.queue, row.type, row.runs) for row in await ask(t, by_queue=True, by_type=True)] == [
            ("a", "x", 2), ("a", "y", 1), ("b", "x", 1),
        ]  # fmt: skip
        assert [(row.outcome, row.runs) for row in await ask(t, by_outcome=True)] == [("completed", 3), ("failed", 1)]

    @promise
    async def test_usage_is_asked_for_some_and_for_a_time(self, t: Trial) -> None:
        """Of one org, also of none, of some queues, of one type; from an hour to before another; the first rows."""
        day = await history(t)
        for said, runs in (
            ({"org_id": "acme"}, 3), ({"org_id": ""}, 1), ({"org_id": "evil"}, 0), ({"queues": ("a",)}, 3),
            ({"queues": ("a", "b")}, 4), ({"queues": ()}, 0), ({"type": "y"}, 1), ({"since": day + HOUR}, 2),
            ({"until": day + HOUR}, 2), ({"until": day}, 0), ({"org_id": "acme", "queues": ("b",), "type": "x"}, 1),
        ):  # fmt: skip
            assert sum(row.runs for row in await ask(t, **said)) == runs, said
        assert len(await ask(t, step=HOUR, limit=2)) == 2
        with pytest.raises(InvalidInput):
            await ask(t, limit=0)

    @promise
    async def test_usage_of_any_time_is_that_of_its_hours(self, t: Trial) -> None:
        """By hours, days or as a whole, whatever part of a day it begins and ends in, and however late an end was told."""
        day = await history(t)
        await t.enqueue(queue="a", type="x", org_id="acme")
        late = await t.take("a", lease_for=9 * DAY)
        ends = t.now
        for _ in range(3):
            t.clock.advance(17 * HOUR)
            await t.end(await t.running(queue="b", type="x"), Succeeded(), report=Report(peak_rss=200))
            t.clock.advance(LATE)
            await t.maintain(RollUpUsage(until=t.now))
        assert await t.settle(Ack(handle=late.handle, token=late.token, at=ends)) == ["applied"]
        hours = await t.driver.read(UsageSince())
        assert sum(row.runs for row in hours) == 8
        for since, until in itertools.combinations(
            (0, day, day + 1, day + HOUR, day + DAY, day + 30 * HOUR, t.now + 9 * DAY), 2
        ):
            for step, by in itertools.product((0, HOUR, 5 * HOUR, DAY, 2 * DAY), (False, True)):
                asked = UsageBy(since=since, until=until, step=step, by_queue=by, by_outcome=by)
                assert await t.driver.read(asked) == from_hours(hours, asked), asked

    @promise
    async def test_an_end_that_is_told_late_is_counted_once_by_the_hour_and_by_the_day(self, t: Trial) -> None:
        """Without the attempts before it, and whether its hour has been added to its day or not."""
        t.clock.advance(DAY - t.now % DAY)
        day, ends = t.now, (HOUR - 1, HOUR, HOUR + LATE)
        for _ in ends:
            await t.enqueue(max_attempts=3)
        for job in await t.claim():
            await t.retry(job)
        t.clock.advance(1)
        jobs = await t.claim(lease_for=9 * DAY)
        t.clock.advance(HOUR + 5 * LATE)
        await t.maintain(RollUpUsage(until=t.now))
        for job, at in zip(jobs, ends, strict=True):
            assert await t.ack(job, at=day + at) == "applied"
        for until in (t.now, t.now + DAY):
            t.clock.advance(until - t.now)
            await t.maintain(RollUpUsage(until=t.now))
            for step in (HOUR, DAY, 0):
                counted = Counter[str]()
                for row in await ask(t, step=step, by_outcome=True):
                    counted[row.outcome] += row.runs
                assert counted == {"failed": 3, "completed": 3}, step

    @promise
    async def test_a_bite_of_usage_takes_nothing_that_ended_later(self, t: Trial) -> None:
        """It is full when it has as many as it may, and not where there is more behind its end. Runs or what left none."""
        for history in ("full", "failures"):
            ends = []
            for _ in range(4):
                t.clock.advance(SECOND)
                await t.ack(await t.running(history=history))
                ends.append(t.now)
            t.clock.advance(2 * LATE)
            for until, limit, done in (
                (ends[0], 2, Done(1)), (ends[2], 2, Done(2, more=True)), (ends[2], 2, Done(0)), (ends[3], 2, Done(1)),
            ):  # fmt: skip
                assert await t.maintain(RollUpUsage(until=until, limit=limit)) == done

    @promise
    async def test_usage_tells_up_to_when_it_has_counted(self, t: Trial) -> None:
        """Nothing before the first roll-up."""
        assert await t.driver.read(CountedUntil()) == []
        await history(t)
        assert await t.driver.read(CountedUntil()) == [t.now - LATE]

    @promise
    async def test_usage_outlives_its_jobs(self, t: Trial) -> None:
        """What was counted does not change when jobs are pruned."""
        await history(t)
        before = await ask(t, step=HOUR, by_org=True, by_queue=True, by_type=True, by_outcome=True)
        assert await t.prune(succeeded=0, cancelled=0, dead=0) == 4
        assert await ask(t, step=HOUR, by_org=True, by_queue=True, by_type=True, by_outcome=True) == before
        assert len(before) == 4

    @promise
    async def test_old_usage_is_forgotten_by_the_day(self, t: Trial) -> None:
        """Hours and days that ended so long ago, in bites and the oldest first; what is younger stays as it was, and what
        comes after is counted as ever."""
        day = await history(t)
        assert await t.maintain(ForgetUsage()) == Done(0)
        assert await t.maintain(ForgetUsage(keep=t.now - day - DAY + 1)) == Done(0), "a day is not over"
        t.clock.advance(HOUR)
        await t.maintain(RollUpUsage(until=t.now))
        keep = t.now - day - DAY
        assert await t.maintain(ForgetUsage(keep=keep, limit=2)) == Done(2, more=True)
        assert await t.maintain(ForgetUsage(keep=keep, limit=2)) == Done(1)
        for step in (HOUR, DAY, 0):
            assert sum(row.runs for row in await ask(t, step=step)) == 1, step
        await t.end(await t.running(queue="b", type="x"), Succeeded())
        t.clock.advance(2 * DAY)
        await t.maintain(RollUpUsage(until=t.now))
        assert [(row.hour, row.runs) for row in await ask(t, step=DAY)] == [(day + DAY, 2)]


def from_hours(hours: Iterable[Usage], asked: UsageBy) -> list[Usage]:
    found: dict[object, Usage] = {}
    for row in hours:
        if asked.since <= row.hour < asked.until:
            one = spread(row, asked)
            found[key_of_row(one)] = merged(found.get(key_of_row(one)), one)
    return sorted(found.values(), key=key_of_row)


async def history(t: Trial) -> int:
    """Four runs on two days, counted. Answers the beginning of the first day."""
    t.clock.advance(DAY - t.now % DAY)
    day = t.now
    for after, queue, kind, org, outcome, cpu in (
        (0, "a", "x", "acme", Succeeded(), 1), (SECOND, "a", "x", "acme", Failed("no"), 2),
        (HOUR, "b", "x", "acme", Succeeded(), 3), (23 * HOUR, "a", "y", None, Succeeded(), 4),
    ):  # fmt: skip
        t.clock.advance(after)
        job = await t.running(queue=queue, type=kind, org_id=org, max_attempts=1)
        t.clock.advance(10)
        await t.end(job, outcome, report=Report(cpu_us=cpu, peak_rss=300 if kind == "y" else None))
    t.clock.advance(LATE)
    await t.maintain(RollUpUsage(until=t.now))
    return day


async def ask(t: Trial, **said: Any) -> list[Usage]:
    return await t.driver.read(UsageBy(**{"since": 0, "until": t.now, **said}))
