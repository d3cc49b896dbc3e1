"""Who reads what a command says: nobody any more, or a disk that is full. As processes: the last words are said at the end
of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import cli

COMMANDS = [
    ("--version", 0), ("--help", 0), ("jobs --help", 0), ("jobs list --help", 0), ("version --json", 0),
    ("migrate --sql", 0), ("jobs list", 4), ("jobs list --nonsense", 2), ("jobs show x --json", 4), ("doctor", 4),
]  # fmt: skip


@pytest.fixture
def closed() -> Iterator[int]:
    """Where somebody has read enough."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def ended(path: Path, typed: str, *, out: int, err: int, unbuffered: bool) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    command = [sys.executable, "-m", "windlass", *typed.split()]
    return subprocess.run(command, stdout=out, stderr=err, cwd=path, env=environment, check=False)


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(("typed", "code"), COMMANDS)
def test_a_command_that_nobody_reads_any_more_ends_quietly(
    tmp_path: Path, closed: int, typed: str, code: int, unbuffered: bool
) -> None:
    done = ended(tmp_path, typed, out=closed, err=subprocess.PIPE, unbuffered=unbuffered)
    assert (done.returncode, b"Traceback" in done.stderr, b"Exception" in done.stderr) == (code, False, False), done.stderr
    assert ended(tmp_path, typed, out=closed, err=closed, unbuffered=unbuffered).returncode == code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to be had")
@pytest.mark.parametrize(("typed", "code"), [("version", 1), ("version --json", 1), ("jobs list --json", 4)])
def test_an_answer_that_is_lost_on_a_full_disk_is_no_success(tmp_path: Path, typed: str, code: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = ended(tmp_path, typed, out=full, err=subprocess.PIPE, unbuffered=False)
    os.close(full)
    assert (done.returncode, b"No space left on device" in done.stderr) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_an_interrupt_while_modules_are_imported_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["jobs", "list"]) == 130


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_has_no_letters_for_is_told_all_the_same(tmp_path: Path, encoding: str) -> None:
    """As JSON it stays what it is."""

    def run(*typed: str | bytes) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        command = [sys.executable, "-m", "windlass", *typed]
        return subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, check=False)

    assert run("enqueue", "h☃😀").returncode == 0
    told = run("jobs", "list")
    assert (told.returncode, told.stderr) == (0, b"")
    assert told.stdout.count(b"\n") == 2
    [job] = json.loads(run("jobs", "list", "--json").stdout)["jobs"]
    assert job["type"] == "h☃😀"
    nobody = run("jobs", "show", "☃", "--json")
    assert (nobody.returncode, "☃" in json.loads(nobody.stdout)["error"]["message"]) == (1, True)
    odd = run("jobs", "list", "--json", "--store", b"sqlite:///\xff.db")
    assert (odd.returncode, "there is no store at" in json.loads(odd.stdout)["error"]["message"]) == (4, True), odd
