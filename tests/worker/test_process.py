"""A worker as a process: signals under load, and nothing lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass.app import Windlass
from windlass.drivers.values import JobQuery
from windlass.types import Job

PROGRAM = Path(__file__).parent / "program.py"


@contextmanager
def process(url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, str(PROGRAM), url, str(log)], stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def wait_for(log: Path, number: int) -> None:
    deadline = time.monotonic() + 10
    while len(lines(log)) < number:
        assert time.monotonic() < deadline, "the program did not get this far"
        time.sleep(0.01)


def all_jobs(app: Windlass) -> list[Job]:
    async def read() -> list[Job]:
        return list((await app.client.driver.find(JobQuery(limit=2_000))).jobs)

    return asyncio.run(read())


def enqueue(url: str, *wanted: tuple[str, int]) -> Windlass:
    app = Windlass(url)

    @app.task(name="work")
    def work(number: int) -> None: ...

    @app.task(name="blocking")
    def blocking(number: int) -> None: ...

    @app.task(name="endless")
    def endless() -> None: ...

    tasks = {"work": work, "blocking": blocking}
    app.enqueue_many_sync(tasks[name].job(n) for name, count in wanted if name != "endless" for n in range(count))
    app.enqueue_many_sync(endless.job() for name, count in wanted if name == "endless" for _ in range(count))
    return app


def test_sigterm_under_load_finishes_what_runs_and_loses_nothing(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "log"
    app = enqueue(url, ("work", 1_000), ("blocking", 500))
    with process(url, log) as child:
        wait_for(log, 100)
        child.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert child.wait(30) == 0
        assert time.monotonic() - began < 9
    jobs = all_jobs(app)
    states = Counter(job.state for job in jobs)
    assert states["running"] == 0, "left behind under a lease"
    assert states["succeeded"] > 0
    assert states["queued"] > 0
    assert {(job.attempts, job.lost, job.executions - job.skipped) for job in jobs if job.state == "queued"} == {(0, 0, 0)}
    told = Counter(line.split()[0] for line in lines(log))
    assert told["begin"] == told["end"] == states["succeeded"]
    asyncio.run(app.close())


def test_a_second_sigterm_forces(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "log"
    app = enqueue(url, ("endless", 3))
    with process(url, log) as child:
        wait_for(log, 3)
        child.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert child.poll() is None, "it has ten seconds"
        child.send_signal(signal.SIGTERM)
        assert child.wait(4) == 0
    for job in all_jobs(app):
        assert (job.state, job.attempts, job.executions, job.skipped) == ("queued", 0, 1, 1)
    asyncio.run(app.close())
