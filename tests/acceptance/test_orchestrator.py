"""Task Orchestrator: its tasks, their words and counts, keys of a type, the schema that is made at start."""

from __future__ import annotations

from itertools import pairwise

import pytest

from windlass.admin import Admin
from windlass.clock import SECOND
from windlass.drivers import migrate
from windlass.drivers.values import Renewal
from windlass.signals import Reject
from windlass.words import vocabulary

from .orchestra import QUEUE, TERM, Orchestra
from .place import Place, rows, run


@pytest.fixture
def orchestra(any_place: Place) -> Orchestra:
    return Orchestra(any_place)


# ------------------------------------------------------------------------------------------------------- status, counts


def test_a_task_is_pending_claimed_running_completed(orchestra: Orchestra) -> None:
    """TO-008, TO-010, TO-011, TO-012, TO-014, TO-018, TO-019, TO-020, TO-021: each step leaves its time; an attempt is an
    execution."""
    app = orchestra.app

    @app.task(name="task:backup", queue=QUEUE)
    async def backup() -> None: ...

    async def main() -> None:
        job_id = await orchestra.enqueue()
        assert await orchestra.word(job_id) == "pending"
        [job] = await orchestra.claim("host-1-a", start=False)
        row = await app.job(job_id).fetch()
        assert (await orchestra.word(job_id), row.worker_id, row.claimed_at) == ("claimed", "host-1-a", orchestra.now)
        assert row.started_at is None
        await orchestra.driver.extend([Renewal(job.handle, job.token, orchestra.now)], lease_for=TERM, now=orchestra.now)
        row = await app.job(job_id).fetch()
        assert (await orchestra.word(job_id), row.started_at, row.executions) == ("running", orchestra.now, 1)
        other = await orchestra.enqueue()
        await app.tick()
        row = await app.job(other).fetch()
        assert (await orchestra.word(other), row.finished_at, row.executions) == ("completed", orchestra.now, 1)

    run(main)


def test_a_task_without_retries_left_is_a_dead_letter_and_one_without_hope_has_failed(orchestra: Orchestra) -> None:
    """TO-012, TO-014, TO-015, TO-016, TO-022, TO-023: max_retries 3 are four executions; no handler and an immediate fail
    are `failed`; both have completed_at and the last error."""
    app, clock = orchestra.app, orchestra.place.clock

    @app.task(queue=QUEUE)
    async def fails() -> None:
        raise OSError("disk")

    @app.task(queue=QUEUE)
    async def refuses() -> None:
        raise Reject("not mine")

    async def main() -> None:
        job, refused, strange = await fails.enqueue(), await refuses.enqueue(), await orchestra.enqueue("service:unknown")
        while (row := await job.fetch()).state == "queued":
            clock.advance(max(0, (row.run_at or 0) - clock.now()))
            await app.tick()
        assert (row.executions, row.attempts, row.finished_at) == (4, 4, orchestra.now)
        assert "disk" in row.last_error
        assert [await orchestra.word(one) for one in (job.id, refused.id, strange)] == ["dead_letter", "failed", "failed"]
        for one in (refused.id, strange):
            row = await app.job(one).fetch()
            assert (row.executions, row.finished_at is not None, row.last_error != "") == (1, True, True)

    run(main)


def test_a_failed_attempt_is_pending_until_its_time(orchestra: Orchestra) -> None:
    """TO-017, TO-057: next_retry_at is set with the failure, and nobody claims the task before."""
    app, clock = orchestra.app, orchestra.place.clock

    @app.task(queue=QUEUE)
    async def fails() -> None:
        raise OSError("disk")

    async def main() -> None:
        job = await fails.enqueue()
        await app.tick()
        row = await job.fetch()
        assert row.run_at is not None
        assert (await orchestra.word(job.id), row.attempts) == ("pending", 1)
        if row.run_at > clock.now():  # full jitter may draw a pause of nothing
            clock.advance(row.run_at - clock.now() - 1)
            assert await orchestra.claim() == []
            clock.advance(1)
        assert len(await orchestra.claim()) == 1

    run(main)


def test_the_words_are_the_six_of_the_enum() -> None:
    """TO-005, TO-018, TO-019, TO-020, TO-021, TO-022, TO-023: and no other."""
    assert set(vocabulary("orchestrator")) == {"pending", "claimed", "running", "completed", "failed", "dead_letter"}


def test_the_higher_priority_goes_first_and_then_the_older(orchestra: Orchestra) -> None:
    """TO-006, TO-055, TO-056: also inside one batch."""

    async def main() -> None:
        made = []
        for priority in (0, 5, -1, 5, 0):
            made.append(await orchestra.enqueue(priority=priority))
            orchestra.place.clock.advance(1)
        assert [job.id for job in await orchestra.claim()] == [made[1], made[3], made[0], made[4], made[2]]

    run(main)


