"""TaskHarbor: a dumb driver that stores jobs and guards leases, a core that decides. States, calls, and what core adds."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.drivers.singular import Lease
from windlass.errors import InvalidLeaseDuration
from windlass.policies import Retry
from windlass.presets import TASKHARBOR
from windlass.signals import Reject

from .harbor import LEASE, Harbor
from .place import Place, run


@pytest.fixture
def harbor(place: Place) -> Harbor:
    return Harbor(place)


# ------------------------------------------------------------------------------------------------------ enqueue, states


def test_an_enqueued_job_is_ready_and_holds_no_lease(harbor: Harbor) -> None:
    """TH-028, TH-030, TH-032, TH-041, TH-063, TH-069, TH-082: no time is NULL, and means now; no failure is recorded."""

    async def main() -> None:
        job_id = await harbor.enqueue()
        row = await harbor.row(job_id)
        assert await harbor.word(job_id) == "ready"
        assert (row.run_at, row.failed_at, row.lease_token, row.lease_expires_at) == (None, None, None, None)
        assert (row.dead_at, row.dead_reason, row.attempts, row.last_error, row.payload) == (
            None,
            None,
            0,
            "",
            b"\x00\xff raw",
        )
        assert await harbor.reserve() is not None

    run(main)


def test_a_job_for_later_is_ready_in_the_store_and_scheduled_in_words(harbor: Harbor) -> None:
    """TH-015, TH-033, TH-037, TH-038, TH-068, TH-070: run_at alone tells them apart; the instant itself is due."""

    async def main() -> None:
        job_id = await harbor.enqueue(harbor.now + 5 * SECOND)
        assert (await harbor.row(job_id)).state == "queued"
        assert await harbor.word(job_id) == "scheduled"
        harbor.place.clock.advance(5 * SECOND - 1)
        assert await harbor.reserve() is None
        harbor.place.clock.advance(1)
        assert await harbor.word(job_id) == "ready"
        assert (await harbor.reserve()) is not None

    run(main)


def test_reserve_is_of_one_queue(harbor: Harbor) -> None:
    """TH-037: the queue matches, or nothing is answered."""

    async def main() -> None:
        await harbor.enqueue(queue="elsewhere")
        assert await harbor.reserve() is None

    run(main)


def test_the_same_key_in_one_queue_is_one_job_for_ever(harbor: Harbor) -> None:
    """TH-023, TH-050: a key is taken by its queue, whatever the type, and stays taken after the job is done."""

    async def main() -> None:
        key: dict[str, Any] = {"key": "order-7"}
        job = await harbor.inflight(**key)
        again = await harbor.answer(**key, type="resend")
        assert (again.id, again.existed) == (job.id, True)
        await harbor.ack(job)
        before = await harbor.row(job)
        assert (await harbor.answer(**key)).id == job.id
        assert await harbor.row(job) == before
        assert await harbor.reserve() is None

    run(main)


# -------------------------------------------------------------------------------------------------------------- reserve


def test_reserve_answers_one_job_under_a_lease_from_now(harbor: Harbor) -> None:
    """TH-031, TH-034, TH-042, TH-043, TH-071, TH-075, TH-076, TH-083, TH-086: inflight, with a token and an expiry."""

    async def main() -> None:
        first, second = await harbor.enqueue(), await harbor.enqueue()
        job = await harbor.reserve()
        assert job is not None
        assert job.id == first
        assert job.token
        assert job.lease_expires_at == harbor.now + LEASE
        row = await harbor.row(job)
        assert (row.lease_token, row.lease_expires_at) == (job.token, harbor.now + LEASE)
        assert (await harbor.word(first), await harbor.word(second)) == ("inflight", "ready")

    run(main)


def test_reserve_answers_nothing_when_nothing_is_runnable(harbor: Harbor) -> None:
    """TH-084: no error, no waiting."""

    async def main() -> None:
        assert await harbor.reserve() is None

    run(main)


def test_a_job_under_a_valid_lease_is_never_reserved(harbor: Harbor) -> None:
    """TH-016, TH-077, TH-085, TH-111: one worker at a time, until the instant at which the lease ends."""

    async def main() -> None:
        await harbor.inflight()
        harbor.place.clock.advance(LEASE - 1)
        assert await harbor.reserve() is None
        harbor.place.clock.advance(1)
        assert await harbor.reserve() is not None

    run(main)


def test_an_expired_job_is_reserved_again_at_once_under_a_new_token(harbor: Harbor) -> None:
    """TH-039, TH-040, TH-044, TH-079, TH-088, TH-089, TH-110, TH-112: its time is cleared, no failure is recorded, and it
    happens as often as it must."""

    async def main() -> None:
        # Due by its time, and then held for long: a reclaimed job must not wait for anything.
        await harbor.enqueue(harbor.now + SECOND, max_attempts=0)
        harbor.place.clock.advance(SECOND)
        tokens = set()
        for _ in range(30):
            job = await harbor.reserve()
            assert job is not None
            tokens.add(job.token)
            harbor.place.clock.advance(LEASE)
        assert len(tokens) == 30
        row = await harbor.row("job-1")
        assert (row.run_at, row.attempts, row.lost) == (None, 0, 29)

    run(main)


@pytest.mark.parametrize("lease_for", [0, -1])
def test_a_lease_of_no_length_is_refused(harbor: Harbor, lease_for: int) -> None:
    """TH-087, TH-106: ErrInvalidLeaseDuration, from Reserve and from ExtendLease; nothing is changed."""

    async def main() -> None:
        job = await harbor.inflight()
        before = await harbor.row(job)
        with pytest.raises(InvalidLeaseDuration):
            await harbor.reserve(lease_for)
        with pytest.raises(InvalidLeaseDuration):
            await harbor.extend(job, lease_for=lease_for)
        assert await harbor.row(job) == before

    run(main)


def test_done_and_dead_jobs_are_never_reserved(harbor: Harbor) -> None:
    """TH-017, TH-018, TH-072, TH-073, TH-074: both are final, however much time passes."""

    async def main() -> None:
        done, dead = await harbor.inflight(), await harbor.inflight()
        await harbor.ack(done)
        await harbor.fail(dead)
        harbor.place.clock.advance("300d")
        assert await harbor.reserve() is None
        assert (await harbor.word(done), await harbor.word(dead)) == ("done", "dlq")

    run(main)


# ------------------------------------------------------------------------------------------------------ what ends a lease


def test_extend_lease_counts_from_now(harbor: Harbor) -> None:
    """TH-045, TH-078, TH-090, TH-092, TH-093: the stored expiry is now + lease_for, and the answer has the token to use."""

    async def main() -> None:
        job = await harbor.inflight()
        harbor.place.clock.advance(10 * SECOND)
        lease = await harbor.extend(job, lease_for=15 * SECOND)
        assert lease == Lease(job.token, harbor.now + 15 * SECOND)
        assert (await harbor.row(job)).lease_expires_at == lease.expires_at
        harbor.place.clock.advance(15 * SECOND - 1)
        await harbor.ack(job, lease.token)

    run(main)


def test_ack_ends_a_job_as_done(harbor: Harbor) -> None:
    """TH-036, TH-046, TH-094: done, and no lease is left."""

    async def main() -> None:
        job = await harbor.inflight()
        await harbor.ack(job)
        row = await harbor.row(job)
        assert (await harbor.word(job), row.lease_token, row.lease_expires_at) == ("done", None, None)

    run(main)


def test_retry_persists_what_it_is_given(harbor: Harbor) -> None:
    """TH-029, TH-047, TH-097, TH-098: the driver counts nothing itself; a zero time is NULL, any other is kept."""

    async def main() -> None:
        job = await harbor.inflight()
        failed_at = harbor.now - SECOND
        await harbor.retry(job, attempts=7, last_error="smtp", run_at=harbor.now + SECOND, failed_at=failed_at)
        row = await harbor.row(job)
        assert (row.attempts, row.last_error, row.failed_at, row.run_at) == (7, "smtp", failed_at, harbor.now + SECOND)
        assert (await harbor.word(job), row.lease_token, row.lease_expires_at) == ("scheduled", None, None)
        harbor.place.clock.advance(SECOND)
        again = await harbor.reserve()
        assert again is not None
        await harbor.retry(again, attempts=8)
        assert ((await harbor.row(job)).run_at, await harbor.word(job)) == (None, "ready")

    run(main)


def test_fail_moves_a_job_to_the_dead_letters_with_reason_and_time(harbor: Harbor) -> None:
    """TH-035, TH-048, TH-101: dlq_reason is the reason, dlq_failed_at is now, and the lease is gone."""

    async def main() -> None:
        job = await harbor.inflight()
        await harbor.fail(job, reason="no such address")
        row = await harbor.row(job)
        assert (row.dead_reason, row.dead_at, row.lease_token) == ("no such address", harbor.now, None)
        assert await harbor.word(job) == "dlq"

    run(main)


# ------------------------------------------------------------------------------------------------------- what core adds


def test_core_retries_until_the_maximum_of_executions_and_then_fails(place: Place) -> None:
    """TH-055, TH-063, TH-064, TH-100, TH-103: max_attempts counts executions, attempts recorded failures; the last failure
    and an unrecoverable error are dead letters."""
    app = place.app()
    app.queue("harbor", preset="taskharbor")

    @app.task(queue="harbor", retry=TASKHARBOR.retry(3))
    async def fails() -> None:
        raise OSError("smtp")

    @app.task(queue="harbor")
    async def hopeless() -> None:
        raise Reject("no such address")

    async def main() -> None:
        job, doomed = await fails.enqueue(), await hopeless.enqueue()
        attempts = []
        while (row := await job.fetch()).state == "queued":
            place.clock.advance(max(0, (row.run_at or 0) - place.clock.now()))
            await app.tick()
            attempts.append((await job.fetch()).attempts)
        assert attempts == [1, 2, 3]
        row = await job.fetch()
        assert (row.executions, row.dead_kind, (await job.words("taskharbor")).state) == (3, "exhausted", "dlq")
        assert ((await doomed.fetch()).executions, (await doomed.words("taskharbor")).state) == (1, "dlq")
        assert isinstance(TASKHARBOR.retry(), Retry)
        assert TASKHARBOR.retry().executions == 25, "0 is unset, and core applies a default"

    run(main)
