"""Workers as users start them, `python -m windlass worker bench_tasks:app`, and the tasks that they run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import bench_tasks
from processes import wait_until

from windlass.app import Windlass
from windlass.client import Client
from windlass.core.alterations import SetPaused
from windlass.tasks import Task

Kind = Literal["async", "sync", "mixed", "process", "burn", "retry", "lean"]
Noop = Task[[int, int, str], None]

# An app of bench_tasks, by name as the command line takes it, and the task of it that is drained.
APPS: Final[dict[Kind, tuple[str, Noop]]] = {
    "async": ("app", bench_tasks.noop), "sync": ("blocking", bench_tasks.noop_blocking),
    "mixed": ("mixed", bench_tasks.noop_mixed), "process": ("apart", bench_tasks.noop_apart),
    "burn": ("app", bench_tasks.burn), "retry": ("app", bench_tasks.flaky),
    "lean": ("app", bench_tasks.noop_lean),
}  # fmt: skip
QUEUE: Final = "default"
ARGUMENTS: Final = (1, 2, "hello")
FILLING: Final = 10_000  # jobs in a transaction while a queue is filled, before the clock runs
HERE: Final = Path(__file__).parent
PATIENCE_S: Final = 60.0
BREATH_S: Final = 0.5  # for a worker that has said that it serves to come to rest


class Running:
    """A worker that was started, and the log that it writes."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self.pid: Final = popen.pid
        self._log = log

    def serving(self, processes: int) -> bool:
        self.check()
        return self._log.read_text().count(" serves ") >= processes

    def check(self) -> None:
        if self.popen.poll() is not None:
            raise SystemExit(self.words("the worker has ended"))

    def words(self, what: str) -> str:
        return f"{what}; the end of its log:\n{self._log.read_text()[-2_000:]}"


@contextmanager
def worker(
    store: str, directory: Path, app: str = "app", *, processes: int = 1, marks: Path | None = None,
    queues: Sequence[str] = (), keep: str | None = None,
) -> Iterator[Running]:  # fmt: skip
    """Ready when this is entered, stopped by SIGTERM. Its log is written to `directory`."""
    log = directory / "worker.log"
    command = [sys.executable, "-m", "windlass", "worker", f"bench_tasks:{app}", "--store", store]
    if processes > 1:
        command += ["--processes", str(processes)]
    if queues:
        command += ["--queues", ",".join(queues)]
    env = {**os.environ, "BENCH_MARKS": str(marks or os.devnull)}
    if keep is not None:
        env["WINDLASS_KEEP_SUCCEEDED"] = keep
    with log.open("wb") as output:
        popen = subprocess.Popen(
            command, cwd=HERE, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    running = Running(popen, log)
    try:
        wait_until(lambda: running.serving(processes), PATIENCE_S, lambda: running.words("the worker does not start"))
        time.sleep(BREATH_S)
        yield running
        popen.send_signal(signal.SIGTERM)
        if popen.wait(PATIENCE_S) != 0:
            raise SystemExit(running.words(f"the worker ended with {popen.returncode}"))
    finally:
        if popen.poll() is None:
            os.killpg(popen.pid, signal.SIGKILL)  # the group of the session that we started, and nobody else
            popen.wait()


@contextmanager
def on_store(app: Windlass, store: str) -> Iterator[Windlass]:
    app.client = Client(store, app.client.settings)
    try:
        yield app
    finally:
        asyncio.run(app.close())


def set_paused(app: Windlass, paused: bool, queues: Sequence[str] = (QUEUE,)) -> None:
    """All at once: two processes begin together, and so do a thousand queues."""
    client = app.client
    asyncio.run(client.driver.alter([SetPaused(queue, paused) for queue in queues], now=client.now()))


def enqueue_all(app: Windlass, task: Noop, jobs: int, queues: Sequence[str] = (QUEUE,), **options: Any) -> None:
    """One queue after the other, each as often as the next."""
    ways = [task.using(queue=queue, **options) for queue in queues]
    for done in range(0, jobs, FILLING):
        numbers = range(done, min(done + FILLING, jobs))
        app.enqueue_many_sync(ways[number % len(ways)].job(*ARGUMENTS) for number in numbers)
