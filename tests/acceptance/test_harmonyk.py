"""Harmonyk's jobs queue: one table, three calls, a backoff without jitter, a tick that does a bounded piece of work."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import httpx2
import pytest

from windlass import Windlass, backoff_delay_ms, can_retry, dedupe_key
from windlass.clock import SECOND, moment
from windlass.core.duties import RollUpUsage
from windlass.core.queries import UsageSince
from windlass.errors import InvalidInput, WindlassError
from windlass.policies import JobStatus
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app
from windlass.words import vocabulary

from .place import Place, rows, run


@pytest.fixture
def app(place: Place) -> Windlass:
    app = place.app()
    app.queue("default", preset="harmonyk")
    return app


async def word(app: Windlass, job_id: str) -> str:
    return (await app.job(job_id).words("harmonyk")).state


# ------------------------------------------------------------------------------------------------------ backoff, retry


def test_the_backoff_is_one_second_doubled_up_to_a_minute() -> None:
    """HK-020, HK-021: 0 and 1 give 1 s, then 2, 4, 8 …; 60 s from the seventh on; always the same number."""
    assert [backoff_delay_ms(n) for n in range(11)] == [
        1_000, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000,
    ]  # fmt: skip
    assert {backoff_delay_ms(5) for _ in range(50)} == {16_000}


@pytest.mark.parametrize(
    ("status", "answers"),
    [
        ("success", [False] * 3),
        ("running", [False] * 3),
        ("queued", [True, False, False]),
        ("failed", [True, False, False]),
    ],
)
def test_can_retry_is_about_status_and_attempts_below_the_maximum(status: JobStatus, answers: list[bool]) -> None:
    """HK-022, HK-023: never for success or running; otherwise while attempts < maxAttempts, which is 5 unless said."""
    assert [can_retry(status, attempts) for attempts in (4, 5, 6)] == answers
    assert [can_retry(status, attempts, 2) for attempts in (1, 2, 3)] == answers


def test_a_failure_is_retried_with_the_pause_of_the_new_attempts_and_the_sixth_is_the_last(
    place: Place, app: Windlass
) -> None:
    """HK-018, HK-024, HK-025, HK-026: canRetry is asked with the attempts before; then attempts + 1, queued, next_run_at =
    now + backoff(attempts); or failed, with its last error kept."""

    async def main() -> None:
        job_id = await app.repository.enqueue("email.send")
        for before in range(6):
            [claimed] = await app.repository.claim()
            assert (claimed.id, claimed.attempts) == (job_id, before)
            await app.repository.mark_failure(job_id, f"failure {before}")
            [row] = await rows(app)
            assert row.last_error == f"failure {before}"
            if can_retry("failed", before):
                assert (await word(app, job_id), row.attempts) == ("queued", before + 1)
                assert row.run_at == place.clock.now() + backoff_delay_ms(row.attempts) * 1_000
                place.clock.advance(backoff_delay_ms(row.attempts) * 1_000)
        assert (await word(app, job_id), row.executions) == ("failed", 6)
        place.clock.advance("30d")
        assert await app.repository.claim() == []

    run(main)


# -------------------------------------------------------------------------------------------------------------- dedupe


def test_the_dedupe_key_is_the_same_for_the_same_work() -> None:
    """HK-027, HK-028, HK-029: type, org or the word global, and JSON with sorted keys at any depth, joined by `::`."""
    one = dedupe_key("sync", "acme", {"b": {"y": 1, "x": [2, 1]}, "a": None})
    assert one == dedupe_key("sync", "acme", {"a": None, "b": {"x": [2, 1], "y": 1}})
    assert one == 'sync::acme::{"a":null,"b":{"x":[2,1],"y":1}}'
    assert dedupe_key("sync", None, {}) == "sync::global::{}"
    others = {
        dedupe_key("sync", "other", {"a": [1, 2]}), dedupe_key("send", "acme", {"a": [1, 2]}),
        dedupe_key("sync", "acme", {"a": [2, 1]}), dedupe_key("sync", "acme", {"a": [1, 2]}),
    }  # fmt: skip
    assert len(others) == 4


def test_work_that_is_queued_or_running_is_not_queued_again_and_may_be_afterwards(app: Windlass) -> None:
    """HK-030, HK-031, HK-032, HK-044: asked for by the task; the job that is there is answered, and a finished one is no
    obstacle. The database keeps it so, whatever races."""

    @app.task(dedupe=True)
    async def sync(calendar: str, *, options: dict[str, int]) -> None: ...

    async def main() -> None:
        first = await sync.enqueue("a", options={"x": 1, "y": 2})
        same = await sync.enqueue("a", options={"y": 2, "x": 1})
        other = await sync.using(org_id="acme").enqueue("a", options={"x": 1, "y": 2})
        assert (same.id, same.existed, other.existed) == (first.id, True, False)
        await app.tick()
        again = await sync.enqueue("a", options={"x": 1, "y": 2})
        assert (again.existed, len(await rows(app))) == (False, 3)

    run(main)


# ---------------------------------------------------------------------------------------------------------- repository


def test_enqueue_takes_a_type_and_optionally_org_payload_and_time_and_answers_an_id(place: Place, app: Windlass) -> None:
    """HK-033, HK-036, HK-037: everything but the type may be left out."""

    async def main() -> None:
        later = moment(place.clock.now()) + timedelta(minutes=5)
        full = await app.repository.enqueue("email.send", org_id="acme", payload={"to": "ada"}, run_at=later)
        bare = await app.repository.enqueue("email.send", org_id=None, run_at=None)
        first, second = await rows(app)
        assert (first.id, first.type, first.org_id, first.payload) == (full, "email.send", "acme", b'{"to":"ada"}')
        assert first.run_at == place.clock.now() + 300 * SECOND
        assert (second.id, second.org_id, second.run_at, second.attempts, second.last_error) == (bare, None, None, 0, "")
        assert second.max_attempts == 6, "five retries unless somebody says otherwise"
        with pytest.raises(InvalidInput, match="type"):
            await app.repository.enqueue("")

    run(main)


def test_a_job_goes_from_queued_to_running_to_success(place: Place, app: Windlass) -> None:
    """HK-007, HK-009, HK-015, HK-016, HK-017, HK-034: queued also while it waits for its time; no other words."""

    async def main() -> None:
        job_id = await app.repository.enqueue("t", run_at=moment(place.clock.now()) + timedelta(seconds=9))
        assert (await word(app, job_id), await app.repository.claim()) == ("queued", [])
        place.clock.advance("9s")
        assert await word(app, job_id) == "queued"
        [claimed] = await app.repository.claim()
        assert (claimed.id, await word(app, job_id)) == (job_id, "running")
        await app.repository.mark_success(job_id)
        assert await word(app, job_id) == "success"
        assert set(vocabulary("harmonyk")) == {"queued", "running", "success", "failed"}

    run(main)


def test_mark_failure_keeps_the_error(app: Windlass) -> None:
    """HK-010, HK-035, HK-042: the text of the last failure stays with the job, also when a later run succeeds."""

    async def main() -> None:
        job_id = await app.repository.enqueue("t")
        await app.repository.claim()
        await app.repository.mark_failure(job_id, "smtp is down")
        assert (await app.job(job_id).fetch()).last_error == "smtp is down"
        [only] = await app.job(job_id).runs()
        assert (only.status, only.error) == ("failed", "smtp is down")

    run(main)


def test_every_change_moves_updated_at(place: Place, app: Windlass) -> None:
    """HK-011, HK-012: created_at stays, updated_at grows with every step."""

    async def main() -> None:
        job_id = await app.repository.enqueue("t")
        seen = [await app.job(job_id).fetch()]
        for step in (app.repository.claim, lambda: app.repository.mark_failure(job_id, "x")):
            place.clock.advance(1)
            await step()
            seen.append(await app.job(job_id).fetch())
        assert len({row.created_at for row in seen}) == 1
        assert all(earlier.updated_at < later.updated_at for earlier, later in pairwise(seen))

    run(main)


# ---------------------------------------------------------------------------------------------------------------- tick


def test_a_tick_takes_at_most_n_runnable_jobs_runs_them_here_and_settles_them(place: Place, app: Windlass) -> None:
    """HK-038, HK-040, HK-041, HK-042, HK-043: what is not due is left alone; the failure waits for its backoff."""
    seen: list[int] = []

    @app.task
    async def note(n: int) -> None:
        seen.append(n)
        if n == 1:
            raise OSError("down")

    async def main() -> None:
        await note.using(delay="1h").enqueue(9)
        jobs = await app.enqueue_many(note.job(n) for n in range(4))
        stats = await app.tick(limit=3)
        assert (stats.claimed, seen) == (3, [0, 1, 2])
        assert [await word(app, job.id) for job in jobs] == ["success", "queued", "success", "queued"]
        assert (await jobs[1].fetch()).run_at == place.clock.now() + SECOND
        assert (await app.tick(limit=3)).claimed == 1
        assert seen == [0, 1, 2, 3]

    run(main)


def test_a_tick_that_finds_nothing_or_fails_says_so(app: Windlass) -> None:
    """HK-038: a call site that never hangs: nothing to do is an answer, a store that is gone is an error."""

    @app.task
    async def note() -> None: ...

    async def main() -> None:
        assert (await app.tick()).claimed == 0
        await app.client.driver.close()
        with pytest.raises(WindlassError):
            await asyncio.wait_for(app.tick(), 10)

    run(main)


def test_the_tick_endpoint_calls_it_and_says_ok(place: Place, app: Windlass) -> None:
    """HK-039: `POST /api/jobs/tick` answers `{"ok": true}` with what was done; an error answer when the tick fails."""

    @app.task
    async def note(n: int) -> None:
        if n == 1:
            raise OSError("down")

    async def main() -> None:
        transport = httpx2.ASGITransport(app=web_app(app, access=Access(anonymous=LOCAL)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.post("/api/jobs/tick")).json()["ok"] is True
            jobs = await app.enqueue_many(note.job(n) for n in range(3))
            answer = await client.post("/api/jobs/tick", json={"limit": 2})
            assert answer.status_code == 200
            did = answer.json()
            assert (did["ok"], did["claimed"], did["succeeded"], did["retried"]) == (True, 2, 1, 1)
            assert [await word(app, job.id) for job in jobs] == ["success", "queued", "queued"]
            assert (await jobs[1].fetch()).run_at == place.clock.now() + SECOND
            await app.client.driver.close()
            failed = await client.post("/api/jobs/tick")
            assert failed.status_code == 503
            assert (failed.headers["content-type"], "ok" in failed.json()) == ("application/problem+json", False)

    run(main)


def test_every_run_is_metered(place: Place, app: Windlass) -> None:
    """HK-045: each run is counted once, by organisation, type and outcome."""

    async def main() -> None:
        for org, ends_well in (("acme", True), ("acme", True), ("acme", False), (None, True)):
            job_id = await app.repository.enqueue("t", org_id=org)
            await app.repository.claim()
            await (app.repository.mark_success(job_id) if ends_well else app.repository.mark_failure(job_id, "x"))
        place.clock.advance("2h")
        driver, now = app.client.driver, place.clock.now()
        for _ in range(2):
            await driver.maintain(RollUpUsage(until=now), epoch=None, now=now)
        usage = {(row.org_id, row.type, row.outcome): row.runs for row in await driver.read(UsageSince())}
        assert usage == {("", "t", "completed"): 1, ("acme", "t", "completed"): 2, ("acme", "t", "failed"): 1}

    run(main)


def test_a_row_made_by_hand_has_every_default(sql_place: Place) -> None:
    """HK-003, HK-006, HK-007, HK-008, HK-011, HK-012: only the type is needed."""
    app = sql_place.app()
    app.open()
    sql_place.sql("insert into jobs (type) values ('by.hand')")

    async def main() -> None:
        [row] = await rows(app)
        assert (row.type, row.payload, row.attempts, row.run_at, row.org_id) == ("by.hand", b"{}", 0, None, None)
        assert row.id
        assert row.created_at
        assert row.updated_at
        assert await word(app, row.id) == "queued"

    run(main)
