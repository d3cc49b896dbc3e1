"""Job Scheduler: a process dies that reserved the queue for a direct execution; another comes after it."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.queries import AllHolds, AuditLog, InOrder
from windlass.errors import ResourceBusy
from windlass.types import Hold, Job

from .crash_program import HELD, QUEUE
from .crashing import Crash, on
from .place import rows

# point -> whether the reservation that is left behind was granted, and how long it lasts
LEFT_BEHIND: dict[str, tuple[bool, int]] = {
    "grant:before_commit": (False, HELD),
    "grant:after_commit": (True, HELD),
    "renew:before_commit": (True, HELD),
    "renew:after_commit": (True, HELD // 3 + HELD),
}
GIVEN_BACK: dict[str, list[str]] = {"acquire:before_commit": [], "give_back:after_commit": ["RELEASED"]}


async def reservations(crash: Crash) -> list[Hold]:
    return await crash.app.client.driver.read(AllHolds())


async def noted(crash: Crash) -> list[tuple[str, str]]:
    return [(line.action, line.subject) for line in await crash.app.client.driver.read(AuditLog())]


async def in_order(crash: Crash) -> list[Job]:
    return await crash.app.client.driver.read(InOrder(queue=QUEUE))


async def all_there_is(crash: Crash) -> list[Any]:
    return [*await crash.state(), await reservations(crash), await crash.app.client.driver.read(AuditLog())]


async def resumed(crash: Crash, order: list[str]) -> None:
    """A scheduler that comes back runs the queue in the order it had; the one after it finds nothing left to do."""
    await crash.restarted().tick()
    assert crash.log.read_text().split() == order
    after = await all_there_is(crash)
    assert [job.state for job in await rows(crash.app)] == ["succeeded"] * len(order)
    await crash.restarted().tick()
    assert await all_there_is(crash) == after, "recovery run twice changes nothing"


@pytest.mark.parametrize("point", LEFT_BEHIND)
def test_the_next_reservation_is_granted_when_the_time_of_a_dead_holders_is_over(crash: Crash, point: str) -> None:
    """JS-100, JS-103, JS-113, JS-131, JS-133, JS-135, JS-146, JS-176: not before, without a restart of anything; the audit
    log has a line of it, and nobody has lost a place in the queue."""

    async def play() -> None:
        order = [await crash.enqueue() for _ in range(3)]
        before = await in_order(crash)
        crash.die(point)
        granted, lasts = LEFT_BEHIND[point]
        [left] = await reservations(crash)
        assert (left.by, left.status, left.granted_at is not None) == ("the dead", "ACTIVE", granted)
        assert left.expires_at - crash.place.clock.now() == lasts
        crash.place.clock.advance(lasts - 1)
        other = crash.restarted()
        assert (await other.tick()).claimed == 0
        with pytest.raises(ResourceBusy, match="the dead"):
            async with other.hold(QUEUE, by="next", wait=0):
                pass
        crash.place.clock.advance(1)
        async with other.hold(QUEUE, by="next", wait=0):
            assert [row.status for row in await reservations(crash)] == ["EXPIRED", "ACTIVE"]
            assert (await crash.restarted().tick()).claimed == 0
            assert await in_order(crash) == before
        await resumed(crash, order)
        assert await noted(crash) == [("hold.expired", f"queue:{QUEUE}")]

    on(crash, play)


@pytest.mark.parametrize("point", GIVEN_BACK)
def test_a_reservation_that_was_not_stored_or_was_given_back_stops_nothing(crash: Crash, point: str) -> None:
    """JS-102, JS-112, JS-135: there is nothing to wait for, and nothing to note."""

    async def play() -> None:
        order = [await crash.enqueue() for _ in range(3)]
        crash.die(point)
        assert [row.status for row in await reservations(crash)] == GIVEN_BACK[point]
        await resumed(crash, order)
        assert await noted(crash) == []

    on(crash, play)


def test_a_crash_of_whoever_ends_a_stale_reservation_leaves_it_to_the_next(crash: Crash) -> None:
    """JS-131, JS-133, JS-146, JS-179: the end of the reservation, its line in the audit log and the dispatch are one
    transaction."""

    async def play() -> None:
        order = [await crash.enqueue() for _ in range(3)]
        crash.die("grant:after_commit")
        crash.place.clock.advance(HELD)
        crash.die("claim:before_commit")
        assert [row.status for row in await reservations(crash)] == ["ACTIVE"]
        assert await noted(crash) == []
        await resumed(crash, order)
        assert [row.status for row in await reservations(crash)] == ["EXPIRED"]
        assert await noted(crash) == [("hold.expired", f"queue:{QUEUE}")]

    on(crash, play)
