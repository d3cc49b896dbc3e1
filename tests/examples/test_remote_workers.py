"""The two workers that know nothing of Windlass do the jobs of a served file, as they stand in the examples."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from served import Server
from windlass import JobDead, Retry, Windlass
from windlass.drivers.sqlite import SqliteDriver
from windlass.web.access import Access

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON, SHELL = EXAMPLES / "remote_worker.py", EXAMPLES / "remote_worker.sh"


@contextmanager
def working(words: list[str], **environment: str) -> Iterator[None]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    process = subprocess.Popen(
        words, env={**known, **environment}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, 15)
        process.communicate(timeout=20)


def at_a_server(tmp_path: Path, story: Any) -> None:
    async def main() -> None:
        path = tmp_path / "jobs.db"
        app = Windlass(f"sqlite:///{path}")
        server = Server()
        try:
            async with app:
                _, token = await app.admin.create_token("worker", ["work"], None, ["default"])
                url = server.store(SqliteDriver(path, durability="relaxed"), access=Access(), trust_now=False)
                await story(app, {"WINDLASS_SERVER": url.rstrip("/"), "WINDLASS_TOKEN": token})
        finally:
            await asyncio.to_thread(server.stop)

    asyncio.run(main())


def test_a_worker_in_sixty_lines_of_plain_python_does_the_jobs(tmp_path: Path) -> None:
    async def story(app: Windlass, environment: dict[str, str]) -> None:
        @app.task(name="add")
        async def add(a: int, b: int) -> int:
            raise NotImplementedError

        @app.task(name="divide", retry=Retry(max_attempts=1))
        async def divide(a: int, b: int) -> float:
            raise NotImplementedError

        with working([sys.executable, str(PYTHON)], **environment):
            jobs = [await add.enqueue(n, 1) for n in range(5)]
            assert [await job.result(timeout=30) for job in jobs] == [1, 2, 3, 4, 5]
            with pytest.raises(JobDead, match="ZeroDivisionError"):
                await (await divide.enqueue(1, 0)).result(timeout=30)

    assert len(PYTHON.read_text().splitlines()) <= 60
    at_a_server(tmp_path, story)


def test_a_worker_in_shell_does_the_jobs(tmp_path: Path) -> None:
    async def story(app: Windlass, environment: dict[str, str]) -> None:
        @app.task(name="shout", retry=Retry(max_attempts=1))
        async def shout(text: str) -> str:
            raise NotImplementedError

        program = 'if .text == "" then error("nothing to say") else .text | ascii_upcase end'
        with working(["/bin/sh", str(SHELL), "jq", program], **environment, WINDLASS_TYPE="shout"):
            assert await (await shout.enqueue('say "hé" \\ $HOME')).result(timeout=30) == 'SAY "Hé" \\ $HOME'
            with pytest.raises(JobDead, match="nothing to say"):
                await (await shout.enqueue("")).result(timeout=30)

    at_a_server(tmp_path, story)


def test_a_worker_that_is_not_let_in_says_why(tmp_path: Path) -> None:
    async def story(app: Windlass, environment: dict[str, str]) -> None:
        words = [sys.executable, str(PYTHON)]
        wrong = {**os.environ, **environment, "WINDLASS_QUEUES": "other"}
        done = await asyncio.to_thread(subprocess.run, words, env=wrong, capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        assert "403" in done.stderr
        assert environment["WINDLASS_TOKEN"] not in done.stderr

    at_a_server(tmp_path, story)
