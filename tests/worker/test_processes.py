"""Process handlers: what one of them does to its process, it does to no other job and not to the worker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from windlass import Windlass
from windlass.errors import InvalidInput, WindlassError
from windlass.worker.processes import runner

from . import isolated as tasks
from .isolated import Ground, is_gone, on_ground, parent_of


def test_a_process_handler_gets_its_arguments_and_its_result_is_stored(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job, other = await tasks.add.enqueue(2, b=3), await tasks.add_async.enqueue(4)
        await ground.drain()
        total, pid = await job.result(timeout=1)
        assert (total, (await other.result(timeout=1))[0]) == (5, 5)
        assert pid != os.getpid()

    on_ground(tmp_path, play)


def test_a_worker_on_a_store_in_memory_has_children_too(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job, lost = await tasks.add.enqueue(2), await tasks.enqueues.enqueue()
        await ground.drain()
        assert (await job.result(timeout=1))[0] == 3
        row = await ground.fetch(lost.id)
        assert (row.state, "memory:// is in the worker's" in row.last_error) == ("dead", True)

    on_ground(tmp_path, play, url="memory://")


def test_async_handlers_of_a_child_share_one_event_loop(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        jobs = [await tasks.add_async.enqueue(n) for n in range(3)]
        await ground.drain(children=1)
        assert len({(await job.result(timeout=1))[1] for job in jobs}) == 1

    on_ground(tmp_path, play)


@pytest.mark.parametrize("dies", [False, True], ids=["returns", "dies"])
def test_progress_log_lines_and_artifacts_reach_the_worker_even_if_the_child_dies(tmp_path: Path, dies: bool) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.tells.enqueue(dies)
        await ground.drain()
        run = await ground.run(job.id)
        assert (run.status, run.artifacts) == ("failed" if dies else "completed", ("out.csv",))
        [first, second] = ground.log_of(run).splitlines()
        assert (first.endswith(" INFO    read 7 rows"), second.endswith(" WARNING shop: careful")) == (True, True)

    on_ground(tmp_path, play)


def test_progress_of_a_child_is_shown_while_it_runs(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.half.enqueue(str(tmp_path / "gate"))
        async with ground.working():
            row = await ground.until_told(job.id)
            assert (row.state, row.progress, row.progress_note) == ("running", 0.5, "half way")
            (tmp_path / "gate").touch()
            await ground.until_state(job.id, "succeeded")

    on_ground(tmp_path, play, lease="600ms")


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("segfault", -signal.SIGSEGV, "ProcessDied: killed by SIGSEGV"),
        ("abort", -signal.SIGABRT, "ProcessDied: killed by SIGABRT"),
        ("kill", -signal.SIGKILL, "ProcessDied: killed by SIGKILL; the kernel does that to a process when memory runs out"),
        ("exit", 7, "ProcessDied: its process ended with the exit code 7 before its handler did"),
    ],
)
def test_a_child_that_dies_is_that_jobs_failure_and_no_others(tmp_path: Path, how: str, code: int, says: str) -> None:
    async def play(ground: Ground) -> None:
        gate = tmp_path / "gate"
        neighbour = await tasks.waits.enqueue(str(gate))
        async with ground.working(children=2) as worker:
            await ground.until(Path(f"{gate}.begun").exists)
            job = await tasks.dies.enqueue(how)
            row = await ground.until_state(job.id, "dead")
            assert (row.attempts, row.lost, row.dead_kind, row.dead_reason) == (2, 0, "exhausted", says)
            assert [(run.status, run.exit_code, run.error) for run in await ground.runs(job.id)] == [
                ("failed", code, says)
            ] * 2
            after = await tasks.add.enqueue(1)
            await ground.until_state(after.id, "succeeded")
            gate.touch()
            assert (await ground.until_state(neighbour.id, "succeeded")).executions == 1
            assert worker.stats.leases_lost == 0

    on_ground(tmp_path, play)


def test_a_timeout_kills_the_group_of_that_child_alone(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        gate, note = tmp_path / "gate", tmp_path / "note"
        neighbour = await tasks.waits.enqueue(str(gate))
        async with ground.working(children=2) as worker:
            await ground.until(Path(f"{gate}.begun").exists)
            job = await tasks.loops.enqueue(str(note))
            row = await ground.until_state(job.id, "dead")
            assert row.last_error == "TimeoutError: it ran longer than its timeout of 0.3 s"
            run = await ground.run(job.id)
            assert run.exit_code == -signal.SIGKILL
            assert run.cpu_us is not None
            assert run.cpu_us > 10_000, "it did nothing but compute, as far as it was let"
            child, beside = map(int, note.read_text().split())
            await ground.until(lambda: is_gone(child) and is_gone(beside))
            gate.touch()
            await ground.until_state(neighbour.id, "succeeded")
            assert worker.stats.stuck == 0

    on_ground(tmp_path, play)


def test_an_async_handler_is_interrupted_and_its_child_goes_on(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        before, job, after = await tasks.add.enqueue(1), await tasks.sleeps.enqueue(str(tmp_path / "note")), None
        await ground.drain(children=1)
        after = await tasks.add.enqueue(1)
        assert (await ground.fetch(job.id)).last_error == "TimeoutError: it ran longer than its timeout of 0.1 s"
        assert (tmp_path / "note").read_text() == "interrupted"
        assert (await ground.run(job.id)).exit_code is None
        async with ground.working(children=1):
            await ground.until_state(after.id, "succeeded")
            again, then = await tasks.sleeps.enqueue(str(tmp_path / "note")), await tasks.add.enqueue(1)
            await ground.until_state(again.id, "dead")
            await ground.until_state(then.id, "succeeded")
        assert (await after.result(timeout=1))[1] == (await then.result(timeout=1))[1], "the same process"
        assert (await before.result(timeout=1))[1] != (await then.result(timeout=1))[1], "of another worker"

    on_ground(tmp_path, play, kill_after="10s")


def test_a_cancelled_handler_sees_it_and_may_clean_up(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        job = await tasks.looks.enqueue(str(note))
        async with ground.working():
            await ground.until(note.exists)
            await job.cancel("not wanted")
            await ground.until_state(job.id, "cancelled")
        assert note.read_text() == "saw it"

    on_ground(tmp_path, play, lease="600ms", kill_after="10s")


def test_a_cancelled_handler_that_does_not_look_is_killed(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        job = await tasks.loops.using(timeout="1h").enqueue(str(note))
        async with ground.working():
            await ground.until(lambda: note.exists() and note.read_text())
            await job.cancel("not wanted")
            await ground.until_state(job.id, "cancelled")
            assert (await ground.run(job.id)).exit_code == -signal.SIGKILL
            child, beside = map(int, note.read_text().split())
            await ground.until(lambda: is_gone(child) and is_gone(beside))

    on_ground(tmp_path, play, lease="600ms")


def test_a_child_is_killed_before_anybody_else_can_have_its_job(tmp_path: Path) -> None:
    """The store is away, so its lease cannot be renewed; `kill_after` alone would be far too late."""

    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        job = await tasks.loops.using(timeout="1h").enqueue(str(note))
        async with ground.working() as worker:
            await ground.until(lambda: note.exists() and note.read_text())
            child, beside = map(int, note.read_text().split())
            driver: Any = app_driver()
            usual, driver.extend = driver.extend, away
            try:
                await ground.until(lambda: is_gone(child) and is_gone(beside))
                row = await ground.fetch(job.id)
                assert (row.state, row.executions) == ("running", 1)
                assert row.lease_expires_at is not None
                assert tasks.app.client.now() < row.lease_expires_at
                assert worker.stats.leases_lost == 1
            finally:
                driver.extend = usual
            await job.cancel("enough")

    on_ground(tmp_path, play, lease="3s", kill_after="1h")


def app_driver() -> object:
    return tasks.app.client.driver


async def away(*args: object, **kwargs: object) -> None:
    await asyncio.sleep(60)


def test_memory_is_bounded_and_only_that_job_fails(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        much, little = await tasks.allocates.enqueue(400 << 20), await tasks.allocates.enqueue(10 << 20)
        await ground.drain(children=1)
        row = await ground.fetch(much.id)
        assert (row.state, row.last_error) == ("dead", "MemoryError")
        assert await little.result(timeout=1) == 10 << 20

    on_ground(tmp_path, play, child_memory=300 << 20)


def test_a_child_is_replaced_after_so_many_jobs(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        jobs = [await tasks.add.enqueue(n) for n in range(5)]
        await ground.drain(children=1)
        pids = [(await job.result(timeout=1))[1] for job in jobs]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 1]

    on_ground(tmp_path, play, child_jobs=2)


def test_a_child_that_keeps_more_than_half_of_its_memory_is_replaced(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        first, second, third = await tasks.keeps.enqueue(120 << 20), await tasks.add.enqueue(1), await tasks.add.enqueue(1)
        await ground.drain(children=1)
        pids = [await first.result(timeout=1), *[(await job.result(timeout=1))[1] for job in (second, third)]]
        assert pids[0] != pids[1] == pids[2]

    on_ground(tmp_path, play, child_memory=220 << 20)


def test_cpu_and_memory_are_measured_for_each_run(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        burns, big, small = (
            await tasks.burns.enqueue(0.3),
            await tasks.allocates.enqueue(150 << 20),
            await tasks.add.enqueue(1),
        )
        await ground.drain(children=1)
        costs = [await ground.run(job.id) for job in (burns, big, small)]
        cpu = [run.cpu_us or 0 for run in costs]
        assert 300_000 <= cpu[0] < 600_000
        assert cpu[2] < 100_000
        peaks = [run.peak_rss or 0 for run in costs]
        assert peaks[1] > 150 << 20
        assert 0 < peaks[2] < 150 << 20, "the peak of a run is not that of the one before"

    on_ground(tmp_path, play)


def test_a_transaction_in_a_child_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.transacts.enqueue()
        await ground.drain()
        assert "a process handler has no part in the worker's connection" in (await ground.fetch(job.id)).last_error

    on_ground(tmp_path, play)


def test_a_child_enqueues_into_the_store_of_its_worker(tmp_path: Path) -> None:
    """Not into the one that the module names when it is imported."""

    async def play(ground: Ground) -> None:
        job = await tasks.enqueues.enqueue()
        await ground.drain()
        assert (await ground.fetch(await job.result(timeout=1))).type == "add"

    on_ground(tmp_path, play)


@pytest.mark.parametrize(
    ("what", "state", "says"),
    [
        ("value", "dead", "ValueError: what it says"),
        ("exit", "dead", "SystemExit: 3"),
        ("reject", "dead", "never"),
        ("snooze", "queued", ""),
        ("object", "dead", "it succeeded, but its return value cannot be stored"),
    ],
)
def test_what_a_handler_raises_means_the_same_in_a_child(tmp_path: Path, what: str, state: str, says: str) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.raises.enqueue(what)
        async with ground.working(children=1):
            await ground.until_ended(job.id)
        row, run = await ground.fetch(job.id), await ground.run(job.id)
        assert row.state == state
        assert (row.dead_reason or "").startswith(says)
        assert run.exit_code is None
        assert ("in raises" in (run.traceback or "")) == (what in ("value", "exit"))

    on_ground(tmp_path, play)


def test_nothing_is_claimed_ahead_for_children(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        for number in range(60):  # so quick that for slots of another kind more would be taken than there is room for
            await tasks.add.enqueue(number)
        gates = [tmp_path / "one", tmp_path / "two"]
        for gate in gates:
            await tasks.waits.enqueue(str(gate))
        behind = [await tasks.add.enqueue(number) for number in range(5)]
        async with ground.working(children=2):
            await ground.until(lambda: all(Path(f"{gate}.begun").exists() for gate in gates))
            assert [(await ground.fetch(job.id)).executions for job in behind] == [0] * 5
            for gate in gates:
                gate.touch()
            for job in behind:
                assert (await ground.until_state(job.id, "succeeded")).executions == 1

    on_ground(tmp_path, play)


def test_no_process_is_left_when_a_worker_has_ended(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        idle, job = await tasks.add.enqueue(1), await tasks.loops.using(timeout="1h").enqueue(str(note))
        async with ground.working() as worker:
            await ground.until(lambda: note.exists() and note.read_text())
            await ground.until_state(idle.id, "succeeded")
            worker.stop()
            worker.stop()
        pids = [*map(int, note.read_text().split()), (await idle.result(timeout=1))[1]]
        await ground.until(lambda: all(map(is_gone, pids)))
        row = await ground.fetch(job.id)
        assert (row.state, row.attempts, row.skipped) == ("queued", 0, 1), "handed back"

    on_ground(tmp_path, play)


def test_a_fork_server_that_is_killed_takes_its_children_along_and_is_replaced(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        job = await tasks.loops.using(timeout="1h").enqueue(str(note))
        async with ground.working():
            await ground.until(lambda: note.exists() and note.read_text())
            child, beside = map(int, note.read_text().split())
            os.kill(parent_of(child), signal.SIGKILL)
            row = await ground.until_state(job.id, "dead")
            assert row.last_error == "ProcessDied: its process is gone, and nobody can tell why"
            await ground.until(lambda: is_gone(child) and is_gone(beside))
            await ground.until_state((await tasks.add.enqueue(1)).id, "succeeded")

    on_ground(tmp_path, play)


def test_a_child_that_was_gone_before_it_began_a_job_costs_that_job_nothing(tmp_path: Path) -> None:
    """The fork server stands still, so that nobody has told the worker when it gives the job away."""

    async def play(ground: Ground) -> None:
        first = await tasks.add.enqueue(1)
        async with ground.working(children=1):
            await ground.until_state(first.id, "succeeded")
            child = (await first.result(timeout=1))[1]
            fork_server = parent_of(child)
            os.kill(fork_server, signal.SIGSTOP)
            os.kill(child, signal.SIGKILL)
            try:
                second = await tasks.add.enqueue(1)
                await ground.until_state(second.id, "running")
                await asyncio.sleep(0.1)
            finally:
                os.kill(fork_server, signal.SIGCONT)
            row = await ground.until_state(second.id, "succeeded", "dead", "queued")
            assert (row.state, row.executions, row.attempts) == ("succeeded", 1, 0)

    on_ground(tmp_path, play)


# ----------------------------------------------------------------------------------------------- what cannot be imported


def test_lambdas_and_nested_functions_are_refused_when_they_are_declared() -> None:
    app = Windlass("memory://")

    def nested() -> None: ...

    with pytest.raises(
        InvalidInput, match=r"run: nested is defined inside a function, .*at the top level of a module, or use"
    ):
        app.task(run="process")(nested)
    with pytest.raises(InvalidInput, match=r"run: short is a lambda, .*at the top level of a module"):
        app.task(run="process", name="short")(lambda: None)
    assert app.tasks == {}


def test_an_app_that_no_module_holds_is_refused_when_its_worker_is_made() -> None:
    app = Windlass("memory://")
    app.task(run="process", name="add")(tasks.add.function)
    with pytest.raises(InvalidInput, match=r"target: add is a process task, .*app.run\(target='module:app'\)"):
        app.worker()
    assert app.child_target("worker.isolated:app") == "worker.isolated:app"
    assert tasks.app.child_target() == "worker.isolated:app"


SCRIPT = """
from windlass import Windlass
app = Windlass("memory://")

@app.task(run="process")
def render() -> None: ...

render.enqueue_sync()  # whoever only enqueues is no worker
app.run(drain=True)
"""


def test_a_process_task_of_a_script_is_refused_when_the_script_becomes_a_worker(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "run: render is a process task of the script that was started (__main__)" in done.stderr
    assert "windlass worker FILE.py" in done.stderr


def test_a_worker_whose_children_cannot_start_ends_and_spends_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "HOPELESS", 2)

    async def play(ground: Ground) -> None:
        job = await tasks.add.enqueue(1)
        worker = tasks.app.worker(children=1, target="worker.no_such_module:app")
        with pytest.raises(WindlassError, match=r"of worker.no_such_module:app cannot begin: .*there is no module"):
            await worker.run()
        row = await ground.fetch(job.id)
        assert (row.state, row.attempts, row.lost) == ("queued", 0, 0)

    on_ground(tmp_path, play)
