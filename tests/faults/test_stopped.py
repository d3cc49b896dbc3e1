"""A worker that is stopped (SIGSTOP, a swapped-out machine, a debugger) for longer than its lease, and comes back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from windlass.clock import SECOND

from . import tasks
from .conftest import FleetMaker
from .summary import Told

LEASE = SECOND


def test_a_zombie_is_interrupted_and_its_settlements_are_refused(
    new_fleet: FleetMaker, tmp_path: Path, tell_summary: Told
) -> None:
    gate = tmp_path / "gate"
    with new_fleet(lease="1s", grace="5s") as fleet:
        jobs = [tasks.slow.enqueue_sync(60).id for _ in range(4)]
        jobs += [tasks.blocking.enqueue_sync(str(gate)).id for _ in range(3)]
        jobs.append(tasks.ledger.enqueue_sync(60).id)
        zombie, other = fleet.start("run"), fleet.start("run", waits=True)
        fleet.until_born(zombie, other)
        fleet.until_started(8, zombie.pid)
        stopped_at = fleet.freeze(zombie)
        other.go()
        fleet.until_ended()
        before = fleet.history()
        assert before.problems(jobs) == []
        gate.touch()  # the blocked handlers come to their end as soon as they go on, and say that they are done
        zombie.signal(signal.SIGCONT)
        fleet.until("its waiting handlers are interrupted", lambda: len(fleet.lines("stopped", zombie.pid)) == 4)
        fleet.until("its blocked handlers are done", lambda: len(fleet.lines("done", zombie.pid)) == 3)
        zombie.signal(signal.SIGTERM)
        assert zombie.wait() == 0
        counted, history = zombie.stats(), fleet.history()

    assert history.problems(jobs) == []
    assert history.runs == before.runs, "a settlement of the zombie was applied after all"
    assert history.jobs == before.jobs
    assert counted["succeeded"] == 0
    assert counted["settled_late"] <= 3  # the blocked three may be done before or after somebody looks at their lease
    assert counted["settled_late"] + counted["leases_lost"] >= 8
    for job_id in jobs:
        run = history.runs[job_id][0]
        after = history.next_run(run)
        assert after is not None
        assert after.claimed_at - stopped_at <= LEASE + 2 * SECOND
    tell_summary(f"stopped past the lease, {fleet.on.name}", 1, history, jobs)


def test_a_zombie_cannot_end_a_job_that_another_worker_is_running(new_fleet: FleetMaker, tmp_path: Path) -> None:
    with new_fleet(lease="4s") as fleet:  # a busy disk may keep a worker from renewing for seconds
        jobs = [tasks.gated.enqueue_sync(str(tmp_path / "gate")).id for _ in range(3)]
        zombie, other = fleet.start("run"), fleet.start("run", waits=True)
        fleet.until_born(zombie, other)
        fleet.until_started(3, zombie.pid)
        fleet.freeze(zombie)
        other.go()
        fleet.until_started(3, other.pid)
        zombie.signal(signal.SIGCONT)
        (tmp_path / "gate1").touch()
        fleet.until("the zombie is done", lambda: len(fleet.lines("done", zombie.pid)) == 3)
        zombie.signal(signal.SIGTERM)
        assert zombie.wait() == 0
        between, counted = fleet.history(), zombie.stats()
        (tmp_path / "gate2").touch()
        fleet.until_ended()
        history = fleet.history()

    assert [job.state for job in between.jobs.values()] == ["running"] * 3
    assert counted["succeeded"] == 0
    assert counted["leases_lost"] <= 3, "a lease is lost once"
    assert counted["settled_late"] <= 3
    assert counted["settled_late"] + counted["leases_lost"] >= 3  # given up before the end, refused after it, or both
    assert between.problems(jobs, ended=False) == []
    assert history.problems(jobs) == []
    for job_id in jobs:
        assert [run.status for run in history.runs[job_id]] == ["failed", "completed"]


@pytest.mark.parametrize("point", ["claim:after_commit", "before_handler"])
def test_a_worker_that_slept_through_its_lease_does_not_begin_what_others_have_done(
    new_fleet: FleetMaker, point: str
) -> None:
    with new_fleet(lease="1s") as fleet:
        jobs = [tasks.slow.enqueue_sync(0).id for _ in range(3)] + [tasks.ledger.enqueue_sync(0).id]
        jobs += [tasks.blocking.enqueue_sync("").id for _ in range(3)]
        zombie, other = fleet.start("stop", point), fleet.start("run", waits=True)
        fleet.until_born(zombie, other)
        fleet.until("it stands still", zombie.is_stopped)
        began = len(fleet.lines("start", zombie.pid))
        assert fleet.count("state = 'running'") >= 1, "it was stopped before it held anything"
        other.go()
        fleet.until_ended()
        fleet.freeze(other)
        zombie.signal(signal.SIGCONT)
        fresh = tasks.slow.enqueue_sync(0).id  # and it still is of use
        fleet.until_ended()
        zombie.signal(signal.SIGTERM)
        assert zombie.wait() == 0
        history = fleet.history()

    assert history.problems([*jobs, fresh]) == []
    assert len([line for line in history.lines if line.what == "start" and line.pid == zombie.pid]) == began + 1
