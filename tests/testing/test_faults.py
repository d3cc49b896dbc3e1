"""Faults that users arm in their tests: each happens where it says, once, on the real store; one that does not is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Retry, Windlass, current, fixed
from windlass.clock import SECOND
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput, LeaseLost, OutcomeUnknown, StoreUnreachable
from windlass.sealing import new_line
from windlass.testing import Testing, WorkerDied, testing
from windlass.testing.faults import FaultyTransaction, Point

in_memory = pytest.mark.parametrize("test", ["memory"], indirect=True)  # where a store makes no difference


class Bank:
    """Handlers of both kinds, and what they did."""

    def __init__(self) -> None:
        self.app = app = Windlass("memory://", retry=Retry(max_retries=3, backoff=fixed("1m")))
        self.charged: list[int] = []
        self.swallowed: list[BaseException] = []
        self.on_the_way: Callable[[], object] = lambda: None

        @app.task
        async def charge(order: int) -> None:
            self.charged.append(order)

        @app.task
        def charge_in_a_thread(order: int) -> None:
            self.charged.append(order)

        @app.task
        async def ship(order: int) -> None:
            try:
                await charge.enqueue(order)
            except Exception as error:
                self.swallowed.append(error)
                raise
            self.on_the_way()

        @app.task
        def ship_in_a_thread(order: int) -> None:
            charge.enqueue_sync(order)
            self.on_the_way()

        @app.task(crash_policy="fail")
        async def never_twice(order: int) -> None:
            self.charged.append(order)

        @app.task(context=True)
        async def booked(ctx: Context, order: int) -> None:
            self.charged.append(order)
            async with ctx.transaction():
                await charge.enqueue(order + 1)

        @app.task(context=True)
        def booked_in_a_thread(ctx: Context, order: int) -> None:
            self.charged.append(order)
            with ctx.transaction():
                charge.enqueue_sync(order + 1)

        self.charge, self.charge_in_a_thread, self.never_twice = charge, charge_in_a_thread, never_twice
        self.ship, self.ship_in_a_thread = ship, ship_in_a_thread
        self.booked, self.booked_in_a_thread = booked, booked_in_a_thread


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture(params=["memory", "sqlite"])
def test(request: pytest.FixtureRequest, bank: Bank) -> Iterator[Testing]:
    with testing(bank.app, store=request.param) as block:
        yield block


def states(test: Testing) -> list[tuple[str, str]]:
    return [(job.type, job.state) for job in test.jobs()]


# ------------------------------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("kind", ["charge", "charge_in_a_thread"])
@pytest.mark.parametrize(("point", "runs"), [("before_handler", 1), ("after_handler", 2), ("after_settle", 1)])
def test_a_worker_dies_at_the_point_and_another_takes_over(
    test: Testing, bank: Bank, kind: str, point: Point, runs: int
) -> None:
    task = getattr(bank, kind)
    task.enqueue_sync(7)
    test.faults.crash(point, task=task)
    test.drain_sync()
    assert bank.charged == [7] * runs
    [job] = test.jobs()
    assert (job.state, job.lost) == ("succeeded", 0 if point == "after_settle" else 1)
    assert test.faults.happened == [f"faults.crash({point!r}, task={kind})"]


@pytest.mark.parametrize("kind", ["ship", "ship_in_a_thread"])
@pytest.mark.parametrize(("point", "charges"), [("before_enqueue", 1), ("after_enqueue", 2)])
def test_a_worker_dies_at_an_enqueue_of_its_handler(
    test: Testing, bank: Bank, kind: str, point: Point, charges: int
) -> None:
    getattr(bank, kind).enqueue_sync(7)  # the test's own is not meant
    test.faults.crash(point)
    test.drain_sync()
    assert bank.charged == [7] * charges
    assert bank.swallowed == [], "no `except Exception` sees a death"
    assert {state for _, state in states(test)} == {"succeeded"}


@pytest.mark.parametrize("kind", ["booked", "booked_in_a_thread"])
@pytest.mark.parametrize(("point", "runs"), [("before_commit", 2), ("after_commit", 1)])
def test_a_worker_dies_at_the_commit_of_its_handler(test: Testing, bank: Bank, kind: str, point: Point, runs: int) -> None:
    getattr(bank, kind).enqueue_sync(1)
    test.faults.crash(point)
    test.drain_sync()
    assert bank.charged == [1] * runs + [2], "what the transaction enqueued is there once"
    assert {state for _, state in states(test)} == {"succeeded"}


@pytest.mark.parametrize("test", ["sqlite"], indirect=True)
def test_a_worker_does_nothing_more_while_its_last_words_are_on_their_way(
    test: Testing, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what they bring about: others see a commit before the one who made it has its answer."""
    commit, refused = FaultyTransaction.commit, list[BaseException]()
    wish = Claim(queues=("default",), limit=1, lease_for=SECOND, worker_id="w", token="t")

    def claim() -> None:
        try:
            asyncio.run(test.app.client.driver.claim(wish, now=test.clock.now()))
        except BaseException as error:
            refused.append(error)

    def seen_by_the_claimer(self: FaultyTransaction) -> None:
        inner = self._transaction.commit

        def committed() -> None:
            inner()
            claimer = threading.Thread(target=claim)
            claimer.start()
            claimer.join()

        monkeypatch.setattr(self._transaction, "commit", committed, raising=False)
        commit(self)

    monkeypatch.setattr(FaultyTransaction, "commit", seen_by_the_claimer)
    bank.booked_in_a_thread.enqueue_sync(1)
    test.faults.crash("after_commit")
    test.drain_sync()
    assert bank.charged == [1, 2]
    assert [type(error) for error in refused] == [StoreUnreachable]


