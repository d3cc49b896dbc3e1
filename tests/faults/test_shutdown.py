"""SIGTERM while there is much to do: nothing is lost, nothing is charged to the jobs, and the process ends in time."""

from __future__ import annotations

import random
import signal

from windlass.clock import SECOND

from . import tasks
from .conftest import FleetMaker
from .summary import Told

LOAD = 400


def load(seconds: float) -> list[str]:
    """Quick work of every kind, and in its first quarter some that takes longer than anybody waits."""
    mix = [
        tasks.slow.job(seconds) if n % 20 == 0 and n < LOAD // 4 else
        tasks.blocking.job("") if n % 4 == 1 else
        tasks.ledger.job(0.005) if n % 4 == 2 else
        tasks.slow.job(0.01)
        for n in range(LOAD)
    ]  # fmt: skip
    return [handle.id for handle in tasks.app.enqueue_many_sync(mix)]


def test_sigterm_under_load_hands_back_what_runs_and_spends_no_attempt(new_fleet: FleetMaker, tell_summary: Told) -> None:
    with new_fleet(lease="5s", grace="300ms", concurrency="20") as fleet:
        jobs = load(seconds=60)
        worker = fleet.start("run")
        fleet.until_started(200)
        told_at = fleet.now()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        halfway, counted = fleet.history(), worker.stats()
        fleet.finish()
        history = fleet.history()

    assert halfway.problems(jobs, ended=False) == []
    assert history.problems(jobs) == []
    released = [run for runs in halfway.runs.values() for run in runs if run.status == "skipped"]
    assert counted["released"] == len(released) >= 1, "there was nothing to hand back: the load is too small"
    assert all(job.state != "running" for job in halfway.jobs.values()), "a lease was left behind"
    interrupted = {line.run for line in halfway.lines if line.what == "stopped"}
    assert interrupted, "no handler was interrupted"
    assert interrupted <= {run.id for run in released}
    for run in released:
        job = halfway.jobs[run.job]
        assert (job.attempts, job.lost, job.executions - job.skipped) == (0, 0, 0)
    ends = [run.finished_at for runs in halfway.runs.values() for run in runs if run.finished_at is not None]
    assert max(ends) - told_at <= 0.3 * SECOND + SECOND  # the grace, and a second for a busy machine
    begun_late = [line for line in halfway.lines if line.what == "start" and line.at > told_at + SECOND]
    assert begun_late == []
    tell_summary(f"SIGTERM under load, {fleet.on.name}", 1, history, jobs)


def test_a_second_sigterm_does_not_wait_for_the_grace(new_fleet: FleetMaker) -> None:
    with new_fleet(lease="5s", grace="60s") as fleet:
        jobs = load(seconds=60)
        worker = fleet.start("run")
        fleet.until_started(200)
        fleet.until("long ones run", lambda: fleet.count("state = 'running' and type = 'slow'") >= 1)
        worker.signal(signal.SIGTERM)
        fleet.until("it was heard", lambda: "SIGTERM: finishing" in worker.errors.read_text())
        forced_at = fleet.now()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        halfway = fleet.history()
        fleet.finish()
        history = fleet.history()

    assert halfway.problems(jobs, ended=False) == []
    assert history.problems(jobs) == []
    assert all(job.state != "running" for job in halfway.jobs.values())
    ends = [run.finished_at for runs in halfway.runs.values() for run in runs if run.finished_at is not None]
    assert max(ends) - forced_at <= SECOND
    stopped = {line.run for line in halfway.lines if line.what == "stopped"}
    assert stopped, "no handler was interrupted"
    assert stopped <= {run.id for runs in halfway.runs.values() for run in runs if run.status == "skipped"}


def test_a_storm_of_signals_loses_nothing(new_fleet: FleetMaker) -> None:
    """Signals at any age of a process, many at once: before it listens, while it works, while it ends. It may then die of
    one, which is as good as an end if nothing is left behind."""
    dice = random.Random(7)
    with new_fleet(lease="1s", grace="200ms") as fleet:
        jobs = load(seconds=1)
        for age in (0, 1, 30, 80):
            before = len(fleet.lines("start"))
            worker = fleet.start("run")
            if age:
                fleet.until_born(worker)
            if age > 1:
                fleet.until_started(before + age)
            for _ in range(20):
                worker.signal(dice.choice((signal.SIGTERM, signal.SIGINT)))
            assert worker.wait() in (0, -signal.SIGTERM, -signal.SIGINT, 1, 130)
        fleet.finish()
        history = fleet.history()

    assert history.problems(jobs) == []
