"""Job Scheduler: direct execution beside the queue, an order that people change, groups, schedules; on its preset."""

from __future__ import annotations

import asyncio

import pytest

from windlass.core.alterations import Acquire, ReleaseHold, Renormalise, Swap
from windlass.core.queries import AllHolds, AllSchedules, AuditLog
from windlass.core.settle import Failed, Succeeded
from windlass.errors import ResourceBusy, StoreError
from windlass.policies import Retry
from windlass.types import Hold

from .desk import QUEUE, Desk
from .place import Place, run

MINUTE = 60_000_000


@pytest.fixture
def desk(any_place: Place) -> Desk:
    return Desk(any_place)


async def reservations(desk: Desk) -> list[Hold]:
    return await desk.app.client.driver.read(AllHolds())


# ------------------------------------------------------------------------------------------------------- direct execution


def test_a_direct_execution_reserves_the_next_slot_and_gives_it_back(desk: Desk) -> None:
    """JS-101, JS-102, JS-110, JS-111, JS-112, JS-113: ACTIVE stops every dispatch, RELEASED lets the first job be first."""

    async def main() -> None:
        first, second = await desk.enqueue(), await desk.enqueue()
        async with desk.app.hold(QUEUE, by="api-7"):
            assert [(row.by, row.status) for row in await reservations(desk)] == [("api-7", "ACTIVE")]
            third = await desk.enqueue(priority=0)
            assert await desk.dispatch() == []
        assert [row.status for row in await reservations(desk)] == ["RELEASED"]
        order: list[str] = []
        while len(order) < 3:
            [job] = await desk.dispatch()
            order.append(job.id)
            await desk.end(job, Succeeded())
        assert order == [first, second, third]

    run(main)


def test_a_second_reservation_waits_or_is_told_that_the_resource_is_busy(desk: Desk) -> None:
    """JS-104, JS-158: at most one is ACTIVE; who will not wait is refused, who waits gets it after the release."""

    async def main() -> None:
        await desk.enqueue()
        async with desk.app.hold(QUEUE, by="first"):
            with pytest.raises(ResourceBusy, match="first"):
                async with desk.app.hold(QUEUE, by="second", wait=0):
                    pass
            waiting = asyncio.create_task(hold_briefly())
            await asyncio.sleep(0.05)
            assert not waiting.done()
        await waiting
        assert [(row.by, row.status) for row in await reservations(desk)] == [("first", "RELEASED"), ("third", "RELEASED")]

    async def hold_briefly() -> None:
        async with desk.app.hold(QUEUE, by="third", wait=60):
            pass

    run(main)


def test_two_active_reservations_cannot_be_written_not_even_by_hand(sql_place: Place) -> None:
    """JS-159: the check and the insert are one step, kept by the database itself."""
    desk = Desk(sql_place)

    async def main() -> None:
        await desk.enqueue()
        now = desk.now
        wishes = [Acquire(f"h{n}", QUEUE, "api", 5 * MINUTE) for n in range(2)]
        answers = [await desk.app.client.driver.alter([wish], now=now) for wish in wishes]
        assert answers == [["applied"], ["busy"]]

    run(main)
    columns = "(reservation_id, queue, reserved_by, status, reserved_at, expires_at)"
    at = sql_place.instant(desk.now)
    with pytest.raises(Exception, match=r"(?i)unique"):
        sql_place.sql(f"insert into reservations {columns} values ('x', '{QUEUE}', 'me', 'ACTIVE', {at}, {at})")


def test_a_reservation_of_a_dead_process_expires_is_noted_and_the_queue_goes_on(desk: Desk) -> None:
    """JS-100, JS-103, JS-131, JS-133, JS-134, JS-135, JS-146, JS-176: five minutes at most, then EXPIRED with a line in the
    audit log; the caller may ask again, and nothing of its first request was ever executed."""

    async def main() -> None:
        job_id = await desk.enqueue()
        await desk.app.client.driver.alter([Acquire("lost", QUEUE, "dead-process", 5 * MINUTE)], now=desk.now)
        other = Desk(desk.place) if desk.place.kind != "memory" else desk  # as it is found after a restart
        desk.place.clock.advance(5 * MINUTE - 1)
        assert await other.dispatch() == []
        desk.place.clock.advance(1)
        assert [job.id for job in await other.dispatch()] == [job_id]
        assert [row.status for row in await reservations(other)] == ["EXPIRED"]
        [line] = await other.app.client.driver.read(AuditLog())
        assert (line.action, line.subject) == ("hold.expired", f"queue:{QUEUE}")
        await desk.app.client.driver.alter([Acquire("again", QUEUE, "the-same-caller", 5 * MINUTE)], now=desk.now)
        assert [row.status for row in await reservations(other)] == ["EXPIRED", "ACTIVE"]

    run(main)


