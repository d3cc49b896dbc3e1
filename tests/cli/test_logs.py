"""`windlass jobs logs`: what a run has logged, found, followed, and never mistaken for something else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from cli.conftest import Cli

Store = Callable[..., str]
Drain = Callable[[], Any]
TASKS = """
import os, signal, sys, time
from windlass import Context, Retry, Windlass, fixed

app = Windlass(retry=Retry(max_attempts=2, backoff=fixed(0)))
app.queue("links", preset="scheduler")

@app.task(context=True)
def talks(ctx: Context, name: str) -> None:
    ctx.log("hello %s, run %d", name, ctx.attempt)
    if name == "bad":
        raise ValueError

@app.task(context=True, queue="links", retry=Retry(max_attempts=2, backoff=fixed(0)))
def linked(ctx: Context) -> None:
    ctx.log("attempt %d", ctx.attempt)
    raise ValueError

@app.task
def silent() -> None: ...

@app.task(context=True)
def slow(ctx: Context) -> None:
    for number in range(5):
        ctx.log("step %d", number)
        time.sleep(0.1)

@app.task(context=True, run="process")
def child(ctx: Context) -> int:
    ctx.log("from a child")
    return os.getpid()

halves = app.command("halves", [sys.executable, "-c", (
    "import os, time\\nfor byte in 'éé'.encode() + bytes([0xc3]):\\n os.write(1, bytes([byte])); time.sleep(.5)"
)])
fails = app.command("fails", [sys.executable, "-c", "print('\\x1b[2J loud'); raise SystemExit(4)"])
"""


@pytest.fixture(autouse=True)
def _tasks(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)


def test_the_last_run_is_shown_and_any_other_by_its_number(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job = enqueue("talks", "name=bad")
    drain()
    assert cli("jobs", "logs", job).out.endswith(" INFO    hello bad, run 2\n")
    assert cli("jobs", "logs", job, "--run", "1").out.endswith(" INFO    hello bad, run 1\n")
    wrong = cli("jobs", "logs", job, "--run", "3")
    assert (wrong.code, "run: this job has no run 3; it has 1, 2" in wrong.err) == (2, True)
    told = cli("jobs", "logs", job, "--json").json
    assert (told["job_id"], told["run"], told["text"].endswith("run 2\n")) == (job, 2, True)
    assert f"windlass jobs logs {job} --run 2" in cli("jobs", "show", job).out


def test_any_link_of_a_chain_leads_to_the_last_log(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job = enqueue("linked")
    drain()
    assert cli("jobs", "logs", job).out.endswith("attempt 2\n")
    assert cli("jobs", "logs", job, "--run", "1").out.endswith("attempt 1\n")


def test_a_job_without_a_log_says_where_one_would_be(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job = enqueue("silent")
    before = cli("jobs", "logs", job)
    assert (before.code, "it has not run yet" in before.err) == (1, True)
    drain()
    done = cli("jobs", "logs", job)
    assert (done.code, done.out) == (1, "")
    assert "run 1 on " in done.err
    assert "WINDLASS_LOG_ROOT" in done.err
    assert cli("jobs", "logs", "nope").code == 1


def test_the_log_root_of_the_environment_is_looked_in(
    cli: Cli, enqueue: Store, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LOG_ROOT", str(tmp_path / "elsewhere"))
    job = enqueue("talks", "name=Ada")
    drain()
    assert cli("jobs", "logs", job).out.endswith("hello Ada, run 1\n")
    monkeypatch.delenv("WINDLASS_LOG_ROOT")
    assert cli("jobs", "logs", job).code == 1


def test_a_row_that_points_out_of_the_log_root_is_not_followed(
    cli: Cli, enqueue: Store, drain: Drain, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    job = enqueue("silent")
    drain()
    database = apsw.Connection(str(tmp_path / "windlass.db"))
    database.execute("drop trigger if exists runs_keep; pragma ignore_check_constraints = on")
    for (name,) in list(database.execute("select name from sqlite_schema where type = 'trigger' and tbl_name = 'runs'")):
        database.execute(f"drop trigger {name}")
    database.execute("update runs set log_path = '../secret'")
    database.close()
    assert "secret" not in cli("jobs", "logs", job).out


def test_a_child_and_a_program_have_logs_and_the_cost_is_shown(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job, program = enqueue("child"), enqueue("fails")
    drain()
    assert cli("jobs", "logs", job).out.endswith("from a child\n")
    assert cli("jobs", "logs", program).out == "\x1b[2J loud\n", "in a pipe it is as it is"
    shown = cli("jobs", "show", program).out
    assert "exit code 4, " in shown
    assert " of CPU, " in shown
    assert "MiB at most" in shown
    assert "\x1b" not in shown
    run = cli("jobs", "show", program, "--json").json["runs"][0]
    assert (run["exit_code"], run["cpu"] > 0, run["peak_rss"] > 0) == (4, True, True)


def test_a_log_is_followed_until_the_job_has_ended(cli: Cli, enqueue: Store, tmp_path: Path) -> None:
    job = enqueue("slow")
    following = subprocess.Popen(
        [sys.executable, "-m", "windlass", "jobs", "logs", job, "--follow"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        worker = subprocess.run(
            [sys.executable, "-m", "windlass", "worker", "tasks", "--drain"], cwd=tmp_path, capture_output=True, text=True
        )
        out, _ = following.communicate(timeout=20)
    finally:
        following.kill()
        following.communicate()
    assert following.returncode == 0, worker.stderr
    assert [line.split(None, 2)[2] for line in out.splitlines()] == [f"step {number}" for number in range(5)]
    refused = cli("jobs", "logs", job, "--follow", "--json")
    assert refused.code == 2


def test_a_log_is_found_though_its_worker_died(cli: Cli, enqueue: Store, tmp_path: Path) -> None:
    """The row has no path then: nobody ended the run."""
    (tmp_path / "tasks.py").write_text(
        TASKS.replace("    if name ==", "    os.kill(os.getpid(), signal.SIGKILL)\n    if name ==")
    )
    job = enqueue("talks", "name=Ada")
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", "tasks", "--drain"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == -9
    assert cli("jobs", "show", job, "--json").json["runs"][0]["log_path"] is None
    assert cli("jobs", "logs", job).out.endswith("hello Ada, run 1\n")


def test_a_worker_of_a_file_finds_its_children_wherever_it_was_started(cli: Cli, enqueue: Store, tmp_path: Path) -> None:
    job = enqueue("child")
    (tmp_path / "below").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", "../tasks.py", "--drain", "--store", f"sqlite:///{tmp_path}/windlass.db"],
        cwd=tmp_path / "below", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 child processes" in done.stderr
    assert cli("jobs", "show", job, "--json").json["job"]["state"] == "succeeded"


def test_a_letter_that_is_written_in_two_pieces_is_followed_as_one(cli: Cli, enqueue: Store, tmp_path: Path) -> None:
    job = enqueue("halves")
    worker = subprocess.Popen([sys.executable, "-m", "windlass", "worker", "tasks", "--drain", "--quiet"], cwd=tmp_path)
    said = cli("jobs", "logs", job, "--follow").out
    worker.wait(30)
    assert said == cli("jobs", "logs", job).out == "éé\\xc3"
