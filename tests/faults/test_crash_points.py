"""kill -9 at each point of a worker's life. A fresh worker takes over within the lease and two seconds, and store and
handlers' log agree on what happened.

At each point two workers die, one with an ordinary job and one with a never-twice job. The second worker is ready
before they die, so that what is measured is recovery and not the start of an interpreter.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from windlass.clock import SECOND
from windlass.core.recovery import CRASH_ERROR

from . import tasks
from .conftest import FleetMaker
from .fleet import Fleet, Process
from .history import History, RunRow
from .summary import Told

LEASE = SECOND
BOUND = LEASE + 2 * SECOND
AT_ONCE = 2 * SECOND  # nothing has to lapse: only the rescuer's waking up is waited for

# point -> the runs of an ordinary job, and those of a never-twice chain, as the store should tell them in the end
LOST, RELEASED, ONCE = ["failed", "completed"], ["skipped", "completed"], ["completed"]
POINTS: dict[str, tuple[list[str], list[str]]] = {
    "claim:before_commit": (ONCE, ONCE),
    "claim:after_commit": (LOST, LOST),
    "before_handler": (LOST, LOST),
    "inside_handler": (LOST, LOST),
    "before_settle_is_sent": (LOST, LOST),
    "settle:before_commit": (LOST, LOST),
    "settle:after_commit": (ONCE, ONCE),
    "extend:before_commit": (LOST, LOST),
    "extend:after_commit": (LOST, LOST),
    "release:before_commit": (LOST, LOST),
    "release:after_commit": (RELEASED, LOST),
}
BEGUN = set(POINTS) - {"claim:before_commit", "claim:after_commit", "before_handler"}
TRANSACTION_POINTS = {
    "inside_transaction": LOST, "transaction:before_commit": LOST, "transaction:after_commit": ONCE,
}  # fmt: skip


def deaths(fleet: Fleet, *doomed: Process) -> dict[int, int]:
    """When each of them died, by the store's clock. They must have died, by their own hand, at the named point."""
    for process in doomed:
        assert process.wait() == -signal.SIGKILL, f"{process.name} did not get to its point"
    died = {line.pid: line.at for line in fleet.lines("died")}
    assert set(died) == {process.pid for process in doomed}
    return died


def chain(history: History, job_id: str) -> list[RunRow]:
    """Every run of a job and of the jobs that followed it."""
    runs = list(history.runs[job_id])
    successor = history.jobs[job_id].superseded_by
    return runs + (chain(history, successor) if successor is not None else [])


QUICK = {"claim:after_commit", "inside_handler", "settle:before_commit", "settle:after_commit"}


@pytest.mark.parametrize("point", sorted(POINTS.keys() - QUICK))
def test_a_worker_killed_at_any_point_is_recovered_from_in_time(
    new_fleet: FleetMaker, tell_summary: Told, point: str
) -> None:
    killed_at_a_point(new_fleet, point, tell_summary)


@pytest.mark.parametrize("point", sorted(QUICK))
def test_a_worker_killed_at_the_main_points_is_recovered_from_in_time(
    new_quick_fleet: FleetMaker, tell_summary: Told, point: str
) -> None:
    killed_at_a_point(new_quick_fleet, point, tell_summary)


def killed_at_a_point(new_fleet: FleetMaker, point: str, tell: Told) -> None:
    seconds = 30.0 if point.startswith(("extend", "release")) else 0.0
    with new_fleet(lease="1s", grace="100ms") as fleet:
        ordinary, never_twice = tasks.slow.enqueue_sync(seconds).id, tasks.ledger.enqueue_sync(seconds).id
        doomed = [fleet.start("crash", point, queue, waits=True) for queue in ("steady", "ledger")]
        rescuer = fleet.start("run", waits=True)
        fleet.until_born(rescuer)
        for process in doomed:
            process.go()
        died = deaths(fleet, *doomed)
        rescuer.go()
        fleet.until_ended()
        history = fleet.history()

    assert history.problems([ordinary, never_twice]) == []
    for job_id, process, expected in zip((ordinary, never_twice), doomed, POINTS[point], strict=True):
        runs = chain(history, job_id)
        assert [run.status for run in runs] == expected
        assert len([line for line in history.lines if line.what == "start" and line.pid == process.pid]) == (point in BEGUN)
        by_rescuer = [run for run in runs if f":{rescuer.pid}:" in (run.worker or "")]
        if point == "settle:after_commit":
            assert by_rescuer == [], "it was run again after its success had been stored"
            continue
        bound = AT_ONCE if point in ("claim:before_commit", "release:after_commit") else BOUND
        assert by_rescuer[0].claimed_at - died[process.pid] <= bound
    if POINTS[point][1] == LOST and not point.startswith("release:after"):
        assert chain(history, never_twice)[0].error == CRASH_ERROR
    tell(f"killed at {point}, {fleet.on.name}", len(died), history, [ordinary, never_twice])


@pytest.mark.parametrize("point", TRANSACTION_POINTS)
def test_a_worker_killed_in_a_transaction_leaves_its_effect_with_its_success_or_neither(tmp_path: Path, point: str) -> None:
    with Fleet(tmp_path, lease="1s") as fleet:
        job_id = tasks.written.enqueue_sync(1).id
        doomed, rescuer = fleet.start("crash", point, waits=True), fleet.start("run", waits=True)
        fleet.until_born(rescuer)
        doomed.go()
        died = deaths(fleet, doomed)
        [(left_behind,)] = fleet.rows("select count(*) from effects")
        [(state,)] = fleet.rows("select state from jobs where id = ?", job_id)
        assert (left_behind, state) == ((1, "succeeded") if point.endswith("after_commit") else (0, "running"))
        rescuer.go()
        fleet.until_ended()
        history = fleet.history()
        effects = fleet.rows("select job_id from effects")

    assert history.problems([job_id]) == []
    assert effects == [(job_id,)]
    assert len(history.jobs) == 2, "one follow-up job, enqueued in the transaction that committed"
    runs = history.runs[job_id]
    assert [run.status for run in runs] == TRANSACTION_POINTS[point]
    if len(runs) == 2:
        assert runs[1].claimed_at - died[doomed.pid] <= BOUND
