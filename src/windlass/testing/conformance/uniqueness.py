"""Idempotency keys (for ever) and dedupe keys (while active): what a duplicate enqueue is told and does."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.alterations import Cancel, Replay
from windlass.core.settle import Failed
from windlass.errors import DuplicateId, DuplicateJob
from windlass.testing.conformance.trial import LEASE, MINUTE, Suite, Trial, promise

KEY: dict[str, Any] = {"idempotency_scope": "type:work", "idempotency_key": "email-user-123"}
CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail"}


class UniquenessPromises(Suite):
    @promise
    async def test_a_key_that_goes_to_a_job_takes_no_other_with_it(self, t: Trial) -> None:
        """Of a duplicate that its dedupe key found, the idempotency key leads to that job from now on; the same key of
        another scope, and another key of this one, lead where they did."""
        holder = await t.enqueue(dedupe_key="d")
        keys = [("s", "other"), ("z", "k")]
        mine = [await t.enqueue(idempotency_scope=scope, idempotency_key=key) for scope, key in keys]
        duplicate = await t.answer(idempotency_scope="s", idempotency_key="k", dedupe_key="d")
        assert (duplicate.id, duplicate.existed) == (holder, True)
        again = [await t.answer(idempotency_scope=scope, idempotency_key=key) for scope, key in (*keys, ("s", "k"))]
        assert [answer.id for answer in again] == [*mine, holder]

    @promise
    async def test_a_duplicate_enqueue_changes_no_byte(self, t: Trial) -> None:
        """The first job's id comes back with existed=True; the stored row stays as it was."""
        first = await t.answer(**KEY, payload=b"1")
        before = await t.job(first.id)
        t.clock.advance(5)
        second = await t.answer(**KEY, payload=b"2", type="other", priority=9, run_at=t.now + 5)
        assert (first.existed, second.existed, second.id) == (False, True, first.id)
        assert await t.job(first.id) == before
        assert len(await t.claim()) == 1

    @promise
    async def test_a_key_stays_taken_after_the_job_has_ended(self, t: Trial) -> None:
        """Done, dead, cancelled or pruned: the key is still taken."""
        for n, end in enumerate(("ack", "fail", "cancel")):
            key = {"idempotency_scope": "s", "idempotency_key": f"k{n}"}
            job_id = await t.enqueue(**key)
            if end == "cancel":
                await t.alter(Cancel(job_id))
            else:
                await getattr(t, end)(await t.take())
            assert await t.answer(**key) == await t.answer(**key)
            assert (await t.answer(**key)).existed
            assert await t.prune(succeeded=0, cancelled=0, dead=0) == 1
            assert await t.driver.get([job_id]) == [None]
            assert (await t.answer(**key)).id == job_id

    @promise
    async def test_keys_are_separate_in_each_scope(self, t: Trial) -> None:
        """The same key in another scope is another job; a job without a key never collides."""
        answers = [
            await t.answer(idempotency_scope="type:a", idempotency_key="k"),
            await t.answer(idempotency_scope="type:b", idempotency_key="k"),
            await t.answer(),
            await t.answer(),
        ]
        assert [a.existed for a in answers] == [False] * 4

    @promise
    async def test_a_key_may_expire(self, t: Trial) -> None:
        """An expired key is free again from that instant on."""
        first = await t.answer(**KEY, idempotency_expires_at=t.now + MINUTE)
        t.clock.advance(MINUTE - 1)
        assert (await t.answer(**KEY)).id == first.id
        t.clock.advance(1)
        second = await t.answer(**KEY)
        assert not second.existed
        assert (await t.answer(**KEY)).id == second.id

    @promise
    async def test_duplicates_inside_a_batch_are_answered_like_later_calls(self, t: Trial) -> None:
        """The first of a batch is stored, the others are told its id."""
        batch = [t.new(**KEY, payload=b"1"), t.new(payload=b"2"), t.new(**KEY, payload=b"3")]
        batch += [t.new(dedupe_key="d"), t.new(dedupe_key="d")]
        answers = await t.driver.enqueue(batch, now=t.now)
        assert [a.existed for a in answers] == [False, False, True, False, True]
        assert answers[2].id == batch[0].id
        assert answers[4].id == batch[3].id
        assert len(await t.claim()) == 3

    @promise
    async def test_a_batch_with_duplicates_keeps_the_order_given(self, t: Trial) -> None:
        """What is stored of it runs in the order of the batch."""
        await t.enqueue(dedupe_key="d")
        batch = [t.new(**KEY, dedupe_key="d"), t.new(**KEY), t.new(dedupe_key="e"), t.new(dedupe_key="e"), t.new()]
        answers = await t.driver.enqueue(batch, now=t.now)
        assert [a.existed for a in answers] == [True, True, False, True, False]
        assert [job.id for job in (await t.claim())[1:]] == [batch[2].id, batch[4].id]

    @promise
    async def test_the_same_call_again_is_answered_alike_whichever_key_answered_first(self, t: Trial) -> None:
        """A job with both keys that the dedupe key turned away keeps its idempotency key for that answer."""
        first = await t.enqueue(dedupe_key="d")
        assert (await t.answer(**KEY, dedupe_key="d")).id == first
        await t.ack(await t.take())
        assert (await t.answer(**KEY, dedupe_key="d")).id == first

    @promise
    async def test_a_schedule_fires_once_for_each_time(self, t: Trial) -> None:
        """A second job of one schedule for one fire time is answered with the first; another time is another job."""
        first = await t.answer(schedule_id="s", fire_at=100)
        assert await t.answer(schedule_id="s", fire_at=100) == type(first)(first.id, existed=True)
        assert not (await t.answer(schedule_id="s", fire_at=200)).existed
        assert not (await t.answer(schedule_id="other", fire_at=100)).existed
        await t.claim()
        assert (await t.answer(schedule_id="s", fire_at=100)).existed

    @promise
    async def test_a_job_that_comes_again_under_its_own_id_is_answered_as_itself(self, t: Trial) -> None:
        """By whatever key, in a batch too, and also as the next link of its chain, or when it is gone. Where its key is
        free, an id that is in use is an error as ever."""
        keys: list[dict[str, Any]] = [
            {"idempotency_scope": "s", "idempotency_key": "k"}, {"dedupe_key": "d"}, {"schedule_id": "s", "fire_at": 100},
        ]  # fmt: skip
        for key in (*keys, keys[0] | keys[1] | {"idempotency_key": "both", "dedupe_key": "both"}):
            name = t.name()
            batch = [t.new(id=name, **key, **CHAIN, max_attempts=3, payload=b"1"), t.new(id=name, **key, payload=b"2")]
            answers = await t.driver.enqueue(batch, now=t.now)
            assert [(answer.id, answer.existed) for answer in answers] == [(name, False), (name, True)], key
            t.clock.advance(1)
            again = await t.answer(id=name, **key, payload=b"3", priority=9)
            assert (again.id, again.existed) == (name, True), key
            assert (await t.job(name)).payload == b"1"
            with pytest.raises(DuplicateJob):
                await t.answer(id=name, **key, on_duplicate="raise")
            await t.end(await t.take(), Failed("boom"), child_id=f"{name}-2")
            for used in (name, f"{name}-2"):
                assert (await t.answer(id=used, **key)).id == f"{name}-2", key
            await t.alter(Cancel(f"{name}-2"))
        with pytest.raises(DuplicateId):
            await t.answer(id=name, dedupe_key="free")
        assert await t.prune(cancelled=0, dead=0) == 8
        assert (await t.answer(id=name, idempotency_scope="s", idempotency_key="both")).existed
        assert await t.driver.get([name]) == [None]

    @promise
    async def test_touch_changes_only_updated_at(self, t: Trial) -> None:
        """on_duplicate=touch refreshes updated_at and nothing else."""
        first = await t.enqueue(**KEY)
        before = await t.job(first)
        t.clock.advance(7)
        assert (await t.answer(**KEY, payload=b"2", on_duplicate="touch")).id == first
        after = await t.job(first)
        assert after.updated_at == t.now
        assert {f: getattr(after, f) for f in after.__struct_fields__ if f != "updated_at"} == {
            f: getattr(before, f) for f in before.__struct_fields__ if f != "updated_at"
        }

    @promise
    async def test_touch_leaves_a_running_job_alone(self, t: Trial) -> None:
        """The row of a running job is its worker's, whose heartbeats renew updated_at; before and after, touch does."""
        first = await t.enqueue(**KEY)
        [running] = await t.claim()
        before = await t.job(first)
        t.clock.advance(7)
        assert (await t.answer(**KEY, on_duplicate="touch")).id == first
        assert await t.job(first) == before
        await t.ack(running)
        t.clock.advance(7)
        assert (await t.answer(**KEY, on_duplicate="touch")).id == first
        assert (await t.job(first)).updated_at == t.now

    @promise
    async def test_replace_changes_payload_and_time_until_the_first_claim(self, t: Trial) -> None:
        """on_duplicate=replace is a debounce: it moves a waiting job, and leaves one that has begun alone."""
        first = await t.enqueue(**KEY, payload=b"1")
        again = {**KEY, "payload": b"2", "headers": {"h": "2"}, "run_at": t.now + MINUTE, "on_duplicate": "replace"}
        assert (await t.answer(**again)).id == first
        job = await t.job(first)
        assert (job.payload, job.headers, job.run_at, job.ready) == (b"2", {"h": "2"}, t.now + MINUTE, False)
        assert await t.claim() == []
        t.clock.advance(MINUTE)
        claimed = await t.take()
        await t.answer(**{**again, "payload": b"3"})
        await t.retry(claimed)
        await t.answer(**{**again, "payload": b"4"})
        assert (await t.job(first)).payload == b"2"

    @promise
    async def test_raise_stores_nothing_of_the_batch(self, t: Trial) -> None:
        """on_duplicate=raise names the job that holds the key; the batch is refused whole."""
        first = await t.enqueue(**KEY)
        with pytest.raises(DuplicateJob) as caught:
            await t.driver.enqueue([t.new(id="neighbour"), t.new(**KEY, on_duplicate="raise")], now=t.now)
        assert caught.value.job_id == first
        assert await t.driver.get(["neighbour"]) == [None]

    @promise
    async def test_a_dedupe_key_is_taken_while_the_job_is_active(self, t: Trial) -> None:
        """Queued and running hold it, also between two tries of a job; any ending frees it."""
        first = await t.enqueue(dedupe_key="d")
        assert (await t.answer(dedupe_key="d")).id == first
        job = await t.take()
        assert (await t.answer(dedupe_key="d")).existed
        await t.retry(job)
        assert (await t.answer(dedupe_key="d")).existed
        await t.ack(await t.take())
        second = await t.answer(dedupe_key="d")
        assert not second.existed
        await t.alter(Cancel(second.id))
        assert not (await t.answer(dedupe_key="d")).existed

    @promise
    async def test_a_retry_child_inherits_the_dedupe_key_not_the_idempotency_key(self, t: Trial) -> None:
        """The next link holds the dedupe key; a duplicate by idempotency key is told the head of the chain."""
        job = await t.running(**KEY, **CHAIN, dedupe_key="d", max_attempts=3)
        await t.end(job, Failed("boom"), child_id="child")
        child = await t.job("child")
        assert (child.dedupe_key, child.idempotency_key) == ("d", None)
        assert (await t.answer(dedupe_key="d")).id == "child"
        assert (await t.answer(**KEY)).id == "child"

    @promise
    async def test_replay_is_refused_while_the_dedupe_key_is_active_elsewhere(self, t: Trial) -> None:
        """A dead job does not come back beside an equal one; when that has ended it may."""
        dead = await t.running(dedupe_key="d")
        await t.fail(dead)
        await t.enqueue(dedupe_key="d")
        assert await t.alter(Replay(dead.id, "unused")) == "duplicate"
        await t.ack(await t.take())
        assert await t.alter(Replay(dead.id, "unused")) == "applied"
        assert (await t.take(lease_for=LEASE)).id == dead.id

    @promise
    async def test_a_duplicate_changes_the_job_that_holds_its_key_and_no_other(self, t: Trial) -> None:
        """Neither to touch nor to replace one reaches another job; one that waits for its parent goes on waiting."""
        parent = await t.running(queue="parents")
        other = await t.job(await t.enqueue(payload=b"1"))
        await t.enqueue(dedupe_key="touched")
        waiting = await t.enqueue(dedupe_key="replaced", after=(parent.id,))
        t.clock.advance(5)
        await t.driver.enqueue([t.new(dedupe_key="touched", on_duplicate="touch")], now=t.now)
        await t.driver.enqueue([t.new(dedupe_key="replaced", on_duplicate="replace", payload=b"2")], now=t.now)
        assert await t.job(other.id) == other
        assert (await t.job(waiting)).payload == b"2"
        assert waiting not in {job.id for job in await t.claim()}
