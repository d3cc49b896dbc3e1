"""The real command in real processes: start-up weight, a terminal, signals, completion in a shell."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import TASKS

WINDLASS = [sys.executable, "-m", "windlass"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def run(place: Path, *tokens: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WINDLASS, *tokens], cwd=place, capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def test_the_version_is_told_without_the_heavy_parts(place: Path) -> None:
    script = (
        "import sys; from windlass.cli import main; assert main(['--version']) == 0; "
        "print([m for m in sys.modules if m.split('.')[0] in ('apsw', 'rich', 'cyclopts')])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_a_list_in_a_pipe_does_not_load_rich(place: Path) -> None:
    run(place, "enqueue", "t")
    script = (
        "import sys; from windlass.cli import main; assert main(['jobs', 'list']) == 0; "
        "print([m for m in sys.modules if m.split('.')[0] == 'rich'])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_from_nothing_to_a_result(place: Path) -> None:
    job_id = run(place, "enqueue", "--app", "tasks", "hello", "name=Ada").stdout.strip()
    worked = run(place, "worker", "tasks:app", "--drain")
    assert (worked.returncode, worked.stdout) == (0, "claimed 1, succeeded 1\n")
    shown = json.loads(run(place, "jobs", "show", job_id, "--json").stdout)
    assert shown["head"]["result"] == {"hello": "Ada", "times": 1}
    missing = run(place, "jobs", "show", "nope")
    assert (missing.returncode, missing.stdout) == (1, "")


def test_no_child_has_the_store_among_its_arguments(place: Path) -> None:
    """A URL may hold a password, and the process list is for everybody."""
    (place / "tasks.py").write_text(
        "import os\nfrom pathlib import Path\nfrom windlass import Windlass\napp = Windlass('sqlite:///unused.db')\n"
        "@app.task\nasync def tell() -> tuple[str, bool]:\n"
        "    return Path('/proc/self/cmdline').read_text(), 'WINDLASS_PARENT_STORE' in os.environ\n"
    )
    here = ("--store", f"sqlite:///{place}/secret.db")
    job_id = run(place, "enqueue", "--app", "tasks", "tell", *here).stdout.strip()
    done = run(place, "worker", "tasks", "--drain", "--processes", "2", *here)
    assert done.returncode == 0, done.stderr
    arguments, is_inherited = json.loads(run(place, "jobs", "show", job_id, "--json", *here).stdout)["head"]["result"]
    assert "worker" in arguments
    assert "secret" not in arguments
    assert not is_inherited, "nor does a program that a handler starts have it"


def test_several_processes_share_the_work(place: Path) -> None:
    for n in range(4):
        run(place, "enqueue", "--app", "tasks", "hello", f"name=n{n}")
    done = run(place, "worker", "tasks", "--drain", "--processes", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(run(place, "jobs", "list", "--state", "succeeded", "--json").stdout)
    assert len(found["jobs"]) == 4


def test_a_child_whose_event_loop_stands_still_is_replaced_where_a_service_manager_waits_for_signs_of_life(
    place: Path,
) -> None:
    """The lease is an hour long: without the supervisor nobody would have the job before that."""
    (place / "hangs.py").write_text(
        "import time\nfrom pathlib import Path\nfrom windlass import Windlass\napp = Windlass()\n"
        "@app.task\nasync def hangs() -> None:\n    if not Path('hung').exists():\n"
        "        Path('hung').touch()\n        time.sleep(120)\n"
    )
    run(place, "enqueue", "--app", "hangs", "hangs")
    watched = {"NOTIFY_SOCKET": str(place / "nobody"), "WATCHDOG_USEC": "3000000"}
    done = run(place, "worker", "hangs", "--drain", "--processes", "2", "--lease", "1h", **watched)
    assert done.returncode == 0, done.stderr
    assert "gave no sign of life for 3 s: its event loop stands still; it is killed" in done.stderr
    [job] = json.loads(run(place, "jobs", "list", "--json").stdout)["jobs"]
    assert (job["state"], job["runs"], job["lost"]) == ("succeeded", 2, 1)


def test_a_child_that_takes_its_time_to_leave_is_not_taken_for_one_that_hangs(place: Path) -> None:
    (place / "slow.py").write_text(
        "import atexit, time\nfrom windlass import Windlass\napp = Windlass()\natexit.register(time.sleep, 2.5)\n"
        "@app.task\nasync def works() -> None: ...\n"
    )
    run(place, "enqueue", "--app", "slow", "works")
    watched = {"NOTIFY_SOCKET": str(place / "nobody"), "WATCHDOG_USEC": "1000000"}
    done = run(place, "worker", "slow", "--drain", "--processes", "2", **watched)
    assert (done.returncode, "sign of life" in done.stderr) == (0, False), done.stderr


def test_a_signal_stops_a_worker_in_order(place: Path) -> None:
    with subprocess.Popen(
        [*WINDLASS, "worker", "tasks"], cwd=place, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if b"serves" in line:
                break
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=30)
    assert (child.returncode, out) == (0, b"nothing was due\n")


def test_a_worker_whose_every_slot_is_stuck_ends_with_its_own_code(place: Path) -> None:
    (place / "stuck.py").write_text(
        "import time\nfrom windlass import Retry, Windlass\napp = Windlass()\n"
        "@app.task(timeout='100ms', retry=Retry(max_retries=0))\ndef sleeps() -> None:\n    time.sleep(600)\n"
    )
    run(place, "enqueue", "--app", "stuck", "sleeps")
    assert run(place, "worker", "stuck", "--threads", "1").returncode == 75


def test_a_terminal_gets_colour_and_a_pipe_does_not(place: Path) -> None:
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    assert b"\x1b[36mqueued" in on_a_terminal(place, "jobs", "list")
    assert b"\x1b[36m" not in on_a_terminal(place, "jobs", "list", NO_COLOR="1")
    assert "\x1b" not in run(place, "jobs", "list").stdout


def on_a_terminal(place: Path, *tokens: str, **env: str) -> bytes:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", **env}
    with subprocess.Popen([*WINDLASS, *tokens], cwd=place, stdout=theirs, env=environment) as child:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # how Linux says that the other end is gone
                break
            if not part:
                break
            seen += part
        child.wait(timeout=30)
    os.close(ours)
    return seen


# -------------------------------------------------------------------------------------------------------------- completion


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["jo"], ["jobs"]),
        (["jobs", "re"], ["retry"]),
        (["queues", "pause", ""], ["mail", "default"]),
        (["jobs", "list", "--queue", "ma"], ["mail"]),
        (["jobs", "list", "--sta"], ["--state"]),
        (["jobs", "list", "--words", "harmonyk", "--state", "su"], ["success"]),
        (["enqueue", "--app", "tasks", "he"], ["hello"]),
        (["enqueue", "he"], ["hello"]),
        (["jobs", "move", "some-id", ""], ["top", "bottom"]),
        (["completion", "z"], ["zsh"]),
    ],
    ids=" ".join,
)
def test_what_may_follow_is_known(place: Path, typed: list[str], expected: list[str]) -> None:
    run(place, "enqueue", "--app", "tasks", "send", "to=bob")
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    done = run(place, "__complete", *typed)
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert set(found) >= set(expected)
    assert all(name.startswith(typed[-1]) for name in found)


def test_job_ids_are_completed(place: Path) -> None:
    job_id = run(place, "enqueue", "--app", "tasks", "send", "to=bob").stdout.strip()
    assert run(place, "__complete", "jobs", "show", "").stdout.startswith(f"{job_id}\tsend queued")
    assert run(place, "__complete", "jobs", "retry", "one", "--store", "sqlite:///windlass.db", "").stdout.startswith(
        job_id
    )


@pytest.mark.parametrize("typed", [["jobs", "show", ""], ["enqueue", "--app", "nope", ""], ["nonsense", "x", ""], []])
def test_completion_never_fails_loudly(place: Path, typed: list[str]) -> None:
    (place / "windlass.db").write_bytes(b"no store")
    done = run(place, "__complete", *typed)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_by_asking_the_command(place: Path) -> None:
    (place / "windlass").write_text(f'#!/bin/sh\nexec {sys.executable} -m windlass "$@"\n')
    (place / "windlass").chmod(0o755)
    script = (
        'eval "$(windlass completion bash)"; COMP_WORDS=(windlass jobs re); COMP_CWORD=2; _windlass; echo "${COMPREPLY[@]}"'
    )
    path = f"{place}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=60
    )
    assert done.stdout.strip() == "retry", done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_well_formed(place: Path, shell: str) -> None:
    script = run(place, "completion", shell).stdout
    assert "windlass __complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=30)
