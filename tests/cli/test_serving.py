"""`windlass serve` and `windlass dev`, as processes of their own on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Cli
from windlass.urls import is_loopback

TASKS = """
from windlass import Windlass

app = Windlass("sqlite:///jobs.db")

@app.task
async def hello(name: str) -> str:
    return f"Hello, {name}!"
"""


class Served:
    """A process that serves; what it says on stdout is its address."""

    def __init__(self, directory: Path, *words: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        self.said = directory / "said.txt"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass", *words], cwd=directory, env=environment, stdout=subprocess.PIPE,
                stderr=said, text=True,
            )  # fmt: skip
        self.url = self.address()

    def address(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line.startswith("http"), (line, self.said.read_text())
        return line

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        said = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(self.url + path, data, said, method=method)  # noqa: S310  # it is ours
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  # it is ours
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    (tmp_path / "program.py").write_text(TASKS)
    made: list[Served] = []

    def serve(*words: str) -> Served:
        made.append(Served(tmp_path, *words))
        return made[-1]

    yield serve
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


def until(there: Callable[[], object]) -> None:
    for _ in range(300):
        if there():
            return
        time.sleep(0.1)  # another process has to get there
    raise AssertionError("it did not come to that")


def test_a_program_is_served_until_it_is_told_to_stop(served: Callable[..., Served]) -> None:
    here = served("serve", "program:app", "--port", "0")
    assert here.ask("POST", "api/jobs", {"type": "hello", "payload": {"name": "Ada"}})[0] == 201
    assert here.ask("POST", "api/jobs/tick")[1]["succeeded"] == 1
    assert here.ask("GET", "api/jobs", Host="rebound.example")[0] == 421
    assert here.stop() == 0


def test_a_bare_store_is_served_and_an_absent_one_is_not_made(served: Callable[..., Served], cli: Cli) -> None:
    absent = cli("serve", "--store", "sqlite:///nowhere.db")
    assert (absent.code, "no store" in absent.err) == (4, True)
    assert not Path("nowhere.db").exists()
    first = served("serve", "program:app", "--port", "0")
    first.ask("POST", "api/jobs", {"type": "hello", "payload": {"name": "Ada"}})
    bare = served("serve", "--port", "0", "--store", "sqlite:///jobs.db", "--base-path", "/w")
    assert bare.url.endswith("/w/")
    assert len(bare.ask("GET", "api/jobs")[1]["jobs"]) == 1
    assert bare.ask("POST", "api/jobs/tick")[1]["type"] == "urn:windlass:no-tasks"


def test_other_addresses_need_a_token_first_and_then_everybody_does(cli: Cli, served: Callable[..., Served]) -> None:
    cli("migrate", "--store", "sqlite:///jobs.db")
    for host in ("0.0.0.0", "::"):  # noqa: S104  # refused is the point
        refused = cli("serve", "--store", "sqlite:///jobs.db", "--host", host, "--port", "0")
        assert (refused.code, "windlass tokens create" in refused.err) == (2, True)
    made = cli("tokens", "create", "ops", "--scope", "admin", "--json", "--store", f"sqlite:///{Path.cwd()}/jobs.db")
    here = served("serve", "--port", "0", "--store", f"sqlite:///{Path.cwd()}/jobs.db")
    assert here.ask("GET", "api/jobs")[0] == 401
    assert here.ask("GET", "api/jobs", Authorization=f"Bearer {made.json['secret']}")[0] == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("::", False),
     ("0.0.0.0", False), ("10.0.0.1", False), ("localhost.evil.example", False), ("2130706433", False)],  # noqa: S104
)  # fmt: skip
def test_only_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_address_that_is_taken_is_told(cli: Cli, served: Callable[..., Served]) -> None:
    here = served("serve", "program:app", "--port", "0")
    port = here.url.rstrip("/").rpartition(":")[2]
    cli("migrate", "--store", "sqlite:///own.db")
    taken = cli("serve", "--port", port, "--store", "sqlite:///own.db")
    assert (taken.code, f"{port} of 127.0.0.1 is in use" in taken.err) == (2, True)


def test_dev_works_serves_and_begins_anew_when_the_program_changes(served: Callable[..., Served], tmp_path: Path) -> None:
    here = served("dev", "program:app", "--port", "0")

    def ends(kind: str, **payload: str) -> str | None:
        code, stored = here.ask("POST", "api/jobs", {"type": kind, "payload": payload})
        if code != 201:
            return None
        path = f"api/jobs/{stored['job_id']}"
        until(lambda: here.ask("GET", path)[1]["job"]["state"] == "succeeded")
        return str(here.ask("GET", path)[1]["job"]["result"])

    assert ends("hello", name="Ada") == "Hello, Ada!"
    (tmp_path / "program.py").write_text("this is no Python\n")
    until(lambda: "it is tried again" in here.said.read_text())
    more = TASKS + "\n@app.task\nasync def bye() -> str:\n    return 'bye'\n"
    (tmp_path / "program.py").write_text(more)
    here.url = here.address()
    assert ends("bye") == "bye"
    assert here.stop() == 0