def test_any_change_moves_updated_at(orchestra: Orchestra) -> None:
    """TO-013, TO-065: by the engine, strictly."""

    async def main() -> None:
        job_id = await orchestra.enqueue()
        seen = [await orchestra.app.job(job_id).fetch()]
        await orchestra.claim()
        seen.append(await orchestra.app.job(job_id).fetch())
        await orchestra.app.job(job_id).cancel()
        seen.append(await orchestra.app.job(job_id).fetch())
        assert all(a.updated_at < b.updated_at for a, b in pairwise(seen))

    run(main)


def test_names_with_a_namespace_are_names(orchestra: Orchestra) -> None:
    """TO-003: `service:nextjs` is a type like any other, and so is a path."""
    app = orchestra.app
    seen: list[str] = []

    @app.task(name="service:nextjs", queue=QUEUE)
    async def serve() -> None:
        seen.append("served")

    async def main() -> None:
        job = await serve.enqueue()
        await app.tick()
        assert (seen, (await job.fetch()).type) == (["served"], "service:nextjs")

    run(main)


def test_a_task_without_a_payload_has_none(orchestra: Orchestra) -> None:
    """TO-004: no payload is kept as such, not as an empty object."""

    async def main() -> None:
        job_id = await orchestra.app.repository.enqueue("task:backup")
        row = await orchestra.app.job(job_id).fetch()
        assert (row.codec, row.payload) == ("none", b"")

    run(main)


# ------------------------------------------------------------------------------------------------------- idempotency key


def test_the_same_key_of_a_type_is_the_same_task(orchestra: Orchestra) -> None:
    """TO-025, TO-026, TO-027, TO-028, TO-029, TO-032, TO-033, TO-034: an upsert that only moves updated_at, and answers
    the id that was there; also when the task has long been completed."""
    app = orchestra.app

    @app.task(name="task:backup", queue=QUEUE)
    async def backup() -> None: ...

    async def main() -> None:
        first = await backup.using(idempotency_key="delivery-7").enqueue()
        before = await first.fetch()
        orchestra.place.clock.advance(SECOND)
        again = await backup.using(idempotency_key="delivery-7", priority=9).enqueue()
        assert (again.id, again.existed, first.existed) == (first.id, True, False)
        after = await first.fetch()
        told = {f: (getattr(before, f), getattr(after, f)) for f in before.__struct_fields__}
        assert {f for f, (old, new) in told.items() if old != new} == {"updated_at"}
        assert after.updated_at == orchestra.now
        await app.tick()
        assert (await backup.using(idempotency_key="delivery-7").enqueue()).id == first.id
        assert len(await rows(app)) == 1

    run(main)


def test_the_key_of_another_type_is_another_key(orchestra: Orchestra) -> None:
    """TO-030: the scope is the type."""

    async def main() -> None:
        one = await orchestra.enqueue("task:a", idempotency_key="k")
        two = await orchestra.enqueue("task:b", idempotency_key="k")
        assert one != two

    run(main)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key_never_collides(orchestra: Orchestra, key: str | None) -> None:
    """TO-007, TO-031: a blank key is no key."""

    async def main() -> None:
        said = {} if key is None else {"idempotency_key": key}
        assert await orchestra.enqueue(**said) != await orchestra.enqueue(**said)
        assert {row.idempotency_key for row in await rows(orchestra.app)} == {None}

    run(main)


# ------------------------------------------------------------------------------------------------------------- by hand


def test_rows_made_by_hand_have_every_default(sql_place: Place) -> None:
    """TO-002, TO-005, TO-006, TO-009, TO-013, TO-014, TO-037, TO-038, TO-065: of tasks and of workers; a change by hand
    moves updated_at as well."""
    app = sql_place.app()
    app.open()
    sql_place.sql("insert into jobs (type) values ('task:a')", "insert into workers (id, hostname) values ('w', 'host')")

    async def main() -> None:
        [row] = await rows(app)
        assert (row.state, row.priority, row.executions, len(row.id) >= 32) == ("queued", 0, 0, True)
        sql_place.sql("update jobs set priority = 7")
        [after] = await rows(app)
        assert (after.priority, after.updated_at > row.updated_at, after.created_at) == (7, True, row.created_at)
        [view] = (await Admin(app.client).workers()).workers
        assert (view.id, view.is_leader, view.leader_until) == ("w", False, None)
        assert view.started_at == view.last_heartbeat or view.started_at.year > 2020

    run(main)


def test_the_schema_is_made_at_start_once_and_can_be_printed(bare_place: Place) -> None:
    """TO-066, TO-067, TO-068: opening makes it; again changes nothing; `windlass migrate --sql` prints it for psql."""
    options = {"schema": bare_place.schema} if bare_place.kind == "postgres" else {}

    async def main() -> None:
        app = bare_place.app()
        script = Admin(app.client).migrations().script
        assert "create table" in script
        await app.repository.enqueue("t")
        again = bare_place.app()
        again.open()
        assert len(await rows(again)) == 1
        assert migrate(bare_place.url, **options) == []
        status = Admin(again.client).migrations()
        assert all(step.applied for step in status.steps)
        assert status.script == "", "nothing is left to do by hand"

    run(main)
