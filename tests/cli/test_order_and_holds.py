"""`jobs move|swap|priority`, `queues show|renormalise`, `holds …`: on a real store, in this process and in others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.conftest import TASKS, Cli

WINDLASS = [sys.executable, "-m", "windlass"]


@pytest.fixture
def three(cli: Cli) -> list[str]:
    return [cli("enqueue", "--app", "tasks", "hello", f"name={name}").out.strip() for name in "abc"]


def order(cli: Cli) -> list[str]:
    return [job["id"] for job in cli("queues", "show", "default", "--json").json["jobs"]]


def test_jobs_are_moved_beside_each_other(cli: Cli, three: list[str]) -> None:
    a, b, c = three
    assert cli("jobs", "move", c, "--before", b).out == f"{c}  moved\n"
    assert order(cli) == [a, c, b]
    assert cli("jobs", "move", a, "--after", b).code == 0
    assert cli("jobs", "move", b, "--top").code == cli("jobs", "move", c, "--bottom").code == 0
    assert order(cli) == [b, a, c]
    assert cli("jobs", "swap", b, c).out == f"{b}  swapped\n"
    assert order(cli) == [c, a, b]
    assert cli("jobs", "priority", b, "7").out == f"{b}  priority changed\n"
    assert cli("jobs", "priority", c, "-3").code == 0
    assert order(cli) == [b, a, c]
    assert cli("jobs", "move", c, "--after", b, "--take-priority", "--json").json["changed"][0]["what"] == "moved"
    assert order(cli) == [b, c, a]


def test_the_order_is_shown_with_positions(cli: Cli, three: list[str]) -> None:
    done = cli("queues", "show", "default")
    assert done.out.splitlines()[0].split() == ["#", "ID", "TYPE", "PRIORITY", "POSITION", "STATE", "AGE"]
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [[str(n), i] for n, i in enumerate(three, 1)]
    assert [line.split()[4] for line in done.out.splitlines()[1:]] == ["100", "200", "300"]
    same = cli("jobs", "list", "--queue", "default", "--order").out
    assert [line.split()[:6] for line in same.splitlines()] == [line.split()[:6] for line in done.out.splitlines()]
    cut = cli("queues", "show", "default", "--limit", "2")
    assert (len(cut.out.splitlines()), "--limit 4" in cut.err) == (3, True)
    for wrong in (["--order"], ["--order", "--queue", "default", "--state", "dead"]):
        assert cli("jobs", "list", *wrong).code == 2
    cli("tick", "tasks")
    assert "nothing is queued" in cli("queues", "show", "default").err


def test_fresh_positions_are_given_on_demand(cli: Cli, three: list[str]) -> None:
    cli("jobs", "move", three[2], "--before", three[1])
    assert cli("queues", "renormalise", "default").out == "default has fresh positions\n"
    assert cli("queues", "renormalise", "default", "--json").json["changed"] is False
    assert order(cli) == [three[0], three[2], three[1]]
    assert cli("queues", "renormalise", "defualt").code == cli("queues", "show", "nope").code == 2


def test_a_move_that_cannot_be_is_refused_with_a_hint(cli: Cli, three: list[str]) -> None:
    a, b, _ = three
    for wrong in ([], ["--top", "--bottom"], ["top", "--before", b], ["--before", a]):
        assert cli("jobs", "move", a, *wrong).code == 2
    cli("jobs", "priority", b, "7")
    done = cli("jobs", "move", a, "--before", b)
    assert (done.code, "--take-priority" in done.err) == (3, True)
    cli("tick", "tasks")
    done = cli("jobs", "move", a, "--top")
    assert (done.code, "it is succeeded" in done.err) == (3, True)
    assert cli("jobs", "priority", a, "1").code == 3
    assert cli("jobs", "swap", a, "nobody").code == 1


# ------------------------------------------------------------------------------------------------------------------- holds


def test_a_queue_is_taken_and_given_back(cli: Cli, three: list[str]) -> None:
    assert cli("holds", "list").err == "no queue is held\n"
    hold = cli("holds", "acquire", "default", "--by", "ada", "--expires-in", "10m").out.strip()
    assert cli("tick", "tasks", "--json").json["claimed"] == 0
    [row] = cli("holds", "list", "--json").json["holds"]
    assert (row["id"], row["by"], row["status"], row["stale"]) == (hold, "ada", "ACTIVE", False)
    assert "granted" in cli("holds", "list").out
    assert "held by ada" in cli("queues", "list").out
    busy = cli("holds", "acquire", "default", "--wait", "0s")
    assert (busy.code, "ada holds it" in busy.err, "windlass holds list" in busy.err) == (3, True, True)
    assert cli("holds", "release", hold).out == "default is free\n"
    assert cli("tick", "tasks", "--json").json["claimed"] == 3
    assert cli("holds", "list", "--json").json["holds"] == []
    assert "released" in cli("holds", "list", "--all").out


def test_nonsense_about_holds_is_a_usage_error(cli: Cli, three: list[str]) -> None:
    for wrong in (["defualt"], ["default", "--expires-in", "0s"], ["default", "--wait", "soon"], ["default", "--by", " "]):
        assert cli("holds", "acquire", *wrong).code == 2, wrong
    assert cli("holds", "run", "default").code == 2
    assert cli("holds", "run", "default", "--", "no-such-command-anywhere").code == 2
    missing = cli("holds", "release", "nope")
    assert (missing.code, "no hold 'nope'" in missing.err) == (1, True)
    assert cli("holds", "list", "--json").json["holds"] == []


def test_a_command_runs_while_the_queue_is_held(cli: Cli, three: list[str], tmp_path: Path) -> None:
    look = " ".join([*WINDLASS, "holds", "list", "--json", ">", "seen.json", "&&", "exit", "5"])
    assert cli("holds", "run", "default", "--by", "ada", "--", "sh", "-c", look).code == 5
    assert [row["by"] for row in json.loads((tmp_path / "seen.json").read_text())["holds"]] == ["ada"]
    assert cli("holds", "list", "--json").json["holds"] == []
    assert cli("holds", "run", "default", "--", "sh", "-c", "kill -TERM $$").code == 128 + signal.SIGTERM


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tasks.py").write_text(TASKS)
    yield tmp_path
    for pid in _those_in(tmp_path):  # the commands of killed holders
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run(place: Path, *tokens: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WINDLASS, *tokens], cwd=place, capture_output=True, text=True, timeout=60)


def until(what: str, look: Callable[[], bool], patience: float = 20) -> None:
    deadline = time.monotonic() + patience
    while not look():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def held(place: Path) -> list[str]:
    return [row["by"] for row in json.loads(run(place, "holds", "list", "--json").stdout)["holds"] if not row["stale"]]


def start(place: Path, by: str, marker: str, *options: str) -> subprocess.Popen[bytes]:
    script = f"open({marker!r}, 'w').close(); import time; time.sleep(60)"
    command = ["holds", "run", "default", "--by", by, *options, "--", sys.executable, "-c", script]
    return subprocess.Popen([*WINDLASS, *command], cwd=place, start_new_session=True)


def test_a_killed_holder_is_followed_by_the_next_and_then_by_the_queue(place: Path) -> None:
    """No restart, nobody who cleans up: its time runs out."""
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    first = start(place, "first", "first.txt", "--expires-in", "2s")
    until("the first holds the queue", (place / "first.txt").exists)
    second = start(place, "second", "second.txt", "--expires-in", "2s", "--wait", "30s")
    time.sleep(0.3)
    assert not (place / "second.txt").exists()
    first.kill()
    first.wait()
    until("the second holds the queue", (place / "second.txt").exists)
    assert held(place) == ["second"]
    assert run(place, "worker", "tasks:app", "--drain").stdout == "nothing was due\n"
    second.kill()
    second.wait()
    until("claims go on", lambda: "claimed 1" in run(place, "worker", "tasks:app", "--drain").stdout)
    rows = json.loads(run(place, "holds", "list", "--all", "--json").stdout)["holds"]
    assert [row["status"] for row in rows] == ["EXPIRED", "EXPIRED"]


def test_a_command_is_ended_with_all_it_started_when_its_hold_is_released(place: Path) -> None:
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    holder = start(place, "first", "first.txt", "--expires-in", "600ms")
    until("the queue is held", (place / "first.txt").exists)
    child = _child_of(holder.pid)
    [row] = json.loads(run(place, "holds", "list", "--json").stdout)["holds"]
    assert run(place, "holds", "release", row["id"]).returncode == 0
    assert holder.wait(20) == 1
    until("the command has ended", lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_a_holder_that_is_told_to_stop_ends_its_command_and_gives_the_queue_back(place: Path, sign: signal.Signals) -> None:
    """Else the command goes on while the queue, a little later, is nobody's."""
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    holder = start(place, "first", "first.txt", "--expires-in", "1m")
    until("the queue is held", (place / "first.txt").exists)
    child = _child_of(holder.pid)
    holder.send_signal(sign)
    holder.wait(20)
    until("the command has ended", lambda: not Path(f"/proc/{child}").exists(), patience=5)
    assert held(place) == []


def test_what_a_command_started_ends_with_it_even_if_it_is_deaf(place: Path) -> None:
    run(place, "enqueue", "--app", "tasks", "hello", "name=Ada")
    script = "(trap '' TERM; echo $BASHPID > deaf.txt; exec sleep 60) & sleep 60"
    command = ["holds", "run", "default", "--by", "first", "--expires-in", "600ms", "--", "bash", "-c", script]
    holder = subprocess.Popen([*WINDLASS, *command], cwd=place, start_new_session=True)
    until("the queue is held", lambda: (place / "deaf.txt").exists() and bool((place / "deaf.txt").read_text()))
    deaf = int((place / "deaf.txt").read_text())
    [row] = json.loads(run(place, "holds", "list", "--json").stdout)["holds"]
    run(place, "holds", "release", row["id"])
    assert holder.wait(20) == 1
    until("all that it started has ended", lambda: not Path(f"/proc/{deaf}").exists(), patience=5)


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _those_in(place: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(place):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
