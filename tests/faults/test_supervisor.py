"""Children that are killed, a supervisor that is killed, and children that cannot even start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from windlass import Windlass
from windlass.clock import SECOND
from windlass.worker.supervisor import HOPELESS, MISCONFIGURED, READY_FD, Supervisor

from . import tasks
from .fleet import Fleet, state_of
from .history import Line

KILLS = 4


def gone(*pids: int) -> bool:
    return all(state_of(pid) in ("", "Z") for pid in pids)  # an orphan may have to wait for somebody to reap it


def all_begun(fleet: Fleet, jobs: list[str]) -> Callable[[], list[Line]]:
    def look() -> list[Line]:
        begun = [line for line in fleet.lines("start") if line.job in jobs]
        return begun if len(begun) == len(jobs) else []

    return look


def test_jobs_of_a_killed_child_are_claimed_again_within_a_second_and_it_is_replaced(tmp_path: Path) -> None:
    """The lease is a minute long, so nothing but the supervisor's word can have freed them."""
    jobs: list[str] = []
    ordinary: set[str] = set()
    taken: list[tuple[int, Line]] = []  # when their worker was killed, and what it had begun
    with Fleet(tmp_path, lease="60s", grace="200ms") as fleet:
        supervisor = fleet.supervise(2)
        for number in range(KILLS):
            fleet.until_there(2 + number)
            fresh = [tasks.slow.enqueue_sync(60).id for _ in range(2)] + [tasks.ledger.enqueue_sync(60).id]
            jobs += fresh
            ordinary |= set(fresh[:2])
            begun = fleet.until("all have begun", all_begun(fleet, fresh))
            victim = Counter(line.pid for line in begun).most_common(1)[0][0]
            held = [line for line in begun if line.pid == victim]
            killed_at = fleet.now()
            os.kill(victim, signal.SIGKILL)
            taken += [(killed_at, line) for line in held]
            for line in held:
                fleet.until("its jobs have ended", partial(_is_over, fleet, line.job))
        fleet.until_there(2 + KILLS)  # the last one was replaced, too
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
        fleet.finish()
        history = fleet.history()

    assert history.problems(jobs) == []
    assert len(taken) >= KILLS
    assert any(line.job in ordinary for _, line in taken), "no ordinary job was hit"
    for killed_at, line in taken:
        [run] = [run for run in history.runs[line.job] if run.id == line.run]
        assert run.status == "failed"
        assert run.finished_at is not None
        assert 0 <= run.finished_at - killed_at <= SECOND
        after = history.next_run(run)
        assert after is not None
        if after.job == run.job:  # a new job of a never-twice chain first waits as long as its policy says
            # Not before the kill, but a claim that waits for the write lock carries the moment at which it was asked for.
            assert after.claimed_at - killed_at <= SECOND


def test_the_command_line_supervises_too(tmp_path: Path) -> None:
    with Fleet(tmp_path, lease="60s", grace="200ms") as fleet:
        words = ("worker", "faults.tasks:app", "--processes", "2", "--concurrency", "4")
        supervisor = fleet.start(*words, module="windlass")
        jobs = [tasks.slow.enqueue_sync(60).id for _ in range(4)]
        begun = fleet.until("all have begun", all_begun(fleet, jobs))
        victim, killed_at = begun[0].pid, fleet.now()
        assert victim != supervisor.pid
        os.kill(victim, signal.SIGKILL)
        held = [line for line in begun if line.pid == victim]
        for line in held:
            fleet.until("its jobs have ended", partial(_is_over, fleet, line.job))
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
        fleet.finish()
        history = fleet.history()

    assert history.problems(jobs) == []
    for line in held:
        first, _ = history.runs[line.job]
        assert first.finished_at is not None
        assert 0 <= first.finished_at - killed_at <= SECOND


def _is_over(fleet: Fleet, job_id: str) -> bool:
    """The job, or the one that took its work over."""
    return fleet.count("state = 'succeeded' and (id = ? or retry_of = ?)", job_id, job_id) == 1


def test_children_of_a_killed_supervisor_stop_by_themselves(tmp_path: Path) -> None:
    with Fleet(tmp_path, lease="60s", grace="200ms") as fleet:
        supervisor = fleet.supervise(2)
        fleet.until_there(2)
        jobs = [tasks.slow.enqueue_sync(60).id for _ in range(6)]
        fleet.until("all have begun", all_begun(fleet, jobs))
        fleet.kill(supervisor)
        fleet.until("the children are gone", lambda: gone(*fleet.pids()))
        released = fleet.rows("select state, attempts, lost, skipped from jobs")
        fleet.finish()
        history = fleet.history()

    assert released == [("queued", 0, 0, 1)] * 6, "they are handed back, and no attempt is spent"
    assert history.problems(jobs) == []


