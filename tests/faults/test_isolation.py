"""A worker is killed while its children and programs run: they end with it, and their jobs run again elsewhere, alone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from windlass.clock import SECOND

from . import tasks
from .fleet import Fleet, state_of


def ended(pid: int) -> bool:
    return state_of(pid) in ("", "Z")


def written(path: Path, count: int) -> list[int]:
    """The process numbers in a file, once there are so many."""
    found = path.read_text().split() if path.exists() else []
    return [int(word) for word in found] if len(found) >= count else []


@pytest.mark.parametrize("held", [False, True], ids=["listening", "holding Python's lock"])
def test_children_and_what_they_started_end_when_their_worker_is_killed(tmp_path: Path, held: bool) -> None:
    gate = tmp_path / "gate"
    with Fleet(tmp_path, lease="2s") as fleet:
        job = tasks.apart.enqueue_sync(str(gate), held)
        worker = fleet.start("run")
        pids = fleet.until("the child runs", lambda: written(Path(f"{gate}.1"), 2))
        fleet.kill(worker)
        fleet.until("the child and its program have ended", lambda: all(map(ended, pids)), seconds=2)
        fleet.finish()
        history = fleet.history()
    assert history.problems([job.id]) == []
    first, second = history.runs[job.id]
    assert (first.status, first.error, second.status) == ("failed", "lease expired", "completed")


def test_a_program_ends_when_its_worker_is_killed_and_its_job_runs_again(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Fleet(tmp_path, lease="2s") as fleet:
        job = tasks.program.using(timeout="3s").enqueue_sync(note=str(note), seconds=60)
        worker = fleet.start("run")
        [pid] = fleet.until("the program runs", lambda: written(note, 1))
        fleet.kill(worker)
        fleet.until("the program has ended", lambda: ended(pid), seconds=2)
        second = fleet.start("run")
        fleet.until("it runs again", lambda: written(note, 2))
        fleet.until("it is out of time", lambda: fleet.count("last_error like 'TimeoutError%'") == 1)
        second.signal(signal.SIGTERM)
        assert second.wait() == 0
        runs = fleet.rows("select attempt_no, status, exit_code, error from runs order by attempt_no")
    assert runs[0][1:] == ("failed", None, "lease expired")
    assert runs[1][1:] == ("failed", -signal.SIGTERM, "TimeoutError: it ran longer than its timeout of 3 s")
    assert job.id


def test_a_job_that_kills_its_whole_worker_is_quarantined(tmp_path: Path) -> None:
    """Unlike one that kills its own process, which spends an attempt."""
    with Fleet(tmp_path, lease="1s") as fleet:
        job = tasks.kills_its_worker.using(max_lost=3).enqueue_sync()
        for number in range(1, 4):
            worker = fleet.start("run")
            assert worker.wait() == -signal.SIGKILL
            assert len(fleet.lines("start")) == number
            fleet.until("its child has ended", lambda: all(ended(line.pid) for line in fleet.lines("start")))
        fleet.finish()
        history = fleet.history()
    row = history.jobs[job.id]
    assert (row.state, row.dead_kind, row.lost) == ("dead", "lost", 3)


def test_a_worker_that_is_told_to_stop_lets_its_children_finish(tmp_path: Path) -> None:
    """Also when the whole group of processes is told, as a service manager does."""
    gate = tmp_path / "gate"
    with Fleet(tmp_path, lease="5s", grace="30s") as fleet:
        job = tasks.apart.enqueue_sync(str(gate))
        worker = fleet.start("run")
        child, beside = fleet.until("the child runs", lambda: written(Path(f"{gate}.1"), 2))
        fork_server = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        worker.signal(signal.SIGTERM)
        for pid in (child, fork_server):
            os.kill(pid, signal.SIGTERM)
        began = time.monotonic()
        fleet.until("it stops claiming", lambda: "finishing what runs" in worker.errors.read_text())
        assert not ended(child)
        gate.touch()
        assert worker.wait() == 0
        assert time.monotonic() - began < 20
        fleet.until("nothing is left", lambda: ended(child) and ended(beside) and ended(fork_server))
        [(state, attempts, executions, finished_at)] = fleet.rows(
            "select state, attempts, executions, finished_at from jobs where id = ?", job.id
        )
        assert (state, attempts, executions) == ("succeeded", 0, 1)
        assert finished_at <= fleet.now() + SECOND
