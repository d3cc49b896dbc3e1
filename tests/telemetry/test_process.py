"""A real `windlass worker`, as systemd and Prometheus meet it: notify socket, port of metrics, JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telemetry.asking import ask, numbers, read
from windlass import Windlass

TASKS = """
import logging, os
from windlass import Windlass

app = Windlass("sqlite:///jobs.db", poll="50ms")

@app.task
async def hello(name: str) -> None:
    logging.getLogger("shop").info("hello %s, %s", name, os.environ.get("NOTIFY_SOCKET"))
"""


@contextmanager
def worker(
    directory: Path, *words: str, command: tuple[str, ...] = ("worker", "tasks.py", "--log-format", "json")
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    (directory / "tasks.py").write_text(TASKS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, (directory / "said.txt").open("w") as said:
        manager.bind(str(directory / "notify"))
        manager.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-m", "windlass", *command, *words],
            cwd=directory, env={**environment, "NOTIFY_SOCKET": str(directory / "notify")}, stderr=said,
            stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            yield process, manager
        finally:
            process.kill()
            process.wait()


def lines(directory: Path, *, containing: str, seconds: float = 30) -> list[dict[str, Any]]:
    """Every line that has been said so far, once one of them says this."""
    for _ in range(int(seconds / 0.05)):
        text = (directory / "said.txt").read_text()
        if containing in text and text.endswith("\n"):
            return [json.loads(line) for line in text.splitlines()]
        time.sleep(0.05)
    raise AssertionError((directory / "said.txt").read_text())


def test_a_worker_is_ready_scraped_and_stopped_as_its_keepers_ask(tmp_path: Path) -> None:
    with worker(tmp_path, "--metrics", "0") as (process, manager):
        assert manager.recv(1_000).split(b"\n")[0] == b"READY=1"
        enqueue(tmp_path)
        said = lines(tmp_path, containing="hello Ada")
        [line] = [line for line in said if line["event"].startswith("hello")]
        assert line["event"] == "hello Ada, None", "what a handler starts must not speak to our service manager"
        assert (line["queue"], line["attempt"], line["logger"]) == ("default", 1, "shop")
        [port] = re.findall(r"metrics at http://127\.0\.0\.1:(\d+)", "\n".join(line["event"] for line in said))
        status, text = asyncio.run(ask(int(port), "/metrics"))
        found = read(text)
        assert status == 200
        assert list(numbers(found["windlass_worker_info"])) == [(line["worker"], found_version(text))]
        process.send_signal(signal.SIGTERM)
        assert manager.recv(1_000).split(b"\n")[0] == b"STOPPING=1"
        assert process.wait(30) == 0


def test_a_server_gives_its_word_too(tmp_path: Path) -> None:
    with worker(tmp_path, "--port", "0", command=("serve", "tasks.py")) as (process, manager):
        assert manager.recv(1_000).split(b"\n")[0] == b"READY=1"
        process.send_signal(signal.SIGTERM)
        assert manager.recv(1_000).split(b"\n")[0] == b"STOPPING=1"
        assert process.wait(30) == 0


def enqueue(directory: Path) -> None:
    app = Windlass(f"sqlite:///{directory}/jobs.db")

    @app.task
    async def hello(name: str) -> None: ...

    hello.enqueue_sync("Ada")
    asyncio.run(app.close())


def found_version(text: str) -> str:
    found = re.search(r'version="([^"]+)"', text)
    assert found is not None
    return found[1]


def two_free_ports() -> int:
    """The first of two in a row."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            try:
                other.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return int(one.getsockname()[1])


def test_several_processes_have_one_voice_and_a_port_each(tmp_path: Path) -> None:
    port = two_free_ports()
    with worker(tmp_path, "--metrics", str(port), "--processes", "2") as (process, manager):
        assert manager.recv(1_000).split(b"\n")[:2] == [b"READY=1", b"STATUS=2 processes"]
        lines(tmp_path, containing=f"127.0.0.1:{port}/metrics")
        lines(tmp_path, containing=f"127.0.0.1:{port + 1}/metrics")
        for number in (port, port + 1):
            assert asyncio.run(ask(number, "/livez")) == (200, "ok\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert manager.recv(1_000).split(b"\n")[0] == b"STOPPING=1"
        manager.setblocking(False)
        try:
            raise AssertionError(manager.recv(1_000))
        except BlockingIOError:
            pass
