"""Holds: a queue taken for direct execution, at most once at a time, for as long as it is renewed."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.alterations import Acquire, Grant, ReleaseHold, Renew, SetPaused
from windlass.core.holds import KEPT
from windlass.core.queries import AllHolds, AuditLog
from windlass.errors import InvalidInput
from windlass.records import AuditLine
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise
from windlass.types import Hold


class HoldPromises(Suite):
    @promise
    async def test_an_active_hold_stops_claims_at_once(self, t: Trial) -> None:
        """Before it is granted, too; other queues go on, what is enqueued waits, and the order is what it was."""
        first, second = await t.enqueue(), await t.enqueue()
        assert await t.alter(acquire("h")) == "applied"
        elsewhere = await t.enqueue(queue="b")
        assert await t.claim() == []
        assert [job.id for job in await t.claim("default", "b")] == [elsewhere]
        assert await t.driver.waiting_types(["default"], limit=5) == []
        assert await t.alter(Grant("h", MINUTE)) == "applied"
        assert await t.claim() == []
        assert await t.alter(ReleaseHold("h")) == "applied"
        assert [job.id for job in await t.claim()] == [first, second]
        assert [hold.status for hold in await t.driver.read(AllHolds())] == ["RELEASED"]
        assert await t.driver.read(AuditLog()) == []

    @promise
    async def test_a_hold_is_granted_whatever_else_its_call_changes(self, t: Trial) -> None:
        """Who asks does not stand in its own way, not even when it has asked for another queue before."""
        assert await t.alter(acquire("h")) == "applied"
        answers = await t.driver.alter([acquire("g", queue="b"), Grant("h", MINUTE)], now=t.now)
        assert answers == ["applied", "applied"]

    @promise
    async def test_a_hold_is_granted_when_nothing_of_its_queue_runs(self, t: Trial) -> None:
        """Not beside a valid lease; its time begins afresh with each attempt, and at the grant."""
        job, _ = await t.running(), await t.running(queue="b")
        assert await t.alter(acquire("h")) == "applied"
        t.clock.advance(1)
        assert await t.alter(Grant("h", MINUTE)) == "requested"
        assert await held(t, "h") == Hold(
            hold_id="h", queue="default", by="api", status="ACTIVE", reserved_at=t.now - 1, granted_at=None,
            expires_at=t.now + MINUTE,
        )  # fmt: skip
        await t.ack(job)
        t.clock.advance(1)
        assert await t.alter(Grant("h", 2 * MINUTE)) == "applied"
        hold = await held(t, "h")
        assert (hold.granted_at, hold.expires_at) == (t.now, t.now + 2 * MINUTE)
        t.clock.advance(1)
        assert await t.alter(Grant("h", MINUTE)) == "applied"
        assert (await held(t, "h")).granted_at == t.now - 1

    @promise
    async def test_a_lapsed_lease_does_not_keep_a_hold_from_being_granted(self, t: Trial) -> None:
        """Nor can it be extended afterwards, not even by a worker whose clock is behind; the job is taken back as ever."""
        lost, decided = await t.running(), await t.running(max_lost=1)
        beside = await t.running(queue="b")
        kept = await t.job(beside.id)
        assert await t.alter(acquire("h", expires_in=10 * MINUTE)) == "applied"
        t.clock.advance(LEASE)
        assert await t.alter(Grant("h", 10 * MINUTE)) == "applied"
        t.clock.advance(-LEASE)
        for job in (lost, decided):
            assert (await t.extend(job)).answer == "expired"
        assert await t.job(beside.id) == kept, "another queue's lapsed lease is none of its business"
        assert await t.ack(beside) == "applied"
        t.clock.advance(LEASE)
        taken_back, [undecided] = await t.driver.expire(now=t.now, limit=10)
        assert (taken_back, undecided.id) == (1, decided.id)
        assert (await t.job(lost.id)).state == "queued"
        assert await t.claim() == []

    @promise
    async def test_a_hold_is_renewed_and_ended_alone(self, t: Trial) -> None:
        """That of another queue keeps its time, and is there when the first has gone."""
        assert await t.alter(acquire("h")) == "applied"
        assert await t.alter(acquire("g", queue="b")) == "applied"
        other = await held(t, "g")
        t.clock.advance(1)
        assert await t.alter(Renew("h", 2 * MINUTE)) == "applied"
        assert await t.alter(Grant("h", 2 * MINUTE)) == "applied"
        assert await held(t, "g") == other
        assert await t.alter(ReleaseHold("h")) == "applied"
        assert await held(t, "g") == other

    @promise
    async def test_a_queue_has_at_most_one_hold(self, t: Trial) -> None:
        """Another is told that it is busy; the same one, asked for again, is there already."""
        assert await t.alter(acquire("h")) == "applied"
        assert await t.alter(acquire("h")) == "unchanged"
        assert await t.alter(acquire("other")) == "busy"
        assert await t.alter(acquire("other", queue="b")) == "applied"
        assert await t.alter(acquire("other")) == "wrong_state"
        await t.alter(ReleaseHold("h"))
        assert await t.alter(acquire("h")) == "wrong_state"
        assert await t.alter(acquire("third")) == "applied"
        assert [(row.hold_id, row.status) for row in await t.driver.read(AllHolds())] == [
            ("h", "RELEASED"), ("other", "ACTIVE"), ("third", "ACTIVE"),
        ]  # fmt: skip

    @promise
    async def test_a_hold_lives_as_long_as_it_is_renewed(self, t: Trial) -> None:
        """The instant of expiry is expired: from then on it is neither renewed nor granted, whoever ended it or nobody."""
        await t.alter(acquire("h"))
        assert await t.alter(Grant("h", MINUTE)) == "applied"
        for _ in range(3):
            t.clock.advance(MINUTE - 1)
            assert await t.alter(Renew("h", MINUTE)) == "applied"
        t.clock.advance(MINUTE)
        before = await held(t, "h")
        for change in (Renew("h", MINUTE), Grant("h", MINUTE)):
            assert await t.alter(change) == "wrong_state"
        assert await held(t, "h") == before
        assert await t.alter(Renew("nobody", 1)) == await t.alter(Grant("nobody", 1)) == "not_found"
        assert await t.alter(ReleaseHold("nobody")) == "not_found"

    @promise
    async def test_a_renewal_of_a_hold_that_was_overtaken_shortens_nothing(self, t: Trial) -> None:
        """The network may hold a message for so long that its sender has renewed by another, and counts on that."""
        await t.alter(acquire("h"))
        await t.alter(Grant("h", MINUTE))
        asked = t.now
        t.clock.advance(MINUTE // 2)
        await t.alter(Renew("h", MINUTE))
        before = await held(t, "h")
        assert before.expires_at == t.now + MINUTE
        for late in (Renew("h", MINUTE), Grant("h", MINUTE)):
            assert await t.driver.alter([late], now=asked) == ["applied"]
        assert await held(t, "h") == before

    @promise
    async def test_a_stale_hold_ends_inside_the_next_claim(self, t: Trial) -> None:
        """Claims go on at the very instant, in the old order, without a restart; a line in the audit log tells of it.
        A claim that distrusts its clock leaves the hold alone."""
        first, second = await t.enqueue(), await t.enqueue()
        await t.alter(acquire("h"))
        await t.alter(Grant("h", MINUTE))
        t.clock.advance(MINUTE - 1)
        assert await t.claim() == []
        t.clock.advance(1)
        assert await t.claim(reclaim=False) == []
        assert (await held(t, "h")).status == "ACTIVE"
        assert [job.id for job in await t.claim("b", "default", worker_id="w7")] == [first, second]
        hold = await held(t, "h")
        assert (hold.status, hold.ended_at) == ("EXPIRED", t.now)
        [line] = await t.driver.read(AuditLog())
        assert (line.at, line.actor, line.action, line.subject) == (t.now, "w7", "hold.expired", "queue:default")
        assert msgspec.json.decode(line.detail or "")["by"] == "api"
        assert await t.alter(Renew("h", MINUTE)) == "wrong_state"
        assert await t.alter(ReleaseHold("h")) == "unchanged"
        assert await t.claim() == []
        assert len(await t.driver.read(AuditLog())) == 1

    @promise
    async def test_a_claim_ends_a_stale_hold_even_when_nothing_waits(self, t: Trial) -> None:
        """So that a hold whose holder is dead is not shown as active for ever."""
        await t.alter(acquire("h"))
        t.clock.advance(MINUTE)
        assert await t.claim() == []
        assert (await held(t, "h")).status == "EXPIRED"

    @promise
    async def test_whoever_wants_the_queue_ends_a_stale_hold(self, t: Trial) -> None:
        """The next holder does not need a worker for that; it is said once, in the name of who did it."""
        await t.alter(acquire("h"))
        t.clock.advance(MINUTE)
        assert await t.alter(acquire("next", by="somebody")) == "applied"
        assert [(row.hold_id, row.status) for row in await t.driver.read(AllHolds())] == [
            ("h", "EXPIRED"), ("next", "ACTIVE"),
        ]  # fmt: skip
        [line] = await t.driver.read(AuditLog())
        assert (line.actor, line.action) == ("somebody", "hold.expired")
        assert await t.driver.read(AuditLog(since=t.now)) == [line]
        t.clock.advance(1)
        assert await t.driver.read(AuditLog(since=t.now)) == []

    @promise
    async def test_who_ends_the_hold_of_another_is_named(self, t: Trial) -> None:
        """A person who releases it leaves a line in the audit log."""
        await t.alter(acquire("h"))
        assert await t.alter(ReleaseHold("h", by="ada@desk")) == "applied"
        [line] = await t.driver.read(AuditLog())
        assert isinstance(line, AuditLine)
        assert (line.actor, line.action) == ("ada@desk", "hold.released")
        assert await t.alter(ReleaseHold("h", by="ada@desk")) == "unchanged"
        assert len(await t.driver.read(AuditLog())) == 1

    @promise
    async def test_a_pause_outlives_a_hold(self, t: Trial) -> None:
        """Releasing the one does not end the other."""
        job = await t.enqueue()
        await t.alter(SetPaused("default", True))
        await t.alter(acquire("h"))
        await t.alter(ReleaseHold("h"))
        assert await t.claim() == []
        await t.alter(acquire("again"))
        await t.alter(SetPaused("default", False))
        assert await t.claim() == []
        await t.alter(ReleaseHold("again"))
        assert [one.id for one in await t.claim()] == [job]

    @promise
    async def test_holds_that_ended_long_ago_are_forgotten(self, t: Trial) -> None:
        """When their queue is held again; the audit log keeps what it says."""
        await t.alter(acquire("h"))
        await t.alter(ReleaseHold("h", by="ada"))
        await t.alter(acquire("b", queue="b"))
        await t.alter(ReleaseHold("b"))
        t.clock.advance(KEPT)
        await t.alter(acquire("next"))
        await t.alter(ReleaseHold("next"))
        assert [row.hold_id for row in await t.driver.read(AllHolds())] == ["b", "h", "next"]
        t.clock.advance(1)
        await t.alter(acquire("later"))
        assert [row.hold_id for row in await t.driver.read(AllHolds())] == ["b", "next", "later"]
        assert len(await t.driver.read(AuditLog())) == 1

    @promise
    async def test_a_hold_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """No name, no time, granted in the call that asks for it: an error that names the field, and nothing changed."""
        for bad in (
            acquire(""), acquire("x", queue=" "), acquire("x", by=""), acquire("x", expires_in=0),
            acquire("x", expires_in=-MINUTE), acquire("x", expires_in=2**63), Grant("x", 0), Renew("x", -1), Renew("", 1),
            Renew("x", 1.5), ReleaseHold(""), ReleaseHold("x", by=""), Grant("h", 1),  # type: ignore[arg-type]
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await t.driver.alter([acquire("h"), bad], now=t.now)
        assert await t.driver.read(AllHolds()) == []


def acquire(hold_id: str, *, queue: str = "default", by: str = "api", expires_in: int = MINUTE) -> Acquire:
    return Acquire(hold_id, queue, by, expires_in)


async def held(t: Trial, hold_id: str) -> Hold:
    return next(hold for hold in await t.driver.read(AllHolds()) if hold.hold_id == hold_id)