def test_a_second_signal_to_the_supervisor_forces_its_children(tmp_path: Path) -> None:
    with Fleet(tmp_path, lease="60s", grace="60s") as fleet:
        supervisor = fleet.supervise(2)
        jobs = [tasks.slow.enqueue_sync(60).id for _ in range(4)]
        fleet.until("all have begun", all_begun(fleet, jobs))
        fleet.until_there(2)
        supervisor.signal(signal.SIGTERM)
        fleet.until("it was heard", lambda: "SIGTERM: finishing" in supervisor.errors.read_text())
        forced_at = fleet.now()
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
        history = fleet.history()

    assert history.problems(jobs, ended=False) == []
    for job_id in jobs:
        runs = history.runs[job_id]  # more than one where a child gave up early what it had no slot for
        assert history.jobs[job_id].state == "queued"
        assert {run.status for run in runs} == {"skipped"}
        assert all(run.finished_at is not None and run.finished_at - forced_at <= SECOND for run in runs)


def test_children_that_cannot_start_are_not_replaced_for_ever(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        supervisor = fleet.start("supervise", "2", "-c", "import a_module_that_is_not_there")
        assert supervisor.wait() == 1
        told = supervisor.errors.read_text()

    assert HOPELESS <= told.count("ModuleNotFoundError") <= 2 * HOPELESS
    assert f"could not start, {HOPELESS} times in a row" in told


def test_children_that_take_long_to_fail_are_not_replaced_for_ever_either(tmp_path: Path) -> None:
    """Large programs need seconds before their last import fails; age alone does not make a child a good one."""
    with Fleet(tmp_path) as fleet:
        supervisor = fleet.start("supervise", "2", "-c", "import time; time.sleep(1.1); import a_module_that_is_not_there")
        assert supervisor.wait() == 1
        told = supervisor.errors.read_text()

    assert HOPELESS <= told.count("ModuleNotFoundError") <= 2 * HOPELESS


def test_children_that_the_store_refuses_for_good_are_not_replaced_for_ever(tmp_path: Path) -> None:
    """Their workers were there; it was the store that would not have them."""
    refused = f"import os, sys; os.write(int(os.environ['{READY_FD}']), b'1'); sys.exit({MISCONFIGURED})"
    with Fleet(tmp_path) as fleet:
        supervisor = fleet.start("supervise", "2", "-c", refused)
        assert supervisor.wait() == 1
        told = supervisor.errors.read_text()

    assert f"could not start, {HOPELESS} times in a row" in told


def test_a_child_that_is_killed_by_a_signal_without_a_name_is_replaced_like_any_other(tmp_path: Path) -> None:
    """Of the real-time signals only the first and the last have one; the supervisor fell over all others."""
    number = signal.SIGRTMIN + 3
    with Fleet(tmp_path) as fleet:
        supervisor = fleet.start("supervise", "1", "-c", f"import os; os.kill(os.getpid(), {number})")
        assert supervisor.wait() == 1
        told = supervisor.errors.read_text()

    assert f"is gone (killed by signal {number})" in told
    assert f"could not start, {HOPELESS} times in a row" in told


def test_a_child_that_is_gone_before_it_can_be_told_to_stop_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor(Windlass("memory://").client, [sys.executable, "-c", ""], 1)
    start = asyncio.create_subprocess_exec

    async def slowly(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        child = await start(*command, **options)
        await child.wait()
        supervisor.stop()
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    assert asyncio.run(supervisor.run()) == 0


def test_a_job_that_kills_its_workers_does_not_stop_the_supervisor(tmp_path: Path) -> None:
    """As many deaths as a supervisor stands of children that never start, each soon after birth: the job is set aside,
    and the work of others goes on."""
    with Fleet(tmp_path, lease="60s") as fleet:
        poison = tasks.poison.using(max_lost=HOPELESS).enqueue_sync()
        supervisor = fleet.supervise(1)
        fleet.until("the poison is set aside", lambda: fleet.count("id = ? and state = 'dead'", poison.id))
        good = tasks.quick.enqueue_sync(1)
        fleet.until_ended()
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
        history = fleet.history()

    assert history.problems([poison.id, good.id]) == []
    assert (history.jobs[poison.id].dead_kind, len(history.runs[poison.id])) == ("lost", HOPELESS)
    assert history.jobs[good.id].state == "succeeded"
