"""Numbers, moments, leases and runs that somebody wrote by SQL: the store refuses those that nobody could count on, and the
largest and the last ones that it takes stop no neighbour. Part of `SqlPromises`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from windlass.clock import LAST_INSTANT, moment
from windlass.core.alterations import (
    Cancel,
    ChangeWebhook,
    Move,
    MoveBeside,
    PingWebhook,
    PutLimit,
    PutQueue,
    PutWebhook,
    RemoveLimit,
    RetryGroup,
    SetPriority,
)
from windlass.core.counters import MOST_COUNTED
from windlass.core.duties import Done, Duty, FanOut, ForgetEvents, Prune, RecountLimits, SampleQueues
from windlass.core.events import DEAD, PING
from windlass.core.positions import FURTHEST
from windlass.core.queries import AllTemplates, AllWebhooks, AllWorkers, DeliveriesOf, LimitUses, SamplesSince
from windlass.core.schedules import firing as rule
from windlass.core.settle import Failed, Rejected
from windlass.drivers.protocol import Driver
from windlass.drivers.values import JobQuery
from windlass.testing.conformance.events import hook
from windlass.testing.conformance.schedules import HOUR, made, schedule, stored
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.testing.conformance.webhooks import happened
from windlass.types import NewGroup

NOT_EVEN_READ = re.compile(r"syntax error|no such (table|column|function)|(relation|column|function) .* does not exist")


class HandMadePromises(Suite):
    def sql(self, driver: Driver, statement: str) -> Sequence[Sequence[Any]]:
        """Run one statement on the driver's store, on a connection of its own, and commit. Raises when it is refused."""
        raise NotImplementedError("run the statement on the store, not through the driver")

    def instant(self, micros: int) -> str:
        """An instant as the store's SQL writes it."""
        return str(micros)

    def later(self, column: str) -> str:
        """A moment after the one in a column."""
        return f"{column} + 1"

    def blob(self, digits: str) -> str:
        return f"x'{digits}'"

    def endless(self) -> str:
        """A number that is larger than all others."""
        return "9e999"

    def dateless(self) -> Sequence[str]:
        """Instants that the store can write, and that no clock shows or no calendar holds."""
        return (str(-1), str(LAST_INSTANT + 366 * 86_400_000_000), str(2**63 - 1), str(-(2**63) + 1))

    def _refused(self, t: Trial, *statements: str) -> None:
        for statement in statements:
            with pytest.raises(Exception) as refusal:  # noqa: PT011 - the store's own error, whatever its class
                self.sql(t.driver, statement)
            assert not NOT_EVEN_READ.search(str(refusal.value)), f"{statement}: {refusal.value}"

    @promise
    async def test_counters_that_cannot_be_counted_on_are_refused(self, t: Trial) -> None:
        """One more of them is a number still: a claim adds to those of all jobs at once."""
        job_id, most = await t.enqueue(), 2**63 - 1
        for columns in ("executions", "attempts", "lost", "position"):
            self._refused(
                t,
                f"insert into jobs (type, {columns}) values ('by hand', {most})",  # noqa: S608
                f"update jobs set {columns} = {most} where id = '{job_id}'",  # noqa: S608
            )
        for seq in (most, 90_000_000_000_000_000, 0, -1):
            self._refused(t, f"insert into jobs (type, seq, position) values ('by hand', {seq}, 1)")  # noqa: S608
        self.sql(t.driver, f"update jobs set max_attempts = {most}, max_lost = {most}, timeout_ns = {most}")  # noqa: S608
        await t.enqueue()
        assert len(await t.claim()) == 2

    @promise
    async def test_counters_at_their_bounds_stop_nobody(self, t: Trial) -> None:
        """The largest that the store takes, of every kind: its row is claimed, fails, is lost and claimed again, and so are
        its neighbours. What is beyond is refused the hand that writes it, not somebody's claim."""
        bounds = {"executions": MOST_COUNTED, "attempts": MOST_COUNTED, "lost": MOST_COUNTED, "position": FURTHEST}
        for column, bound in bounds.items():
            self._refused(
                t,
                f"insert into jobs (type, {column}) values ('by hand', {bound + 1})",  # noqa: S608
                f"update jobs set {column} = {bound + 1} where id = '{await t.enqueue()}'",  # noqa: S608
            )
            self.sql(t.driver, f"insert into jobs (type, {column}) values ('by hand', {bound})")  # noqa: S608
        for turn in range(3):
            jobs = await t.claim(limit=20)
            assert len(jobs) == 2 * len(bounds) + turn
            if turn < 2:
                assert [await t.end(job, Failed("boom", retry_in=0)) for job in jobs] == ["applied"] * len(jobs)
            await t.enqueue()
            t.clock.advance(MINUTE)
        assert len(await t.claim(limit=20)) == 2 * len(bounds) + 3, "a lease that lapsed is not taken back"
        [(executions, attempts, lost)] = self.sql(t.driver, "select max(executions), max(attempts), max(lost) from jobs")
        assert (executions, attempts, lost) == (MOST_COUNTED + 4, MOST_COUNTED, MOST_COUNTED)

    @promise
    async def test_the_last_place_of_a_dense_queue_stops_nobody(self, t: Trial) -> None:
        """Those who come after it stand there too, in the order in which they came."""
        await t.alter(PutQueue("default", positions="dense"))
        self.sql(t.driver, f"insert into jobs (type, position) values ('by hand', {FURTHEST})")  # noqa: S608
        self.sql(t.driver, f"insert into jobs (type, position) values ('by hand', {-FURTHEST})")  # noqa: S608
        ids = [await t.enqueue(), await t.enqueue()]
        assert [job.id for job in await t.claim()][-2:] == ids
        first, last = await t.enqueue(), await t.enqueue()
        for change in (Move(first, "bottom"), MoveBeside(first, last, "after"), SetPriority(first, 0)):
            if isinstance(change, SetPriority):
                await t.alter(SetPriority(first, 7))
            self.sql(t.driver, f"update jobs set position = {FURTHEST} where state = 'queued'")  # noqa: S608
            assert await t.alter(change) == "applied"
            assert await t.order() == [last, first], "behind those that are younger"
        await t.claim()
        moved = [await t.enqueue(), await t.enqueue()]
        self.sql(t.driver, f"update jobs set position = {-FURTHEST} where id = '{moved[0]}'")  # noqa: S608
        assert await t.alter(Move(moved[1], "top")) == "applied"
        assert [job.id for job in await t.claim()] == moved[::-1]

    @promise
    async def test_the_largest_number_that_a_hand_may_give_a_row_leaves_room_for_others(self, t: Trial) -> None:
        """Stores that count on from it still have somewhere to go, and those that do not count on from it come past it."""
        with suppress(Exception):  # a store that counts on from it refuses the last one there is
            self.sql(t.driver, "insert into jobs (type, seq, position) values ('by hand', 46116860184273878, 1)")
        taken = (await t.job(await t.enqueue())).seq + 2
        self.sql(t.driver, f"insert into jobs (type, seq) values ('by hand', {taken})")  # noqa: S608
        await t.driver.enqueue([t.new(), t.new(), t.new()], now=t.now)
        self.sql(t.driver, f"insert into jobs (type, seq) values ('by hand', {2**53})")  # noqa: S608
        ids = [await t.enqueue() for _ in range(3)]
        await t.driver.enqueue([t.new(id="four"), t.new(id="five")], now=t.now)
        assert {*ids, "four", "five"} <= {job.id for job in await t.claim()}

    @promise
    async def test_executions_are_never_counted_down(self, t: Trial) -> None:
        """The next run would have the number of one that was, and its claim would be refused for everybody."""
        job = await t.running()
        await t.end(job, Failed("boom", retry_in=0))
        self._refused(t, f"update jobs set executions = 0, skipped = 0 where id = '{job.id}'")  # noqa: S608
        other = await t.enqueue()
        assert {one.id for one in await t.claim()} == {job.id, other}

    @promise
    async def test_a_link_that_might_run_twice_is_refused(self, t: Trial) -> None:
        """It could go nowhere when its worker dies, and whoever would take it back could claim nothing."""
        self._refused(
            t,
            "insert into jobs (type, retry_mode) values ('by hand', 'new_job')",
            "insert into jobs (type, retry_mode, crash_policy, executions) values ('by hand', 'new_job', 'fail', 1)",
        )
        self.sql(t.driver, "insert into jobs (type, retry_mode, crash_policy) values ('by hand', 'new_job', 'fail')")
        assert len(await t.claim()) == 1
        t.clock.advance(MINUTE)
        job_id = await t.enqueue()
        assert [job.id for job in await t.claim()] == [job_id]

    @promise
    async def test_a_lease_that_nobody_could_take_back_is_refused(self, t: Trial) -> None:
        """Of a job that is not free, or that was never claimed and keeps no run: whoever takes it back writes that down."""
        names, at = "type, history, position, state, lease_token, lease_expires_at", self.instant(t.now)
        values = f"'by hand', 'failures', 1, 'running', 'by hand', {at}"
        self._refused(
            t,
            f"insert into jobs ({names}) values ({values})",  # noqa: S608
            f"insert into jobs ({names}, executions) values ({values}, 1)",  # noqa: S608
            f"insert into jobs ({names}, claimed_at) values ({values}, {at})",  # noqa: S608
            f"insert into jobs ({names}, executions, claimed_at, ready, waiting_on) values ({values}, 1, {at}, false, 1)",  # noqa: S608
            f"insert into jobs ({names}, executions, claimed_at, ready, parked_on) values ({values}, 1, {at}, false, 'k')",  # noqa: S608
        )
        self.sql(t.driver, f"insert into jobs ({names}, executions, claimed_at) values ({values}, 1, {at})")  # noqa: S608
        await t.enqueue()
        t.clock.advance(MINUTE)
        assert len(await t.claim()) == 2

    @promise
    async def test_a_job_that_a_hand_ended_waits_for_no_permit(self, t: Trial) -> None:
        """Though it still says so: it is passed over, and stops nobody who frees a permit or takes a limit away."""
        for order in ("strict", "fair"):
            await t.alter(PutQueue("default", order=order))
            for end in ("ack", "raise", "remove"):
                await t.alter(PutLimit("key:k", 1))
                holder = await t.running(limit_keys=("key:k",), org_id="o")
                ended = await t.enqueue(limit_keys=("key:k",), org_id="o", priority=5)
                waiting = await t.enqueue(limit_keys=("key:k",), org_id="o")
                assert await t.claim() == []
                gone = f"state = 'cancelled', finished_at = {self.instant(t.now)}"
                self.sql(t.driver, f"update jobs set {gone} where id = '{ended}'")  # noqa: S608
                [uses] = await t.driver.read(LimitUses(keys=("key:k",)))
                assert uses.waiting == 1
                if end == "raise":
                    assert await t.alter(PutLimit("key:k", 3)) == "applied"
                elif end == "remove":
                    assert await t.alter(RemoveLimit("key:k")) == "applied"
                else:
                    assert await t.ack(holder) == "applied"
                [job] = await t.claim()
                assert job.id == waiting
                assert await t.maintain(RecountLimits()) == Done(0)
                for one in (job,) if end == "ack" else (holder, job):
                    assert await t.ack(one) == "applied"

    @promise
    async def test_a_group_that_a_hand_counted_down_stops_no_member_from_coming_back(self, t: Trial) -> None:
        """What it would take back is not counted any more: nothing is, and the member runs again."""
        group = NewGroup(group_id="g", on_failure="continue")
        await t.driver.enqueue([t.new(id=name, group_id="g", opens=group) for name in "abc"], now=t.now)
        await t.end(await t.take(), Rejected("no"))
        await t.alter(Cancel("b"))
        self.sql(t.driver, "update groups set total = remaining, failed = 0, cancelled = 0")
        assert await t.alter(RetryGroup("g", (("a", "a2"), ("b", "b2")))) == "applied"
        assert {job.id for job in await t.claim()} == {"a", "b2", "c"}

    @promise
    async def test_a_queue_that_becomes_fair_gives_turns_to_its_own_jobs_alone(self, t: Trial) -> None:
        """To all of them, whatever they wait for, and takes them back when it is strict again; others keep theirs."""
        await t.alter(PutQueue("taking", order="fair"))
        await t.alter(PutLimit("key:k", 0))
        for queue in ("taking", "turning", "plain"):
            first = await t.enqueue(queue=queue)
            await t.take(queue)
            await t.enqueue(queue=queue, after=(first,))
            await t.enqueue(queue=queue, limit_keys=("key:k",))
            assert await t.claim(queue) == []
            await t.enqueue(queue=queue)
            await t.enqueue(queue=queue, run_at=t.now + MINUTE)

        def turns() -> dict[str, tuple[int, int]]:
            counted = "select queue, count(share), count(*) from jobs group by queue"
            return {str(queue): (int(count), int(jobs)) for queue, count, jobs in self.sql(t.driver, counted)}

        assert turns() == {"taking": (5, 5), "turning": (0, 5), "plain": (0, 5)}
        await t.alter(PutQueue("turning", order="fair"))
        assert turns() == {"taking": (5, 5), "turning": (5, 5), "plain": (0, 5)}
        await t.alter(PutQueue("turning", order="strict"))
        assert turns() == {"taking": (5, 5), "turning": (0, 5), "plain": (0, 5)}

    @promise
    async def test_a_job_without_a_turn_hides_none_that_has_one(self, t: Trial) -> None:
        """In a fair queue, as somebody's SQL writes it: those of the orgs behind it are let through and taken."""
        await t.alter(PutQueue("default", order="fair"))
        await t.alter(PutLimit("key:k", 0))
        turnless, *ids = [await t.enqueue(org_id=org, limit_keys=("key:k",)) for org in "xaz"]
        assert await t.claim() == []
        self.sql(t.driver, f"update jobs set share = null where id = '{turnless}'")  # noqa: S608
        await t.alter(PutLimit("key:k", 3))
        assert [job.id for job in await t.claim()] == ids
        await t.maintain(RecountLimits())
        assert [job.id for job in await t.claim()] == [turnless]

    @promise
    async def test_a_lease_without_a_run_stops_no_sweep(self, t: Trial) -> None:
        """It needs a decision, and there is no run that the decision could end: it is left to those who repair."""
        names, at = "type, position, state, crash_policy, executions, lease_token, lease_expires_at", self.instant(t.now)
        self.sql(t.driver, f"insert into jobs ({names}) values ('by hand', 1, 'running', 'fail', 1, 'by hand', {at})")  # noqa: S608
        job = await t.running(crash_policy="fail")
        t.clock.advance(MINUTE)
        taken_back, undecided = await t.driver.expire(now=t.now, limit=10)
        assert (taken_back, [one.id for one in undecided]) == (0, [job.id])

    @promise
    async def test_a_run_that_a_hand_wrote_ahead_stops_nobody(self, t: Trial) -> None:
        """The claim that begins a run of this number takes the job and its neighbours; what was written stays."""
        ids, at = [await t.enqueue() for _ in range(4)], self.instant(t.now)
        for job_id, number, limited in ((ids[0], 1, False), (ids[1], 2, False), (ids[2], 3, True)):
            names = "job_seq, attempt_no, run_id, queue, type, claimed_at, started_at, finished_at, status"
            values = f"seq, {number}, 'by hand', queue, type, {at}, {at}, {at}, 'failed'"
            self.sql(t.driver, f"insert into runs ({names}) select {values} from jobs where id = '{job_id}'")  # noqa: S608
            if limited:
                await t.alter(PutLimit("global", 10))
            jobs = await t.claim()
            assert [job.id for job in jobs] == ids
            assert [await t.end(job, Failed("boom", retry_in=0)) for job in jobs] == ["applied"] * len(jobs)
        for job_id, by_hand in zip(ids, ([1], [2], [3], []), strict=True):
            runs = await t.driver.runs(job_id)
            assert [run.attempt_no for run in runs] == [1, 2, 3]
            assert [run.attempt_no for run in runs if run.run_id == "by hand"] == by_hand

    @promise
    async def test_instants_at_their_bounds_stop_nobody(self, t: Trial) -> None:
        """The first and the last moment that the store takes, of every kind: lists show their rows, claims take those that
        are due, and a change is still later than the one before it."""
        first, last = self.instant(0), self.instant(LAST_INSTANT)
        for column in ("created_at", "queued_at", "updated_at", "aged_at", "run_at", "cancel_requested_at"):
            for at in (first, last):
                self.sql(t.driver, f"insert into jobs (type, {column}) values ('by hand', {at})")  # noqa: S608
        job_id = await t.enqueue()
        claimed = await t.claim(limit=20)
        assert job_id in {job.id for job in claimed}
        assert [await t.end(job, Failed("boom", retry_in=0)) for job in claimed] == ["applied"] * len(claimed)
        assert await t.enqueue() in {job.id for job in await t.claim(limit=20)}
        for job in (await t.driver.find(JobQuery(limit=50))).jobs:
            assert moment(job.created_at).year >= 1970
            assert moment(job.updated_at).year <= 9999
        changed = max([job.updated_at for job in (await t.driver.find(JobQuery(limit=50))).jobs])
        assert changed > LAST_INSTANT, "it is the revision of its row, and larger with every write"

    @promise
    async def test_a_schedule_that_a_hand_dated_before_1970_is_changed_and_fired(self, t: Trial) -> None:
        """Its `updated_at` is its revision, which is compared with what was read; nobody need be able to date it."""
        row = await made(t)
        for change in ({"overlap": "skip"}, {"overlap": "allow"}):
            self.sql(t.driver, f"update schedules set updated_at = {self.instant(-5)}")  # noqa: S608
            assert await t.alter(schedule(**change, as_of=-5)) == "applied"
            assert (await stored(t)).updated_at == t.now
        self.sql(t.driver, f"update schedules set updated_at = {self.instant(-5)}")  # noqa: S608
        t.clock.advance(HOUR)
        [used] = await t.driver.read(AllTemplates())
        fire = rule(await stored(t), used, t.now, lambda: "fired")
        assert fire is not None
        assert (fire.expected, fire.as_of) == (row.next_trigger_at, -5)
        assert await t.alter(fire) == "applied"
        assert (await t.job("fired")).fire_at == row.next_trigger_at

    @promise
    async def test_an_instant_without_a_date_is_refused(self, t: Trial) -> None:
        """No clock comes there, and a list that shows it could not say when it is."""
        job_id = await t.enqueue()
        for column in ("created_at", "queued_at", "updated_at", "run_at", "aged_at", "cancel_requested_at"):
            for instant in self.dateless():
                self._refused(
                    t,
                    f"insert into jobs (type, {column}) values ('by hand', {instant})",  # noqa: S608
                    f"update jobs set {column} = {instant} where id = '{job_id}'",  # noqa: S608
                )
        assert [job.id for job in await t.claim()] == [job_id]

    @promise
    async def test_no_row_of_a_delivery_outlives_its_event(self, t: Trial) -> None:
        """Nobody would ever delete it."""
        await t.alter(hook("h", events=(DEAD,)))
        await happened(t)
        assert await t.maintain(FanOut()) == Done(1)
        [sent] = await t.driver.read(DeliveriesOf(webhook_id="h"))
        await t.alter(ChangeWebhook(webhook_id="h", enabled=False))
        assert await t.maintain(ForgetEvents(keep=0)) == Done(1)
        for table in ("outbox", "deliveries"):
            assert len(self.sql(t.driver, f"select event_id from {table} where event_id = {sent.event_id}")) == 0  # noqa: S608

    @promise
    async def test_rows_beside_the_jobs_that_cannot_be_read_stop_nobody(self, t: Trial) -> None:
        """A webhook without a list of events, a delivery without its tries, a sample without numbers, a note of a duty that
        says nothing: a hand wrote them, or a newer version. They say nothing, and duties, settlements and lists go on."""
        secret = "whsec_" + "A" * 40
        for name in ("deaf", "well"):
            hook = PutWebhook(webhook_id=name, url="https://example.com/", events=("queue.unhealthy",), secret=secret)
            assert await t.alter(hook) == "applied"
        await t.alter(PingWebhook("deaf"))
        await t.alter(PutQueue("turned", order="fair"))
        await t.beat("worker")
        duties: tuple[Duty, ...] = (
            SampleQueues(keep=10 * MINUTE, waits_over=1), FanOut(), Prune(succeeded=0), RecountLimits(),
        )  # fmt: skip
        for text in ("nonsense", "7", "null", '"text"', '{"a": "b"}', "[[[]]]"):
            for table, column in (
                ("webhooks where webhook_id = 'deaf'", "events"), ("deliveries", "log"), ("queue_stats", "depth"),
                ("queue_stats", "runs"), ("queues", "turning"), ("workers", "types"),
            ):  # fmt: skip
                name, _, rest = table.partition(" ")
                with suppress(Exception):  # the store's own refusal, whatever its class
                    self.sql(t.driver, f"update {name} set {column} = '{text}' {rest}")  # noqa: S608
            for duty in ("retention_place", "adopting_place"):
                self.sql(t.driver, f"delete from meta where key = '{duty}'")  # noqa: S608
                self.sql(t.driver, f"insert into meta (key, value) values ('{duty}', '{text}')")  # noqa: S608
            await t.ack(await t.running())
            await t.enqueue()
            t.clock.advance(MINUTE)
            for one in duties:
                assert await t.maintain(one) is not None
            await t.claim()
            webhooks = await t.driver.read(AllWebhooks())
            assert [(hook.webhook_id, hook.enabled) for hook in webhooks] == [("deaf", True), ("well", True)]
            assert webhooks[1].events == ("queue.unhealthy",)
            assert PING in {row.event for row in await t.driver.read(DeliveriesOf(webhook_id="deaf"))}
            assert await t.driver.read(SamplesSince(since=0))
            assert len(await t.driver.read(AllWorkers())) == 1
