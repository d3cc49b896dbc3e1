"""Job Scheduler: what becomes of a job after a crash. Each case is a process that really dies at the point, and one that
comes after it; recovery that is run twice changes nothing the second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import Windlass
from windlass.core.queries import AllEvents
from windlass.core.recovery import CRASH_ERROR
from windlass.records import Event
from windlass.types import Job, Run

from .crash_program import DIED, scheduler
from .place import Place, rows, run

LEASE = 30_000_000
TESTS = Path(__file__).parents[1]
SUBSCRIBED = """insert into webhooks (webhook_id, url, events, secret, created_at)
                values ('h', 'http://127.0.0.1:9/', '["job.recovered"]', 's', {instant})"""


class Crash:
    """One store, processes that die on it, and what the ones after them make of it."""

    def __init__(self, place: Place, directory: Path) -> None:
        self.place = place
        self.log = directory / "executions"
        self.log.touch()
        self._apps: list[Windlass] = []
        self.restarted().open()
        place.sql(SUBSCRIBED.format(instant=place.instant(1)))

    @property
    def app(self) -> Windlass:
        """The eyes of the test."""
        return self._apps[0]

    def restarted(self) -> Windlass:
        """A scheduler that works, opened now."""
        app = scheduler(self.place.url, self.place.schema, str(self.log), self.place.clock)
        self._apps.append(app)
        return app

    async def close(self) -> None:
        for app in self._apps:
            await app.close()

    async def enqueue(self) -> str:
        return (await self.app.find_task("story").enqueue()).id

    def die(self, point: str) -> None:
        """A scheduler comes, and dies at the point."""
        words = [self.place.url, self.place.schema, str(self.log), str(self.place.clock.now()), point]
        done = subprocess.run(
            [sys.executable, "-m", "acceptance.crash_program", *words], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))}, check=False,
        )  # fmt: skip
        assert done.returncode == DIED, f"it did not get to {point}: {done.stderr[-3000:]}"
        self._until_forgotten()

    def _until_forgotten(self) -> None:
        """A server needs a moment to see that a client is gone, and gives up its locks then."""
        held = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and pid <> pg_backend_pid()"
        deadline = time.monotonic() + 20
        while self.place.kind == "postgres" and self.place.sql(held)[0][0]:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def executed(self) -> Counter[str]:
        """How often each job was begun, by the word of the handlers."""
        return Counter(self.log.read_text().split())

    async def state(self) -> tuple[list[Job], list[list[Run]], list[Event]]:
        jobs, driver = await rows(self.app), self.app.client.driver
        return jobs, [await driver.runs(job.id) for job in jobs], await driver.read(AllEvents())

    async def recovered(self) -> tuple[list[Job], list[list[Run]], list[Event]]:
        """After the lease has lapsed a scheduler comes back; and another one, which finds nothing left to do."""
        self.place.clock.advance(LEASE)
        await self.restarted().tick()
        after = await self.state()
        await self.restarted().tick()
        assert await self.state() == after, "recovery run twice changes nothing"
        return after

    async def finished(self) -> None:
        """Let time pass until nothing is to be done."""
        while any(job.state in ("queued", "running") for job in await rows(self.app)):
            self.place.clock.advance("60s")
            await self.restarted().tick()


@pytest.fixture
def crash(sql_place: Place, tmp_path: Path) -> Any:
    made = Crash(sql_place, tmp_path)
    yield made
    run(made.close)


def on(crash: Crash, play: Callable[[], Any]) -> None:
    run(play)
    assert max(crash.executed().values(), default=1) == 1, "a job id was executed twice"


def test_a_crash_before_the_insert_is_stored_leaves_no_job(crash: Crash) -> None:
    """JS-114: nothing was acknowledged, nothing is there."""

    async def play() -> None:
        crash.die("enqueue:before_commit")
        assert (await crash.recovered())[0] == []

    on(crash, play)


def test_a_queued_job_needs_no_action(crash: Crash) -> None:
    """JS-003, JS-142: it is dispatched as if nothing had been."""

    async def play() -> None:
        crash.die("enqueue:after_commit")
        [before] = await rows(crash.app)
        assert before.state == "queued"
        [job], [[only]], events = await crash.recovered()
        assert (job.id, job.state, only.status, events) == (before.id, "succeeded", "completed", [])

    on(crash, play)


def test_a_dispatch_that_was_not_stored_leaves_the_job_queued_without_a_run(crash: Crash) -> None:
    """JS-115, JS-118, JS-147: all of it or nothing of it."""

    async def play() -> None:
        job_id = await crash.enqueue()
        crash.die("claim:before_commit")
        [job], [runs], _ = await crash.state()
        assert (job.state, runs) == ("queued", [])
        [job], [[only]], events = await crash.recovered()
        assert (job.id, job.state, only.status, events) == (job_id, "succeeded", "completed", [])

    on(crash, play)


@pytest.mark.parametrize("point", ["claim:after_commit", "inside the handler", "settle:before_commit"])
def test_a_running_job_whose_run_has_not_ended_has_failed_and_is_retried(crash: Crash, point: str) -> None:
    """JS-003, JS-124, JS-126, JS-128, JS-129, JS-130, JS-144, JS-151, JS-154: FAILED 'Scheduler crash recovery', one retry
    job, one event in the outbox; whether the handler had begun, or had even ended, nobody can know."""

    async def play() -> None:
        job_id = await crash.enqueue()
        crash.die(point)
        [job], [[only]], _ = await crash.state()
        assert (job.state, only.status) == ("running", None)
        [old, new], [[only], none], [event] = await crash.recovered()
        assert (old.id, old.dead_kind, old.superseded_by) == (job_id, "superseded", new.id)
        assert old.finished_at == only.finished_at == crash.place.clock.now()
        assert (only.status, only.error) == ("failed", CRASH_ERROR)
        assert (new.retry_of, new.attempts, new.state, none) == (job_id, 1, "queued", [])
        assert (event.event, event.job_id) == ("job.recovered", job_id)
        assert json.loads(event.body)["error"] == CRASH_ERROR
        await crash.finished()
        assert [job.state for job in await rows(crash.app)] == ["dead", "succeeded"]

    on(crash, play)


def test_a_job_whose_end_was_stored_stays_ended(crash: Crash) -> None:
    """JS-125, JS-145: the run is terminal and the job has its finished_at: one transaction wrote both."""

    async def play() -> None:
        await crash.enqueue()
        crash.die("settle:after_commit")
        before = await crash.state()
        [job], [[only]], _ = before
        assert (job.state, only.status, job.finished_at) == ("succeeded", "completed", only.finished_at)
        assert await crash.recovered() == before

    on(crash, play)


def test_a_failure_that_was_not_stored_is_a_crash_and_makes_one_retry(crash: Crash) -> None:
    """JS-136, JS-139, JS-141: the run and the retry job are one transaction, so neither is there without the other."""

    async def play() -> None:
        job_id = await crash.enqueue()
        crash.die("failure:before_commit")
        [job], [[only]], _ = await crash.state()
        assert (job.state, only.status) == ("running", None)
        jobs, _, events = await crash.recovered()
        assert [job.retry_of for job in jobs] == [None, job_id]
        assert len(events) == 1

    on(crash, play)


def test_a_failure_that_was_stored_has_its_retry(crash: Crash) -> None:
    """JS-136, JS-137, JS-138: FAILED, finished, and the retry job is there: nothing is left to do but to run it."""

    async def play() -> None:
        job_id = await crash.enqueue()
        crash.die("failure:after_commit")
        [old, new], [[only], []], [] = await crash.state()
        assert (only.status, old.finished_at, new.retry_of) == ("failed", only.finished_at, job_id)
        [old, new], [_, [second]], events = await crash.recovered()
        assert (new.state, second.status, events) == ("succeeded", "completed", [])

    on(crash, play)


def test_a_crash_in_the_last_attempt_is_permanent(crash: Crash) -> None:
    """JS-091, JS-140: after three retries nothing follows, and the job is dead for good."""

    async def play() -> None:
        await crash.enqueue()
        for _ in range(4):
            crash.place.clock.advance("60s")
            crash.die("inside the handler")
            await crash.recovered()
        jobs, runs, events = await crash.state()
        assert [job.dead_kind for job in jobs] == ["superseded"] * 3 + ["exhausted"]
        assert [[one.error for one in each] for each in runs] == [[CRASH_ERROR]] * 4
        assert len(events) == 4

    on(crash, play)


@pytest.mark.parametrize("step", ["before_commit", "after_commit"])
def test_a_crash_of_the_recovery_itself_is_recovered_from(crash: Crash, step: str) -> None:
    """JS-128, JS-138, JS-141, JS-179: it is done once, by whoever gets to it."""

    async def play() -> None:
        job_id = await crash.enqueue()
        crash.die("inside the handler")
        crash.place.clock.advance(LEASE)
        crash.die(f"recovery:{step}")
        jobs, _, _ = await crash.state()
        assert len(jobs) == (1 if step == "before_commit" else 2)
        await crash.finished()
        jobs, _, events = await crash.recovered()
        assert [(job.state, job.retry_of) for job in jobs] == [("dead", None), ("succeeded", job_id)]
        assert [event.job_id for event in events] == [job_id]

    on(crash, play)
