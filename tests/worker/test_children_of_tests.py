"""Process tasks where people test their jobs, and beside handlers that are stuck."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from windlass.testing import testing
from windlass.worker import finish
from windlass.worker import worker as worker_module

from . import isolated as tasks
from .isolated import Ground, on_ground


def test_process_tasks_run_under_test_as_they_do_elsewhere() -> None:
    async def play() -> None:
        with testing(tasks.app) as test:
            job, dead = await tasks.add.enqueue(2), await tasks.dies.enqueue("exit")
            await test.drain(retries=True)
            assert (await job.result(timeout=1))[0] == 3
            assert (await dead.fetch()).dead_reason == (
                "ProcessDied: its process ended with the exit code 7 before its handler did"
            )

    asyncio.run(play())


def test_a_child_that_takes_its_time_to_die_does_not_end_a_worker_that_has_no_other_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job's lease is lost. Handlers are given up after a while, and the killing of a process takes as long."""
    monkeypatch.setattr(finish, "STOPS_WITHIN", 0.05)
    monkeypatch.setattr(worker_module, "WATCH_EVERY", 0.02)
    monkeypatch.setattr(tasks.app, "tasks", {"loops": tasks.app.tasks["loops"]})

    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        job = await tasks.loops.using(timeout="1h").enqueue(str(note))
        async with ground.working(children=1) as worker:
            await ground.until(lambda: note.exists() and note.read_text())
            held = worker._holdings.get(job.id)
            assert held is not None
            worker._keeper.lose(held)
            await ground.until(lambda: worker.stats.stuck == 1)
            await ground.until(lambda: worker.stats.stuck == 0)
            assert (worker.all_stuck, worker.stopping) == (False, False)

    on_ground(tmp_path, play, lease="6s")


def test_a_worker_whose_other_slots_are_all_stuck_lets_its_children_finish_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finish, "STOPS_WITHIN", 0.05)
    release = threading.Event()

    def blocks() -> None:
        release.wait(tasks.PATIENCE)

    blocking = tasks.app.task(timeout="20ms", name="blocks")(blocks)
    only = {name: tasks.app.tasks[name] for name in ("blocks", "waits")}
    del tasks.app.tasks["blocks"]
    monkeypatch.setattr(tasks.app, "tasks", only)

    async def play(ground: Ground) -> None:
        gate = tmp_path / "gate"
        healthy = await tasks.waits.enqueue(str(gate))
        worker = tasks.app.worker(threads=1, children=1)
        running = asyncio.create_task(worker.run())
        await ground.until(Path(f"{gate}.begun").exists)
        await blocking.enqueue()
        await ground.until(lambda: worker.all_stuck)
        gate.touch()
        async with asyncio.timeout(tasks.PATIENCE):
            await running
        release.set()
        row = await ground.fetch(healthy.id)
        assert (row.state, row.executions) == ("succeeded", 1)

    on_ground(tmp_path, play)
