"""Transactions: follow-up jobs and the end of an execution become true together, or not at all.

For drivers whose capabilities say `transactional`.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.core.changes import Ack
from windlass.errors import DriverClosed, DuplicateId, InvalidInput, StoreError, TransactionOver
from windlass.testing.conformance.trial import LEASE, Suite, Trial, promise
from windlass.types import Claimed


def success(t: Trial, job: Claimed) -> Ack:
    return Ack(handle=job.handle, token=job.token, at=t.now)


class TransactionPromises(Suite):
    @promise
    async def test_a_transaction_is_seen_only_when_it_is_committed(self, t: Trial) -> None:
        """Before that, nobody sees the jobs or the end of the run; after it, everybody sees all of it."""
        job = await t.running()
        tx = t.driver.transaction()
        tx.begin()
        assert [answer.id for answer in tx.enqueue([t.new(id="next"), t.new(id="other")], now=t.now)] == ["next", "other"]
        assert tx.settle(success(t, job), now=t.now) == "applied"
        assert await t.driver.get(["next", "other"]) == [None, None]
        assert (await t.job(job.id)).state == "running"
        tx.commit()
        assert (await t.job(job.id)).state == "succeeded"
        assert (await t.last_run(job.id)).status == "completed"
        assert [claimed.id for claimed in await t.claim()] == ["next", "other"]

    @promise
    async def test_a_transaction_that_is_rolled_back_never_was(self, t: Trial) -> None:
        """Neither rows nor keys are left, and the job can still be settled."""
        job = await t.running()
        tx = t.driver.transaction()
        tx.begin()
        tx.enqueue([t.new(id="next", idempotency_scope="s", idempotency_key="k", dedupe_key="d")], now=t.now)
        assert tx.settle(success(t, job), now=t.now) == "applied"
        tx.rollback()
        tx.rollback()
        assert await t.driver.get(["next"]) == [None]
        assert not (await t.answer(id="next", idempotency_scope="s", idempotency_key="k", dedupe_key="d")).existed
        assert await t.ack(job) == "applied"

    @promise
    async def test_a_refused_settlement_is_answered_inside_the_transaction(self, t: Trial) -> None:
        """The answer is that of settle; after a rollback nothing of the transaction is stored."""
        job = await t.running()
        t.clock.advance(LEASE)
        tx = t.driver.transaction()
        tx.begin()
        tx.enqueue([t.new(id="next")], now=t.now)
        assert tx.settle(success(t, job), now=t.now) == "expired"
        tx.rollback()
        assert await t.driver.get(["next"]) == [None]
        await t.ack(await t.take())
        tx = t.driver.transaction()
        tx.begin()
        assert tx.settle(success(t, job), now=t.now) == "not_inflight"
        tx.rollback()

    @promise
    async def test_a_transaction_knows_its_own_rows(self, t: Trial) -> None:
        """A key that it took is taken for its next call, and what it settled is settled."""
        job = await t.running(dedupe_key="d")
        tx = t.driver.transaction()
        tx.begin()
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        assert [answer.existed for answer in tx.enqueue([t.new(id="next", **key)], now=t.now)] == [False]
        [again] = tx.enqueue([t.new(**key)], now=t.now)
        assert (again.id, again.existed) == ("next", True)
        [held] = tx.enqueue([t.new(dedupe_key="d")], now=t.now)
        assert (held.id, held.existed) == (job.id, True)
        assert tx.settle(success(t, job), now=t.now) == "applied"
        assert tx.settle(success(t, job), now=t.now) == "repeated"
        [free] = tx.enqueue([t.new(id="after", dedupe_key="d")], now=t.now)
        assert not free.existed
        tx.commit()
        assert [claimed.id for claimed in await t.claim()] == ["next", "after"]

    @promise
    async def test_a_call_that_fails_leaves_the_rest_of_the_transaction_alone(self, t: Trial) -> None:
        """Bad input and used ids raise; what came before is still there to be committed."""
        used = await t.enqueue()
        tx = t.driver.transaction()
        tx.begin()
        tx.enqueue([t.new(id="good")], now=t.now)
        with pytest.raises(InvalidInput):
            tx.enqueue([t.new(id="one"), t.new(type="")], now=t.now)
        with pytest.raises(DuplicateId):
            tx.enqueue([t.new(id="two"), t.new(id=used)], now=t.now)
        tx.enqueue([t.new(id="better")], now=t.now)
        tx.commit()
        assert await t.driver.get(["one", "two"]) == [None, None]
        assert [job.id for job in await t.claim()] == [used, "good", "better"]

    @promise
    async def test_a_transaction_has_one_beginning_and_one_end(self, t: Trial) -> None:
        """Before the one and after the other it refuses everything but a rollback."""
        tx = t.driver.transaction()
        for _ in range(2):
            for call in (lambda: tx.enqueue([t.new()], now=t.now), tx.commit):
                with pytest.raises(TransactionOver):
                    call()
            with pytest.raises(StoreError):
                _ = tx.connection
            if not (await t.driver.count(now=t.now)):
                tx.begin()
                with pytest.raises(TransactionOver):
                    tx.begin()
                tx.enqueue([t.new()], now=t.now)
                tx.commit()
        with pytest.raises(TransactionOver):
            tx.begin()
        tx.rollback()
        assert len(await t.claim()) == 1

    @promise
    async def test_a_transaction_may_move_between_threads(self, t: Trial) -> None:
        """One at a time: a handler may begin in one thread and commit in another."""
        job = await t.running()
        tx = t.driver.transaction()
        for call in (
            tx.begin, lambda: tx.enqueue([t.new(id="next")], now=t.now), lambda: tx.settle(success(t, job), now=t.now),
            tx.commit,
        ):  # fmt: skip
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        assert (await t.job(job.id)).state == "succeeded"
        assert [claimed.id for claimed in await t.claim()] == ["next"]

    @promise
    async def test_a_commit_wakes_who_waits(self, t: Trial) -> None:
        """Work that a transaction brought is work; one that was rolled back brought none."""
        await t.quiet()
        for end in ("rollback", "commit"):
            waiter = asyncio.ensure_future(t.driver.wait(timeout=30 if end == "commit" else 0.1))
            await asyncio.sleep(0.01)
            tx = t.driver.transaction()
            tx.begin()
            tx.enqueue([t.new()], now=t.now)
            getattr(tx, end)()
            assert await waiter is (end == "commit")

    @promise
    async def test_no_two_transactions_settle_one_lease(self, t: Trial) -> None:
        """Of two that both try, one is stored whole and the other not at all."""
        job = await t.running()
        ended = []

        def run(name: str) -> None:
            tx = t.driver.transaction()
            try:
                tx.begin()
                tx.enqueue([t.new(id=name)], now=t.now)
                if tx.settle(success(t, job), now=t.now) == "applied":
                    tx.commit()
                    ended.append(name)
            except StoreError:  # a store without a lock finds out at the commit
                pass
            finally:
                tx.rollback()

        threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == 1
        assert [claimed.id for claimed in await t.claim()] == ended

    @promise
    async def test_a_closed_driver_begins_no_transaction(self, t: Trial) -> None:
        """Also when it was asked for before the close."""
        tx = t.driver.transaction()
        await t.driver.close()
        with pytest.raises(DriverClosed):
            tx.begin()
        tx.rollback()
