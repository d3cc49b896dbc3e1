"""The guide to two hosts is true: two workers in directories of their own, one server, and a plug that is pulled."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass import Windlass
from windlass.core.queries import AllWorkers
from windlass.drivers.values import JobQuery

PAGE = (Path(__file__).parent.parent.parent / "docs" / "guides" / "two-hosts.md").read_text()
[PROGRAM] = re.findall(r"^```python\n(# tasks.py\n.*?)^```", PAGE, re.S | re.M)
[WORKER] = re.findall(r"^```worker\n\$ (.*)\n```", PAGE, re.M)
BEFORE, AFTER = (
    re.findall(r"^\$ (.*)$", block, re.M) for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.S | re.M)
)


def environment(url: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return {**kept, "PATH": path, "WINDLASS_URL": url}


def host(parent: Path, name: str) -> Path:
    directory = parent / name
    directory.mkdir()
    (directory / "tasks.py").write_text(PROGRAM)
    return directory


@contextmanager
def worker(directory: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {WORKER}"], cwd=directory, env=environment(url), stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def typed(commands: list[str], directory: Path, url: str) -> None:
    for command in commands:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=directory, env=environment(url), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


async def who_ran(app: Windlass) -> Counter[str | None]:
    driver = app.client.driver
    jobs = (await driver.find(JobQuery(limit=1_000))).jobs
    runs = [run for job in jobs for run in await driver.runs(job.id)]
    return Counter(run.worker_id for run in runs if run.status == "completed")


def test_two_hosts_share_the_work_and_one_takes_over_when_the_other_dies(fresh_database: str, tmp_path: Path) -> None:
    one, two, three = (host(tmp_path, name) for name in ("one", "two", "three"))
    typed(BEFORE, three, fresh_database)
    app = Windlass(fresh_database)

    @app.task(name="crawl")
    def crawl(site: str) -> int:
        raise AssertionError("runs elsewhere")

    async def until(count: int) -> Counter[str | None]:
        patience = time.monotonic() + 60
        while sum((found := await who_ran(app)).values()) < count:
            logs = [(directory / "log").read_text() for directory in (one, two)]
            assert time.monotonic() < patience, (found, *logs)
            await asyncio.sleep(0.1)
        return found

    async def both() -> None:
        for _ in range(1_000):
            if len(await app.client.driver.read(AllWorkers())) == 2:
                return
            await asyncio.sleep(0.05)

    async def run() -> None:
        with worker(one, fresh_database) as first, worker(two, fresh_database) as second:
            await both()
            typed(AFTER, three, fresh_database)
            await until(40)
            jobs = await app.enqueue_many(crawl.job(f"more-{n}") for n in range(100))
            assert len(await until(60)) == 2
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert await jobs[-1].result(timeout=60) == len("more-99")
            await until(140)
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
        await app.close()

    asyncio.run(run())
    assert len((three / "ids").read_text().splitlines()) == 40