@in_memory
def test_a_worker_that_died_before_its_last_words_were_stored_stays_dead(
    test: Testing, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never come about, and are armed again. That does not bring it back to life."""

    class Deadly(list[int]):
        def append(self, order: int) -> None:
            bank.charged = []
            monkeypatch.undo()
            test.faults.die()

    async def unanswered(*args: object, **kwargs: object) -> None:
        await asyncio.Event().wait()

    bank.charged = Deadly()
    bank.ship.enqueue_sync(1)
    bank.charge.enqueue_sync(2)
    monkeypatch.setattr(test._store, "enqueue", unanswered)
    test.faults.crash("after_enqueue", task=bank.ship)
    test.drain_sync()
    assert test.faults.happened == ["faults.die()", f"faults.crash('after_enqueue', task={bank.ship.name})"]
    assert set(bank.charged) == {1, 2}
    assert {state for _, state in states(test)} == {"succeeded"}


@in_memory
@pytest.mark.parametrize("kind", ["ship", "ship_in_a_thread"])
def test_a_worker_dies_in_the_middle_of_a_handler(test: Testing, bank: Bank, kind: str) -> None:
    bank.on_the_way = test.faults.die
    job = getattr(bank, kind).using(max_lost=3).enqueue_sync(7)
    test.drain_sync()
    row = asyncio.run(job.fetch())
    assert (row.state, row.lost) == ("dead", 3)
    assert test.faults.happened == ["faults.die()"] * 3


@in_memory
def test_who_promised_never_to_run_twice_is_dead_after_a_crash(test: Testing, bank: Bank) -> None:
    bank.never_twice.using(retry=Retry(max_retries=0)).enqueue_sync(7)
    test.faults.crash("after_handler")
    test.drain_sync()
    assert (bank.charged, states(test)) == ([7], [("never_twice", "dead")])


def test_the_dead_say_nothing_to_the_store(bank: Bank) -> None:
    """A handler that swallows its death, and goes on in its thread beside the next worker."""
    heard: list[type[BaseException]] = []

    @bank.app.task
    def stubborn() -> None:
        try:
            test.faults.die()
        except WorkerDied:
            test_is_over.wait(10)
            for call in (lambda: bank.charge.enqueue_sync(1), lambda: current().transaction().__enter__()):
                try:
                    call()
                except BaseException as error:
                    heard.append(type(error))
            said_it.set()

    test_is_over, said_it = threading.Event(), threading.Event()
    with testing(bank.app) as test:
        job = stubborn.using(max_lost=1).enqueue_sync()
        test.drain_sync()
        assert asyncio.run(job.fetch()).state == "dead"
        test_is_over.set()
        assert said_it.wait(10)
        assert heard == [WorkerDied, WorkerDied]
        assert states(test) == [("stubborn", "dead")]


@in_memory
def test_a_crash_takes_the_task_that_was_named_and_as_often(test: Testing, bank: Bank) -> None:
    bank.charge.enqueue_sync(1)
    bank.charge_in_a_thread.enqueue_sync(2)
    test.faults.crash("after_handler", task=bank.charge_in_a_thread, times=2)
    test.drain_sync()
    assert bank.charged.count(2) == 3
    lost = {job.type: job.lost for job in test.jobs()}
    assert lost["charge_in_a_thread"] == 2


@in_memory
def test_each_crash_meets_its_own_task(test: Testing, bank: Bank) -> None:
    test.faults.crash("before_handler", task=bank.charge)
    test.faults.crash("before_handler", task=bank.charge_in_a_thread)
    bank.charge_in_a_thread.enqueue_sync(1)
    test.drain_sync()
    bank.charge.enqueue_sync(2)
    test.drain_sync()
    assert test.faults.happened == [
        "faults.crash('before_handler', task=charge_in_a_thread)", "faults.crash('before_handler', task=charge)",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["ship", "ship_in_a_thread"])
def test_many_handlers_at_one_point_are_one_crash(test: Testing, bank: Bank, kind: str) -> None:
    for order in range(8):
        getattr(bank, kind).enqueue_sync(order)
    test.faults.crash("after_enqueue")
    test.drain_sync()
    assert test.faults.happened == ["faults.crash('after_enqueue')"]
    assert sorted(set(bank.charged)) == list(range(8))
    assert {state for _, state in states(test)} == {"succeeded"}


@in_memory
def test_an_async_test_sees_the_same(test: Testing, bank: Bank) -> None:
    async def main() -> None:
        await bank.charge.enqueue(7)
        test.faults.crash("after_handler")
        stats = await test.drain()
        assert (bank.charged, stats.succeeded) == ([7, 7], 1)

    asyncio.run(main())


def test_a_drain_that_is_cancelled_is_not_taken_for_a_crash(bank: Bank) -> None:
    @bank.app.task
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        await endless.enqueue()
        draining = asyncio.create_task(test.drain())
        await begun.wait()
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining

    begun = asyncio.Event()
    with testing(bank.app) as test:
        asyncio.run(main())


# ------------------------------------------------------------------------------------------------------ running twice


def test_twice_runs_every_job_once_more(test: Testing, bank: Bank) -> None:
    for order in range(3):
        bank.ship.enqueue_sync(order)
    bank.charge_in_a_thread.using(delay="5m").enqueue_sync(9)
    stats = test.drain_sync(twice=True)
    assert sorted(bank.charged) == sorted([0, 1, 2] * 4), "each ship twice, each of their charges twice"
    assert (stats.succeeded, stats.settled_late) == (9, 9)
    assert test.jobs()[3].state == "queued", "the clock stood still"
    assert test.drain_sync().claimed == 0


@in_memory
def test_twice_is_once_for_what_never_runs_twice_or_commits_with_its_end(test: Testing, bank: Bank) -> None:
    bank.never_twice.enqueue_sync(5)
    bank.booked.enqueue_sync(1)
    test.drain_sync(twice=True)
    assert sorted(bank.charged) == [1, 2, 2, 5]
    assert {state for _, state in states(test)} == {"succeeded"}


# ------------------------------------------------------------------------------------------------------------- leases


def test_a_lost_lease_refuses_the_end_and_runs_the_job_again(test: Testing, bank: Bank) -> None:
    bank.charge.enqueue_sync(7)
    test.faults.lose_lease(task=bank.charge)
    stats = test.drain_sync()
    assert (bank.charged, stats.settled_late, stats.succeeded) == ([7, 7], 1, 1)
    assert test.jobs()[0].lost == 1


@pytest.mark.parametrize("kind", ["booked", "booked_in_a_thread"])
def test_a_lost_lease_undoes_the_transaction_of_its_handler(test: Testing, bank: Bank, kind: str) -> None:
    getattr(bank, kind).enqueue_sync(1)
    test.faults.lose_lease()
    test.drain_sync()
    assert bank.charged == [1, 1, 2]
    assert [job.lost for job in test.jobs()] == [1, 0]


def test_the_handler_hears_that_its_lease_is_lost(bank: Bank) -> None:
    told: list[type[BaseException]] = []

    @bank.app.task(context=True)
    async def listens(ctx: Context) -> None:
        try:
            async with ctx.transaction():
                pass
        except LeaseLost as error:
            told.append(type(error))
            raise

    with testing(bank.app) as test:
        listens.enqueue_sync()
        test.faults.lose_lease()
        test.drain_sync()
        assert (told, states(test)) == ([LeaseLost], [("listens", "succeeded")])


# ---------------------------------------------------------------------------------------------------------- the store


@in_memory
def test_a_store_that_is_away_takes_nothing_and_is_back_after_the_block(test: Testing, bank: Bank) -> None:
    with test.faults.store_away():
        with pytest.raises(StoreUnreachable, match="because the test says so"):
            bank.charge.enqueue_sync(1)
        with pytest.raises(StoreUnreachable):
            asyncio.run(bank.charge.enqueue(1))
        with pytest.raises(StoreUnreachable):
            test.drain_sync()
        test.assert_not_enqueued(bank.charge)  # the test itself may look
    bank.charge.enqueue_sync(2)
    assert test.drain_sync().succeeded == 1


@in_memory
def test_a_refused_call_stores_nothing(test: Testing, bank: Bank) -> None:
    test.faults.refuse("enqueue", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            bank.charge.enqueue_sync(1)
    assert test.jobs() == []
    bank.ship.enqueue_sync(1)
    test.faults.refuse("enqueue")
    assert test.drain_sync().retried == 1
    assert len(bank.swallowed) == 1
    assert test.drain_sync(retries=True).succeeded == 2


@in_memory
def test_a_lost_reply_is_stored(test: Testing, bank: Bank) -> None:
    test.faults.lose_reply("enqueue")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(bank.charge.using(idempotency_key="7").enqueue(7))
    assert len(test.enqueued(bank.charge)) == 1
    bank.charge.using(idempotency_key="7").enqueue_sync(7)
    assert len(test.enqueued(bank.charge)) == 1


@in_memory
@pytest.mark.parametrize("operation", ["claim", "settle"])
def test_a_worker_outlives_refusals_and_lost_replies(test: Testing, bank: Bank, operation: Any) -> None:
    bank.charge.enqueue_sync(7)
    test.faults.refuse(operation)
    if operation == "settle":
        test.faults.lose_reply(operation)
    stats = test.drain_sync()
    assert (bank.charged, stats.succeeded) == ([7], 1)
    assert stats.store_errors == len(test.faults.happened) == (2 if operation == "settle" else 1)


@in_memory
def test_a_refused_commit_is_tried_again_and_an_unheard_one_is_not(test: Testing, bank: Bank) -> None:
    bank.booked.enqueue_sync(1)
    test.faults.refuse("commit")
    test.drain_sync(retries=True)
    assert bank.charged == [1, 1, 2]
    bank.booked.enqueue_sync(11)
    test.faults.lose_reply("commit")
    test.drain_sync(retries=True)
    assert bank.charged == [1, 1, 2, 11, 12]


def test_encrypted_jobs_are_looked_at_and_run_twice_like_any_other(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(0o600)
    keys.write_text(new_line("k1"))
    app = Windlass("memory://", key_file=str(keys))
    seen: list[str] = []

    @app.task
    async def whisper(secret: str) -> str:
        seen.append(secret)
        return secret

    with testing(app) as test:
        job = whisper.enqueue_sync("hush")
        test.assert_enqueued(whisper, "hush")
        test.drain_sync(twice=True)
        assert (seen, job.result_sync(5)) == (["hush", "hush"], "hush")


# ------------------------------------------------------------------------------------------------------ what is told


def test_a_fault_that_never_happened_fails_the_block(bank: Bank) -> None:
    def missed() -> None:
        with testing(bank.app) as test:
            bank.booked.enqueue_sync(1)
            test.faults.crash("after_handler", task=bank.booked)
            test.drain_sync()

    def failed_before() -> None:
        with testing(bank.app) as test:
            test.faults.refuse("enqueue")
            raise ZeroDivisionError

    with pytest.raises(AssertionError, match=r"(?s)never happened.*crash\('after_handler', task=booked\).*before_commit"):
        missed()
    with pytest.raises(ZeroDivisionError):  # what went wrong first is told
        failed_before()
    with testing(bank.app) as test:
        test.faults.refuse("enqueue")
        test.faults.clear()


def test_wrong_words_are_refused(bank: Bank) -> None:
    with testing(bank.app) as test:
        with pytest.raises(InvalidInput, match="did you mean 'after_handler'"):
            test.faults.crash("after_handlr")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="one of enqueue, claim, settle, commit"):
            test.faults.refuse("find")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="at least 1"):
            test.faults.crash("after_handler", times=0)
        with pytest.raises(AssertionError, match="outside of a job"):
            test.faults.die()


@in_memory
def test_a_crash_leaves_no_noise(test: Testing, bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what others left behind is told now
    caplog.clear()
    points: dict[Any, Point] = {
        bank.charge: "after_handler", bank.ship: "after_enqueue", bank.ship_in_a_thread: "before_enqueue",
        bank.booked_in_a_thread: "after_commit", bank.charge_in_a_thread: "before_handler",
    }  # fmt: skip
    for task, point in points.items():
        task.enqueue_sync(7)
        test.faults.crash(point, task=task)
        test.drain_sync()
    gc.collect()  # a future whose exception nobody looked at says so when it goes
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
