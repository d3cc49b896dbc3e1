"""Harmonyk's own three calls, and its tick: the numbers of its document, to the second."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from windlass import Retry, Windlass, backoff_delay_ms, can_retry, fixed
from windlass.clock import SECOND, instant
from windlass.errors import InvalidInput, JobNotInflight, LeaseExpired, LeaseMismatch

from .conftest import START, Place, only, rows


@pytest.fixture
def app(place: Place) -> Windlass:
    return place.app()


# ------------------------------------------------------------------------------------------------------- repository


def test_a_type_and_a_plain_payload_are_stored(app: Windlass) -> None:
    async def main() -> None:
        job_id = await app.repository.enqueue(
            "email.send", org_id="acme", payload={"to": "ada", "n": [1, 2]}, run_at=START + timedelta(hours=1)
        )
        row = await only(app)
        assert (row.id, row.type, row.org_id, row.state) == (job_id, "email.send", "acme", "queued")
        assert (row.payload, row.run_at) == (b'{"n":[1,2],"to":"ada"}', instant(START) + 3_600 * SECOND)
        assert (row.max_attempts, row.attempts, row.on_unknown) == (6, 0, "wait")
        empty = await app.repository.enqueue("email.send")
        assert (await app.job(empty).fetch()).codec == "none"

    asyncio.run(main())


def test_a_registered_task_keeps_its_own_rules_and_signature(app: Windlass) -> None:
    @app.task(name="email.send", queue="mail", priority=4)
    async def send(to: str) -> str:
        return to

    async def main() -> None:
        job_id = await app.repository.enqueue("email.send", payload={"to": "ada"})
        row = await only(app)
        assert (row.queue, row.priority) == ("mail", 4)
        with pytest.raises(InvalidInput, match="subject"):
            await app.repository.enqueue("email.send", payload={"to": "ada", "subject": "Hi"})
        await app.tick()
        assert await app.job(job_id).result(1) == "ada"

    asyncio.run(main())


def test_success_and_failure_are_marked_by_who_claimed(place: Place, app: Windlass) -> None:
    async def main() -> None:
        repository = app.repository
        good, bad = await repository.enqueue("t"), await repository.enqueue("t")
        claimed = await repository.claim(limit=5)
        assert [job.id for job in claimed] == [good, bad]
        await repository.mark_success(good)
        await repository.mark_failure(bad, "smtp is down")
        assert (await app.job(good).fetch()).state == "succeeded"
        row = await app.job(bad).fetch()
        assert (row.state, row.attempts, row.last_error) == ("queued", 1, "smtp is down")
        assert row.run_at == place.clock.now() + SECOND
        for job_id in (good, bad):
            with pytest.raises(JobNotInflight):
                await repository.mark_success(job_id)

    asyncio.run(main())


def test_a_job_that_was_not_claimed_here_is_left_alone(app: Windlass) -> None:
    async def main() -> None:
        job_id = await app.repository.enqueue("t")
        with pytest.raises(JobNotInflight):
            await app.repository.mark_success(job_id)
        with pytest.raises(JobNotInflight):
            await app.repository.mark_failure("nobody", "x")
        assert (await app.job(job_id).fetch()).state == "queued"

    asyncio.run(main())


def test_another_process_cannot_mark_what_this_one_claimed(file_place: Place) -> None:
    ours, theirs = file_place.app(), file_place.app()

    async def main() -> None:
        job_id = await ours.repository.enqueue("t")
        await ours.repository.claim()
        with pytest.raises(JobNotInflight):
            await theirs.repository.mark_success(job_id)
        file_place.clock.advance("31s")
        with pytest.raises(LeaseExpired):
            await ours.repository.mark_failure(job_id, "x")
        [again] = await theirs.repository.claim()
        assert (again.id, again.executions) == (job_id, 2)
        await theirs.repository.mark_success(job_id)
        with pytest.raises(JobNotInflight):
            await ours.repository.mark_success(job_id)

    asyncio.run(main())


def test_a_lease_that_went_to_another_is_a_mismatch(file_place: Place) -> None:
    ours, theirs = file_place.app(), file_place.app()

    async def main() -> None:
        job_id = await ours.repository.enqueue("t")
        await ours.repository.claim()
        file_place.clock.advance("31s")
        assert len(await theirs.repository.claim()) == 1
        with pytest.raises(LeaseMismatch):
            await ours.repository.mark_success(job_id)
        assert (await ours.job(job_id).fetch()).state == "running"

    asyncio.run(main())


def test_the_pauses_are_one_two_four_eight_sixteen_and_the_sixth_failure_is_the_last(place: Place, app: Windlass) -> None:
    async def main() -> None:
        job_id = await app.repository.enqueue("t")
        pauses = []
        for n in range(1, 7):
            [claimed] = await app.repository.claim()
            assert claimed.executions == n
            await app.repository.mark_failure(job_id, f"failure {n}")
            row = await app.job(job_id).fetch()
            assert can_retry("failed", n - 1) == (row.state == "queued")
            if row.state == "queued":
                assert row.run_at is not None
                pauses.append((row.run_at - place.clock.now()) // SECOND)
                assert pauses[-1] * 1_000 == backoff_delay_ms(row.attempts)
                assert await app.repository.claim() == []  # not before its time
                place.clock.advance(pauses[-1] * SECOND)
        assert pauses == [1, 2, 4, 8, 16]
        assert (row.state, row.executions, row.attempts, row.last_error) == ("dead", 6, 6, "failure 6")
        assert (await app.job(job_id).words("harmonyk")).state == "failed"

    asyncio.run(main())


def test_the_repository_claims_from_the_queues_it_is_told(app: Windlass) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async def main() -> None:
        await send.enqueue()
        assert await app.repository.claim() == []
        assert len(await app.repository.claim(queues=["mail"])) == 1

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------------- tick


def test_a_tick_claims_at_most_its_limit(app: Windlass) -> None:
    seen: list[int] = []

    @app.task
    async def note(n: int) -> None:
        seen.append(n)

    async def main() -> None:
        await app.enqueue_many(note.job(n) for n in range(25))
        stats = await app.tick()
        assert (stats.claimed, stats.succeeded, seen) == (10, 10, list(range(10)))
        assert (await app.tick(limit=3)).claimed == 3
        assert (await app.tick(limit=100)).succeeded == 12
        assert (await app.tick()).claimed == 0
        assert [row.state for row in await rows(app)] == ["succeeded"] * 25

    asyncio.run(main())


def test_a_tick_settles_with_backoff_and_leaves_what_is_not_due(place: Place, app: Windlass) -> None:
    app.queue("h", preset="harmonyk")

    @app.task(queue="h")
    def fails() -> None:
        raise OSError("down")

    async def main() -> None:
        job, later = await fails.enqueue(), await fails.using(delay="1h").enqueue()
        pauses = []
        for _ in range(6):
            assert (await app.tick()).claimed == 1
            row = await job.fetch()
            if row.run_at is not None and row.state == "queued":
                pauses.append((row.run_at - place.clock.now()) // SECOND)
                assert (await app.tick()).claimed == 0
                place.clock.advance(row.run_at - place.clock.now())
        assert pauses == [1, 2, 4, 8, 16]
        assert ((await job.fetch()).state, (await later.fetch()).executions) == ("dead", 0)

    asyncio.run(main())


def test_a_tick_does_not_wait_for_jobs_that_come_back_later(app: Windlass) -> None:
    """A job that fails with no pause at all is due again at once, and still counts against the limit."""

    @app.task(retry=Retry(max_retries=50, backoff=fixed(0)))
    async def fails() -> None:
        raise ValueError("no")

    async def main() -> None:
        job = await fails.enqueue()
        assert (await app.tick(limit=4)).claimed == 4
        assert (await job.fetch()).executions == 4

    asyncio.run(main())
