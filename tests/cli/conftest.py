"""The command, run in this process on a fresh directory: quick, and on a real SQLite file."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from windlass.cli import main

TASKS = """
from windlass import Context, Reject, Retry, Windlass, fixed

app = Windlass()
app.queue("links", preset="scheduler")

@app.task
async def hello(name: str, times: int = 1) -> dict:
    return {"hello": name, "times": times}

@app.task(queue="mail", retry=Retry(max_retries=0))
async def send(to: str, n: int = 0) -> None:
    raise ValueError(f"no mailbox {n} for '{to}'")

@app.task(context=True)
async def half(ctx: Context) -> None:
    ctx.progress(0.5, "half way")

@app.task(queue="links", retry=Retry(max_retries=1, backoff=fixed(0)))
async def linked(x: int) -> None:
    raise RuntimeError("link broke")

@app.task
async def refuse() -> None:
    raise Reject("not for us")

@app.task
async def evil() -> None:
    raise Reject("\\x1b[2J\\x07 wiped")
"""


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, f"stdout holds one JSON object and nothing else: {self.out!r}"
        value = json.loads(self.out)
        assert value["v"] == 1
        return value


Cli = Callable[..., Done]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    monkeypatch.chdir(tmp_path)
    for name in ("WINDLASS_URL", "WINDLASS_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    path, log = list(sys.path), logging.getLogger("windlass")
    before = (log.handlers[:], log.level, log.propagate)
    (tmp_path / "tasks.py").write_text(TASKS)

    def forget_modules() -> None:
        """Each command is a process of its own, and imports the program anew."""
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(tmp_path) in str(getattr(module, "__file__", "")):
                del sys.modules[name]

    def run(*tokens: str) -> Done:
        code = main(tokens)
        forget_modules()
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    yield run
    forget_modules()
    log.handlers[:], log.level, log.propagate = before


@pytest.fixture
def enqueue(cli: Cli) -> Callable[..., str]:
    def store(*tokens: str) -> str:
        done = cli("enqueue", "--app", "tasks", *tokens, "--json")
        assert done.code == 0, done.out
        return str(done.json["job_id"])

    return store


@pytest.fixture
def drain(cli: Cli) -> Callable[[], Any]:
    def run() -> Any:
        done = cli("worker", "tasks", "--drain", "--quiet", "--json")
        assert done.code == 0, done.err
        return done.json

    return run