def test_a_reservation_whose_time_is_not_over_is_waited_for_after_a_restart(desk: Desk) -> None:
    """JS-132: nobody can tell a dead holder from a slow one before its time is over, so it is never cut short; a person may
    release it, and is named."""

    async def main() -> None:
        job_id = await desk.enqueue()
        await desk.app.client.driver.alter([Acquire("lost", QUEUE, "dead-process", 5 * MINUTE)], now=desk.now)
        assert await desk.dispatch() == []
        assert await desk.app.client.driver.alter([ReleaseHold("lost", by="operator")], now=desk.now) == ["applied"]
        assert [line.actor for line in await desk.app.client.driver.read(AuditLog())] == ["operator"]
        assert [job.id for job in await desk.dispatch()] == [job_id]

    run(main)


# -------------------------------------------------------------------------------------------------------------- the order


def test_a_job_is_put_between_two_others_and_two_swap_without_shifting_anybody(desk: Desk) -> None:
    """JS-108: gaps of a hundred; only the moved job's position changes, a swap changes two."""

    async def main() -> None:
        ids = [await desk.enqueue() for _ in range(4)]
        assert [(await desk.row(one)).position for one in ids] == [100, 200, 300, 400]
        last = desk.app.job(ids[3])
        await last.move_beside(desk.app.job(ids[0]), "after")
        assert [(await desk.row(one)).position for one in ids[:3]] == [100, 200, 300]
        assert 100 < (await desk.row(ids[3])).position < 200
        assert await desk.app.client.driver.alter([Swap(ids[0], ids[2])], now=desk.now) == ["applied"]
        assert [(await desk.row(one)).position for one in ids[:3]] == [300, 200, 100]

    run(main)


def test_positions_are_renormalised_in_one_step_and_the_order_stays(desk: Desk) -> None:
    """JS-109: 100, 200, 300 … in the order that was."""

    async def main() -> None:
        ids = [await desk.enqueue() for _ in range(3)]
        await desk.app.job(ids[2]).move_beside(desk.app.job(ids[0]), "after")
        assert await desk.app.client.driver.alter([Renormalise(QUEUE)], now=desk.now) == ["applied"]
        assert [(await desk.row(ids[n])).position for n in (0, 2, 1)] == [100, 200, 300]

    run(main)


# -------------------------------------------------------------------------------------------------- groups and schedules


@pytest.mark.parametrize(
    ("rule", "status", "ran"), [("stop", "partial", 1), ("continue", "partial", 2), ("skip", "completed", 2)]
)
def test_what_a_failed_member_means_for_the_rest_of_its_group(desk: Desk, rule: str, status: str, ran: int) -> None:
    """JS-170, JS-171: mode, on_failure, and a status that is derived from the members."""

    async def main() -> None:
        @desk.app.task(queue=QUEUE)
        async def step(n: int) -> int:
            return n

        async with desk.app.group("nightly", mode="sequential", on_failure=rule) as group:  # type: ignore[arg-type]
            for n in range(2):
                group.add(step.using(retry=Retry(max_attempts=1)).job(n))
        done = 0
        while jobs := await desk.dispatch():
            await desk.end(jobs[0], Failed("ValueError: no") if done == 0 else Succeeded())
            done += 1
        assert (done, await group.status()) == (ran, status)

    run(main)


def test_a_schedule_is_created_changed_and_remembers_its_last_trigger(desk: Desk) -> None:
    """JS-088, JS-089: cron, timezone and enabled change; last_triggered_at is written when it fires."""

    async def main() -> None:
        @desk.app.task(queue=QUEUE)
        async def report() -> None: ...

        await desk.app.templates.put("daily", report)
        await desk.app.schedules.put("daily", template="daily", cron="0 9 * * *", tz="UTC")
        await desk.app.schedules.update("daily", cron="0 10 * * *", tz="Europe/Berlin")
        [row] = await desk.app.client.driver.read(AllSchedules())
        assert (row.cron_expression, row.timezone, row.enabled, row.last_triggered_at) == (
            "0 10 * * *", "Europe/Berlin", True, None,
        )  # fmt: skip
        assert row.next_trigger_at is not None
        desk.place.clock.advance(row.next_trigger_at - desk.now)
        await desk.app.tick()
        [fired] = await desk.app.client.driver.read(AllSchedules())
        assert fired.last_triggered_at == row.next_trigger_at
        await desk.app.schedules.pause("daily")
        [paused] = await desk.app.client.driver.read(AllSchedules())
        assert (paused.enabled, paused.next_trigger_at) == (False, None)

    run(main)


def test_nothing_reserves_a_queue_that_nobody_knows(desk: Desk) -> None:
    async def main() -> None:
        with pytest.raises((ValueError, StoreError), match="there is no queue"):
            async with desk.app.hold("unheard-of", by="api"):
                pass

    run(main)
