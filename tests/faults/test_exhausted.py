"""A worker that has run out of memory or of file descriptors: what needs more fails, nothing is lost, and it goes on."""

from __future__ import annotations

import signal
from pathlib import Path

from windlass import Retry, fixed

from . import tasks
from .conftest import FleetMaker
from .stores import PostgresStore
from .summary import Told

OTHERS = 50
SETTINGS = {"lease": "3s", "grace": "500ms", "concurrency": "8", "threads": "4", "store_timeout": "2s"}


def test_a_handler_that_wants_more_memory_than_there_is_fails_alone(
    new_quick_fleet: FleetMaker, tell_summary: Told
) -> None:
    with new_quick_fleet(**SETTINGS) as fleet:
        hungry = tasks.hungry.using(retry=Retry(max_attempts=2, backoff=fixed("50ms"))).enqueue_sync(2_000_000_000).id
        others = [tasks.slow.enqueue_sync(0.05).id for _ in range(OTHERS)]
        worker = fleet.start("run", FAULTS_LIMITS="RLIMIT_AS=+1000000000")
        fleet.until_ended()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        history = fleet.history()
    assert history.problems([hungry, *others]) == []
    assert (history.jobs[hungry].state, history.jobs[hungry].attempts) == ("dead", 2)
    assert [run.error for run in history.runs[hungry]] == ["MemoryError"] * 2
    assert {history.jobs[job].executions for job in others} == {1}
    tell_summary(f"out of memory, {fleet.on.name}", 2, history, [hungry, *others])


def test_a_worker_without_a_file_descriptor_goes_on_when_there_are_some(
    new_quick_fleet: FleetMaker, tmp_path: Path, tell_summary: Told
) -> None:
    """On PostgreSQL its sessions are ended meanwhile, and it cannot make new ones."""
    gate = tmp_path / "gate"
    with new_quick_fleet(**SETTINGS) as fleet:
        worker = fleet.start("run", FAULTS_LIMITS="RLIMIT_NOFILE=90")
        jobs = [tasks.quick.enqueue_sync(n).id for n in range(OTHERS)]
        fleet.until_ended()
        jobs.append(tasks.hoarding.enqueue_sync(str(gate)).id)
        taken = fleet.until(
            "nothing is left", lambda: Path(f"{gate}.taken").is_symlink() and Path(f"{gate}.taken").readlink()
        )
        if isinstance(fleet.on, PostgresStore):
            fleet.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
                "and application_name = 'windlass'"
            )
        jobs += [tasks.quick.enqueue_sync(n).id for n in range(OTHERS)]
        if not isinstance(fleet.on, PostgresStore):
            fleet.until("somebody met it", lambda: fleet.count("last_error like '%Too many open files%'"))
        gate.touch()
        fleet.until_ended()
        assert worker.popen.poll() is None
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        history = fleet.history()
    assert int(str(taken)) > 10
    assert history.problems(jobs) == []
    assert {history.jobs[job].state for job in jobs} == {"succeeded"}
    tell_summary(f"out of file descriptors, {fleet.on.name}", int(str(taken)), history, jobs)
